//! Debian packages that exclude one that is installed: they are unpacked into a directory of their own, from which tests
//! start their programs.

use crate::setup::apt_get;
use crate::{Failure, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Servers that exclude each other and vsftpd, and the program by which each is seen.
const PEERS: [(&[&str], &str); 2] =
    [(&["proftpd-core", "proftpd-mod-crypto"], "usr/sbin/proftpd"), (&["pure-ftpd"], "usr/sbin/pure-ftpd")];

/// Where they are. The tests look there, too.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers")
}

/// Unpacks what is missing, with the libraries that it needs and that are not installed. Returns the packages.
pub(crate) fn missing() -> Result<Vec<&'static str>, Failure> {
    let directory = directory();
    let lacks = |program: &str| !directory.join(program).is_file();
    let missing: Vec<&[&str]> = PEERS.iter().filter(|(_, program)| lacks(program)).map(|(peer, _)| *peer).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let archives = directory.join("archives");
    let failed = |error: std::io::Error| Failure::from(format!("{}: {error}", archives.display()));
    std::fs::create_dir_all(archives.join("partial")).map_err(failed)?;
    process::run(&mut apt_get(&["update", "--quiet"]))?;
    for packages in &missing {
        let cache = format!("Dir::Cache::archives={}", archives.canonicalize().map_err(failed)?.display());
        let options = ["install", "--quiet", "--yes", "--download-only", "--no-install-recommends", "-o", &cache];
        process::run(apt_get(&options).args(*packages))?;
    }
    for entry in std::fs::read_dir(&archives).map_err(failed)? {
        let archive = entry.map_err(failed)?.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            process::run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&directory))?;
        }
    }
    Ok(missing.concat())
}
