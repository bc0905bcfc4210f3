//! The rules of the layers, as tables with reasons. Nothing here computes.

mod circles;

pub(super) use circles::{CIRCLES, Circle};

/// What a crate below `crates/`, `stores/` or `bindings/` may depend on.
#[derive(Debug)]
pub(super) struct CrateRule {
    /// Its package name.
    pub(super) name: &'static str,
    /// Packages of ours.
    pub(super) ours: &'static [&'static str],
    /// Foreign packages.
    pub(super) foreign: &'static [&'static str],
    /// The rule in one sentence.
    pub(super) why: &'static str,
}

/// The arrows: proto <- io; io <- stores <- server; io, secure <- xio; proto, secure, io <- engine <- client, server <- cli <- bindings/python.
pub(super) const CRATES: &[CrateRule] = &[
    CrateRule {
        name: "xdfs-proto",
        ours: &[],
        foreign: &[],
        why: "the protocol stands alone, so that it runs unchanged in the simulator and in the model checker",
    },
    CrateRule {
        name: "xdfs-secure",
        ours: &["xdfs-proto"],
        foreign: &[
            "aws-lc-rs",
            "base64ct",
            "blake3",
            "getrandom",
            "rcgen",
            "rustls",
            "ssh-key",
            "stringprep",
            "thiserror",
            "x509-cert",
            "zeroize",
        ],
        why: "cryptography knows the protocol's heads and nothing of sockets or files",
    },
    CrateRule {
        name: "xdfs-io",
        ours: &["xdfs-proto"],
        foreign: &["libc", "rustix", "thiserror"],
        why: "drivers meet the kernel; of the protocol they know ids, extents, paths and error kinds",
    },
    CrateRule {
        name: "xdfs-xio",
        ours: &["xdfs-io", "xdfs-secure"],
        // httparse: heads of HTTP; libloading: drivers that come as files; zstd: the compressed stream; futures-io and tokio:
        // traits, by features.
        foreign: &["futures-io", "httparse", "libloading", "rustix", "thiserror", "tokio", "zstd"],
        why: "the framework stacks drivers above io, has TLS from secure and knows nothing of the protocol of xdfs",
    },
    CrateRule {
        name: "xdfs-capi",
        ours: &["xdfs-gridftp", "xdfs-xio"],
        foreign: &[],
        why: "the C library offers the framework and our drivers to C and adds nothing to them",
    },
    CrateRule {
        name: "xdfs-perf",
        ours: &["xdfs-gridftp", "xdfs-xio"],
        foreign: &["clap", "getrandom", "indicatif", "serde_json", "signal-hook"],
        why: "xioperf does all its input and output through the framework, as any program would (PERF-24)",
    },
    CrateRule {
        name: "xdfs-gridftp",
        ours: &["xdfs-secure", "xdfs-xio"],
        // base64ct: tokens of GSI on the control channel.
        foreign: &["base64ct", "rustix", "thiserror"],
        why: "FTP is a protocol of its own: its machines know nothing of xdfs, its client only sockets and TLS, and its \
              drivers the framework",
    },
    CrateRule {
        name: "xdfs-engine",
        ours: &["xdfs-proto", "xdfs-secure", "xdfs-io"],
        // bytes: batches and replies, whose memory is used again when nobody reads them any more.
        foreign: &["bytes", "thiserror"],
        why: "the engine joins protocol and kernel and knows neither client nor server",
    },
    CrateRule {
        name: "xdfs-client",
        ours: &["xdfs-proto", "xdfs-secure", "xdfs-io", "xdfs-engine"],
        // bytes: files of a reply, without a copy; tempfile: lists of a tree that have to wait for its end.
        foreign: &["bytes", "tempfile", "thiserror"],
        why: "the client stands on the engine and does not know the server",
    },
    CrateRule {
        name: "xdfs-store-example",
        ours: &["xdfs-proto", "xdfs-io"],
        foreign: &[],
        why: "a store in a crate of its own implements the traits of io and knows neither engine nor server; what its \
              service needs is listed here",
    },
    CrateRule {
        name: "xdfs-server",
        // Stores: each is one line of src/stores.rs.
        ours: &["xdfs-proto", "xdfs-secure", "xdfs-io", "xdfs-engine"],
        // toml, serde: the configuration; serde_json: the audit log; landlock, seccompiler, rustix, libc (numbers of
        // system calls): what the process gives up.
        foreign: &[
            "bytes",
            "httparse",
            "landlock",
            "libc",
            "rustix",
            "seccompiler",
            "serde",
            "serde_json",
            "thiserror",
            "toml",
        ],
        why: "the server stands on the engine and does not know the client",
    },
    CrateRule {
        name: "xdfs-mount",
        ours: &["xdfs-client"],
        // rustix: mount(2), and the descriptor on which the kernel asks.
        foreign: &["bytes", "rustix", "thiserror"],
        why: "the mount is a program above the client: between it and the kernel there is nothing of the protocol of xdfs",
    },
    CrateRule {
        name: "xdfs",
        // xdfs-xio: the drivers that a person puts below channels.
        ours: &[
            "xdfs-proto",
            "xdfs-secure",
            "xdfs-io",
            "xdfs-xio",
            "xdfs-client",
            "xdfs-mount",
            "xdfs-gridftp",
            "xdfs-server",
        ],
        foreign: &[
            "clap",
            "clap_complete",
            "clap_mangen",
            // Patterns of names, as people know them.
            "ignore",
            "indicatif",
            "jiff",
            // The allocator of the static program.
            "mimalloc",
            "rustix",
            "serde",
            "serde_json",
            "signal-hook",
            "thiserror",
            // The configuration of the clients.
            "toml",
        ],
        why: "the command speaks to client and server; what it needs of the engine they offer, and keys it only makes, \
              shows and converts",
    },
    CrateRule {
        name: "xdfs-python",
        ours: &["xdfs", "xdfs-client"],
        // pyo3: the interpreter; rustix: which thread handles signals, numbers of errors.
        foreign: &["pyo3", "rustix"],
        why: "the Python package is the client in another language; login it has from the command's library",
    },
];

/// Packages of ours that any crate may use in its own tests and examples: a client is shown with a server, a server with a
/// store of a crate of its own, a store passes the suite of stores, and a test says what it needs of the machine.
pub(super) const TESTED_TOGETHER: &[&str] =
    &["xdfs-client", "xdfs-server", "xdfs-store-example", "xdfs-test-conformance", "xdfs-test-needs"];

/// Foreign packages that any crate may use in its own tests (`rustix`: connections from addresses of their choice; `rcgen`:
/// certificates as a site has them; `tempfile`: directories whose names no earlier run has left).
pub(super) const DEVELOPMENT: &[&str] = &["proptest", "rcgen", "rustix", "serde_json", "tempfile"];

/// What follows a word for a rule to hold it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    /// The words of a path, `["std", "fs"]` for `std::fs`, wherever they appear.
    Path(&'static [&'static str]),
    /// The first path, unless it goes on like the second: `xdfs_proto` but not `xdfs_proto::base`.
    PathBut(&'static [&'static str], &'static [&'static str]),
}

/// Something that only some places may use.
#[derive(Debug)]
pub(super) struct SourceRule {
    /// What is looked for.
    pub(super) what: Use,
    /// Prefixes of paths to which the rule applies.
    pub(super) applies: &'static [&'static str],
    /// Prefixes of paths that may use it, each with the reason.
    pub(super) except: &'static [(&'static str, &'static str)],
    /// True where code under `#[cfg(test)]` and in files of tests is let off.
    pub(super) tests_may: bool,
    /// The rule in one sentence.
    pub(super) why: &'static str,
}

/// Everything that is Rust.
const ALL: &[&str] = &[""];

/// The product.
const PRODUCT: &[&str] = &["crates/", "stores/"];

/// Where calls may stand that only Linux has.
const LINUX: &[(&str, &str)] = &[
    ("crates/io/", "everything that touches the kernel"),
    ("crates/server/src/privilege/", "what a server gives up, which every system has its own way for"),
    ("crates/gridftp/src/driver/", "a driver serves the systems that it can"),
    ("crates/xio/src/drivers/", "a driver serves the systems that it can"),
    ("crates/xio/src/handle/core.rs", "wakes the reactor"),
    ("crates/xio/src/load/blocking.rs", "tells the handle what its threads did"),
    ("crates/xio/src/handle/reactor.rs", "waits for descriptors as Linux does"),
    ("crates/xio/src/server.rs", "wakes the reactor"),
    ("crates/cli/src/cmd/cp/input.rs", "one pipe into another without a copy"),
    ("crates/cli/src/cmd/demo/bound.rs", "a bare socket copy to compare with, as fast as Linux can"),
    ("crates/cli/src/cmd/notify.rs", "systemd's socket may have an abstract name"),
    ("crates/cli/src/cmd/remote.rs", "asks for a congestion control by name"),
];

/// Why.
const LINUX_WHY: &str =
    "a client for another system needs another crates/io, and nothing else: what only Linux has stays there";

/// Those who hold sessions and do not drive them.
const ENDS: &[&str] = &["crates/client/src/", "crates/server/src/"];

/// Why.
const ENDS_WHY: &str = "the machine of a session is driven in crates/engine alone: by the pump, and while no thread \
                        serves it by IdlePipeline";

/// The rules for sources.
pub(super) const SOURCES: &[SourceRule] = &[
    SourceRule {
        what: Use::Path(&["unsafe"]),
        applies: ALL,
        except: &[
            ("crates/io/src/sys/", "system calls that rustix does not offer"),
            ("crates/io/src/buf/", "aligned memory for the buffer pool"),
            ("crates/xio/src/load/", "calls of drivers that were written in another language"),
            ("drivers/skeleton-rust/src/driver.rs", "the interface of drivers that are loaded, as a driver sees it"),
            ("crates/capi/src/", "names that C calls, and its memory, which the module memory alone touches"),
            ("fuzz/src/heap.rs", "an allocator that counts, in a program that no release contains"),
        ],
        tests_may: false,
        why: "unsafe code lives in io's sys and buf, where xio calls loaded drivers and in the C library, where it is reviewed as such",
    },
    SourceRule {
        what: Use::PathBut(&["xdfs_proto"], &["base"]),
        applies: &["crates/io/"],
        except: &[],
        tests_may: false,
        why: "io may use of the protocol only xdfs_proto::base (write the whole path): a driver's author never meets it",
    },
    SourceRule {
        what: Use::Path(&["aws_lc_rs"]),
        applies: PRODUCT,
        except: &[("crates/secure/", "the only crate with cryptography")],
        tests_may: false,
        why: "cryptography lives in crates/secure alone",
    },
    SourceRule {
        what: Use::Path(&["rustls"]),
        applies: PRODUCT,
        except: &[("crates/secure/src/handshake/tls", "the one module that knows rustls, whose interface changes")],
        tests_may: false,
        why: "rustls stays behind one module",
    },
    SourceRule {
        what: Use::PathBut(&["xdfs_secure", "record"], &["Limits"]),
        applies: ENDS,
        except: &[],
        tests_may: true,
        why: "records are sealed and opened in crates/engine alone: client and server hold a RecordLayer",
    },
    SourceRule { what: Use::Path(&["Head", "decode"]), applies: ENDS, except: &[], tests_may: true, why: ENDS_WHY },
    SourceRule { what: Use::Path(&["on_control"]), applies: ENDS, except: &[], tests_may: true, why: ENDS_WHY },
    SourceRule { what: Use::Path(&["poll_idle"]), applies: ENDS, except: &[], tests_may: true, why: ENDS_WHY },
    SourceRule {
        what: Use::Path(&["std"]),
        applies: &["crates/proto/src/"],
        except: &[],
        tests_may: true,
        why: "the protocol has no standard library: no clock, no socket, no file, no order that differs from run to run",
    },
    SourceRule {
        what: Use::PathBut(&["std", "fs"], &["File"]),
        applies: PRODUCT,
        except: &[
            ("crates/io/src/store/resolve", "the one resolver of names"),
            ("crates/io/src/transport/congestion.rs", "asks the kernel for the system's default: one fixed name"),
            ("crates/cli/src/cmd/remote.rs", "asks the kernel for the controls it has: one fixed name"),
            ("crates/cli/src/ask.rs", "opens the terminal of the process: one fixed name"),
            ("crates/cli/src/cmd/cp/items.rs", "follows a link that the user named, before a store is opened above it"),
            ("crates/cli/src/cmd/demo/", "works in a folder that it made itself"),
            (
                "crates/xio/src/credentials.rs",
                "reads the user's proxy and the site's authorities, as all programs of grids do",
            ),
            ("crates/cli/src/cmd/generate/mod.rs", "writes the manual pages and completions where the packager says"),
        ],
        tests_may: true,
        why: "names are resolved in one place, crates/io/src/store/resolve*.rs, with held directories",
    },
    SourceRule {
        what: Use::Path(&["openat"]),
        applies: PRODUCT,
        except: &[("crates/io/src/store/resolve", "the one resolver of names")],
        tests_may: true,
        why: "names are resolved in one place, crates/io/src/store/resolve*.rs, with openat2",
    },
    SourceRule {
        what: Use::Path(&["openat2"]),
        applies: PRODUCT,
        except: &[("crates/io/src/store/resolve", "the one resolver of names")],
        tests_may: true,
        why: "names are resolved in one place, crates/io/src/store/resolve*.rs",
    },
    SourceRule {
        what: Use::Path(&["SystemTime"]),
        applies: PRODUCT,
        except: &[
            ("crates/cli/src/calendar.rs", "dates that people type and read"),
            ("crates/cli/src/cmd/cp/unfinished.rs", "the age of a note that another process left"),
            ("crates/cli/src/cmd/ftp/records.rs", "the age of a record that another process left"),
            ("crates/cli/src/cmd/demo/file.rs", "a seed"),
            ("crates/xio/src/credentials.rs", "from when until when certificates are good"),
            ("crates/server/src/audit/", "the time in a line of the log"),
            ("crates/server/src/clock.rs", "times of files and tokens, and one that never goes back"),
            ("crates/server/src/recovery.rs", "the age of files, whose times are those of this clock"),
        ],
        tests_may: true,
        why: "deadlines and waits are of the monotonic clock: somebody may set this one an hour back or forward",
    },
    SourceRule {
        what: Use::Path(&["CWD"]),
        applies: PRODUCT,
        except: &[("crates/io/src/store/resolve", "the one resolver of names opens the export's root once")],
        tests_may: true,
        why: "the working directory is no base for names: they start at a held directory",
    },
    SourceRule { what: Use::Path(&["pidfd_open"]), applies: PRODUCT, except: LINUX, tests_may: true, why: LINUX_WHY },
    SourceRule { what: Use::Path(&["epoll"]), applies: PRODUCT, except: LINUX, tests_may: true, why: LINUX_WHY },
    SourceRule { what: Use::Path(&["eventfd"]), applies: PRODUCT, except: LINUX, tests_may: true, why: LINUX_WHY },
    SourceRule { what: Use::Path(&["SpliceFlags"]), applies: PRODUCT, except: LINUX, tests_may: true, why: LINUX_WHY },
    SourceRule {
        what: Use::Path(&["FallocateFlags"]),
        applies: PRODUCT,
        except: LINUX,
        tests_may: true,
        why: LINUX_WHY,
    },
    SourceRule { what: Use::Path(&["StatxFlags"]), applies: PRODUCT, except: LINUX, tests_may: true, why: LINUX_WHY },
    SourceRule { what: Use::Path(&["memfd_create"]), applies: PRODUCT, except: LINUX, tests_may: true, why: LINUX_WHY },
    SourceRule { what: Use::Path(&["inotify"]), applies: PRODUCT, except: LINUX, tests_may: true, why: LINUX_WHY },
    SourceRule {
        what: Use::Path(&["timerfd_create"]),
        applies: PRODUCT,
        except: LINUX,
        tests_may: true,
        why: LINUX_WHY,
    },
    SourceRule {
        what: Use::Path(&["std", "os", "linux"]),
        applies: PRODUCT,
        except: LINUX,
        tests_may: true,
        why: LINUX_WHY,
    },
    SourceRule { what: Use::Path(&["landlock"]), applies: PRODUCT, except: LINUX, tests_may: true, why: LINUX_WHY },
    SourceRule { what: Use::Path(&["seccompiler"]), applies: PRODUCT, except: LINUX, tests_may: true, why: LINUX_WHY },
    SourceRule {
        what: Use::Path(&["set_tcp_congestion"]),
        applies: PRODUCT,
        except: LINUX,
        tests_may: true,
        why: LINUX_WHY,
    },
];
