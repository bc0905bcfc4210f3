//! The words of `xdfs user`: who may log in to the server whose state is here.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::StateArgs;
use crate::calendar::{Expiry, parse_expiry};

const USER_EXAMPLES: &str = "\
Examples:
  xdfs user add anna --key anna.pub          the line that 'xdfs key show' gave her
  xdfs user add bert --password              asked for on the terminal
  xdfs user add carl --password-file secret  the first line of that file
  xdfs user key bert bert.pub                one more way in, for who is there
  xdfs user token anna --export data --path run7 --write --expires 7d
  xdfs user list
  xdfs user revoke anna

A server that runs on the same state applies each change to the next connection, and ends
the sessions that it would not let in any more. Only public halves and what
checks a password are kept: the file of users logs nobody in.";

/// Says who may log in to the server whose state is here.
#[derive(Args, Debug)]
#[command(after_help = USER_EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct UserArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: UserCommand,
}

/// What `xdfs user` does.
#[derive(Subcommand, Debug)]
pub(crate) enum UserCommand {
    /// Add a user
    Add(UserAddArgs),
    /// Add keys to a user
    Key(UserKeyArgs),
    /// Set a user's password
    Password(UserPasswordArgs),
    /// Make a token: a login with limits, for a program
    Token(UserTokenArgs),
    /// Show who may log in, and how
    List(UserListArgs),
    /// Take a login away: all of a user's, or one
    Revoke(UserRevokeArgs),
    /// Let a revoked user in again, with what they had
    Restore(UserRestoreArgs),
}

/// Adds a user with keys, a password or both; tokens are made afterwards. Without an option nothing logs them in yet.
#[derive(Args, Debug)]
pub(crate) struct UserAddArgs {
    /// The name: letters, digits, '.', '_' and '-'
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// A public key file, or one in the form of authorized_keys; '-' is standard input; may be repeated
    #[arg(long = "key", value_name = "FILE.pub")]
    pub(crate) keys: Vec<PathBuf>,

    /// Ask for a password on the terminal
    #[arg(long, conflicts_with = "password_file")]
    pub(crate) password: bool,

    /// Take the password from the first line of FILE, which nobody else may read
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Adds keys to a user; the others stay.
#[derive(Args, Debug)]
pub(crate) struct UserKeyArgs {
    /// The user
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Public key files, or such in the form of authorized_keys; '-' is standard input
    #[arg(value_name = "FILE.pub", required = true)]
    pub(crate) keys: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Sets a user's password. Sessions that were opened with the old one end.
#[derive(Args, Debug)]
pub(crate) struct UserPasswordArgs {
    /// The user
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Take the password from the first line of FILE, which nobody else may read; without it, it is asked for
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

const TOKEN_EXAMPLES: &str = "\
Examples:
  xdfs user token anna --export data --out token
  xdfs user token anna --export data --path run7/in --write --expires 12h

The client finds a token in XDFS_TOKEN, or in the file that XDFS_TOKEN_FILE
names; it needs no user in the URL. A token is shown once, when it is made: the
server keeps its public half alone.";

/// Makes a token of a user: it opens one path of one export, until it runs out or is revoked.
#[derive(Args, Debug)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(crate) struct UserTokenArgs {
    /// The user
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The export that it opens
    #[arg(long, value_name = "NAME")]
    pub(crate) export: String,

    /// The path in the export that it opens, with all below; without it the whole export. %XX stands for a byte
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    pub(crate) path: String,

    /// It may read (what it may do without this option, too)
    #[arg(long, conflicts_with = "write")]
    pub(crate) read: bool,

    /// It may read and write
    #[arg(long)]
    pub(crate) write: bool,

    /// When it runs out: in so many minutes, hours, days or weeks (30m, 12h, 7d, 4w), or on a day (2027-01-31, UTC)
    #[arg(long, value_name = "WHEN", default_value = "30d", value_parser = parse_expiry)]
    pub(crate) expires: Expiry,

    /// Write the token to FILE, for its owner alone, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Shows the users with their keys and tokens.
#[derive(Args, Debug)]
pub(crate) struct UserListArgs {
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Takes a login away. Without an option all of the user's: they stay in the list as revoked. Sessions that were opened
/// with it end.
#[derive(Args, Debug)]
pub(crate) struct UserRevokeArgs {
    /// The user
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// This key or token alone, by its fingerprint as 'xdfs user list' shows it
    #[arg(long, value_name = "SHA256:...", visible_alias = "token")]
    pub(crate) key: Option<String>,

    /// The password alone
    #[arg(long, conflicts_with = "key")]
    pub(crate) password: bool,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Lets a revoked user in again.
#[derive(Args, Debug)]
pub(crate) struct UserRestoreArgs {
    /// The user
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}
