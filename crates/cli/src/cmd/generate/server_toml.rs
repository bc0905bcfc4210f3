//! The keys of a server's configuration file, for the page `xdfs-server.toml(5)`: key, default, meaning. The tests
//! compare them with docs/operations.md and with what the server reads.

/// Every key, as `[table] key`.
pub(super) const KEYS: &[(&str, &str, &str)] = &[
    (
        "listen",
        "[::]:2799",
        "address and port; [::] accepts IPv4 and IPv6; where the system has no IPv6 the default is 0.0.0.0:2799; no host names but localhost, which is 127.0.0.1",
    ),
    (
        "stack",
        "none",
        "drivers that every channel passes through, such as tcp,tls:certificate=/FILE;key=/FILE (docs/xio.md); clients name them with --stack",
    ),
    ("state", "as for --state", "folder of the host key and the users"),
    ("min-protection", "clear", "minimum protection level of every transfer: clear, integrity or private"),
    ("suites", "all", "cipher suites allowed for records: aes-256-gcm, chacha20-poly1305"),
    ("certificate", "none", "file of the site's certificate"),
    ("certificate-key", "none", "the private key of that certificate"),
    ("confinement", "auto", "auto, required or off"),
    ("metrics", "none", "where figures for Prometheus are answered, unix:PATH or a loopback ADDR:PORT"),
    ("[log] audit", "off", "off, stderr, or the file of the audit log"),
    ("[log] audit-failure", "go-on", "what happens when the audit log cannot be written: go-on or stop"),
    ("[log] quiet", "false", "report only problems on standard error"),
    ("[exports.NAME] directory", "required", "directory of the files; memory: for zero, random and null"),
    ("[exports.NAME] access", "rw", "ro or rw"),
    ("[exports.NAME] users", "all authenticated users", "users who may use it"),
    (
        "[exports.NAME] anonymous",
        "none",
        "what anonymous users may do: none, ro, create (new files only, nothing is replaced), rw",
    ),
    ("[exports.NAME] min-protection", "clear", "minimum protection level of its transfers"),
    ("[exports.NAME] bandwidth", "no limit", "bytes per second of all sessions together on this export"),
    (
        "[exports.NAME] keep",
        "nothing",
        "what clients may set besides content, permissions up to 0777 and times: a list of modes (setuid, setgid, sticky), owner, acl, xattr (user.; others with owner and modes), special (pipes, sockets, devices)",
    ),
    (
        "[exports.NAME] pipes",
        "false",
        "whether clients open named pipes (FIFOs), to read with the right to read, to write with the one to change existing files; and make them",
    ),
    (
        "[limits] silent",
        "4096",
        "connections that have not identified themselves (8 bytes), and channels about to join; the oldest is evicted",
    ),
    ("[limits] first-bytes-seconds", "3", "time for these 8 bytes"),
    (
        "[limits] logins-soft",
        "64",
        "concurrent logins above which a new one evicts the oldest login of the source with the most",
    ),
    ("[limits] logins", "256", "concurrent logins"),
    ("[limits] logins-per-source", "16", "concurrent logins of one IPv4 address, or one /56 of IPv6"),
    ("[limits] opening-seconds", "10", "time from accept to session, whatever is sent"),
    ("[limits] penalty-sources", "65536", "sources whose wrong passwords are remembered"),
    ("[limits] sessions", "4096", "concurrent sessions"),
    ("[limits] sessions-per-user", "32", "sessions of one user; of one source, for anonymous users"),
    ("[limits] channels", "1024", "channels of a session, at most 4096"),
    ("[limits] channels-per-user", "4096", "channels of all sessions of one user; of one source, for anonymous users"),
    (
        "[limits] channels-in-all",
        "65536",
        "channels of all sessions; five eighths of the open-file limit if that is less",
    ),
    (
        "[limits] pipelines-per-user",
        "64",
        "pipelines of all sessions of one user, beyond which a session gets one; sessions with several pipelines keep their threads",
    ),
    (
        "[limits] visitors-percent",
        "75",
        "share of sessions and channels-in-all available to all anonymous users together; the rest is for authenticated users",
    ),
    (
        "[limits] idle-seconds",
        "600",
        "a session without any operation ends after this time, unless it holds a lock, has a named pipe open or shuts others out of a file; a connection whose host is gone ends within two minutes (TCP keepalive)",
    ),
    ("[limits] drain-seconds", "30", "time for running transfers to finish when the server is stopped"),
    (
        "[limits] audit-bytes-per-second",
        "8388608",
        "rate at which one user (one source, for anonymous users) may make the audit log grow; faster users wait, for at most ten minutes",
    ),
    (
        "[limits] parts-per-user",
        "256",
        "part files that each export keeps of one user's interrupted transfers (one source's, for anonymous users), at most 4096; the oldest are removed first",
    ),
    ("[limits] part-bytes-per-user", "1099511627776", "bytes that these part files take"),
    (
        "[limits] lease-seconds",
        "none",
        "how long a lease on an open file holds unless it is renewed, at most 3600; without it none is granted. A client that does not answer makes others wait for so long, and so does the start of the server. Read at the start only",
    ),
    (
        "[limits] bandwidth-per-user",
        "no limit",
        "bytes per second that all sessions of one user move together; of one source, for anonymous users",
    ),
];
