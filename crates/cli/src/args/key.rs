//! The words of `xdfs key`: who I am.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{StateArgs, TrustPinArgs};

const KEY_EXAMPLES: &str = "\
Examples:
  xdfs key create                      once on each machine that you work on
  xdfs key show                        what you hand to a server's administrator
  xdfs key show --host                 a server's own key, for its clients to compare
  xdfs key import site.pem             a key that came as PKCS#8
  xdfs key export --out me.crt --private me.key

Keys are Ed25519 keys in OpenSSH's format. Which key is offered to a server:
the one of --identity or XDFS_IDENTITY; or else, one after the other, those of
the SSH agent, your own (made here), and ~/.ssh/id_ed25519.";

/// Makes, shows and converts keys: who you are for servers, and who a server is for its clients.
#[derive(Args, Debug)]
#[command(after_help = KEY_EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct KeyArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

/// What `xdfs key` does.
#[derive(Subcommand, Debug)]
pub(crate) enum KeyCommand {
    /// Make a key of your own
    Create(KeyCreateArgs),
    /// Show a key's public half and fingerprint
    Show(KeyShowArgs),
    /// Trust a server's key (the same as 'xdfs trust pin')
    Trust(TrustPinArgs),
    /// Take over a private key from a PKCS#8 file (PEM)
    Import(KeyImportArgs),
    /// Write a key as an X.509 certificate (PEM), and the private half as PKCS#8
    Export(KeyExportArgs),
}

/// Where a new key goes.
#[derive(Args, Debug)]
pub(crate) struct KeepArgs {
    /// Write the key to FILE and its public half to FILE.pub, instead of keeping it as your own
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// What the public half says whose it is; without it your name and that of the machine
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,

    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Makes an Ed25519 key without a passphrase. For one with a passphrase use 'ssh-keygen -t ed25519': xdfs reads it.
#[derive(Args, Debug)]
pub(crate) struct KeyCreateArgs {
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
}

/// Shows a public key: on standard output the line that 'xdfs user add NAME --key' takes, on standard error the
/// fingerprint and where the key is.
#[derive(Args, Debug)]
pub(crate) struct KeyShowArgs {
    /// A private or public key file; without it the first key that would be offered to a server
    #[arg(value_name = "FILE", conflicts_with_all = ["host", "all"])]
    pub(crate) file: Option<PathBuf>,

    /// The host key of the server whose state is here
    #[arg(long, conflicts_with = "all")]
    pub(crate) host: bool,

    /// All keys that would be offered, in their order, and those that cannot be used with the reason
    #[arg(long)]
    pub(crate) all: bool,

    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Takes over an Ed25519 private key from a PKCS#8 file, as OpenSSL writes it.
#[derive(Args, Debug)]
pub(crate) struct KeyImportArgs {
    /// The PEM file; a certificate in it is left aside
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) keep: KeepArgs,
}

/// Writes a self-signed certificate of a key. Its fingerprint for xdfs is that of the key, whatever its names and dates.
#[derive(Args, Debug)]
pub(crate) struct KeyExportArgs {
    /// The private key file; without it your own key
    #[arg(value_name = "FILE", conflicts_with = "host")]
    pub(crate) file: Option<PathBuf>,

    /// The host key of the server whose state is here
    #[arg(long)]
    pub(crate) host: bool,

    /// A host name or address that the certificate is for; may be repeated
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Where the certificate goes; without it to standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Write the private half to FILE too, for its owner alone; it never goes to standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) private: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

const TRUST_EXAMPLES: &str = "\
Examples:
  xdfs trust list
  xdfs trust pin host.example SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU
  xdfs trust pin host.example:40001 host_key.pub
  xdfs trust forget host.example

The fingerprint is what 'xdfs serve' prints when it starts and what
'xdfs key show --host' shows on the server. Compare it by another way than the
network: a telephone, a paper, an earlier login. A URL that ends in
#SHA256:... pins the key too, for itself alone.";

/// Shows and changes whose keys you believe. Without a word on a terminal, or a pin, no unknown server is believed.
#[derive(Args, Debug)]
#[command(after_help = TRUST_EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct TrustArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: TrustCommand,
}

/// What `xdfs trust` does.
#[derive(Subcommand, Debug)]
pub(crate) enum TrustCommand {
    /// Show the servers whose keys are known
    List(TrustListArgs),
    /// Remember a server's key, in place of any other
    Pin(TrustPinArgs),
    /// Forget a server's key
    Forget(TrustForgetArgs),
}

/// Shows each server, its key's fingerprint, and since when it is known.
#[derive(Args, Debug)]
pub(crate) struct TrustListArgs {
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Forgets a server: the next connection asks again.
#[derive(Args, Debug)]
pub(crate) struct TrustForgetArgs {
    /// The server: HOST or HOST:PORT
    #[arg(value_name = "HOST")]
    pub(crate) host: OsString,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}
