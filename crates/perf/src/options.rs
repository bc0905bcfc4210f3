//! The command line, as globus-xioperf has it (PERF-03 to PERF-15), and the plan of a run that
//! follows from it.

use crate::report::{Style, Units};
use crate::{datagrams, size};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use xdfs_gridftp::driver;
use xdfs_xio::{Kind, Registry, Stack};

/// globus-xioperf's block.
const BLOCK: usize = 64 << 10;
/// A datagram that an Ethernet carries in one piece, as IPerf has it.
const DATAGRAM: usize = 1470;
/// The longest datagram of UDP over IPv4.
const DATAGRAM_MAX: usize = 65_507;
/// Largest block: memory that each stream takes.
const BLOCK_MAX: u64 = 1 << 30;
/// IPerf's rate for datagrams, bits a second: what most lines can take.
const DATAGRAM_RATE: u64 = 1 << 20;
/// The driver whose connections -P counts.
const MODE_E: &str = "mode_e";

/// Most streams; each has a thread or two.
const STREAMS_MAX: u64 = 1024;
/// IPerf's time.
const TIME: Duration = Duration::from_secs(10);

/// Measures bulk transfers over a stack of drivers.
///
/// One side is the server and the other the client, which connects to it. Unless told otherwise, the
/// client sends for ten seconds and the server receives. Both sides are given the same drivers; the
/// first -D is the transport, as in: xioperf -s -D tcp, and xioperf -c HOST:PORT -D tcp.
#[derive(Parser, Debug)]
#[command(name = "xioperf", version, disable_version_flag = true, max_term_width = 100)]
struct Options {
    /// Wait for a client
    #[arg(short = 's', long, required_unless_present = "client", conflicts_with = "client")]
    server: bool,
    /// Connect to a server: a host, host:port, or what else the transport takes
    #[arg(short = 'c', long, value_name = "CONTACT")]
    client: Option<String>,
    /// Put a driver on top of the stack; its attributes follow a colon, as in rate:100MB/s. Without
    /// this option the stack is tcp. A NAME that is not built in is libxdfs_xio_NAME.so in the folders
    /// of the environment variable XDFS_DRIVER_PATH, absolute paths with colons between them
    #[arg(short = 'D', long = "driver", value_name = "NAME[:ATTRIBUTES]")]
    drivers: Vec<String>,
    /// Send; with -R both directions at a time
    #[arg(short = 'S', long)]
    sender: bool,
    /// Receive; with -S both directions at a time
    #[arg(short = 'R', long)]
    receiver: bool,
    /// Serve one client after another until stopped
    #[arg(short = 'd', long, requires = "server")]
    daemon: bool,
    /// Port of the server; without it a server takes a free one
    #[arg(short, long)]
    port: Option<u16>,
    /// Address that the server listens at, or that the client comes from
    #[arg(short = 'B', long, value_name = "HOST")]
    bind: Option<String>,
    /// End after so many seconds [default: 10 at the client, unless -n or -F is given]
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    time: Option<Duration>,
    /// Send so many bytes in all
    #[arg(short, long = "num", value_name = "BYTES", value_parser = size::parse)]
    number: Option<u64>,
    /// Read what is sent from a file, or write what is received to it
    #[arg(short = 'F', long, value_name = "PATH")]
    file: Option<String>,
    /// Bytes of a read or write (also written -bs) [default: 64K; for udp 1470 bytes]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    block_size: Option<u64>,
    /// The same, as IPerf names it
    #[arg(short = 'l', long = "len", value_name = "BYTES", value_parser = size::parse, conflicts_with = "block_size")]
    length: Option<u64>,
    /// Send so many bits a second on each stream [default: no limit; for udp 1M]
    #[arg(short, long, value_name = "BITS", value_parser = size::parse)]
    bandwidth: Option<u64>,
    /// Connections at a time; both sides are given the same number
    #[arg(short = 'P', long, value_name = "NUMBER", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=STREAMS_MAX))]
    parallel: u64,
    /// Size of the socket buffers
    #[arg(short, long, value_name = "BYTES", value_parser = size::parse)]
    window: Option<u64>,
    /// Send small segments at once (TCP_NODELAY)
    #[arg(short = 'N', long)]
    nodelay: bool,
    /// Subject that the server's certificate must have (also written -DN)
    #[arg(long, value_name = "SUBJECT", conflicts_with = "server")]
    subject: Option<String>,
    /// Report every so many seconds
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    interval: Option<Duration>,
    /// Units of reports: k, m, g are 2^10, 2^20, 2^30 bits a second, K, M, G as many bytes
    #[arg(short, long, value_name = "kmgKMG", default_value = "m", value_parser = Units::parse)]
    format: Units,
    /// Print one line: time, bytes and rate received, bytes and rate sent
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Print each event as a JSON object on a line of its own
    #[arg(long)]
    json: bool,
    /// Fail where a connection or a block takes longer
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    timeout: Duration,
    /// Print the version
    #[arg(short, long, action = clap::ArgAction::Version)]
    version: (),
}

/// Which end of the connection this is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Listens there; `again` when a client is done.
    Server { contact: String, again: bool },
    /// Connects there.
    Client { contact: String },
}

/// When sending ends; what is received ends with the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub(crate) time: Option<Duration>,
    pub(crate) bytes: Option<u64>,
    /// Bits a second and stream.
    pub(crate) rate: Option<u64>,
    /// For each connection, and for each block.
    pub(crate) timeout: Duration,
}

/// How reports look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reports {
    pub(crate) style: Style,
    pub(crate) units: Units,
    pub(crate) interval: Option<Duration>,
}

/// What a run does.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) stack: Stack,
    pub(crate) side: Side,
    pub(crate) sends: bool,
    pub(crate) receives: bool,
    pub(crate) streams: usize,
    pub(crate) block: usize,
    /// The stack keeps messages apart and may lose them.
    pub(crate) datagrams: bool,
    pub(crate) file: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) reports: Reports,
}

impl Plan {
    /// What a command line asks for.
    pub(crate) fn of(arguments: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let options = Options::try_parse_from(arguments.map(spelled))?;
        options.plan().map_err(|what| Options::command().error(ErrorKind::ValueValidation, what))
    }
}

/// The spellings of globus-xioperf that look like several short options.
fn spelled(argument: OsString) -> OsString {
    match argument.to_str() {
        Some("-bs") => "--block-size".into(),
        Some("-DN") => "--subject".into(),
        Some("-help") => "--help".into(),
        Some("-version") => "--version".into(),
        _ => argument,
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is a number of seconds, such as 10 or 0.5".to_owned())?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| "no time is that long or that short".to_owned())?;
    // Shorter ones would report nothing but themselves.
    if time < Duration::from_millis(1) { Err("the shortest is 0.001".to_owned()) } else { Ok(time) }
}

impl Options {
    fn plan(self) -> Result<Plan, String> {
        let (stack, transport) = self.stack()?;
        let datagrams = transport == "udp";
        let (sends, receives) = match (self.sender, self.receiver) {
            (false, false) => (self.client.is_some(), self.server),
            both => both,
        };
        let block = self.block_size.or(self.length);
        if block.is_some_and(|block| !(1..=BLOCK_MAX).contains(&block)) {
            return Err("-bs: a block has 1 byte to 1G".to_owned());
        }
        let block = block.map(|block| block as usize).unwrap_or(if datagrams { DATAGRAM } else { BLOCK });
        if datagrams && !(datagrams::HEAD..=DATAGRAM_MAX).contains(&block) {
            return Err(format!("-bs: a datagram has {} to {DATAGRAM_MAX} bytes", datagrams::HEAD));
        }
        if datagrams && (self.parallel > 1 || sends && receives || self.file.is_some()) {
            return Err("over udp there is one stream in one direction, and no file: datagrams are lost".to_owned());
        }
        if self.file.is_some() && (self.parallel > 1 || sends && receives) {
            return Err("-F: a file is sent or received on one stream, in one direction".to_owned());
        }
        if self.number.is_some() && !sends {
            return Err("-n: the number of bytes is the sender's; this side receives until the other ends".to_owned());
        }
        if self.bandwidth == Some(0) {
            return Err("-b: at no bit a second nothing is sent".to_owned());
        }
        let ends_by_itself = self.number.is_some() || self.file.is_some() || self.server;
        let limits = Limits {
            time: self.time.or((!ends_by_itself).then_some(TIME)),
            bytes: self.number,
            rate: self.bandwidth.or(datagrams.then_some(DATAGRAM_RATE)),
            timeout: self.timeout,
        };
        let style = match (self.json, self.quiet) {
            (true, _) => Style::Json,
            (_, true) => Style::Quiet,
            _ => Style::Full,
        };
        let reports = Reports { style, units: self.format, interval: self.interval };
        // The connections of mode_e are one stream.
        let streams = if self.has(MODE_E) { 1 } else { self.parallel as usize };
        if self.file.is_some() && receives && self.has(MODE_E) && !self.has("ordering") {
            return Err("-F: mode_e brings bytes out of order; put -D ordering above it".to_owned());
        }
        let side = self.side();
        Ok(Plan { stack, side, sends, receives, streams, block, datagrams, file: self.file, limits, reports })
    }

    fn side(&self) -> Side {
        let port = self.port.unwrap_or(0);
        let Some(client) = &self.client else {
            let contact = match &self.bind {
                // A path, for transports between processes of one host.
                Some(path) if path.contains('/') => path.clone(),
                bind => at_port(bind.as_deref().unwrap_or(""), port),
            };
            return Side::Server { contact, again: self.daemon };
        };
        let host_alone = client.parse::<IpAddr>().is_ok() || !client.contains([':', '/']);
        let contact = if self.port.is_some() && host_alone { at_port(client, port) } else { client.clone() };
        match &self.subject {
            Some(subject) => Side::Client { contact: format!("xio://<{subject}>{contact}") },
            None => Side::Client { contact },
        }
    }

    /// The stack, and the name of its transport.
    fn stack(&self) -> Result<(Stack, String), String> {
        let drivers = if self.drivers.is_empty() { &["tcp".to_owned()][..] } else { &self.drivers };
        let mut registry = Registry::with_installed();
        driver::add_to(&mut registry).map_err(|error| error.to_string())?;
        let registry = Arc::new(registry);
        let mut stack = Stack::of(registry.clone());
        let mut transport = String::new();
        for (at, text) in drivers.iter().enumerate() {
            let (name, given) = text.split_once([':', '=']).unwrap_or((text, ""));
            let mut attributes = given.to_owned();
            if at == 0 {
                name.clone_into(&mut transport);
                for (option, attribute, value) in self.of_transport() {
                    let driver = registry.get(name).ok().filter(|driver| driver.kind() == Kind::Transport);
                    let known = driver.as_ref().map_or(&[][..], |driver| driver.attributes());
                    if driver.is_some() && !known.iter().any(|info| info.name == attribute) {
                        return Err(format!("{option}: the transport {name} has no attribute '{attribute}'"));
                    }
                    attributes = format!("{attributes};{attribute}={value}");
                }
            }
            if name == MODE_E && self.client.is_some() && !given.contains("streams") {
                attributes = format!("{attributes};streams={}", self.parallel);
            }
            stack = stack.push(name, &attributes).map_err(|error| format!("-D {text}: {error}"))?;
        }
        Ok((stack, transport))
    }

    /// Whether a driver is in the stack.
    fn has(&self, driver: &str) -> bool {
        self.drivers.iter().any(|text| text.split([':', '=']).next() == Some(driver))
    }

    /// Options that are attributes of the transport: the option, the attribute, its value.
    fn of_transport(&self) -> Vec<(&'static str, &'static str, String)> {
        let mut all = Vec::new();
        if let Some(window) = self.window {
            all.push(("-w", "window", window.to_string()));
        }
        if self.nodelay {
            all.push(("-N", "delay", "false".to_owned()));
        }
        if let (Some(_), Some(bind)) = (&self.client, &self.bind) {
            all.push(("-B", "local", at_port(bind, 0)));
        }
        all
    }
}

fn at_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests;
