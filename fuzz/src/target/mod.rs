//! What is fed. A target panics where a promise is broken; it must not look at a clock or keep anything between two runs.

mod canary;
mod decoders;
mod ftp;
mod gsi;
mod kept;
mod openings;
mod session;
mod texts;
mod xio;

pub(crate) use openings::{prefaces, wishes};
pub(crate) use session::program;

/// How much of the heap a run may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Memory {
    /// At its peak four times the input and 64 KiB: a decoder must not believe a length.
    Decoder,
    /// The target looks after itself; 64 MiB are too much for any.
    Own,
}

/// One fuzz target: a function that panics where a promise is broken.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// Name, and name of its folder in the corpus.
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]),
    pub(crate) memory: Memory,
    /// Its part of a short run's executions, of the sum of all of them: smaller where a run takes long, as each of an opening
    /// inside TLS does (a handshake).
    pub(crate) share: u32,
}

const fn decoder(name: &'static str, run: fn(&[u8]), share: u32) -> Target {
    Target { name, run, memory: Memory::Decoder, share }
}

/// Every target.
pub(crate) const TARGETS: &[Target] = &[
    decoder("preface", decoders::preface, 60),
    decoder("handshake", decoders::handshake, 80),
    decoder("open", decoders::open, 100),
    decoder("accept", decoders::accept, 90),
    decoder("login", decoders::login, 30),
    decoder("refuse", decoders::refuse, 40),
    decoder("join", decoders::join, 30),
    decoder("head", decoders::head, 60),
    decoder("control", decoders::control, 140),
    decoder("request", decoders::request, 90),
    decoder("batch", decoders::batch, 60),
    decoder("reply", decoders::reply, 60),
    decoder("file-batch", decoders::file_batch, 60),
    decoder("file-reply", decoders::file_reply, 60),
    decoder("path", decoders::path, 60),
    decoder("integers", decoders::integers, 40),
    decoder("scram", texts::scram, 30),
    decoder("token", texts::token, 18),
    // The library sets up to 1 MiB aside for a key's own lengths; the files are the user's, and read one at a time.
    Target { name: "keys", run: texts::keys, memory: Memory::Own, share: 10 },
    decoder("known-hosts", texts::known_hosts, 12),
    Target { name: "config", run: texts::config, memory: Memory::Own, share: 8 },
    // It writes what it read, and reads that, too.
    Target { name: "journal", run: kept::journal, memory: Memory::Own, share: 40 },
    Target { name: "agent", run: kept::agent, memory: Memory::Own, share: 40 },
    decoder("certificate", kept::certificate, 40),
    Target { name: "users", run: kept::users, memory: Memory::Own, share: 8 },
    // Names and replies are kept in vectors of their own, which a short input has many of.
    Target { name: "ftp-control", run: ftp::control, memory: Memory::Own, share: 30 },
    Target { name: "ftp-listing", run: ftp::listing, memory: Memory::Own, share: 20 },
    Target { name: "ftp-tokens", run: ftp::tokens, memory: Memory::Own, share: 20 },
    Target { name: "ftp-ahead", run: ftp::ahead, memory: Memory::Own, share: 20 },
    Target { name: "ftp-markers", run: ftp::markers, memory: Memory::Own, share: 20 },
    Target { name: "mode-e", run: ftp::mode_e, memory: Memory::Own, share: 30 },
    // Certificates are taken apart into trees, and the library that checks them has copies.
    Target { name: "gsi-chain", run: gsi::chain, memory: Memory::Own, share: 10 },
    Target { name: "gsi-policy", run: gsi::policy, memory: Memory::Own, share: 20 },
    Target { name: "gsi-request", run: gsi::request, memory: Memory::Own, share: 20 },
    Target { name: "gsi-stream", run: gsi::stream, memory: Memory::Own, share: 4 },
    Target { name: "gsi-inside", run: gsi::inside, memory: Memory::Own, share: 2 },
    // Parts are texts of their own, and are written anew.
    Target { name: "xio-contact", run: xio::contact, memory: Memory::Own, share: 40 },
    Target { name: "xio-stack", run: xio::stack, memory: Memory::Own, share: 10 },
    // Each end has a buffer of 64 KiB.
    Target { name: "http-request", run: xio::request, memory: Memory::Own, share: 12 },
    Target { name: "http-response", run: xio::response, memory: Memory::Own, share: 12 },
    Target { name: "urls", run: kept::urls, memory: Memory::Own, share: 40 },
    Target { name: "server-opening", run: openings::server, memory: Memory::Own, share: 10 },
    Target { name: "server-inside", run: openings::server_inside, memory: Memory::Own, share: 4 },
    Target { name: "client-inside", run: openings::client_inside, memory: Memory::Own, share: 4 },
    Target { name: "session", run: session::run, memory: Memory::Own, share: 4 },
];

/// Targets that are broken on purpose; the run is worth nothing unless each is found out.
pub(crate) const CANARIES: &[Target] = &[
    decoder("canary-panic", canary::panics, 0),
    decoder("canary-memory", canary::believes_a_length, 0),
    Target { name: "canary-session", run: canary::forgets_a_limit, memory: Memory::Own, share: 0 },
];
