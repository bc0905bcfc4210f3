//! Programs that move bytes through ssh: `cat` for memory to memory, scp and rsync for files. To an sshd of our own, with
//! host and user keys made for this run and the default cipher. Encrypted, since it cannot be otherwise.

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

/// What runs through ssh, with its defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ssh {
    /// `head` at the one end and the null device at the other: zeros from memory to memory.
    Zeros,
    /// scp.
    Scp,
    /// rsync with whole files.
    Rsync,
}

impl Ssh {
    fn configuration(self, world: &World) -> PathBuf {
        world.scratch.path().join(format!("{}.conf", self.label().replace(' ', "-")))
    }
}

impl System for Ssh {
    fn name(&self) -> PeerName {
        match self {
            Self::Zeros => PeerName::Ssh,
            Self::Scp => PeerName::Scp,
            Self::Rsync => PeerName::RsyncSsh,
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Zeros => "ssh".to_owned(),
            Self::Scp => "scp".to_owned(),
            Self::Rsync => "rsync over ssh".to_owned(),
        }
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        const OPENSSH: [(&str, &str); 4] = [
            ("sshd", "openssh-server"),
            ("ssh", "openssh-client"),
            ("scp", "openssh-client"),
            ("ssh-keygen", "openssh-client"),
        ];
        const WITH_RSYNC: [(&str, &str); 5] = [OPENSSH[0], OPENSSH[1], OPENSSH[2], OPENSSH[3], ("rsync", "rsync")];
        match self {
            Self::Zeros | Self::Scp => &OPENSSH,
            Self::Rsync => &WITH_RSYNC,
        }
    }

    fn can(&self, work: &Work) -> bool {
        if matches!(work, Work::Tree { .. }) {
            return *self == Self::Scp;
        }
        let of_memory = *self == Self::Zeros;
        work.channels() == 1 && of_memory == matches!(work, Work::Memory { .. })
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
        // Each program has an sshd of its own, so that its CPU is counted by itself.
        let client = self.configuration(world);
        let server = client.with_extension("sshd");
        let text = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPermitRootLogin yes\nStrictModes no\n\
             UsePAM no\nPidFile none\nMaxStartups 100\nSubsystem sftp internal-sftp\n",
            directory.join("ssh_host_key").display(),
            authorized.display(),
        );
        fs::write(&server, text).context(|| server.display().to_string())?;
        let text = format!(
            "Host *\nPort {port}\nIdentityFile {}\nIdentitiesOnly yes\nStrictHostKeyChecking no\n\
             UserKnownHostsFile /dev/null\nLogLevel ERROR\n",
            directory.join("ssh_user_key").display(),
        );
        fs::write(&client, text).context(|| client.display().to_string())?;
        let command = program("sshd").args(["-D", "-e", "-f"]).arg(&server);
        start_on_port(world, "sshd", &command, port)
    }

    fn command(&self, world: &World, server: Option<&Server>, work: &Work) -> Result<Command> {
        port_of(server, "sshd")?;
        let configuration = self.configuration(world);
        let path = configuration.display();
        match (self, work) {
            (Self::Zeros, Work::Memory { direction, bytes, .. }) => Ok(zeros(&path.to_string(), *direction, *bytes)),
            (Self::Scp, Work::Tree { direction, source, target, .. }) => {
                let command = program("scp").args(["-q", "-r", "-F"]).arg(&configuration);
                Ok(ends(command, *direction, source, target))
            }
            (Self::Scp, Work::File { direction, source, target, .. }) => {
                let command = program("scp").args(["-q", "-F"]).arg(&configuration);
                Ok(ends(command, *direction, source, target))
            }
            (Self::Rsync, Work::File { direction, source, target, .. }) => {
                let command = program("rsync").args(["-W", "-e"]).arg(format!("ssh -F {path}"));
                Ok(ends(command, *direction, source, target))
            }
            _ => Err(Error::Unreadable { program: self.label(), detail: "cannot do this work".to_owned() }),
        }
    }

    fn outcome(&self, _output: &str) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}

/// Adds source and target as scp and rsync write them.
fn ends(command: Command, direction: Direction, source: &Path, target: &Path) -> Command {
    match direction {
        Direction::Down => command.arg(format!("127.0.0.1:{}", source.display())).arg(target),
        Direction::Up => command.arg(source).arg(format!("127.0.0.1:{}", target.display())),
    }
}

/// Zeros through ssh. A shell is in between: the bench keeps what a program prints, and this must not reach a disk.
fn zeros(configuration: &str, direction: Direction, bytes: u64) -> Command {
    let line = match direction {
        Direction::Down => format!("exec ssh -F \"$0\" 127.0.0.1 head -c {bytes} /dev/zero > /dev/null"),
        Direction::Up => format!("head -c {bytes} /dev/zero | ssh -F \"$0\" 127.0.0.1 'cat > /dev/null'"),
    };
    Command::new("sh").args(["-c", &line, configuration])
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
