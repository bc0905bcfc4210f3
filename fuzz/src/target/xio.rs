//! Driver stacks: what users write, contact strings and the names of drivers, and what a peer of the driver `http`
//! sends.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::OnceLock;

use xdfs_xio::{Contact, Flow, ReadInfo, Stack, WriteInfo};

/// Most drivers of a stack.
const LAYERS_MAX: usize = 64;

/// A contact string: every part is text without control characters, and written anew, with everything escaped that
/// may be, they mean the same.
pub(super) fn contact(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let contact = match Contact::parse(text) {
        Ok(contact) => contact,
        Err(error) => return assert!(!error.to_string().contains(char::is_control)),
    };
    let parts =
        [contact.scheme(), contact.user(), contact.password(), contact.subject(), contact.host(), contact.port()];
    assert!(parts.iter().flatten().all(|part| !part.contains(char::is_control)));
    assert!(!contact.shown().contains(char::is_control));
    let path = contact.path().map(Path::as_os_str).map(std::os::unix::ffi::OsStrExt::as_bytes);
    assert!(path.is_none_or(|path| !path.contains(&0)), "the kernel would end it there");
    let (Some(scheme), Some(_)) = (contact.scheme(), contact.host()) else { return };
    let again = Contact::parse(&written(&contact, scheme)).expect("it was read from as much");
    assert_eq!(parts, [again.scheme(), again.user(), again.password(), again.subject(), again.host(), again.port()]);
    assert_eq!(contact.path(), again.path());
    if let Some(password) = contact.password().filter(|password| password.len() > 8) {
        let written = escaped(password.as_bytes());
        let texts = [contact.user(), contact.subject(), contact.host()].map(|part| part.map(str::as_bytes));
        let is_elsewhere = texts.into_iter().chain([path]).flatten().any(|part| escaped(part).contains(&written));
        assert!(is_elsewhere || !again.shown().contains(&written), "a password is shown");
    }
}

/// The contact string of these parts.
fn written(contact: &Contact, scheme: &str) -> String {
    let part = |part: Option<&str>| part.map(|part| escaped(part.as_bytes())).unwrap_or_default();
    let mut text = format!("{scheme}://");
    if contact.user().is_some() || contact.password().is_some() {
        text.push_str(&part(contact.user()));
        if contact.password().is_some() {
            text.push_str(&format!(":{}", part(contact.password())));
        }
        text.push('@');
    }
    if contact.subject().is_some() {
        text.push_str(&format!("<{}>", part(contact.subject())));
    }
    text.push_str(&format!("[{}]", part(contact.host())));
    if let Some(port) = contact.port() {
        text.push_str(&format!(":{port}"));
    }
    if let Some(path) = contact.path() {
        // The slash that begins it is none of its own.
        let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
        text.push_str(&format!("/{}", escaped(&bytes[1..])));
    }
    text
}

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02x}")).collect()
}

/// A stack as text: what is taken has one transport, at the bottom, and as many drivers as were named; everything else is
/// an error with words. Nothing is opened or loaded.
pub(super) fn stack(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Stack::new().push_all(text) {
        Ok(stack) => {
            let names: Vec<_> = stack.names().collect();
            let named: Vec<_> = Stack::parts(text).map(|(name, _)| name).collect();
            assert_eq!(names, named);
            assert!(names.len() <= LAYERS_MAX);
            assert!(Stack::new().push_all(names[0]).is_ok(), "a transport stands alone");
            for name in &names[1..] {
                assert!(Stack::new().push_all(name).is_err(), "a transform does not");
            }
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error:?}"),
    }
}

/// A connection whose peer has sent these bytes, in pieces, and no more.
struct Sent {
    pieces: VecDeque<Vec<u8>>,
}

impl Sent {
    fn new(bytes: &[u8], piece: usize) -> Self {
        Self { pieces: bytes.chunks(piece).map(<[u8]>::to_vec).collect() }
    }
}

impl Flow for Sent {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], info: &mut ReadInfo) -> io::Result<usize> {
        let Some(piece) = self.pieces.front_mut() else {
            info.end = true;
            return Ok(0);
        };
        let Some(into) = into.iter_mut().find(|slice| !slice.is_empty()) else { return Ok(0) };
        let bytes = piece.len().min(into.len());
        into[..bytes].copy_from_slice(&piece[..bytes]);
        piece.drain(..bytes);
        if piece.is_empty() {
            self.pieces.pop_front();
        }
        Ok(bytes)
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        Ok(from.iter().map(|slice| slice.len()).sum())
    }
}

/// What came of a message: its content, and why it ended, if not as it should.
type Outcome = (Vec<u8>, Option<String>);

fn http(attributes: &'static OnceLock<Stack>, text: &str) -> &'static Stack {
    attributes.get_or_init(|| Stack::new().push_all(text).expect("drivers that there are"))
}

/// Opens an element and reads to its end.
fn read(mut flow: Box<dyn Flow>, most: usize) -> Outcome {
    let (mut content, mut buffer) = (Vec::new(), [0; 64]);
    // Each turn takes a piece, or it is over.
    for _ in 0..2 * most + 16 {
        if let Err(error) = flow.connected() {
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return (content, Some(error.to_string()));
        }
        let mut info = ReadInfo::default();
        match flow.receive(&mut [IoSliceMut::new(&mut buffer)], &mut info) {
            Ok(bytes) => {
                content.extend_from_slice(&buffer[..bytes]);
                assert!(content.len() <= most, "more content than bytes that came");
                if info.end {
                    return (content, None);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (content, Some(error.to_string())),
        }
    }
    panic!("it never ends");
}

/// A message in two ways of coming means the same. The first byte says in which pieces.
fn both_ways(input: &[u8], open: impl Fn(Sent) -> Box<dyn Flow>) -> Option<(&[u8], Outcome)> {
    let (&cut, bytes) = input.split_first()?;
    let whole = read(open(Sent::new(bytes, bytes.len().max(1))), bytes.len());
    let pieces = read(open(Sent::new(bytes, usize::from(cut) + 1)), bytes.len());
    // Of a body that is refused more or less of what came before it was given by then.
    let is_one_a_part = whole.0.starts_with(&pieces.0) || pieces.0.starts_with(&whole.0);
    assert!(is_one_a_part && (whole.1.is_some() || whole.0 == pieces.0), "the pieces in which it comes do not matter");
    assert_eq!(whole.1.is_some(), pieces.1.is_some());
    assert!(whole.1.as_ref().is_none_or(|error| !error.contains(char::is_control)), "{whole:?}");
    Some((bytes, whole))
}

/// A request to a server. What it takes could be read in one way only.
pub(super) fn request(input: &[u8]) {
    static STACK: OnceLock<Stack> = OnceLock::new();
    let stack = http(&STACK, "tcp,http");
    let open = |sent| {
        let mut accepting = stack.accepting().expect("http listens");
        accepting.accept(Box::new(sent)).expect("an element that is not open yet")
    };
    if let Some((bytes, (content, None))) = both_ways(input, open) {
        one_reading(bytes, &content);
    }
}

/// An answer to a client.
pub(super) fn response(input: &[u8]) {
    static STACK: OnceLock<Stack> = OnceLock::new();
    let stack = http(&STACK, "tcp,http:any_status");
    let open = |sent: Sent| stack.over(Box::new(sent), "http://host/path").expect("an element that is not open yet");
    both_ways(input, open);
}

/// The plainest reading of a request that was taken: no line that others would take for the end of a body or of the head.
fn one_reading(bytes: &[u8], content: &[u8]) {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head ends") + 4;
    let head = &bytes[..end];
    for (at, byte) in head.iter().enumerate() {
        assert!(*byte != b'\n' || head[at - 1] == b'\r', "a LF alone");
        assert!(*byte != b'\r' || head[at + 1] == b'\n', "a CR alone");
    }
    let lines: Vec<_> = head.split(|byte| *byte == b'\n').skip(1).collect();
    assert!(lines.iter().all(|line| !line.starts_with(b" ") && !line.starts_with(b"\t")), "a folded line");
    let of = |name: &str| {
        let is_it = |line: &&&[u8]| {
            let (field, rest) = line.split_at(name.len().min(line.len()));
            field.eq_ignore_ascii_case(name.as_bytes()) && rest.trim_ascii_start().starts_with(b":")
        };
        lines.iter().filter(is_it).count()
    };
    let (lengths, codings) = (of("content-length"), of("transfer-encoding"));
    assert!(lengths + codings <= 1, "two framings");
    if codings == 0 {
        assert!(bytes[end..].starts_with(content), "content that did not come");
    }
}
