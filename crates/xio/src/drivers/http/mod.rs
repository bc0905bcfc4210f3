//! `http`: a transform that speaks HTTP/1.1 above any transport of bytes; above `tls` it is HTTPS.
//!
//! - A client opens `http://host:port/path`; what it writes is the body of its request, and what it
//!   reads is the body of the answer. A status of failure is an error of the read.
//! - A server's element is open when the head of a request is there; it reads the request's body and
//!   writes the answer's.
//! - A body ends with a write that is the end of a message, with the command `finish_sending`, with
//!   the length that was announced, or with the close.
//! - Whoever sends what could be read in two ways is refused ([`head`], [`body`]).

mod body;
mod client;
mod head;
mod server;
#[cfg(test)]
mod tests;
mod wire;

use self::client::{ClientFlow, Plan};
use self::server::{Answers, ServerFlow};
use crate::attributes::{AttributeInfo, Attributes, ValueKind, info};
use crate::contact::Contact;
use crate::driver::{Below, Driver, Kind, Listener, Wrapping};
use crate::error::{Error, ErrorKind, Result};
use std::fmt::Write;
use std::time::Duration;
use xdfs_io::stack::{Answer, Command, Flow};

/// How long a server waits for a request, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The driver.
pub(super) struct Http;

impl Driver for Http {
    fn kind(&self) -> Kind {
        Kind::Transform
    }

    fn attributes(&self) -> &'static [AttributeInfo] {
        const {
            &[
                info("method", ValueKind::Text, "Method of a client's request; without it GET."),
                info(
                    "target",
                    ValueKind::Text,
                    "What a client asks for, if not the contact's path; a local transport needs it.",
                ),
                info("length", ValueKind::Bytes, "Length of the body that is written; without it chunks are sent."),
                info("type", ValueKind::Text, "Media type of the body that is written."),
                info("header", ValueKind::Text, "Further lines of the head, 'Name: value', with '|' between them."),
                info("keep", ValueKind::Flag, "Keep the connection for the command 'next'."),
                info("any_status", ValueKind::Flag, "Read the body of an answer whatever its status."),
                info("timeout", ValueKind::Time, "How long a server waits for a request; without it 30s."),
            ]
        }
    }

    fn open(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Flow>> {
        let method = attributes.text("method").unwrap_or("GET").to_owned();
        if !is_method(&method) {
            return Err(usage(format!("'{}' is no method", method.escape_debug())));
        }
        let (below_contact, host, path) = place(contact, below)?;
        let target = attributes.text("target").map_or(path, str::to_owned);
        if !is_target(&target) {
            return Err(usage(format!("'{}' is no target such as /path", target.escape_debug())));
        }
        let plan = Plan {
            method,
            target,
            host,
            lines: lines(attributes)?,
            length: attributes.number("length"),
            keep: attributes.flag("keep"),
            any_status: attributes.flag("any_status"),
        };
        Ok(Box::new(ClientFlow::new(below.open(&below_contact)?, plan)))
    }

    fn listen(&self, below: &Below, contact: &Contact, attributes: &Attributes) -> Result<Box<dyn Listener>> {
        let answers = Answers {
            lines: lines(attributes)?,
            length: attributes.number("length"),
            keep: attributes.flag("keep"),
            timeout: attributes.time("timeout").unwrap_or(TIMEOUT),
        };
        let wrap = move |below| Ok(Box::new(ServerFlow::new(below, answers.clone())) as Box<dyn Flow>);
        Ok(Box::new(Wrapping::new(below.listen(contact)?, wrap)))
    }
}

/// Where a contact leads: the contact for the layer below, the host as the head names it, and the
/// target.
fn place(contact: &Contact, below: &Below) -> Result<(Contact, String, String)> {
    let refused = |what: &str| Error::new(ErrorKind::Contact, format!("'{}': {what}", contact.shown().escape_debug()));
    if contact.user().is_some() {
        return Err(refused("a user in the contact is not sent; the attribute 'header' can carry an Authorization"));
    }
    let port = match contact.scheme() {
        None | Some("http") => "80",
        Some("https") if below.has("tls") => "443",
        Some("https") => return Err(refused("https needs the driver 'tls' below 'http'")),
        Some(_) => return Err(refused("the scheme is http or https")),
    };
    let Some(host) = contact.host() else {
        // A path of a local transport.
        return Ok((contact.clone(), "localhost".to_owned(), "/".to_owned()));
    };
    let bare = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let named = contact.port().map_or_else(|| bare.clone(), |port| format!("{bare}:{port}"));
    let below_contact = Contact::parse(&format!("{bare}:{}", contact.port().unwrap_or(port)))?;
    // As it was written: what stands for another letter is the server's to read.
    let location = contact.text().split_once("://").map_or("", |(_, rest)| rest);
    let target = location.find('/').map_or("/", |at| &location[at..]);
    let target = target.split('#').next().unwrap_or(target);
    let mut encoded = String::with_capacity(target.len());
    for byte in target.bytes() {
        match byte {
            b'!'..=b'~' => encoded.push(char::from(byte)),
            // Text takes everything.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    Ok((below_contact, named, encoded))
}

/// The lines that the attributes put into heads.
fn lines(attributes: &Attributes) -> Result<Vec<String>> {
    let media = attributes.text("type").map(|media| format!("Content-Type: {media}"));
    let others = attributes.text("header").unwrap_or_default().split('|').map(|line| line.trim().to_owned());
    let lines: Vec<String> = media.into_iter().chain(others.filter(|line| !line.is_empty())).collect();
    if let Some(line) = lines.iter().find(|line| !head::may_send(line)) {
        // The value may be a password.
        let name = line.split(|letter: char| !letter.is_ascii_graphic() || letter == ':').next().unwrap_or_default();
        let what = "is no 'Name: value', or of a field that is HTTP's own";
        return Err(usage(format!("the line of the head that begins with '{name}' {what}")));
    }
    Ok(lines)
}

fn is_method(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text != "CONNECT" && text.bytes().all(|letter| letter.is_ascii_uppercase())
}

fn is_target(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The answer to `header=NAME`: the first value, or none.
fn field(fields: &head::Fields, command: &Command) -> Answer {
    let name = command.value.as_deref().unwrap_or_default().to_ascii_lowercase();
    fields.all(&name).next().map_or(Answer::Done, |value| Answer::Text(value.to_owned()))
}

fn usage(what: String) -> Error {
    Error::new(ErrorKind::Usage, what)
}
