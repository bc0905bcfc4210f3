//! Channel 1: connects, checks the server's key and logs the client in.
//!
//! It must not choose keys or decide about a server: the options contain the offers and the check
//! to call.

use crate::options::{ConnectOptions, Offer};
use std::thread::JoinHandle;
use xdfs_engine::opening::{ClientOpened, ClientOpening, ClientStep, SessionRequest};
use xdfs_io::dispatch::{Body, Completion, Dispatch, Dispatcher, End, Op, SocketId};
use xdfs_io::stack::Over;
use xdfs_io::transport::{self, Address, Link, TransportError, TransportOptions};
use xdfs_proto::base::{Error, ErrorKind, Instant, Suite};
use xdfs_proto::features;
use xdfs_proto::wire::Event;
use xdfs_proto::wire::handshake::Open;
use xdfs_secure::login::Stretched;
use xdfs_secure::random;

/// Channel 1 after its opening.
pub(crate) struct Connected {
    /// The dispatcher that carried it, which has no socket any more.
    pub dispatch: Dispatcher,
    /// The connection.
    pub link: Link,
    /// Bytes that were read beyond the opening.
    pub unread: Vec<u8>,
    /// The result of the opening.
    pub opened: Box<ClientOpened>,
}

/// "Connection reset by peer": the errno of a connection that was lost after the peer had answered,
/// which may be temporary; an unreachable server has none.
const LOST_IN_OPENING: u16 = 104;

/// Whether the connection was lost after the peer had answered and before there was a session.
pub fn was_lost_in_opening(error: &Error) -> bool {
    error.kind == ErrorKind::ConnectionLost && error.errno == LOST_IN_OPENING
}

/// "Network is unreachable": nothing was sent. A host that is down, or a firewall, is "no route to host".
const NO_WAY: u16 = 101;

/// Whether no network of this machine leads to the server.
pub fn has_no_way(error: &Error) -> bool {
    error.kind == ErrorKind::ConnectionLost && error.errno == NO_WAY
}

/// Connects to one address of a host after the other, until a server answers.
pub fn connect_any<T>(
    addresses: impl IntoIterator<Item = Address>,
    mut open: impl FnMut(Address) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut failed: Option<Error> = None;
    for address in addresses {
        match open(address) {
            Err(error) if matches!(error.kind, ErrorKind::ConnectionLost | ErrorKind::TimedOut) => {
                // Who answered says more than who is silent, and that more than an address that leads nowhere.
                let says =
                    |error: &Error| (was_lost_in_opening(error), error.kind == ErrorKind::TimedOut, !has_no_way(error));
                if failed.as_ref().is_none_or(|before| says(&error) > says(before)) {
                    failed = Some(error);
                }
            }
            // A server answered: another address of the same host would give the same answer.
            outcome => return outcome,
        }
    }
    Err(failed.unwrap_or_else(|| Error::new(ErrorKind::ConnectionLost, "the host has no address")))
}

/// The error of a connection that could not be made.
fn unreached(error: TransportError) -> Error {
    let errno = match &error {
        TransportError::Address { source, .. } => source.raw_os_error().and_then(|errno| u16::try_from(errno).ok()),
        _ => None,
    };
    let lost = Error::new(ErrorKind::ConnectionLost, error.to_string());
    lost.with_errno(errno.filter(|errno| *errno == NO_WAY).unwrap_or(0))
}

/// Connects channel 1 and completes its opening. `first` is an operation that OPEN carries.
pub(crate) fn open(
    options: &ConnectOptions,
    transport: &TransportOptions,
    first: Option<(Event, Vec<u8>)>,
) -> Result<Connected, Error> {
    let resources = |error: std::io::Error| Error::new(ErrorKind::Resources, format!("cannot connect: {error}"));
    let mut dispatch = Dispatcher::new().map_err(resources)?;
    let link = match &options.connection {
        Some(connection) => connection.try_clone().and_then(transport::adopt_connection).map_err(resources)?,
        None => transport::connect(&options.address, transport).map_err(unreached)?,
    };
    let link = layered(link, options.stack.as_deref())?;
    let socket = dispatch.attach(link, &[]).map_err(resources)?;
    let (opening, step) = ClientOpening::start(wishes(options, first)?)?;
    let until = dispatch.now().after(options.deadline);
    let mut carrying =
        Connecting { dispatch: &mut dispatch, socket, opening, options, until, answered: false, ahead: None };
    let opened = carrying.run(step)?;
    let detached = dispatch.detach(socket, &mut Vec::new());
    Ok(Connected { dispatch, link: detached.link, unread: detached.unread, opened })
}

/// The link, with `stack` above its socket.
pub(crate) fn layered(link: Link, stack: Option<&dyn Over>) -> Result<Link, Error> {
    let Some(stack) = stack else { return Ok(link) };
    link.layered(stack)
        .map_err(|error| Error::new(ErrorKind::Unsupported, format!("the stack cannot be opened: {error}")))
}

/// The error of a connection whose layers failed before there was a session: trying again does not
/// help where the other end does not speak as they do.
fn of_layers(text: &str, errno: i32) -> Error {
    let kind = match std::io::Error::from_raw_os_error(errno).kind() {
        std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::TimedOut => ErrorKind::ConnectionLost,
        std::io::ErrorKind::PermissionDenied => ErrorKind::Refused,
        _ => ErrorKind::Protocol,
    };
    Error::new(kind, text)
}

fn wishes(options: &ConnectOptions, first: Option<(Event, Vec<u8>)>) -> Result<SessionRequest, Error> {
    let suites = options.suites.clone().unwrap_or_else(fast_suites);
    let open = Open {
        prefaces: [0; 16],
        features: features::ALL,
        channels: options.channels.max(1),
        pipelines: options.pipelines.max(1),
        window: options.window.unwrap_or(0).into(),
        block: options.block.unwrap_or(0),
        level: options.level,
        stall_ms: options.stall.map_or(0, |stall| stall.as_millis().min(u128::from(u32::MAX)) as u32),
        label: random::array()?,
        suites: suites.into_iter().map(|suite| suite as u8).collect(),
        login: 0,
        credentials: Vec::new(),
        options: Vec::new(),
        first,
    };
    Ok(SessionRequest {
        open,
        host: options.host.clone(),
        certificates: options.certificates.clone(),
        user: options.user.clone(),
        offers: options.offers.iter().map(Offer::offered).collect(),
        nonce: random::array()?,
    })
}

/// AES first if the processor has instructions for it; without them ChaCha20 is several times
/// faster.
fn fast_suites() -> Vec<Suite> {
    #[cfg(target_arch = "x86_64")]
    let has_aes = std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    let has_aes = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has_aes = false;
    match has_aes {
        true => vec![Suite::Aes256Gcm, Suite::ChaCha20Poly1305],
        false => vec![Suite::ChaCha20Poly1305, Suite::Aes256Gcm],
    }
}

/// An opening in progress.
struct Connecting<'a> {
    dispatch: &'a mut Dispatcher,
    socket: SocketId,
    opening: ClientOpening,
    options: &'a ConnectOptions,
    until: Instant,
    /// The peer has answered.
    answered: bool,
    /// A password that is salted and stretched in parallel with a round trip.
    ahead: Option<JoinHandle<Stretched>>,
}

impl Connecting<'_> {
    fn run(&mut self, step: ClientStep) -> Result<Box<ClientOpened>, Error> {
        let mut step = step;
        self.dispatch.submit(Op::Connect { socket: self.socket });
        self.wait()?;
        self.answered = true;
        loop {
            step = match step {
                ClientStep::Go { send, want } => {
                    if !send.is_empty() {
                        self.send(Body::Bytes(send))?;
                    }
                    if let Some(stretching) = self.opening.take_ahead() {
                        // If no thread can be started the work is done when it is needed.
                        let thread = std::thread::Builder::new().name("xdfs-password".into());
                        self.ahead = thread.spawn(move || stretching.run()).ok();
                    }
                    self.dispatch.submit(Op::Small { socket: self.socket, length: want });
                    let bytes = self.wait()?;
                    self.opening.on_bytes(&bytes)?
                }
                ClientStep::Judge(shown) => {
                    self.options.host_check.check(&self.options.host, self.options.port, &shown)?;
                    // A person may have been prompted: what follows gets its own time.
                    self.until = self.dispatch.now().after(self.options.deadline);
                    self.opening.on_judged()?
                }
                ClientStep::Sign { offer, message } => {
                    let signer = self.options.offers.get(offer).and_then(Offer::signer);
                    // If an agent does not sign, the next key can still be tried.
                    let signature = signer.and_then(|signer| signer.sign(&message).ok());
                    self.until = self.dispatch.now().after(self.options.deadline);
                    self.opening.on_signature(signature)?
                }
                ClientStep::Stretch(wanted) => {
                    let begun = self.ahead.take().and_then(|thread| thread.join().ok());
                    let stretched = begun.filter(|begun| begun.fits(&wanted)).unwrap_or_else(|| wanted.run());
                    self.until = self.dispatch.now().after(self.options.deadline);
                    self.opening.on_stretched(&stretched)?
                }
                ClientStep::Done { send, opened } => {
                    // The first record follows soon.
                    self.send(Body::Lead(send))?;
                    return Ok(opened);
                }
            };
        }
    }

    fn send(&mut self, body: Body) -> Result<(), Error> {
        self.dispatch.submit(Op::Send { socket: self.socket, head: None, body });
        self.wait().map(drop)
    }

    /// Waits for the completion of the last submission; returns the bytes of a read.
    fn wait(&mut self) -> Result<Vec<u8>, Error> {
        let address = &self.options.address;
        loop {
            let completion = self
                .dispatch
                .next(Some(self.until))
                .map_err(|error| Error::new(ErrorKind::Resources, format!("cannot wait for {address}: {error}")))?;
            match completion {
                Completion::Connected { .. } | Completion::Sent { .. } => return Ok(Vec::new()),
                Completion::Small { bytes, .. } => return Ok(bytes.to_vec()),
                Completion::Ended { cause, .. } => {
                    if let (End::Failed(errno), Some(text)) = (cause, self.dispatch.failure(self.socket)) {
                        return Err(of_layers(&text, errno));
                    }
                    let text = match cause {
                        End::Failed(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
                        _ => "the server closed the connection".into(),
                    };
                    let text = format!("cannot connect to {address}: {text}");
                    let error = Error::new(ErrorKind::ConnectionLost, text);
                    return Err(if self.answered { error.with_errno(LOST_IN_OPENING) } else { error });
                }
                Completion::Deadline => {
                    let text = format!("no answer from {address} within {:?}", self.options.deadline);
                    return Err(Error::new(ErrorKind::TimedOut, text));
                }
                _ => {}
            }
        }
    }
}
