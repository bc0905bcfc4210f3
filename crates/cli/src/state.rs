//! The default location of keys, users and known servers: one folder for `serve`, `user`, `key`,
//! `trust` and the clients, so that all find the same without an option.

use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure};
use crate::text::{printable_path, shell_word};

/// The folder of a service that runs as root.
const OF_ROOT: &str = "/var/lib/xdfs";

/// The state folder: the typed one, or the default for this user. It need not exist.
pub(crate) fn folder(typed: Option<&Path>) -> Result<PathBuf, Failure> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    choose(typed, variable("XDG_STATE_HOME"), rustix::process::geteuid().is_root(), variable("HOME")).ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            "HOME is not set, so there is no place for keys\nhelp: name a folder with --state DIR",
        )
    })
}

/// The option that a command needs to find the folder that was typed here, such as ` --state DIR`;
/// empty if it finds that folder by default. Suggested commands without it would change what is in
/// another folder.
pub(crate) fn option(typed: Option<&Path>) -> String {
    let Some(typed) = typed.filter(|typed| folder(None).ok().as_deref() != Some(typed)) else { return String::new() };
    format!(" --state {}", shell_word(&printable_path(typed)))
}

/// The user's home, if known.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

fn choose(typed: Option<&Path>, xdg: Option<PathBuf>, root: bool, home: Option<PathBuf>) -> Option<PathBuf> {
    if let Some(typed) = typed {
        return Some(typed.to_owned());
    }
    // The XDG specification: a folder that is not absolute is ignored.
    if let Some(xdg) = xdg.filter(|xdg| xdg.is_absolute()) {
        return Some(xdg.join("xdfs"));
    }
    if root {
        return Some(PathBuf::from(OF_ROOT));
    }
    home.filter(|home| home.is_absolute()).map(|home| home.join(".local/state/xdfs"))
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
    fn what_is_said_counts_before_what_is_set_and_root_has_its_own() {
        let path = |text: &str| Some(PathBuf::from(text));
        for (typed, xdg, root, home, expected) in [
            (Some("s"), path("/x"), true, path("/h"), path("s")),
            (None, path("/x"), true, path("/h"), path("/x/xdfs")),
            (None, path("x"), true, path("/h"), path("/var/lib/xdfs")),
            (None, None, true, None, path("/var/lib/xdfs")),
            (None, None, false, path("/h"), path("/h/.local/state/xdfs")),
            (None, path(""), false, path("/h"), path("/h/.local/state/xdfs")),
            (None, None, false, path("h"), None),
            (None, None, false, None, None),
        ] {
            assert_eq!(choose(typed.map(Path::new), xdg, root, home), expected);
        }
    }
}
