//! Contact strings, stacks, and heads and bodies of HTTP, with lies of each kind.

use super::Seed;

/// Every seed.
pub(super) fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let contacts = [
        ("port", "localhost:5000"),
        ("path", "some/file"),
        ("file", "file:/a%20b"),
        ("address", "[::1]:ftp"),
        ("everything", "gsiftp://me:a%40b@</O=Grid/CN=host/x:y@z>[fe80::1]:2811//root/f"),
        ("subject", "ftp://</CN=x>h/"),
        ("long-password", "ftp://u:a-long-password@h/"),
        ("bracket", "ftp://[::1/a"),
        ("escape", "ftp://h/%4"),
        ("colons", "::1:5000"),
    ];
    seeds.extend(contacts.map(|(name, text)| ("xio-contact", name.to_owned(), text.into())));
    let stacks = [
        ("tcp", "tcp"),
        ("attributes", "tcp:window=64KiB;delay=false,rate=100MB/s,tls:trust=/a;name=b"),
        ("times", "unix,fault:seed=1;delay=5ms;blocked=300"),
        ("transform", "noop,tcp"),
        ("two", "tcp,noop,unix"),
        ("nobody", "tcp,nobody"),
        ("many", &format!("tcp{}", ",noop".repeat(64))),
    ];
    seeds.extend(stacks.map(|(name, text)| ("xio-stack", name.to_owned(), text.into())));
    let post = |fields: &str, body: &str| format!("POST /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n{body}");
    let requests = [
        ("get", "GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_owned()),
        ("old", "GET / HTTP/1.0\r\n\r\n".to_owned()),
        ("length", post("Content-Length: 5", "hello")),
        ("chunks", post("Transfer-Encoding: chunked", "5;a=b\r\nhello\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n")),
        ("expects", post("Expect: 100-continue\r\nContent-Length: 1", "x")),
        ("both", post("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n")),
        ("twice", post("Content-Length: 5\r\nContent-Length: 6", "hello!")),
        ("folded", post("X: a\r\n b", "")),
        ("line-feed", post("X: a\nTransfer-Encoding: chunked", "0\r\n\r\n")),
        ("chunk-lies", post("Transfer-Encoding: chunked", "6\r\nhello\r\n0\r\n\r\n")),
        ("chunk-large", post("Transfer-Encoding: chunked", "FFFFFFFFFFFFFFFF\r\nhello")),
        ("cut", post("Content-Length: 9", "hello")),
    ];
    seeds.extend(requests.map(|(name, text)| ("http-request", name.to_owned(), pieces(&text))));
    let answer = |fields: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{body}");
    let responses = [
        ("length", answer("Content-Length: 2", "ok")),
        ("chunks", answer("Transfer-Encoding: chunked", "2\r\nok\r\n0\r\n\r\n")),
        ("until-close", answer("X: y", "ok")),
        ("continued", format!("HTTP/1.1 100 Continue\r\n\r\n{}", answer("Content-Length: 0", ""))),
        ("missing", "HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx".to_owned()),
        ("odd-status", "HTTP/1.1 099 Odd\r\n\r\n".to_owned()),
        ("both", answer("Content-Length: 2\r\nTransfer-Encoding: chunked", "0\r\n\r\n")),
    ];
    seeds.extend(responses.map(|(name, text)| ("http-response", name.to_owned(), pieces(&text))));
    seeds
}

/// The text, which comes in pieces of three bytes.
fn pieces(text: &str) -> Vec<u8> {
    [&[2], text.as_bytes()].concat()
}
