//! Driver stacks of channels: what `--stack` and the configuration files name, put above the sockets
//! of channels. The names come from whoever starts the program, never from a peer
//! (docs/decisions/0026-channels-over-stacks.md).

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use xdfs_proto::base::Level;
use xdfs_xio::{Accepting, Flow, Over, Registry, Stack};

use crate::exit::{Exit, Failure};

/// The transport of every channel.
const TRANSPORT: &str = "tcp";

/// The driver that compresses.
const COMPRESSES: &str = "zstd";

/// The drivers that encrypt.
const ENCRYPT: [&str; 2] = ["gsi", "tls"];

/// Drivers that cannot carry a channel, and why.
const UNSUITABLE: &[(&str, &str)] = &[
    ("file", "a file is no connection"),
    ("http", "an answer follows its request, and a channel needs both directions at once"),
    ("mode_e", "its bytes go one way, and a channel needs both"),
    ("ordering", "it puts bytes with offsets into order, and those of a channel are in order"),
    ("pipe", "no peer is at the other end of standard input and output"),
    ("popen", "a server is not asked to start programs, and nobody who is reached over the network names one"),
    ("udp", "a channel is a stream, and datagrams get lost"),
    ("unix", "a server of xdfs listens on TCP"),
];

/// A stack that can carry channels.
#[derive(Clone, Debug)]
pub(crate) struct ChannelStack {
    stack: Stack,
    /// As it was written.
    text: String,
}

impl ChannelStack {
    /// Reads `tcp,DRIVER,...`; drivers that are not built in are loaded. An error is cause and remedy.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let shown = text.escape_debug();
        let parts: Vec<_> = Stack::parts(text).collect();
        if let Some((name, why)) = UNSUITABLE.iter().find(|(name, _)| parts.iter().any(|(part, _)| part == name)) {
            let help = "write 'tcp' and the drivers above it, such as tcp,tls or tcp,rate=100MB/s";
            return Err(format!("{shown}: the driver {name} carries no channel: {why}\nhelp: {help}"));
        }
        let place = |driver: &str| parts.iter().position(|(name, _)| *name == driver);
        match parts.first() {
            Some((TRANSPORT, "")) => {}
            Some((TRANSPORT, _)) => {
                let help = "for a client --window and --congestion set what 'tcp' does elsewhere";
                return Err(format!("{shown}: here 'tcp' has no attributes, since channels set theirs\nhelp: {help}"));
            }
            _ => {
                let help = format!("write {TRANSPORT},{}", shown.to_string().trim_start_matches(','));
                return Err(format!("{shown}: a stack begins with 'tcp', which every channel is\nhelp: {help}"));
            }
        }
        let compresses = place(COMPRESSES);
        let is_above = |name: &&&str| place(name).is_some_and(|place| compresses.is_some_and(|other| other < place));
        if let Some(name) = ENCRYPT.iter().find(is_above) {
            let help = format!("write 'zstd' behind '{name}', which is above it");
            return Err(format!("{shown}: what '{name}' has encrypted does not compress\nhelp: {help}"));
        }
        // Also those that come as files: the names are those of whoever starts the program.
        let empty = Stack::of(Arc::new(Registry::with_installed()));
        let stack = empty
            .push_all(text)
            .map_err(|error| format!("{shown}: {error}\nhelp: docs/xio.md lists the drivers and their attributes"))?;
        Ok(Self { stack, text: text.to_owned() })
    }

    /// Refuses to compress what is sealed at `level`.
    pub(crate) fn suits(&self, level: Level) -> Result<(), String> {
        if level != Level::Private || !self.stack.names().any(|name| name == COMPRESSES) {
            return Ok(());
        }
        Err(format!("{}: at protection 'private' everything is encrypted, which does not compress", self.text))
    }

    /// For connections to the server `contact`.
    pub(crate) fn to(&self, contact: String) -> Arc<dyn Over> {
        Arc::new(Connecting { stack: self.stack.clone(), contact })
    }

    /// For connections that a server accepts. The files that drivers need are read now.
    pub(crate) fn accepting(&self) -> Result<Arc<dyn Over>, String> {
        let accepting = self.stack.accepting().map_err(|error| {
            let help = "the attributes stand behind the driver's name: tls:certificate=FILE;key=FILE";
            format!("{}: {error}\nhelp: {help}", self.text.escape_debug())
        })?;
        Ok(Arc::new(Accepted(Mutex::new(accepting))))
    }
}

/// A stack of a client.
#[derive(Debug)]
struct Connecting {
    stack: Stack,
    contact: String,
}

impl Over for Connecting {
    fn over(&self, socket: Box<dyn Flow>) -> io::Result<Box<dyn Flow>> {
        Ok(self.stack.over(socket, &self.contact)?)
    }
}

/// A stack of a server.
#[derive(Debug)]
struct Accepted(Mutex<Accepting>);

impl Over for Accepted {
    fn over(&self, socket: Box<dyn Flow>) -> io::Result<Box<dyn Flow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).accept(socket)
    }
}

/// The stack that `option` names.
pub(crate) fn named(option: &str, text: &str) -> Result<ChannelStack, Failure> {
    ChannelStack::parse(text).map_err(|error| Failure::new(Exit::Usage, format!("{option} {error}")))
}

/// What a server that has a stack puts above its connections; `floor` is the least protection that it
/// grants.
pub(crate) fn of_server(text: &str, floor: Level) -> Result<Arc<dyn Over>, Failure> {
    let stack = named("stack", text)?;
    stack.suits(floor).map_err(|error| {
        let remedy = "leave 'zstd' out, or lower the least protection of the server (--min-protection)";
        Failure::new(Exit::Usage, format!("stack {error}")).help(remedy)
    })?;
    stack.accepting().map_err(|error| Failure::new(Exit::Usage, format!("stack {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_begins_with_tcp_and_has_drivers_that_carry_a_channel() {
        for text in
            ["tcp", "tcp,tls", "tcp,rate=100MB/s", "tcp,tls:name=a.example,zstd=1,trace", "tcp, noop", "tcp,gsi,zstd"]
        {
            ChannelStack::parse(text).unwrap();
        }
        for (text, why) in [
            ("tls", "begins with 'tcp'"),
            ("", "begins with 'tcp'"),
            ("tls,tcp", "begins with 'tcp'"),
            ("popen:allow=/bin/cat", "start programs"),
            ("tcp,popen", "start programs"),
            ("udp,tls", "datagrams"),
            ("tcp,http", "both directions"),
            ("tcp,mode_e", "one way"),
            ("tcp:window=4MiB,tls", "no attributes"),
            ("tcp,zstd,tls", "does not compress"),
            ("tcp,zstd,gsi", "what 'gsi' has encrypted"),
            ("tcp,nothing", "there is no driver 'nothing'"),
            ("tcp,rate=fast", "the attribute 'rate'"),
            ("tcp,tcp", "a stack has one"),
        ] {
            let error = ChannelStack::parse(text).unwrap_err();
            assert!(error.contains(why) && error.contains("\nhelp: "), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_encrypted_is_not_compressed() {
        let zstd = ChannelStack::parse("tcp,tls,zstd").unwrap();
        assert!(zstd.suits(Level::Private).is_err());
        assert_eq!(zstd.suits(Level::Integrity), Ok(()));
        assert_eq!(ChannelStack::parse("tcp,tls").unwrap().suits(Level::Private), Ok(()));
    }

    #[test]
    fn a_server_that_lacks_a_certificate_says_so_before_it_serves() {
        let failure = of_server("tcp,tls", Level::Clear).unwrap_err();
        assert!(failure.message.contains("'certificate'") && failure.message.contains("help:"), "{}", failure.message);
        assert!(of_server("tcp,zstd", Level::Private).is_err());
        assert!(of_server("tcp,zstd", Level::Clear).is_ok());
    }
}
