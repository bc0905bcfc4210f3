//! The `xdfs` command: the program around the library of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    xdfs::main()
}
