//! A client over sockets: one control channel, and a data channel or several for each transfer.
//!
//! Each call waits for its answer. Whatever the server does, no wait is longer than the time given at
//! the start without any progress, and every call ends when it is asked to ([`Waiting`]). After
//! [`Error::Refused`] the session goes on; after any other error it is given up.

pub mod direct;
mod error;
mod gsi;
mod link;
mod many;
mod parallel_down;
mod parallel_up;
mod security;
mod session;
mod stream;
mod truncated;

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub use self::error::Error;
use self::gsi::Framing;
pub use self::gsi::{DataProtection, GsiPeer};
use self::link::Link;
pub use self::link::Waiting;
use self::many::Kept;
pub use self::parallel_down::{Part, Take};
use self::security::Channels;
pub use self::security::{Peer, Security, Settings};
pub use self::session::{Listed, Session};
use xdfs_secure::handshake::tls::byte_stream::StreamError;
use xdfs_secure::handshake::tls::related::Version;

use crate::address::{of_epsv, of_pasv};
use crate::command::{Command, Login, Mode};
use crate::control::{Control, Event};
use crate::listing::{ENTRIES_MAX, Entry, Kind, Lines, ListingError, number, of_mlsd, of_mlst};
use crate::ranges::Range;
use crate::reply::Reply;

/// Bytes that are read or written at a time on a data channel: with fewer the server wakes more often, which is what
/// bounds a transfer.
const PIECE_BYTES: usize = 1024 * 1024;

/// So many waits the end of a transfer may take if the server only says that it still works.
const WAITS_WITH_MARKERS: u32 = 60;

/// Bytes that are read at a time on the control channel.
const CONTROL_BYTES: usize = 4096;

/// Takes file bytes at their offset.
pub type Sink<'a> = &'a mut dyn FnMut(u64, &[u8]) -> io::Result<()>;

/// Gives file bytes from an offset; 0 at the end.
pub type Fill<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> io::Result<usize>;

/// A session with a server.
#[derive(Debug)]
pub struct Client {
    link: Link,
    control: Control,
    peer: SocketAddr,
    waiting: Waiting,
    channels: Channels,
    /// How commands and replies go over the control channel.
    framing: Framing,
    mode: Mode,
    /// Cleared when the server does not know EPSV.
    epsv: bool,
    /// Size of the socket buffers of data channels, if not the system's.
    window: Option<u32>,
    /// The data channel that stays open between files.
    kept: Kept,
}

impl Client {
    /// Connects and logs in.
    ///
    /// # Errors
    /// If nobody answers, TLS is asked for and not there, or the login is refused.
    pub fn connect(address: SocketAddr, login: Login, settings: impl Into<Settings>) -> Result<Self, Error> {
        let settings = settings.into();
        match Self::connect_with(address, login.clone(), &settings, Version::Tls12) {
            Err(Error::Tls(StreamError::Version)) => Self::connect_with(address, login, &settings, Version::Tls13),
            connected => connected,
        }
    }

    fn connect_with(address: SocketAddr, login: Login, settings: &Settings, version: Version) -> Result<Self, Error> {
        let Settings { waiting, security } = settings;
        let channels = Channels::of(security, version)?;
        let mut link = Link::connect(address, waiting, None)?;
        if matches!(security, Security::Implicit(_)) {
            channels.protect(&mut link)?;
        }
        let framing = channels.framing()?;
        let (control, waiting) = (Control::new(login, security.of_control()), waiting.clone());
        let mut client = Self {
            link,
            control,
            peer: address,
            waiting,
            channels,
            framing,
            mode: Mode::Stream,
            epsv: true,
            window: None,
            kept: Kept::Nothing,
        };
        loop {
            match client.event()? {
                Event::LoggedIn => break,
                Event::Send(line) => client.send(&line)?,
                Event::Token(token) => client.on_token(&token)?,
                Event::Secure => {
                    client.on_secure()?;
                    let line = client.control.secured()?;
                    client.send(&line)?;
                }
                _ => {}
            }
        }
        client.ask_protection()?;
        client.ask(&Command::Binary)?;
        Ok(client)
    }

    /// The length of a file.
    ///
    /// # Errors
    /// If the server refuses, or its answer is no number.
    pub fn size(&mut self, name: &[u8]) -> Result<u64, Error> {
        let command = Command::Size(name.to_vec());
        let reply = self.ask(&command)?;
        let digits = reply.lines.first().map_or(&b""[..], |line| line.trim_ascii());
        number(digits).ok_or_else(|| Error::Answer { verb: command.verb(), reply: reply.shown() })
    }

    /// The facts of a name.
    ///
    /// # Errors
    /// If the server refuses, or its answer has no facts.
    pub fn facts(&mut self, name: &[u8]) -> Result<Entry, Error> {
        let reply = self.ask(&Command::Mlst(name.to_vec()))?;
        Ok(of_mlst(&reply)?)
    }

    /// The checksum of a whole file, in hexadecimal digits.
    ///
    /// # Errors
    /// If the server refuses, or its answer has no such digits.
    pub fn checksum(&mut self, algorithm: &'static str, name: &[u8]) -> Result<String, Error> {
        let command = Command::Cksm(algorithm, name.to_vec());
        // The server may read the whole file first.
        let reply = self.ask(&command)?;
        let digits = reply.lines.first().map_or(&b""[..], |line| line.trim_ascii());
        let is_hex = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
        let text = str::from_utf8(digits).ok().filter(|_| is_hex);
        text.map(str::to_ascii_lowercase).ok_or_else(|| Error::Answer { verb: command.verb(), reply: reply.shown() })
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn make_directory(&mut self, name: &[u8]) -> Result<(), Error> {
        self.ask(&Command::Mkd(name.to_vec())).map(drop)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn remove_directory(&mut self, name: &[u8]) -> Result<(), Error> {
        self.ask(&Command::Rmd(name.to_vec())).map(drop)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn remove(&mut self, name: &[u8]) -> Result<(), Error> {
        self.ask(&Command::Dele(name.to_vec())).map(drop)
    }

    /// Gives a file or directory another name.
    ///
    /// # Errors
    /// If the server refuses, or one of the names cannot be sent.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), Error> {
        let last = Command::Rnto(to.to_vec());
        // Before anything is sent: half a renaming would disturb the next command.
        last.encode()?;
        self.ask(&Command::Rnfr(from.to_vec()))?;
        self.ask(&last).map(drop)
    }

    /// Gives every entry of a directory to `each`; the directory itself and its parent are left out.
    ///
    /// # Errors
    /// If the server refuses, or lists what is no name of this directory, or too much, or says that there are more names
    /// than it lists.
    pub fn list(&mut self, name: &[u8], each: &mut dyn FnMut(Entry)) -> Result<(), Error> {
        let mut lines = Lines::default();
        let mut left = ENTRIES_MAX;
        let reply = self.receive_stream(&Command::Mlsd(name.to_vec()), &mut |bytes| {
            lines.take(bytes, |line| {
                left = left.checked_sub(1).ok_or(ListingError::TooMany)?;
                let entry = of_mlsd(line)?;
                if entry.kind != Kind::Itself {
                    each(entry);
                }
                Ok::<(), Error>(())
            })
        })?;
        if lines.is_whole() { truncated::not_truncated(&reply) } else { Err(Error::ListingCut) }
    }

    /// Whether nobody between can cut a listing unseen: it comes over a control channel with GSI.
    pub fn has_protected_replies(&self) -> bool {
        matches!(self.framing, Framing::Wrapped(_))
    }

    /// The same as [`Client::list`] over the control channel.
    ///
    /// # Errors
    /// As [`Client::list`].
    pub fn list_by_control(&mut self, name: &[u8], each: &mut dyn FnMut(Entry)) -> Result<(), Error> {
        let command = Command::Mlsc(name.to_vec());
        self.begin(&command)?;
        self.expect_listing(true);
        let mut left = ENTRIES_MAX;
        // Long lists come in several replies.
        let listed = loop {
            let (reply, is_last) = match self.event()? {
                Event::Marker(reply) => (reply, false),
                Event::Answered(reply) => (reply, true),
                Event::Refused(reply) => break Err(refused(&command, &reply)),
                _ => continue,
            };
            let last = reply.lines.len().saturating_sub(1);
            for (at, line) in reply.lines.iter().enumerate() {
                let Some(line) = line.strip_prefix(b" ") else {
                    // The first and the last line are the server's own words.
                    if at == 0 || at == last {
                        continue;
                    }
                    return Err(Error::ListingCut);
                };
                left = left.checked_sub(1).ok_or(ListingError::TooMany)?;
                let entry = of_mlsd(line)?;
                if entry.kind != Kind::Itself {
                    each(entry);
                }
            }
            if is_last {
                break truncated::not_truncated(&reply);
            }
        };
        self.expect_listing(false);
        listed
    }

    fn expect_listing(&mut self, is_listing: bool) {
        self.control.expect_listing(is_listing);
        if let Framing::Wrapped(wrapped) = &mut self.framing {
            wrapped.expect_listing(is_listing);
        }
    }

    /// Sets the size of the socket buffers of data channels from now on, here and, where the server knows
    /// SBUF, there.
    ///
    /// # Errors
    /// If the session is lost.
    pub fn use_window(&mut self, bytes: u32) -> Result<(), Error> {
        if self.window.replace(bytes) != Some(bytes) {
            match self.ask(&Command::BufferSize(bytes)) {
                Ok(_) | Err(Error::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sets how long it waits without any progress from now on, here and for data channels to come.
    pub fn wait_at_most(&mut self, limit: Duration) {
        self.waiting.limit = limit;
        self.link.wait_at_most(limit);
    }

    /// Whether the next command may be sent.
    pub fn is_ready(&self) -> bool {
        self.control.is_ready()
    }

    /// Whether nothing has arrived since the last answer: neither a farewell nor the end.
    pub fn is_quiet(&self) -> bool {
        self.is_ready() && !self.link.has_something()
    }

    /// Waits for the server's last word on a transfer that was broken off by its sink or its source, for
    /// at most `limit`. The session goes on after it.
    ///
    /// # Errors
    /// If the server does not answer in time: the session is given up.
    pub fn settle(&mut self, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        while !self.control.is_ready() {
            self.event_before(deadline)?;
        }
        // Several replies may have come at once: none of them answers the next command.
        while self.control.poll().is_some() {}
        Ok(())
    }

    /// Ends the session in order. The server's answer is not waited for.
    pub fn quit(mut self) {
        if let Ok(line) = self.control.begin(&Command::Quit)
            && let Ok(line) = self.wrap(&line)
        {
            self.link.leave(&line);
        }
    }

    /// Sends a command and waits for its answer.
    fn ask(&mut self, command: &Command) -> Result<Reply, Error> {
        self.begin(command)?;
        self.finish(command)
    }

    fn begin(&mut self, command: &Command) -> Result<(), Error> {
        let line = self.control.begin(command)?;
        self.send(&line)
    }

    fn send(&mut self, line: &[u8]) -> Result<(), Error> {
        let line = self.wrap(line)?;
        self.link.write_all(&line)
    }

    /// A line as it goes over the control channel.
    fn wrap<'l>(&mut self, line: &'l [u8]) -> Result<Cow<'l, [u8]>, Error> {
        match &mut self.framing {
            Framing::Wrapped(wrapped) => wrapped.wrap(line).map(Cow::Owned),
            Framing::Bare | Framing::Handshake(_) => Ok(Cow::Borrowed(line)),
        }
    }

    /// The next thing that the server says.
    fn event(&mut self) -> Result<Event, Error> {
        // Of the whole reply: a server that sends one byte a second does not hold us.
        self.event_before(self.waiting.deadline())
    }

    fn event_before(&mut self, deadline: Instant) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.control.poll() {
                return Ok(event);
            }
            self.read_control(deadline)?;
        }
    }

    /// Reads once from the control channel.
    fn read_control(&mut self, deadline: Instant) -> Result<(), Error> {
        if deadline <= Instant::now() {
            return Err(Error::Silent(self.waiting.limit.as_secs()));
        }
        let mut bytes = [0; CONTROL_BYTES];
        self.link.acknowledge_at_once();
        let read = self.link.read(&mut bytes, deadline)?;
        if read == 0 {
            return Err(Error::Lost(io::ErrorKind::UnexpectedEof.into()));
        }
        match &mut self.framing {
            Framing::Bare | Framing::Handshake(_) => Ok(self.control.receive(&bytes[..read])?),
            Framing::Wrapped(wrapped) => wrapped.unwrap(&bytes[..read], &mut self.control),
        }
    }

    /// Reads the control channel once. True when the transfer was answered.
    fn hear(&mut self, command: &Command) -> Result<bool, Error> {
        loop {
            self.read_control(self.waiting.deadline())?;
            while let Some(event) = self.control.poll() {
                match event {
                    Event::Answered(_) => return Ok(true),
                    Event::Refused(reply) => return Err(refused(command, &reply)),
                    _ => {}
                }
            }
            if !self.link.holds_more() {
                return Ok(false);
            }
        }
    }

    fn use_mode(&mut self, mode: Mode) -> Result<(), Error> {
        if self.mode != mode {
            self.kept = Kept::Nothing;
            self.ask(&Command::Mode(mode))?;
            self.mode = mode;
        }
        Ok(())
    }

    /// Where the server listens for data channels: EPSV, or PASV where the server does not know that.
    fn passive(&mut self) -> Result<SocketAddr, Error> {
        self.kept = Kept::Nothing;
        if self.epsv {
            match self.ask(&Command::Epsv) {
                Ok(reply) => return Ok(of_epsv(&reply, self.peer.ip())?),
                Err(Error::Refused { .. }) if self.peer.ip().to_canonical().is_ipv4() => self.epsv = false,
                Err(error) => return Err(error),
            }
        }
        let reply = self.ask(&Command::Pasv)?;
        Ok(of_pasv(&reply, self.peer.ip())?)
    }

    fn connect_data(&self, address: SocketAddr) -> Result<Link, Error> {
        Link::connect(address, &self.waiting, self.window)
    }

    /// Waits until a transfer opens that was asked for.
    fn wait_until_open(&mut self, command: &Command) -> Result<(), Error> {
        loop {
            match self.event()? {
                Event::Opened => return Ok(()),
                Event::Refused(reply) => return Err(refused(command, &reply)),
                _ => {}
            }
        }
    }

    /// Waits for the answer to a command, or for the end of a transfer whose data have moved, and returns what the server
    /// says then.
    fn finish(&mut self, command: &Command) -> Result<Reply, Error> {
        let last = Instant::now() + self.waiting.limit * WAITS_WITH_MARKERS;
        loop {
            match self.event_before(last.min(self.waiting.deadline()))? {
                Event::Answered(reply) => return Ok(reply),
                Event::Refused(reply) => return Err(refused(command, &reply)),
                _ => {}
            }
        }
    }
}

/// A range that ends before it begins: the server has less of the file than is here.
fn check_range(wanted: Range) -> Result<(), Error> {
    if wanted.start > wanted.end {
        return Err(Error::Shorter { start: wanted.start, length: wanted.end });
    }
    Ok(())
}

fn refused(command: &Command, reply: &Reply) -> Error {
    Error::Refused { verb: command.verb(), code: reply.code, reply: reply.shown() }
}
