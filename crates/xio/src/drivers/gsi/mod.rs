//! `gsi`: a transform that protects any transport of bytes as grids do: TLS 1.3 with certificates of both ends, of which
//! either may be a proxy (RFC 3820), as Globus XIO's driver of that name has it on the wire.
//!
//! - The handshake belongs to the opening, with a deadline of its own. It ends with the byte by which the connecting end
//!   says that it delegates nothing.
//! - A client expects the contact's host, or the subject that the contact or an attribute names; a server takes whomever
//!   the authorities vouch for, or one subject. A limited proxy is not taken by either.
//! - Programs of grids end a stream with its transport and send no close_notify: so the transport's end between two
//!   records is the end, unless `strict` is given. Within a record it is an error.

#[cfg(test)]
#[path = "../../../tests/support/grid.rs"]
mod grid;
#[cfg(test)]
mod tests;

use super::tls::flow::{TlsFlow, Unannounced, failed};
use crate::attributes::{AttributeInfo, Attributes, ValueKind, info};
use crate::contact::Contact;
use crate::credentials::Places;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::time::Duration;
use xdfs_io::stack::Flow;
use xdfs_secure::handshake::tls::gsi::{Expected, Extent, GsiStream};

/// How long the handshake may take, unless told otherwise.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// The driver.
pub(super) struct GsiDriver;

impl Driver for GsiDriver {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        const {
            &[
                info("subject", ValueKind::Text, "Whose certificate the other end must show, as /O=Grid/CN=Anna."),
                info("name", ValueKind::Text, "Which host the server must be, if not the contact's."),
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
                info("strict", ValueKind::Flag, "Only close_notify is the end; what ends otherwise was cut."),
                info("handshake", ValueKind::Time, "How long the handshake may take; without it 30s."),
            ]
        }
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let expected = expected(contact, attributes)?;
        let gsi = places(attributes)?.load().map_err(|error| usage(error.to_string()))?;
        let handshake = gsi.initiate(&expected, Extent::Flagged, false);
        let stream = handshake.and_then(GsiStream::new).map_err(|error| usage(error.to_string()))?;
        let limit = attributes.time("handshake").unwrap_or(HANDSHAKE);
        Ok(Box::new(TlsFlow::new(below.open(contact)?, stream, limit, unannounced(attributes))))
    }

    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        if attributes.text("name").is_some() {
            return Err(usage("'name' is for clients; a server takes a 'subject'".to_owned()));
        }
        let subject = attributes.text("subject");
        let expected = subject.map_or(Expected::Anyone, |subject| Expected::Subject(subject.to_owned()));
        let gsi = places(attributes)?.load_of_server().map_err(|error| usage(error.to_string()))?;
        let limit = attributes.time("handshake").unwrap_or(HANDSHAKE);
        let unannounced = unannounced(attributes);
        let wrap = move |below| {
            let handshake = gsi.accept(&expected, Extent::Flagged);
            let stream = handshake.and_then(GsiStream::new).map_err(failed)?;
            Ok(Box::new(TlsFlow::new(below, stream, limit, unannounced)) as Box<dyn Flow>)
        };
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

/// Who the server must be.
fn expected(contact: &Contact, attributes: &Attributes) -> Result<Expected> {
    let subject = attributes.text("subject").or(contact.subject());
    if let Some(subject) = subject {
        return Ok(Expected::Subject(subject.to_owned()));
    }
    let host = attributes.text("name").or(contact.host());
    let host = host
        .ok_or_else(|| usage("the contact has no host to check: give the attribute 'name' or 'subject'".to_owned()))?;
    Ok(Expected::Host(host.to_owned()))
}

fn places(attributes: &Attributes) -> Result<Places> {
    let path = |name| attributes.text(name).map(PathBuf::from);
    Places::of_environment()
        .with(path("credential"), path("key"), path("authorities"))
        .ok_or_else(|| usage("the attribute 'key' needs 'credential'".to_owned()))
}

fn unannounced(attributes: &Attributes) -> Unannounced {
    if attributes.flag("strict") { Unannounced::Cut } else { Unannounced::End }
}

fn usage(what: String) -> Error {
    Error::new(ErrorKind::Usage, what)
}
