//! `xdfs complete`, which the scripts of the shells call.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

/// Lists names on servers that complete a command line.
#[derive(Args, Debug)]
pub(crate) struct CompleteArgs {
    /// The shell whose script asks
    #[arg(value_enum)]
    pub(crate) shell: AskingShell,

    /// For bash the line up to the cursor, and the end of it that is replaced; for the others the words up to the cursor,
    /// without quotes
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    pub(crate) words: Vec<OsString>,
}

/// A shell with completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum AskingShell {
    /// GNU bash
    Bash,
    /// The Z shell
    Zsh,
    /// fish
    Fish,
}
