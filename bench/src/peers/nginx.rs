//! nginx and curl over TLS 1.3, downloads from memory: nginx reads an endless hole in a file on tmpfs.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::path::Path;

use super::{Outcome, Server, System, Work, port_of, program, start_on_port};
use crate::args::PeerName;
use crate::bound::Direction;
use crate::error::{Context, Error, Result};
use crate::process::Command;
use crate::world::{ScratchDir, World};

/// Longer than any run: curl asks for a part.
const HOLE_BYTES: u64 = 1 << 42;

/// nginx with two workers and a certificate of its own.
#[derive(Debug, Default)]
pub(super) struct Nginx {
    /// Where the hole is. On tmpfs, since a disk's page cache would first have to fill.
    hole: OnceCell<ScratchDir>,
}

impl System for Nginx {
    fn name(&self) -> PeerName {
        PeerName::Nginx
    }

    fn label(&self) -> String {
        "nginx+curl".to_owned()
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("nginx", "nginx"), ("curl", "curl")]
    }

    fn can(&self, work: &Work) -> bool {
        matches!(work, Work::Memory { direction: Direction::Down, channels: 1, .. })
    }

    fn serve(&self, world: &World, _directory: Option<&Path>) -> Result<Option<Server>> {
        let port = world.free_port()?;
        let unusable = |detail: String| Error::Wrong { system: self.label(), detail };
        let hole = ScratchDir::create(&world.args.tmpfs_dir, "nginx")?;
        let file = hole.path().join("zero");
        File::create(&file).and_then(|file| file.set_len(HOLE_BYTES)).context(|| file.display().to_string())?;
        let own = world.scratch.path().join(world.unique("nginx"));
        fs::create_dir(&own).context(|| own.display().to_string())?;
        let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
            .map_err(|error| unusable(error.to_string()))?;
        let write = |name: &str, text: String| {
            let path = own.join(name);
            fs::write(&path, text).context(|| path.display().to_string())
        };
        write("certificate.pem", signed.cert.pem())?;
        write("key.pem", signed.signing_key.serialize_pem())?;
        write("nginx.conf", configuration(&own, hole.path(), port))?;
        let command = program("nginx").arg("-p").arg(&own).arg("-c").arg(own.join("nginx.conf"));
        let server = start_on_port(world, "nginx", &command, port)?;
        // One server for one cell, and one cell for one member of it.
        self.hole.set(hole).map_err(|_| unusable("started twice".to_owned()))?;
        Ok(server)
    }

    fn command(&self, _world: &World, server: Option<&Server>, work: &Work) -> Result<Command> {
        let port = port_of(server, "nginx")?;
        // curl would check the name in a certificate that was made a moment ago for nobody: that is no part of the work.
        let command = program("curl").args(["-sSfk", "--tlsv1.3", "-o", "/dev/null", "-r"]);
        Ok(command.arg(format!("0-{}", work.bytes().saturating_sub(1))).arg(format!("https://127.0.0.1:{port}/zero")))
    }

    fn outcome(&self, _output: &str) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}

fn configuration(own: &Path, root: &Path, port: u16) -> String {
    let own = own.display();
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!(" {kind}_temp_path {own}/{kind};\n"))
        .collect();
    format!(
        "daemon off;\nworker_processes 2;\nerror_log {own}/error.log;\npid {own}/pid;\n{user}\
         events {{ worker_connections 1024; }}\n\
         http {{\n access_log off;\n sendfile on;\n tcp_nopush on;\n sendfile_max_chunk 2m;\n{folders}\
         server {{\n  listen 127.0.0.1:{port} ssl;\n  ssl_certificate {own}/certificate.pem;\n\
         ssl_certificate_key {own}/key.pem;\n  ssl_protocols TLSv1.3;\n  root {};\n }}\n}}\n",
        root.display()
    )
}
