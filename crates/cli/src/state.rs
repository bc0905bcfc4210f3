//! The default location of keys, users and known servers: one folder for `serve` and `user`, and one
//! for `key`, `trust` and the clients, so that all find the same without an option. They are the same
//! folder but for root, whose folder as a server may belong to the user of a service.

use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure};
use crate::text::{printable_path, shell_word};

/// The folder of a service that root looks after.
const OF_SERVICE: &str = "/var/lib/xdfs";

/// Root's home where nobody says it, as when a file system is mounted at the start of the system.
const HOME_OF_ROOT: &str = "/root";

/// The state folder of a server: the typed one, or the default for this user. It need not exist.
pub(crate) fn folder(typed: Option<&Path>) -> Result<PathBuf, Failure> {
    match is_root() {
        true => found(choose(typed, variable("XDG_STATE_HOME"), Some(PathBuf::from(OF_SERVICE)))),
        false => own(typed),
    }
}

/// The state folder of a client, with the user's own key and the servers that are known: the same for
/// everybody but root.
pub(crate) fn own(typed: Option<&Path>) -> Result<PathBuf, Failure> {
    let home = home().or_else(|| is_root().then(|| PathBuf::from(HOME_OF_ROOT)));
    found(choose(typed, variable("XDG_STATE_HOME"), home.map(|home| home.join(".local/state/xdfs"))))
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn found(folder: Option<PathBuf>) -> Result<PathBuf, Failure> {
    folder.ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            "HOME is not set, so there is no place for keys\nhelp: name a folder with --state DIR",
        )
    })
}

/// The command `words` for the folder of the service of this machine, where there is one and `words` did
/// not look there: nobody typed a folder, and the default is another one.
pub(crate) fn of_service(typed: Option<&Path>, words: &str) -> Option<String> {
    let there = Path::new(OF_SERVICE);
    let other = typed.is_none() && folder(None).is_ok_and(|folder| folder != there) && there.is_dir();
    let sudo = if is_root() { "" } else { "sudo " };
    other.then(|| format!("of the service of this machine: {sudo}xdfs {words} --state {OF_SERVICE}"))
}

/// The option that a command needs to find the folder that was typed here, such as ` --state DIR`;
/// empty if it finds that folder by default. Suggested commands without it would change what is in
/// another folder.
pub(crate) fn option(typed: Option<&Path>) -> String {
    option_unless(typed, folder(None))
}

/// The same for commands of a client.
pub(crate) fn own_option(typed: Option<&Path>) -> String {
    option_unless(typed, own(None))
}

fn option_unless(typed: Option<&Path>, default: Result<PathBuf, Failure>) -> String {
    let Some(typed) = typed.filter(|typed| default.ok().as_deref() != Some(typed)) else { return String::new() };
    format!(" --state {}", shell_word(&printable_path(typed)))
}

/// The user's home, if known: as mount(8) starts a program for a user, only the system's list of users tells it.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}

fn choose(typed: Option<&Path>, xdg: Option<PathBuf>, default: Option<PathBuf>) -> Option<PathBuf> {
    // The XDG specification: a folder that is not absolute is ignored.
    let xdg = xdg.filter(|xdg| xdg.is_absolute()).map(|xdg| xdg.join("xdfs"));
    typed.map(Path::to_owned).or(xdg).or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_names_the_folder_that_is_not_found_without_it() {
        let default = folder(None).unwrap();
        for (typed, expected) in [
            (None, ""),
            (default.to_str(), ""),
            (Some("state"), " --state state"),
            (Some("/srv/x d"), " --state '/srv/x d'"),
            (Some("it's"), " --state 'it'\\''s'"),
        ] {
            assert_eq!(option(typed.map(Path::new)), expected);
        }
    }

    #[test]
    fn what_is_said_counts_before_what_is_set_and_that_before_the_default() {
        let path = |text: &str| Some(PathBuf::from(text));
        for (typed, xdg, default, expected) in [
            (Some("s"), path("/x"), path("/h"), path("s")),
            (None, path("/x"), path("/h"), path("/x/xdfs")),
            (None, path("x"), path("/h"), path("/h")),
            (None, path(""), path("/h"), path("/h")),
            (None, None, path("/h"), path("/h")),
            (None, None, None, None),
        ] {
            assert_eq!(choose(typed.map(Path::new), xdg, default), expected);
        }
    }
}
