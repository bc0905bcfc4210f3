//! `xdfs serve --stdio`: a server for one client, which started it with ssh. It offers what the
//! user of this process may reach, with their rights and nothing else: no state folder, no account,
//! no confinement. It ends when the client does.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use xdfs_io::store::LocalStore;
use xdfs_secure::policy::{PasswordVerifier, PublicKey, TokenRecord};
use xdfs_server::{
    Access, Address, Config, Directory, DiskMode, Export, HostIdentity, KeyLimits, KeyPair, Policy, Preserve, Server,
    ServerHandle, ServerLimits, TransportOptions,
};

use crate::descriptors;
use crate::exit::{Exit, Failure};
use crate::greeting::{self, Greeting, MARK, Request, VERSION};
use crate::plan::StdioPlan;
use crate::url::SSH_EXPORTS;

/// The user's name within this one session.
const USER: &str = "user";

/// Further channels of the session have to connect within this time.
const CHANNELS_JOIN: Duration = Duration::from_secs(15);

/// The client's line has to arrive within this time.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// How long a server may go on after its client has left.
const KEEPING_MAX: Duration = Duration::from_secs(30);

/// Bytes that are moved between a pipe of ssh and the server at once.
const RELAY_BYTES: usize = 256 * 1024;

/// The one user: whoever has the key that the client made for this session.
struct OneUser(PublicKey);

impl Directory for OneUser {
    fn has_key(&self, user: &str, key: &PublicKey) -> bool {
        user == USER && *key == self.0
    }

    fn password(&self, _user: &str) -> Option<PasswordVerifier> {
        None
    }

    fn token(&self, _key: &PublicKey) -> Option<TokenRecord> {
        None
    }

    fn anonymous(&self) -> bool {
        false
    }
}

/// Serves the client at standard input and output until it leaves.
pub(crate) fn run(plan: &StdioPlan) -> Result<Exit, Failure> {
    let network = |error: &dyn std::fmt::Display| Failure::new(Exit::ConnectionLost, format!("--stdio: {error}"));
    let request = read_request()?;
    let key = request.public_key().filter(|_| request.version == VERSION);
    let key = key.ok_or_else(|| network(&"the client speaks another version; install the same xdfs at both ends"))?;
    descriptors::must_do(descriptors::raise_limit(), true)?;
    let identity = Arc::new(HostIdentity::new(KeyPair::generate().map_err(|error| network(&error))?));
    let config = |listen: SocketAddr| -> Result<Config, Failure> {
        Ok(Config {
            listen: Address::Tcp(listen),
            inherited: None,
            stack: None,
            transport: TransportOptions::default(),
            exports: exports()?,
            identity: Arc::clone(&identity),
            directory: Arc::new(OneUser(key)),
            policy: Policy::default(),
            limits: descriptors::share(ServerLimits::default(), descriptors::raise_limit()),
            key_limits: KeyLimits::STANDARD,
            disk: DiskMode::default(),
            log: Arc::new(|_| 0),
        })
    };
    let outside = ssh_address().filter(|_| request.channels);
    let listening = outside.and_then(|ip| {
        let ports = plan.ports.clone().unwrap_or(0..=0);
        ports.into_iter().find_map(|port| Server::bind(config(SocketAddr::new(ip, port)).ok()?).ok())
    });
    let (mut server, address) = match listening {
        Some(server) => {
            let Address::Tcp(address) = *server.address() else { return Err(network(&"no address to listen on")) };
            (server, Some(address))
        }
        // A server has to listen somewhere; it stops doing so before it serves.
        None => (Server::bind(config(([127, 0, 0, 1], 0).into())?).map_err(|error| network(&error))?, None),
    };
    let (ours, inner) = UnixStream::pair().map_err(|error| network(&error))?;
    server.adopt(OwnedFd::from(inner)).map_err(|error| network(&error))?;
    let host_key = server.host_key().to_string();
    greet(&Greeting { version: VERSION, host_key, user: USER.to_owned(), address })?;
    let handle = server.handle();
    let (serving, over) = sync_channel::<()>(0);
    relay(ours, &handle, over).map_err(|error| network(&error))?;
    if address.is_none() {
        handle.retire();
    }
    let (running, ended) = sync_channel::<()>(0);
    let closing = handle.clone();
    thread::spawn(move || {
        // Ends the listener, not the session.
        if ended.recv_timeout(CHANNELS_JOIN) == Err(RecvTimeoutError::Timeout) {
            closing.retire();
        }
    });
    let outcome = server.run();
    drop((running, serving));
    outcome.map(|()| Exit::Done).map_err(|error| network(&error))
}

/// The client's line, from standard input.
fn read_request() -> Result<Request, Failure> {
    let failed = |reason: &dyn std::fmt::Display| {
        let text = format!("--stdio: {reason}; this is for 'xdfs cp FILE ssh://HOST/path', which starts it over ssh");
        Failure::new(Exit::Usage, text)
    };
    let (line, arrived) = sync_channel(1);
    thread::spawn(move || {
        let read = standard_input().and_then(|mut input| greeting::read_line(&mut input));
        // Nobody waits for it after the deadline.
        let _ = line.send(read);
    });
    let read = arrived.recv_timeout(REQUEST_DEADLINE).map_err(|_| failed(&"no client spoke at standard input"))?;
    let read = read.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => failed(&"standard input ended before a client spoke"),
        _ => failed(&error),
    })?;
    serde_json::from_slice(&read).map_err(|_| failed(&"what spoke at standard input is no client of xdfs"))
}

/// Standard input without a buffer: what follows a line is the protocol's.
fn standard_input() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

fn standard_output() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

/// Everything that this user has, from the root and from the home directory.
fn exports() -> Result<Vec<Export>, Failure> {
    let keep = Preserve { modes: true, owner: true, acl: true, xattr: true, special: true };
    let access = Access { writable: true, keep, pipes: true, ..Access::default() };
    let home = crate::state::home().unwrap_or_else(|| PathBuf::from("/"));
    let [root_name, home_name] = SSH_EXPORTS;
    let open = |path: &Path| LocalStore::open_as_user(path);
    let root = open(Path::new("/")).map_err(|error| Failure::local(&error))?;
    // Without a home directory paths start at the root, as ssh has it.
    let home = open(&home).unwrap_or_else(|_| root.clone());
    let export = |name, store| Export::new(name, Arc::new(store), access.clone());
    Ok(vec![export(root_name, root), export(home_name, home)])
}

/// The address of this machine that the ssh connection came to: the client can reach that one.
fn ssh_address() -> Option<IpAddr> {
    // "CLIENT PORT SERVER PORT"
    std::env::var("SSH_CONNECTION").ok()?.split_whitespace().nth(2)?.parse().ok()
}

fn greet(greeting: &Greeting) -> Result<(), Failure> {
    let mut line = MARK.to_vec();
    let written = serde_json::to_writer(&mut line, greeting).map_err(io::Error::from).and_then(|()| {
        line.push(b'\n');
        standard_output()?.write_all(&line)
    });
    written.map_err(|error| Failure::from_output(&error))
}

/// Moves bytes between the pipes of ssh and the server's end of channel 1. When either pipe ends the
/// client has left, and the server ends with it.
fn relay(server: UnixStream, handle: &ServerHandle, over: Receiver<()>) -> io::Result<()> {
    let (mut input, mut output) = (standard_input()?, standard_output()?);
    let (mut to_server, mut from_server) = (server.try_clone()?, server);
    let (left, ended) = (handle.clone(), handle.clone());
    thread::spawn(move || {
        forward(&mut input, &mut to_server);
        // The socket may be closed already.
        let _ = to_server.shutdown(Shutdown::Write);
        // The session ends with its channels, and then what has arrived is kept: a disk may need some time for that.
        left.drain();
        if over.recv_timeout(KEEPING_MAX) == Err(RecvTimeoutError::Timeout) {
            left.stop();
        }
    });
    thread::spawn(move || {
        forward(&mut from_server, &mut output);
        // It may be closed already. The other direction ends when the client has seen this.
        let _ = from_server.shutdown(Shutdown::Read);
        drop(output);
        ended.drain();
    });
    Ok(())
}

/// Forwards bytes until either side ends. Not `io::copy`: its buffer is small between sockets.
fn forward(from: &mut impl Read, to: &mut impl Write) {
    let mut buffer = vec![0; RELAY_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) if to.write_all(&buffer[..count]).is_ok() => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return,
        }
    }
}
