//! The system calls that a server never makes are refused with EPERM (seccomp).
//!
//! A list of denials, not of permissions: a C library or a Rust release that starts to use another harmless call must
//! not break a server at night. What is listed either leaves the process (exec, sockets of its own), reaches into others
//! (ptrace), changes the machine (mount, modules, clocks), or goes around this very filter (io_uring, whose operations
//! seccomp never sees).

use crate::authorise::Keep;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule};
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
    // Sockets of its own, of whatever kind: it has the one that it listens on, and those that it accepts.
    libc::SYS_socket,
    // Around this filter and around Landlock.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Large parts of the kernel that a file server has no use for.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // What the file system and the name spaces look like.
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

/// Denied where no export takes special files.
const SPECIAL: &[libc::c_long] = &[
    libc::SYS_mknodat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
];

/// On x86-64 the numbers of the x32 form reach the same calls; they are denied with them.
#[cfg(target_arch = "x86_64")]
const OTHER_FORM: Option<libc::c_long> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const OTHER_FORM: Option<libc::c_long> = None;

fn program(keep: Keep) -> Result<BpfProgram, String> {
    let always: Vec<SeccompRule> = Vec::new();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let special = if keep.special { &[] } else { SPECIAL };
    for number in DENIED.iter().chain(DENIED_HERE).chain(special) {
        rules.insert(*number, always.clone());
        rules.extend(OTHER_FORM.map(|bit| (*number | bit, always.clone())));
    }
    let architecture = std::env::consts::ARCH.try_into().map_err(|error| format!("{error}"))?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture);
    filter.and_then(TryInto::try_into).map_err(|error| error.to_string())
}

/// Binds this thread and those that it starts; sets `no_new_privs`.
pub(super) fn install(keep: Keep) -> Result<(), String> {
    seccompiler::apply_filter(&program(keep)?).map_err(|error| error.to_string())
}
