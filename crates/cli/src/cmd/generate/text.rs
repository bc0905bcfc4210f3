//! What man pages say beside the help of a command: exit codes, variables and files.

/// Exit codes and their meanings, as in docs/exit-codes.md.
pub(super) const EXIT_STATUS: &[(u8, &str)] = &[
    (0, "Everything that was requested is done."),
    (1, "Some of it was done, or there were failures of several kinds; each has its message."),
    (
        2,
        "The command line, or the configuration of a server, is invalid; or a directory was named where a file is needed, or something else where a directory is needed. Nothing was done.",
    ),
    (
        3,
        "The server refused or failed for a reason without a code of its own: it does not offer a call, a limit is exceeded, a name is invalid, the other end does not speak the protocol.",
    ),
    (4, "No connection could be made or kept, within the time of --retry. A server returns it if it cannot listen."),
    (
        5,
        "A file, a directory or the system of this machine failed for a reason without a code of its own: an I/O error, an unusable key file, a mistake of xdfs itself.",
    ),
    (6, "A file, directory, export, user or key that was named does not exist."),
    (7, "The mode of a file, a read-only file system or export, or your rights on the server do not allow it."),
    (8, "A disk is full or a quota is used up."),
    (9, "The key of the server is unknown, is not the known one, or its certificate is not valid. Nothing was sent."),
    (10, "The server accepted none of the keys, passwords or tokens that were offered."),
    (
        11,
        "Something exists that may not be replaced or removed: the new name of mv -n, a directory that is not empty, a user that is added twice.",
    ),
    (
        12,
        "Somebody else changed the source or the target during the copy, or another command continues the same transfer. The same command can be run again.",
    ),
    (13, "What arrived, or what was read back, is not what was sent, and sending it again did not help."),
    (
        14,
        "The server has no capacity, is shutting down, or refuses this machine for a while after too many wrong passwords; or somebody else holds a lock. Try again later.",
    ),
    (130, "Ctrl-C, SIGTERM or a closed terminal. What has arrived is kept: the same command continues."),
];

/// A variable or a file, and what it is for.
type Entry = (&'static str, &'static str);

/// Of commands that log in to a server.
pub(super) const LOGIN_VARIABLES: &[Entry] = &[
    ("XDFS_TOKEN", "The token to log in with where the URL names no user."),
    ("XDFS_TOKEN_FILE", "A file that holds this token."),
    ("XDFS_IDENTITY", "The private key to log in with, as --identity."),
    ("XDFS_PASSWORD_FILE", "A file that holds the password, as --password-file."),
    ("XDFS_CA", "Certificates that sign those of servers, as --ca."),
    ("XDFS_SSH", "The program that is run for ssh URLs, as --ssh."),
    ("SSH_AUTH_SOCK", "The SSH agent whose Ed25519 keys are offered."),
    ("NETRC", "The file of users and passwords of FTP servers, in place of ~/.netrc."),
    ("XDG_CONFIG_HOME", "Where xdfs/config is, in place of ~/.config."),
];

/// Of all commands.
pub(super) const VARIABLES: &[Entry] =
    &[("XDG_STATE_HOME", "Where the state folder xdfs is, in place of ~/.local/state; --state counts before it.")];

/// Of the server.
pub(super) const SERVER_VARIABLES: &[Entry] =
    &[("NOTIFY_SOCKET", "Where systemd is told that the server is ready, reloads and stops.")];

/// Of commands that log in to a server.
pub(super) const LOGIN_FILES: &[Entry] = &[
    ("~/.config/xdfs/config", "Short names of servers, and how to log in to them (TOML)."),
    ("~/.ssh/id_ed25519", "A key that is offered where no other is named."),
    ("~/.netrc", "Users and passwords of FTP servers."),
];

/// Of all commands.
pub(super) const FILES: &[Entry] = &[(
    "~/.local/state/xdfs",
    "The state folder: keys, users, known servers and what was interrupted. Of a server that root looks after it is /var/lib/xdfs.",
)];

/// Of the server.
pub(super) const SERVER_FILES: &[Entry] =
    &[("/etc/xdfs/server.toml", "The configuration that the packaged service reads: xdfs-server.toml(5).")];
