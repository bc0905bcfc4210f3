//! Where keys, users and known servers are when nobody says it: one folder for `serve`, `user`, `key`, `trust` and the
//! clients, so that they find the same without a word.

use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure};
use crate::text::printable_path;

/// What a service of root keeps.
const OF_ROOT: &str = "/var/lib/xdfs";

/// The state folder: what was typed, or the place for this user. It need not be there.
pub(crate) fn folder(typed: Option<&Path>) -> Result<PathBuf, Failure> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    choose(typed, variable("XDG_STATE_HOME"), rustix::process::geteuid().is_root(), variable("HOME")).ok_or_else(|| {
        Failure::new(Exit::Usage, "HOME is not set, so there is no place for keys; name a folder with --state DIR")
    })
}

/// What a command needs behind it to find the folder that was typed here, such as ` --state DIR`; nothing where it finds that
/// folder without a word. A remedy without it would change what is in another folder.
pub(crate) fn option(typed: Option<&Path>) -> String {
    let Some(typed) = typed.filter(|typed| folder(None).ok().as_deref() != Some(typed)) else { return String::new() };
    let shown = printable_path(typed);
    // Whatever a shell would read otherwise is quoted.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(&byte);
    match shown.bytes().all(plain) {
        true => format!(" --state {shown}"),
        false => format!(" --state '{}'", shown.replace('\'', "'\\''")),
    }
}

/// The user's home, where it is known.
pub(crate) fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

fn choose(typed: Option<&Path>, xdg: Option<PathBuf>, root: bool, home: Option<PathBuf>) -> Option<PathBuf> {
    if let Some(typed) = typed {
        return Some(typed.to_owned());
    }
    // The specification of XDG folders: one that is not absolute is as if it were not set.
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
