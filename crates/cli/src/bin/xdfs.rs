//! The `xdfs` command: the program around the library of this package.

use std::process::ExitCode;

/// That of musl is slow: see docs/decisions/0028-allocator.md.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    xdfs::main()
}
