//! Refuses the system calls that a server never makes with EPERM (seccomp).
//!
//! A list of denials, not of permissions: a C library or a Rust release that starts to use another
//! harmless call must not break a server at night. The listed calls either leave the process (exec,
//! sockets of its own), reach into other processes (ptrace), change the machine (mount, modules,
//! clocks), or bypass this filter (io_uring, whose operations seccomp never sees).

use super::Needs;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// Denied on every architecture.
const DENIED: &[libc::c_long] = &[
    // Other programs and other processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // New sockets, of any kind: it has the one that it listens on, and those that it accepts.
    libc::SYS_socket,
    // Ways around this filter and around Landlock.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Large parts of the kernel that a file server does not need.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The layout of the file system and the namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    // The machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_personality,
    libc::SYS_vhangup,
    // Other identities.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
];

/// Denied where they exist.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[libc::c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_kexec_file_load,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[libc::c_long] = &[];

/// Denied if no export accepts special files; with the position of the mode among the arguments. Where
/// one has named pipes these alone are made.
const SPECIAL: &[(libc::c_long, u8)] = &[
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];

/// What mknod makes besides named pipes: 0 is a regular file.
const NO_PIPES: &[libc::mode_t] = &[0, libc::S_IFREG, libc::S_IFCHR, libc::S_IFBLK, libc::S_IFSOCK];

/// On x86-64 the numbers of the x32 form reach the same calls; they are denied with them.
#[cfg(target_arch = "x86_64")]
const OTHER_FORM: Option<libc::c_long> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const OTHER_FORM: Option<libc::c_long> = None;

/// Flags with which a clone creates a namespace: user namespaces open large parts of the kernel to
/// processes without any of root's rights.
const NAME_SPACES: &[libc::c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// When `clone` is refused: with any new namespace, and if it creates a process, not a thread.
fn clones() -> Result<Vec<SeccompRule>, Error> {
    let flag = |flag: libc::c_int, set: bool| {
        let flag = flag as u64;
        let value = if set { flag } else { 0 };
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), value)?;
        SeccompRule::new(vec![condition])
    };
    let spaces = NAME_SPACES.iter().map(|space| flag(*space, true));
    spaces.chain([flag(libc::CLONE_THREAD, false)]).map(|rule| rule.map_err(Error::from)).collect()
}

/// When `mknod` is refused where named pipes may be made: with any other kind of file.
fn nodes(mode: u8) -> Result<Vec<SeccompRule>, Error> {
    let kind = |kind: &libc::mode_t| {
        let is = SeccompCmpOp::MaskedEq(libc::S_IFMT.into());
        let condition = SeccompCondition::new(mode, SeccompCmpArgLen::Dword, is, (*kind).into())?;
        SeccompRule::new(vec![condition])
    };
    NO_PIPES.iter().map(|one| kind(one).map_err(Error::from)).collect()
}

/// A filter that answers the calls of `rules` with this error.
fn refusing(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int) -> Result<BpfProgram, String> {
    let architecture = std::env::consts::ARCH.try_into().map_err(|error| format!("{error}"))?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), architecture);
    filter.and_then(TryInto::try_into).map_err(|error| error.to_string())
}

/// `number` in every form that this machine's calls have.
fn forms(number: libc::c_long) -> impl Iterator<Item = libc::c_long> {
    [Some(number), OTHER_FORM.map(|bit| number | bit)].into_iter().flatten()
}

/// The refused calls, and `clone3`: its arguments lie in memory, which a filter cannot read. It
/// gets the answer of a kernel without it, so that the C library uses `clone`, whose flags can be
/// checked.
fn programs(needs: &Needs) -> Result<[BpfProgram; 2], String> {
    let always: Vec<SeccompRule> = Vec::new();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for number in DENIED.iter().chain(DENIED_HERE) {
        rules.extend(forms(*number).map(|number| (number, always.clone())));
    }
    for (number, mode) in SPECIAL.iter().filter(|_| !needs.keep.special) {
        let refused = if needs.pipes { nodes(*mode).map_err(|error| error.to_string())? } else { Vec::new() };
        rules.extend(forms(*number).map(|number| (number, refused.clone())));
    }
    let clones = clones().map_err(|error| error.to_string())?;
    rules.extend(forms(libc::SYS_clone).map(|number| (number, clones.clone())));
    let missing = forms(libc::SYS_clone3).map(|number| (number, always.clone())).collect();
    Ok([refusing(rules, libc::EPERM)?, refusing(missing, libc::ENOSYS)?])
}

/// Confines this thread and those that it starts; sets `no_new_privs`.
pub(super) fn install(needs: &Needs) -> Result<(), String> {
    let apply = |program: &BpfProgram| seccompiler::apply_filter(program).map_err(|error| error.to_string());
    programs(needs)?.iter().try_for_each(apply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seccompiler::sock_filter;

    /// Runs a filter as the kernel does, over a call with this first argument; none if it is
    /// permitted. It supports the BPF that seccompiler uses: words of the call's data, comparisons,
    /// a mask, and an answer.
    fn answer(program: &[sock_filter], number: libc::c_long, argument: u64) -> Option<libc::c_int> {
        let architecture: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
        let mut data = Vec::from((number as u32).to_ne_bytes());
        data.extend(architecture.to_ne_bytes());
        data.extend(0_u64.to_ne_bytes());
        data.extend(argument.to_ne_bytes());
        data.resize(64, 0);
        let (mut at, mut word) = (0, 0_u32);
        loop {
            let step = &program[at];
            at += 1;
            let mut jump = |holds: bool| at += usize::from(if holds { step.jt } else { step.jf });
            match step.code {
                0x20 => word = u32::from_ne_bytes(data[step.k as usize..][..4].try_into().unwrap()),
                0x54 => word &= step.k,
                0x05 => at += step.k as usize,
                0x15 => jump(word == step.k),
                0x25 => jump(word > step.k),
                0x35 => jump(word >= step.k),
                0x06 if step.k == 0x7fff_0000 => return None,
                0x06 => {
                    assert_eq!(step.k & 0xffff_0000, 0x0005_0000, "another answer than an error: {:#x}", step.k);
                    return Some((step.k & 0xffff) as libc::c_int);
                }
                code => panic!("no such step: {code:#x}"),
            }
        }
    }

    #[test]
    fn a_clone_makes_threads_and_neither_processes_nor_name_spaces() {
        let [refused, missing] = programs(&Needs::default()).unwrap();
        let judge = |number, argument| answer(&missing, number, argument).or(answer(&refused, number, argument));
        // The flags that the C library uses when it starts a thread.
        let thread = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
        assert_eq!(judge(libc::SYS_clone, thread as u64), None);
        for space in NAME_SPACES {
            assert_eq!(judge(libc::SYS_clone, (thread | space) as u64), Some(libc::EPERM), "{space:#x}");
            assert_eq!(judge(libc::SYS_clone, (space | libc::SIGCHLD) as u64), Some(libc::EPERM), "{space:#x}");
        }
        assert_eq!(judge(libc::SYS_clone, libc::SIGCHLD as u64), Some(libc::EPERM), "a process");
        assert_eq!(judge(libc::SYS_clone3, 0), Some(libc::ENOSYS));
        assert_eq!((judge(libc::SYS_execve, 0), judge(libc::SYS_read, 0)), (Some(libc::EPERM), None));
        for form in forms(libc::SYS_clone3) {
            assert_eq!(judge(form, 0), Some(libc::ENOSYS));
        }
    }
}
