//! `tls`: a transform that runs TLS 1.3 above any transport of bytes.
//!
//! - The handshake belongs to the opening: an element is open when both ends have proved who they
//!   are. It has a deadline of its own, so that a silent peer does not hold an accepted element.
//! - The peer's close_notify is the end. The transport's end without it is an error: somebody may
//!   have cut the rest off.
//! - A close sends close_notify and does not wait for the peer's.

pub(super) mod flow;
pub(super) mod session;
#[cfg(test)]
mod tests;

use self::flow::{TlsFlow, Unannounced};
use crate::attributes::{AttributeInfo, Attributes, ValueKind, info};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{Mode, OFlags};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;
use xdfs_io::stack::Flow;
use xdfs_secure::Zeroizing;
use xdfs_secure::handshake::tls::byte_stream::{Client, Identity, Server, StreamError};

/// How long the handshake may take, unless told otherwise.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Where Debian has the certificates of the usual authorities.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Longest file of certificates or keys.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The driver.
pub(super) struct TlsDriver;

impl Driver for TlsDriver {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        const {
            &[
                info("trust", ValueKind::Text, "PEM file of whom a client trusts; without it the system's."),
                info(
                    "certificate",
                    ValueKind::Text,
                    "PEM file of the own certificate and its chain; a server needs it.",
                ),
                info("key", ValueKind::Text, "PEM file of its private key."),
                info(
                    "clients",
                    ValueKind::Text,
                    "PEM file: a server takes only clients whose certificates lead to these.",
                ),
                info("name", ValueKind::Text, "Whom the server must be, if not the contact's host."),
                info("alpn", ValueKind::Text, "Protocols to agree on, the best first, with blanks between them."),
                info("handshake", ValueKind::Time, "How long the handshake may take; without it 30s."),
            ]
        }
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let named = attributes.text("name").or(contact.host());
        let name =
            named.ok_or_else(|| usage("the contact has no host to check: give the attribute 'name'".to_owned()))?;
        let trust = read(attributes.text("trust").unwrap_or(SYSTEM_ROOTS))?;
        let own = Files::of(attributes)?;
        let client = Client::new(&trust, own.as_ref().map(Files::identity), &protocols(attributes)).map_err(refused)?;
        let tls = client.start(name).map_err(refused)?;
        Ok(Box::new(TlsFlow::new(below.open(contact)?, tls, limit(attributes), Unannounced::Cut)))
    }

    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let own = Files::of(attributes)?;
        let own = own.ok_or_else(|| usage("a server needs the attributes 'certificate' and 'key'".to_owned()))?;
        let clients = attributes.text("clients").map(read).transpose()?;
        let clients = clients.as_ref().map(|pem| pem.as_slice());
        let server = Server::new(own.identity(), clients, &protocols(attributes)).map_err(refused)?;
        let limit = limit(attributes);
        let wrap = move |below| {
            let tls = server.start().map_err(flow::failed)?;
            Ok(Box::new(TlsFlow::new(below, tls, limit, Unannounced::Cut)) as Box<dyn Flow>)
        };
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

/// The own certificate and key.
struct Files {
    chain: Zeroizing<Vec<u8>>,
    key: Zeroizing<Vec<u8>>,
}

impl Files {
    fn of(attributes: &Attributes) -> Result<Option<Self>> {
        match (attributes.text("certificate"), attributes.text("key")) {
            (None, None) => Ok(None),
            (Some(chain), Some(key)) => Ok(Some(Self { chain: read(chain)?, key: read(key)? })),
            _ => Err(usage("the attributes 'certificate' and 'key' belong together".to_owned())),
        }
    }

    fn identity(&self) -> Identity<'_> {
        Identity { chain: &self.chain, key: &self.key }
    }
}

fn read(path: &str) -> Result<Zeroizing<Vec<u8>>> {
    let failed = |error: io::Error| Error::from(io::Error::new(error.kind(), format!("'{path}': {error}")));
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(Path::new(path), flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let mut bytes = Zeroizing::new(Vec::new());
    let read = std::fs::File::from(opened).take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    if read as u64 == FILE_BYTES_MAX {
        return Err(usage(format!("'{path}' is too long for certificates")));
    }
    Ok(bytes)
}

fn protocols(attributes: &Attributes) -> Vec<String> {
    attributes.text("alpn").unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

fn limit(attributes: &Attributes) -> Duration {
    attributes.time("handshake").unwrap_or(HANDSHAKE)
}

fn refused(error: StreamError) -> Error {
    usage(error.to_string())
}

fn usage(what: String) -> Error {
    Error::new(ErrorKind::Usage, what)
}
