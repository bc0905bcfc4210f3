//! `ftp` and `gridftp`: transports to a file of an FTP or GridFTP server (GXIO-01, GXIO-08). Their
//! contact is its URL.
//!
//! - A handle reads a file, or writes one with `access=write`. A transfer begins with the first read or
//!   write, so that a `seek` before it costs nothing; it goes on in the background, into and out of
//!   buffers of a bounded size.
//! - `seek` counts from the beginning of the file (GXIO-18). It ends the transfer; the next read or
//!   write begins another in the same session.
//! - A `gsiftp` URL logs in by the user's certificate, as the command does; the server must show one for the URL's host, or
//!   of the subject that the URL names (GXIO-14).
//! - Sessions are kept for the next handle of the same server and login (GXIO-06).
//! - The client below waits for the server, so each element has a thread of its own, and tells of what
//!   that did by two event counters.

mod cache;
mod certified;
mod element;
mod queue;
mod shared;
mod signals;
mod target;
#[cfg(test)]
mod tests;
mod worker;

use self::element::Element;
use self::target::{Scheme, Target};
use super::within;
use crate::mode_e::STREAMS_MAX;
use std::time::Duration;
use xdfs_xio::{AttributeInfo, Attributes, Below, Contact, Driver, Error, ErrorKind, Flow, Kind, Result, ValueKind};

/// How long a server may say and take nothing, unless told otherwise.
const SILENCE: Duration = Duration::from_secs(60);

/// The driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteFile {
    /// `ftp`: of servers of FTP.
    Ftp,
    /// `gridftp`: of both kinds of servers.
    GridFtp,
}

/// What an element is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Access {
    /// Bytes of the file from this offset, up to another if there is one.
    Read { offset: u64, end: Option<u64> },
    /// Bytes for the file from this offset.
    Write { offset: u64 },
    /// Bytes for the file behind those that it has.
    Append,
}

/// How an element moves its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Transport {
    access: Access,
    /// Connections in Mode E; none for Mode S.
    streams: Option<u16>,
    /// Size of socket buffers.
    window: Option<u32>,
    /// How long a server may say and take nothing.
    silence: Duration,
}

const fn info(name: &'static str, kind: ValueKind, about: &'static str) -> AttributeInfo {
    AttributeInfo { name, kind, about }
}

impl Driver for RemoteFile {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        const {
            &[
                info("access", ValueKind::Text, "read, write or append; without it read."),
                info("streams", ValueKind::Number, "Connections that carry the file in Mode E, 1 to 64."),
                info("mode", ValueKind::Text, "s or e; without it e if 'streams' is given, else s."),
                info("window", ValueKind::Bytes, "Size of the socket buffers of data connections, at both ends."),
                info("offset", ValueKind::Bytes, "Where the first read or write begins."),
                info("length", ValueKind::Bytes, "How many bytes from there are read; without it all."),
                info(
                    "protection",
                    ValueKind::Text,
                    "Of data with certificates: private, integrity or clear; without it private.",
                ),
                info(
                    "credential",
                    ValueKind::Text,
                    "PEM file of the own proxy, or certificate; without it as the environment says.",
                ),
                info("key", ValueKind::Text, "PEM file of its private key, if it is not in the same."),
                info(
                    "authorities",
                    ValueKind::Text,
                    "Directory of the trusted authorities; without it as the environment says.",
                ),
                info("silence", ValueKind::Time, "How long the server may say and take nothing; without it 60s."),
            ]
        }
    }

    fn open(&self, _: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let schemes: &[Scheme] = match self {
            Self::Ftp => &[Scheme::Ftp],
            Self::GridFtp => &[Scheme::GsiFtp, Scheme::Ftp],
        };
        let transport = Transport::of(attributes)?;
        Ok(Box::new(Element::open(Target::of(contact, schemes, attributes)?, transport)?))
    }
}

impl Transport {
    fn of(attributes: &Attributes) -> Result<Self> {
        let usage = |what: String| Error::new(ErrorKind::Usage, what);
        let streams = attributes.number("streams").map(|streams| within("streams", streams, STREAMS_MAX.into()));
        let streams = streams.transpose()?.map(|streams| u16::try_from(streams).unwrap_or(STREAMS_MAX));
        let streams = match (attributes.text("mode"), streams) {
            (None, streams) => streams,
            (Some("e" | "E"), streams) => Some(streams.unwrap_or(1)),
            (Some("s" | "S"), None | Some(1)) => None,
            (Some("s" | "S"), Some(_)) => {
                return Err(usage("mode s has one connection; leave 'streams' out".to_owned()));
            }
            (Some(other), _) => return Err(usage(format!("'mode' is s or e, not '{}'", other.escape_debug()))),
        };
        let window = attributes.number("window").map(|window| within("window", window, 1 << 30)).transpose()?;
        let (offset, length) = (attributes.number("offset"), attributes.number("length"));
        let start = offset.unwrap_or(0);
        let end =
            length.map(|length| start.checked_add(length).ok_or_else(|| usage("'length' is too long".to_owned())));
        let access = match (attributes.text("access").unwrap_or("read"), end.transpose()?) {
            ("read", end) => Access::Read { offset: start, end },
            ("write", None) => Access::Write { offset: start },
            ("append", None) if offset.is_none() => Access::Append,
            ("append", None) => return Err(usage("'append' begins at the file's end; leave 'offset' out".to_owned())),
            ("write" | "append", Some(_)) => return Err(usage("'length' is for reading".to_owned())),
            (other, _) => {
                return Err(usage(format!("'access' is read, write or append, not '{}'", other.escape_debug())));
            }
        };
        let silence = attributes.time("silence").unwrap_or(SILENCE).max(Duration::from_millis(1));
        let window = window.and_then(|window| u32::try_from(window).ok());
        Ok(Self { access, streams, window, silence })
    }
}
