//! The keys of the clients' configuration file, for the page `xdfs-config(5)`: key, value, and what holds without it. The
//! tests compare them with docs/config.md.

/// Every key of `[hosts.NAME]`.
pub(super) const KEYS: &[(&str, &str, &str)] = &[
    ("address", "HOST, HOST:PORT, [IPv6]:PORT, or ssh://HOST for a machine that ssh reaches", "required"),
    ("user", "the user who logs in", "your local name, where the server is known"),
    ("export", "the export of NAME:path", "only NAME:/EXPORT/path can be written"),
    (
        "identity",
        "the private key to log in with; ~/ is your home, other relative paths start at the file's folder",
        "the keys of the SSH agent, your own, ~/.ssh/id_ed25519",
    ),
    ("host-key", "the server's fingerprint, the only one that is trusted", "the known servers (xdfs trust list)"),
    ("channels", "parallel TCP channels, 1 to 4096", "4"),
    ("protection", "private, integrity or clear", "private"),
    (
        "bandwidth",
        "the limit of copies, as --bwlimit takes it: 10M, or 08:00,10M 19:00,off; --bwlimit off copies without it, and FTP \
         servers are copied to and from without it",
        "no limit",
    ),
    ("stack", "drivers that every channel passes through, the same as at the server, such as tcp,tls", "none"),
];

/// A file of two servers.
pub(super) const EXAMPLE: [&str; 9] = [
    "[hosts.lab]",
    "address = \"storage.example.org\"",
    "user = \"anna\"",
    "export = \"data\"",
    "identity = \"~/.ssh/id_lab\"",
    "channels = 8",
    "",
    "[hosts.far]",
    "address = \"ssh://far.example.org\"",
];
