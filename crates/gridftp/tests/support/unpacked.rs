//! How Debian's proftpd and pure-ftpd are started for a connection that is their standard input. Their packages exclude
//! vsftpd, so that the set-up has unpacked them in `target/peers`.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "writes the servers' configurations")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// How a server is started.
#[derive(Clone)]
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, PathBuf)>,
}

/// proftpd for anonymous users, whose root this directory is, with these lines besides the usual ones.
pub fn proftpd(scratch: &Path, lines: &str) -> Option<Program> {
    let (root, peers) = (scratch.display(), peers()?);
    let configuration = format!(
        "ServerName test\nServerType inetd\nDefaultServer on\nPort 0\nUser nobody\nGroup nogroup\nScoreboardFile none\n\
         DelayEngine off\nAuthPAM off\nUseFtpUsers off\nAuthOrder mod_auth_unix.c\nWtmpLog off\nTransferLog none\n\
         SystemLog none\nUseReverseDNS off\nModulePath {}\nLoadModule mod_digest.c\nLoadModule mod_tls.c\n{lines}\
         <Anonymous {root}>\nUser nobody\nGroup nogroup\nUserAlias anonymous nobody\nRequireValidShell off\n\
         AllowOverwrite on\nAllowStoreRestart on\n<Limit WRITE>\nAllowAll\n</Limit>\n</Anonymous>\n",
        peers.join("usr/lib/proftpd").display()
    );
    let file = scratch.join("proftpd.conf");
    std::fs::write(&file, configuration).expect("a new file");
    let libraries = peers.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    Some(Program {
        path: peers.join("usr/sbin/proftpd"),
        arguments: vec!["-c".to_owned(), file.display().to_string()],
        environment: vec![("LD_LIBRARY_PATH", libraries)],
    })
}

/// What stands before the host in URLs of [`pure_ftpd`].
pub const PURE_FTPD_LOGIN: &str = "anna:secret@";

/// pure-ftpd for a user with a password, whose root this directory is, with these arguments besides the usual ones: its
/// anonymous users may rename nothing.
pub fn pure_ftpd(scratch: &Path, arguments: &[&str]) -> Option<Program> {
    // What `openssl passwd -6 -salt xdfstest secret` prints: pure-pw's own kind takes seconds for each login.
    const SECRET: &str =
        "$6$xdfstest$dvfWcZcFf.KI46D6smNAP4DA4Cchu0U9sjaLANL3V.tp1IK9jaYxSju10HFsC.zLdb91uBiINtqTRDzfpBhZ6.";
    let peers = peers()?;
    let (passwords, index) = (scratch.join("passwords"), scratch.join("index"));
    let line = format!("anna:{SECRET}:65534:65534::{}/./::::::::::::\n", scratch.display());
    std::fs::write(&passwords, line).expect("a new file");
    let made = Command::new(peers.join("usr/bin/pure-pw")).arg("mkdb").arg(&index).arg("-f").arg(&passwords).status();
    assert!(made.expect("pure-pw can be started").success());
    let users = format!("puredb:{}", index.display());
    let usual = ["-l", &users, "-E", "-H"];
    let arguments = usual.into_iter().chain(arguments.iter().copied()).map(str::to_owned).collect();
    Some(Program { path: peers.join("usr/sbin/pure-ftpd"), arguments, environment: Vec::new() })
}

/// Where they are.
fn peers() -> Option<PathBuf> {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
    let there = ["proftpd", "pure-ftpd"].iter().all(|name| peers.join("usr/sbin").join(name).is_file());
    let found = if there { Ok(()) } else { Err("proftpd and pure-ftpd, unpacked in target/peers".to_owned()) };
    xdfs_test_needs::found(found)?;
    Some(peers.canonicalize().expect("it is there"))
}
