//! scp to an sshd of our own, with host and user keys made for this run. Encrypted, since it cannot be otherwise.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command as Plain, Stdio};

use super::{Outcome, Server, System, Work, port_of, program, start_on_port};
use crate::args::PeerName;
use crate::bound::Direction;
use crate::error::{Context, Error, Result};
use crate::process::Command;
use crate::world::World;

/// sshd wants this directory to exist; Debian's service makes it at boot.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";

/// OpenSSH with its defaults.
#[derive(Debug)]
pub(super) struct Scp;

impl System for Scp {
    fn name(&self) -> PeerName {
        PeerName::Scp
    }

    fn label(&self) -> String {
        "scp".to_owned()
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("sshd", "openssh-server"), ("scp", "openssh-client"), ("ssh-keygen", "openssh-client")]
    }

    fn can(&self, work: &Work) -> bool {
        matches!(work, Work::File { channels: 1, .. })
    }

    fn serve(&self, world: &World, _directory: Option<&Path>) -> Result<Option<Server>> {
        let port = world.free_port()?;
        let directory = world.scratch.path();
        for key in ["ssh_host_key", "ssh_user_key"] {
            if !directory.join(key).exists() {
                make_key(&directory.join(key))?;
            }
        }
        let authorized = directory.join("ssh_authorized");
        let public = directory.join("ssh_user_key.pub");
        fs::copy(&public, &authorized).context(|| public.display().to_string())?;
        fs::set_permissions(&authorized, fs::Permissions::from_mode(0o600))
            .context(|| authorized.display().to_string())?;
        if rustix::process::geteuid().is_root() && !Path::new(PRIVILEGE_SEPARATION).exists() {
            fs::DirBuilder::new()
                .mode(0o755)
                .create(PRIVILEGE_SEPARATION)
                .context(|| PRIVILEGE_SEPARATION.to_owned())?;
        }
        let server = directory.join("sshd_config");
        let text = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPermitRootLogin yes\nStrictModes no\n\
             UsePAM no\nPidFile none\nMaxStartups 100\nSubsystem sftp internal-sftp\n",
            directory.join("ssh_host_key").display(),
            authorized.display(),
        );
        fs::write(&server, text).context(|| server.display().to_string())?;
        let client = client_configuration(world);
        let text = format!(
            "Host *\nPort {port}\nIdentityFile {}\nIdentitiesOnly yes\nStrictHostKeyChecking no\n\
             UserKnownHostsFile /dev/null\nLogLevel ERROR\n",
            directory.join("ssh_user_key").display(),
        );
        fs::write(&client, text).context(|| client.display().to_string())?;
        let command = program("sshd").args(["-D", "-e", "-f"]).arg(&server);
        start_on_port(world, "scp", &command, port)
    }

    fn command(&self, world: &World, server: Option<&Server>, work: &Work) -> Result<Command> {
        let Work::File { direction, source, target, .. } = work else {
            return Err(Error::Unreadable { program: "scp".to_owned(), detail: "copies files only".to_owned() });
        };
        port_of(server, "scp")?;
        let command = program("scp").args(["-q", "-F"]).arg(client_configuration(world));
        Ok(match direction {
            Direction::Down => command.arg(format!("127.0.0.1:{}", source.display())).arg(target),
            Direction::Up => command.arg(source).arg(format!("127.0.0.1:{}", target.display())),
        })
    }

    fn outcome(&self, _output: &str) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}

fn client_configuration(world: &World) -> PathBuf {
    world.scratch.path().join("ssh_config")
}

fn make_key(path: &Path) -> Result<()> {
    let making = || format!("ssh-keygen {}", path.display());
    let output = Plain::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "xdfs-bench", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .context(making)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Failed { command: making(), status: output.status.to_string(), output: text })
}
