//! The heads of requests and responses: what is taken for one, and how its body is framed. Nothing
//! here reads or writes.
//!
//! Two parsers that disagree on where a message ends let a request be smuggled past one of them, so
//! whatever could be read in two ways is refused: a line end that is not CR LF, a folded line, two
//! lengths even if they are equal, a length beside a coding, a coding other than `chunked` alone.

/// Longest head.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Most fields of a head.
const FIELDS_MAX: usize = 64;
/// Digits of a length: more do not fit.
const LENGTH_DIGITS_MAX: usize = 18;

/// Why a head is refused, and the status that says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BadHead {
    pub(super) status: u16,
    pub(super) what: &'static str,
}

const fn bad(what: &'static str) -> BadHead {
    BadHead { status: 400, what }
}

const TOO_LONG: BadHead = BadHead { status: 431, what: "the head is too long" };

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    /// HTTP/1.1; else 1.0.
    pub(super) modern: bool,
    pub(super) fields: Fields,
    pub(super) body: Framing,
    pub(super) expects_continue: bool,
}

/// A response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) reason: String,
    /// HTTP/1.1; else 1.0.
    pub(super) modern: bool,
    pub(super) fields: Fields,
}

/// How a body ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    /// After so many bytes.
    Length(u64),
    /// By a chunk without bytes.
    Chunked,
    /// With the connection.
    UntilClose,
}

/// The fields of a head, names in lower case.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    fn of(headers: &[httparse::Header<'_>]) -> Self {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        Self(headers.iter().map(|field| (field.name.to_ascii_lowercase(), text(field.value))).collect())
    }

    /// The values of a field, in order.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The value of a field that may be given once.
    fn one<'a>(&'a self, name: &'a str, twice: &'static str) -> Result<Option<&'a str>, BadHead> {
        let mut values = self.all(name);
        let first = values.next();
        if values.next().is_some() { Err(bad(twice)) } else { Ok(first) }
    }

    /// Whether the peer closes the connection behind this message.
    pub(super) fn closes(&self, modern: bool) -> bool {
        let says = |word: &str| {
            let mut words = self.all("connection").flat_map(|value| value.split(','));
            words.any(|given| given.trim().eq_ignore_ascii_case(word))
        };
        says("close") || !modern && !says("keep-alive")
    }

    /// The framing that the fields give; none where they give none.
    fn framing(&self, modern: bool) -> Result<Option<Framing>, BadHead> {
        let length = self.one("content-length", "the length is given twice")?;
        let coding = self.one("transfer-encoding", "the coding is given twice")?;
        match (length, coding) {
            (Some(_), Some(_)) => Err(bad("both a length and a coding are given")),
            (None, None) => Ok(None),
            (Some(length), None) => read_length(length).map(|length| Some(Framing::Length(length))),
            (None, Some(_)) if !modern => Err(bad("HTTP/1.0 has no codings")),
            (None, Some(coding)) if coding.eq_ignore_ascii_case("chunked") => Ok(Some(Framing::Chunked)),
            (None, Some(_)) => Err(BadHead { status: 501, what: "the only coding that is known is 'chunked'" }),
        }
    }
}

fn read_length(text: &str) -> Result<u64, BadHead> {
    let digits =
        !text.is_empty() && text.len() <= LENGTH_DIGITS_MAX && text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or(bad("the length is no number of bytes"))
}

/// Looks for the end of a head that arrives in pieces. Each byte is looked at once: a peer may send one
/// at a time.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Scan {
    /// Bytes that were looked at.
    seen: usize,
    /// Where the last line begins.
    line: usize,
}

impl Scan {
    /// Where the head ends that `bytes` begin with; none while it is incomplete. They are those of the
    /// call before, and more.
    pub(super) fn end_of(&mut self, bytes: &[u8]) -> Result<Option<usize>, BadHead> {
        for at in self.seen..bytes.len().min(HEAD_BYTES_MAX) {
            let follows_return = at > 0 && bytes[at - 1] == b'\r';
            match bytes[at] {
                b'\n' if !follows_return => return Err(bad("a LF without CR")),
                b'\n' if at - self.line == 1 => {
                    let empty = self.line == 0;
                    return if empty { Err(bad("an empty line in place of a head")) } else { Ok(Some(at + 1)) };
                }
                b'\n' => self.line = at + 1,
                _ if follows_return => return Err(bad("a CR without LF")),
                _ => {}
            }
            self.seen = at + 1;
        }
        if bytes.len() < HEAD_BYTES_MAX { Ok(None) } else { Err(TOO_LONG) }
    }
}

fn malformed(error: httparse::Error) -> BadHead {
    match error {
        httparse::Error::TooManyHeaders => TOO_LONG,
        httparse::Error::Version => BadHead { status: 505, what: "it is neither HTTP/1.1 nor HTTP/1.0" },
        _ => bad("it is malformed"),
    }
}

/// Reads a whole head.
pub(super) fn read_request(head: &[u8]) -> Result<Request, BadHead> {
    let mut headers = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    parsed.parse(head).map_err(malformed)?;
    let (method, target) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
    let (method, target) = (method.to_owned(), target.to_owned());
    let modern = parsed.version == Some(1);
    let fields = Fields::of(parsed.headers);
    if method == "CONNECT" {
        return Err(BadHead { status: 501, what: "it asks for a tunnel" });
    }
    let whole_server = method == "OPTIONS" && target == "*";
    if !target.starts_with('/') && !whole_server {
        return Err(bad("the target is no path"));
    }
    if fields.one("host", "the host is given twice")?.is_none() && modern {
        return Err(bad("the host is missing"));
    }
    let expects_continue = match fields.one("expect", "the expectation is given twice")? {
        None => false,
        Some(word) if word.eq_ignore_ascii_case("100-continue") => modern,
        Some(_) => return Err(BadHead { status: 417, what: "it expects what is not known" }),
    };
    let body = fields.framing(modern)?.unwrap_or(Framing::Length(0));
    Ok(Request { method, target, modern, fields, body, expects_continue })
}

/// Reads a whole head.
pub(super) fn read_response(head: &[u8]) -> Result<Response, BadHead> {
    let mut headers = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    parsed.parse(head).map_err(malformed)?;
    let status = parsed.code.filter(|code| (100..600).contains(code)).ok_or(bad("the status is out of range"))?;
    let reason = parsed.reason.unwrap_or_default().escape_debug().take(100).collect();
    let modern = parsed.version == Some(1);
    Ok(Response { status, reason, modern, fields: Fields::of(parsed.headers) })
}

impl Response {
    /// How its body ends, where `method` was asked for.
    pub(super) fn framing(&self, method: &str) -> Result<Framing, BadHead> {
        let given = self.fields.framing(self.modern)?;
        if method == "HEAD" || self.status < 200 || matches!(self.status, 204 | 304) {
            return Ok(Framing::Length(0));
        }
        Ok(given.unwrap_or(Framing::UntilClose))
    }
}

/// What is written for a status.
pub(super) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Status",
    }
}

/// Whether a line may stand in a head that we send: `Name: value`, not one that frames messages or
/// speaks of the connection.
pub(super) fn may_send(line: &str) -> bool {
    const OURS: [&str; 8] =
        ["connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"];
    let Some((name, value)) = line.split_once(':') else { return false };
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty()
        && name.bytes().all(token)
        && !OURS.contains(&name.to_ascii_lowercase().as_str())
        && value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}
