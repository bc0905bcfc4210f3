//! What was typed behind `xdfs sum`.

use std::ffi::OsString;

use clap::Args;

use super::LoginArgs;
use crate::exit::exit_codes;
use crate::size;

const EXAMPLES: &str = concat!(
    "\
Each line is the hash and the name, as b3sum writes them: 'b3sum --check' reads
the lines of local files. A server reads its files itself; nothing but the hash
is sent.

Examples:
  xdfs sum image.bin xdfs://localhost/data/image.bin
  xdfs sum --offset 1GiB --length 16MiB xdfs://localhost/data/image.bin
  tar c photos | xdfs sum -

",
    exit_codes!(),
);

/// Shows the BLAKE3 hashes of files, or of the same range of each, on this machine and on servers.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SumArgs {
    /// Files to hash: paths, '-' for standard input, or xdfs://[user@]host[:port]/EXPORT/path[#SHA256:key]
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<OsString>,

    /// From byte N on
    #[arg(long, value_name = "N", value_parser = size::parse, default_value = "0", hide_default_value = true)]
    pub(crate) offset: u64,

    /// N bytes
    #[arg(long, value_name = "N", value_parser = size::parse)]
    pub(crate) length: Option<u64>,

    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) login: LoginArgs,
}
