//! What can go wrong in a bench run. Every variant names the thing that failed, because the reader of the message
//! sits in front of eight programs at once.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Result of everything in this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// How a program of this crate ends; what went wrong is told on standard error.
pub fn exit_code(program: &str, outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A failure of the bench itself, of a peer, or of a check.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call on a named thing failed.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted, with the path or address.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A program is not installed.
    #[error("{program} is not installed: Debian has it in `{package}` (xdfs-bench --install fetches it)")]
    Missing {
        /// Name of the program.
        program: String,
        /// Debian package that carries it.
        package: &'static str,
    },
    /// A program of the bench is not beside it.
    #[error("no {}: build it with `cargo build --release -p xdfs-bench --features passthrough`", path.display())]
    NotBuilt {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The xdfs binary is not where it was looked for.
    #[error("no xdfs at {}: build it with `cargo build --release -p xdfs` or give --xdfs PATH", path.display())]
    NoXdfs {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A program ended with a failure.
    #[error("{command}\n  ended with {status}\n  {output}")]
    Failed {
        /// The command line.
        command: String,
        /// Exit status.
        status: String,
        /// Last lines it wrote.
        output: String,
    },
    /// A program did not end in time.
    #[error("{command}\n  did not finish within {seconds} s")]
    Deadline {
        /// The command line.
        command: String,
        /// The bound in seconds.
        seconds: u64,
    },
    /// A program said something that could not be understood.
    #[error("{program} printed no usable result: {detail}")]
    Unreadable {
        /// Which program.
        program: String,
        /// What was missing.
        detail: String,
    },
    /// A result was wrong: bytes missing, bytes changed, bytes that never crossed the network.
    #[error("{system}: {detail}")]
    Wrong {
        /// Which system.
        system: String,
        /// What did not agree.
        detail: String,
    },
    /// The peer of the bound program broke its tiny protocol.
    #[error("bound: the other side {0}")]
    Bound(&'static str),
    /// TLS could not be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The client's crate could not do what was asked of it.
    #[error("xdfs-client: {0}")]
    Client(#[from] xdfs_client::Error),
    /// The user stopped the run.
    #[error("interrupted")]
    Interrupted,
}

/// Adds the name of the thing to a system error.
pub trait Context<T> {
    /// `what` is only evaluated when there is an error.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io { what: what(), source: source.into() })
    }
}
