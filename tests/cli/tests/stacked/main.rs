//! The tests of transfers once more, as they stand, with every channel of every command and server over TLS
//! (`--stack tcp,tls`): what they use of the library of tests is taken from here, where a scene has that stack.

#![allow(clippy::disallowed_methods, reason = "makes the files of a certificate")]

extern crate self as xdfs_test_cli;
extern crate xdfs_test_cli as library;

#[path = "../resume.rs"]
mod resume;
#[path = "../transfer.rs"]
mod transfer;
mod trees;
#[path = "../verify/arrives.rs"]
mod verify;

pub use library::{Outcome, Relay, Running, STAGING, Server, exit, pattern};

use std::ops::Deref;
use std::sync::OnceLock;

use library::Stacks;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tempfile::TempDir;

/// A scene whose channels pass through `tls`.
pub struct Scene(library::Scene);

impl Scene {
    /// A fresh directory, as the library's.
    #[expect(clippy::new_without_default, reason = "nobody asks for it")]
    pub fn new() -> Self {
        Self(library::Scene::over(stacks()))
    }
}

impl Deref for Scene {
    type Target = library::Scene;

    fn deref(&self) -> &library::Scene {
        &self.0
    }
}

#[test]
fn the_commands_of_a_scene_and_its_servers_pass_through_tls() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", b"content");
    scene.run(["cp", "source", &server.url("x")]).ends_with(exit::DONE);
    // Whoever does not is not understood.
    let plain = ["cp", "--stack", "tcp,noop", "--retry", "0", "source", &server.url("y")];
    assert_ne!(scene.run(plain).code, Some(exit::DONE));
    assert_eq!(scene.names("server"), ["x"]);
    let plain = library::Scene::new();
    plain.write("source", b"content");
    assert_ne!(plain.run(["cp", "--retry", "0", "source", &server.url("y")]).code, Some(exit::DONE));
    assert_eq!(scene.names("server"), ["x"]);
}

/// With one certificate for all servers of the program.
fn stacks() -> &'static Stacks {
    static STACKS: OnceLock<(Stacks, TempDir)> = OnceLock::new();
    let (stacks, _) = STACKS.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let names = ["127.0.0.1", "127.0.0.2", "::1"].map(str::to_owned);
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).expect("a key");
        let write = |name: &str, text: String| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("a file can be made");
            path.display().to_string()
        };
        let (certificate, key) = (write("crt", cert.pem()), write("key", signing_key.serialize_pem()));
        let server = format!("tcp,tls:certificate={certificate};key={key}");
        (Stacks { server, client: format!("tcp,tls:trust={certificate}") }, directory)
    });
    stacks
}
