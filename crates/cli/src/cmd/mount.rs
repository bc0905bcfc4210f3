//! `xdfs mount`: a directory of a server as a directory of this machine.

mod ending;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use ending::Ending;
use rustix::io::Errno;
use rustix::process::{getgid, getuid, setsid};
use xdfs_client::file::Remote;
use xdfs_client::{Error, in_full};
use xdfs_mount::{AttachError, Attached, KernelOptions, MountPoint, Settings, Tree, attach, serve};
use xdfs_secure::random;

use super::connect::SessionRequest;
use super::remote::{Sessions, remedy_without_export, wire_name};
use crate::args::as_mount;
use crate::exit::{Exit, Failure, Side};
use crate::output::{complain, use_system_log};
use crate::plan::{MountPlan, words_of_background};
use crate::signal;
use crate::url::Url;

/// What the process that stays says when it is mounted.
const READY: &[u8] = b"mounted\n";

/// How long calls that are being made may take after the end of the mount, before the process ends anyway.
const LEAVE: Duration = Duration::from_secs(5);
/// How often it is tried to unmount what is in use, and the time between two tries.
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// How long all of it may take after a signal.
const LEAVE_BUSY: Duration = Duration::from_secs(8);

pub(crate) fn run(plan: &MountPlan) -> Result<Exit, Failure> {
    if plan.foreground { stay(plan) } else { leave() }
}

/// Starts the process that stays, and ends when that has mounted.
fn leave() -> Result<Exit, Failure> {
    let local = |error: std::io::Error| Failure::new(Exit::Local, format!("cannot start 'xdfs mount': {error}"));
    let program = std::env::current_exe().map_err(local)?;
    let words = words_of_background(as_mount(std::env::args_os()));
    let mut child = Command::new(program).args(words).stdout(Stdio::piped()).spawn().map_err(local)?;
    let mut said = Vec::new();
    if let Some(output) = child.stdout.take() {
        // As many bytes as it says, or all of what it says before it ends.
        output.take(READY.len() as u64).read_to_end(&mut said).map_err(local)?;
    }
    if said == READY {
        return Ok(Exit::Done);
    }
    let status = child.wait().map_err(local)?;
    // It has told why.
    let exit = status.code().and_then(Exit::from_code).filter(|exit| *exit != Exit::Done);
    Err(Failure::new(exit.unwrap_or(Exit::Local), ""))
}

fn stay(plan: &MountPlan) -> Result<Exit, Failure> {
    let wishes = SessionRequest { channels: plan.how.channels, ..SessionRequest::default() };
    let sessions = Sessions::new(wishes, plan.login.clone());
    let (remote, _tunnel) = sessions.lasting(&plan.url, plan.how.timeout).map_err(|(failure, _)| failure)?;
    remote.bound_memory(plan.how.cache / 2);
    let Prepared { tree, directory, stop, attached } = match prepare(plan, &remote) {
        Ok(prepared) => prepared,
        Err(failure) => {
            // In order: nothing is wrong with the session.
            drop(remote.close());
            return Err(failure);
        }
    };
    let local = local_to(&plan.directory);
    if plan.report_ready {
        leave_terminal().map_err(&local)?;
    }
    let (ended, end) = sync_channel::<()>(1);
    let ending = Ending::start(&tree, &directory).map_err(&local)?;
    let (point, limits) = (attached.point.clone(), Arc::clone(&ending));
    let watcher = std::thread::Builder::new().name("xdfs-signals".to_owned());
    let watching = watcher.spawn(move || unmount_on_signal(stop, &point, &end, &limits)).map_err(&local)?;
    let served = serve(&attached, &tree, &|| ending.limit(LEAVE));
    tell_end(ended);
    drop(watching);
    tree.finish_writing();
    let exit = ending.report(&tree, &directory);
    // What is still open ends with it, and the session after that: a lost one is nobody's loss.
    drop(tree);
    drop(remote.close());
    ending.over();
    served.map_err(|error| Failure::new(Exit::Local, error.to_string()))?;
    Ok(exit)
}

/// A mount that is made, and not served yet.
struct Prepared {
    tree: Arc<Tree>,
    directory: PathBuf,
    /// A signal asked for the end.
    stop: UnixStream,
    attached: Attached,
}

/// Looks at the server's directory, and mounts it.
fn prepare(plan: &MountPlan, remote: &Arc<Remote>) -> Result<Prepared, Failure> {
    let of_server = |error: Error| {
        let failure = |said: &str| Failure::new(Exit::of_error(&error, Side::Peer), format!("{}: {said}", plan.url));
        match remedy_without_export(&plan.url, &error) {
            Some(remedy) => failure(&error.message).help(remedy),
            None => failure(in_full(error.kind)),
        }
    };
    let settings = Settings {
        read_only: plan.how.read_only,
        owner: (!plan.how.server_owners).then(|| (getuid().as_raw(), getgid().as_raw())),
        valid: plan.how.valid,
    };
    let token = random::array().map(u64::from_ne_bytes);
    let token = token.map_err(|error| Failure::new(Exit::Local, error.to_string()))?;
    let tree = Tree::new(Arc::clone(remote), wire_name(&plan.url), settings, token).map_err(of_server)?;
    let tree = Arc::new(tree);
    let local = local_to(&plan.directory);
    let directory = std::path::absolute(&plan.directory).map_err(&local)?;
    let kernel = KernelOptions {
        source: Url { key: None, ..plan.url.clone() }.to_string(),
        read_only: plan.how.read_only,
        allow_other: plan.how.allow_other,
        no_exec: plan.how.no_exec,
    };
    let stop = signal::wake_on_stop().map_err(&local)?;
    let attached = attach(&directory, &kernel).map_err(|error| refused(&error, &directory))?;
    Ok(Prepared { tree, directory, stop, attached })
}

/// An error of this machine, about the directory of the mount.
fn local_to(directory: &Path) -> impl Fn(std::io::Error) -> Failure {
    move |error| Failure::new(Exit::Local, format!("{}: {error}", directory.display()))
}

fn tell_end(ended: SyncSender<()>) {
    let _ = ended.try_send(());
}

/// Says that it is mounted, and lets go of everything that the starting process has.
fn leave_terminal() -> std::io::Result<()> {
    let mut output = std::io::stdout();
    output.write_all(READY)?;
    output.flush()?;
    use_system_log();
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    // Fails where it leads its session already.
    let _ = setsid();
    Ok(())
}

/// Unmounts when a signal comes. What is in use goes when it is closed; whoever uses it longer gets
/// an error.
fn unmount_on_signal(mut stop: UnixStream, point: &MountPoint, end: &Receiver<()>, ending: &Ending) {
    if !matches!(stop.read(&mut [0; 16]), Ok(1..)) {
        return;
    }
    ending.limit(LEAVE_BUSY);
    let mut detached = point.detach(false);
    // A program that is being started has for a moment what the one that starts it has open.
    for _ in 1..BUSY_TRIES {
        if detached {
            break;
        }
        if end.recv_timeout(BUSY_PAUSE).is_ok() {
            return;
        }
        detached = point.detach(false);
    }
    if !detached {
        complain(&format!(
            "{}: in use; it is gone for new users, and in a moment for all",
            point.directory().display()
        ));
        point.detach(true);
    }
    ending.limit(LEAVE);
}

fn refused(error: &AttachError, directory: &Path) -> Failure {
    let message = error.to_string();
    match error {
        AttachError::Stale { .. } => Failure::new(Exit::Exists, message)
            .help(format!("unmount it, then mount again: {}", MountPoint::command(directory))),
        AttachError::Mounted { .. } => Failure::new(Exit::Exists, message).help(format!(
            "choose another directory, or unmount what is there: {}",
            MountPoint::command(directory)
        )),
        AttachError::Directory { errno: Errno::NOENT, .. } => {
            Failure::new(Exit::NotFound, message).help(format!("make it: mkdir {}", directory.display()))
        }
        AttachError::Directory { .. } => Failure::new(Exit::Local, message),
        AttachError::Device(_) => {
            Failure::new(Exit::Local, message).help("is FUSE in this kernel? 'modprobe fuse'; in a container, give it /dev/fuse")
        }
        AttachError::NoFusermount => Failure::new(Exit::Local, message).help("on Debian: apt-get install fuse3"),
        AttachError::Fusermount => Failure::new(Exit::Local, message).help(
            "it says why above; the directory must be yours, and allow_other needs 'user_allow_other' in /etc/fuse.conf",
        ),
        _ => Failure::new(Exit::Local, message),
    }
}
