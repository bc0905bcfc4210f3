//! Options of `xdfs generate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Writes generated documentation into a directory.
#[derive(Args, Debug)]
pub(crate) struct GenerateArgs {
    /// What to write
    #[arg(value_enum)]
    pub(crate) what: Generated,
    /// Where to
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// What `generate` writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Generated {
    /// The man pages, in the directories man1 and man5
    Man,
    /// Completions for bash, zsh and fish
    Completions,
}
