//! Restricts the files that the process may reach from now on, and forbids new connections
//! (Landlock).

use super::Needs;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The newest interface that this was written for; an older kernel enforces what it supports.
const INTERFACE: ABI = ABI::V6;

/// The kernel files that the program itself reads: its memory and threads, and the system's
/// congestion control.
const OF_THE_KERNEL: [&str; 2] = ["/proc/self", "/proc/sys/net/ipv4"];

fn reading() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

fn extending() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::MakeReg
}

/// Files, directories and links; no programs, and devices, pipes and sockets only if an export
/// accepts them, or has named pipes. (A link can point anywhere: this program does not follow it, and it reaches no
/// further than what may be reached without it.)
fn writing(needs: &Needs) -> BitFlags<AccessFs> {
    let names = AccessFs::MakeDir | AccessFs::RemoveFile | AccessFs::RemoveDir | AccessFs::MakeSym | AccessFs::Refer;
    let usual = reading() | extending() | AccessFs::Truncate | names;
    let pipes = AccessFs::MakeFifo;
    match (needs.keep.special, needs.pipes) {
        (true, _) => usual | pipes | AccessFs::MakeSock | AccessFs::MakeChar | AccessFs::MakeBlock,
        (false, true) => usual | pipes,
        (false, false) => usual,
    }
}

/// Whether the service manager is notified through an abstract socket, which the scope of abstract
/// sockets would block.
fn tells_abstract_socket() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some_and(|name| name.as_encoded_bytes().starts_with(b"@"))
}

/// Restricts this thread and those that it starts. Returns what an administrator should know, none
/// if all restrictions are in effect.
pub(super) fn restrict(needs: &Needs) -> Result<Option<String>, String> {
    let status = restrict_to(needs).map_err(|error| error.to_string())?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::FullyEnforced, _) => None,
        (_, LandlockStatus::NotImplemented | LandlockStatus::NotEnabled) => Some(
            "this kernel has no Landlock (5.13 and later have it, unless it is turned off): only file permissions and \
             the exports' own checks bind the process"
                .into(),
        ),
        (RulesetStatus::PartiallyEnforced, LandlockStatus::Available { effective_abi, .. }) => {
            Some(format!("this kernel's Landlock is of an older kind ({effective_abi:?}) and binds files in part"))
        }
        (RulesetStatus::NotEnforced, _) => Some("Landlock did not take effect".into()),
    })
}

fn restrict_to(needs: &Needs) -> Result<RestrictionStatus, String> {
    let mut rules = Vec::new();
    let rows = [(&needs.readable, reading()), (&needs.writable, writing(needs)), (&needs.appendable, extending())];
    for (paths, access) in rows {
        for path in paths {
            let held = hold(path).map_err(|error| format!("{}: {error}", path.display()))?;
            rules.push(PathBeneath::new(held, access));
        }
    }
    // A container may hide them; what depends on them is then not reported.
    let kernel = OF_THE_KERNEL.iter().filter_map(|path| hold(Path::new(path)).ok());
    rules.extend(kernel.map(|held| PathBeneath::new(held, reading())));
    restrict_by(rules).map_err(|error| error.to_string())
}

/// Holds what is at `path` without reading it. Not by the standard library, which takes O_PATH for a way of
/// reading where the C library is musl: a directory that only hides its names could not be held then.
fn hold(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

fn restrict_by(rules: Vec<PathBeneath<OwnedFd>>) -> Result<RestrictionStatus, RulesetError> {
    let mut scope = Scope::from_all(INTERFACE);
    if tells_abstract_socket() {
        scope.remove(Scope::AbstractUnixSocket);
    }
    // Everything known is handled, and so denied except by rule: no bind, no connect, no signal.
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(INTERFACE))?
        .handle_access(AccessNet::from_all(INTERFACE))?
        .scope(scope)?
        .create()?;
    ruleset.add_rules(rules.into_iter().map(Ok::<_, RulesetError>))?.restrict_self()
}
