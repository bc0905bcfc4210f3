//! Files of the server itself must not lie in what it offers: a reader of such an export would get
//! the host key, and a writer could decide who may log in.

use std::path::{Path, PathBuf};

use xdfs_io::store::leads_to;

use crate::exit::{Exit, Failure};
use crate::text::printable_path;

/// A directory that is offered.
#[derive(Debug)]
pub(super) struct Offered<'a> {
    pub(super) name: &'a str,
    pub(super) path: &'a Path,
    pub(super) writable: bool,
}

/// A file or folder of the server itself.
#[derive(Debug)]
pub(super) struct OwnFile<'a> {
    /// What it is, and how to move it.
    pub(super) what: &'static str,
    pub(super) remedy: &'static str,
    pub(super) path: &'a Path,
    /// It is not secret: only writers must not reach it.
    pub(super) public: bool,
}

/// An error if an export holds something of `own`, or lies in it. A path that does not exist yet is
/// judged by its folder.
pub(super) fn refuse(exports: &[Offered<'_>], own: &[OwnFile<'_>]) -> Result<(), Failure> {
    for own in own {
        let Some(real) = place(own.path) else { continue };
        for export in exports.iter().filter(|export| export.writable || !own.public) {
            let Some(offered) = leads_to(export.path) else { continue };
            if real.starts_with(&offered) || offered.starts_with(&real) {
                let (shown, name, directory) = (printable_path(&real), export.name, printable_path(export.path));
                let text = format!(
                    "export '{name}' ({directory}) would show {} ({shown}) to others; {}, or offer another directory",
                    own.what, own.remedy
                );
                return Err(Failure::new(Exit::Usage, text));
            }
        }
    }
    Ok(())
}

/// The place that a path leads to, or would.
fn place(path: &Path) -> Option<PathBuf> {
    leads_to(path).or_else(|| Some(leads_to(&super::paths::folder_of(path))?.join(path.file_name()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a server with its files at `own` may not offer `export`, both below a new directory.
    fn refused(export: &str, own: &str, (writable, public): (bool, bool)) -> bool {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("home/data")).unwrap();
        std::fs::create_dir_all(at("home/state")).unwrap();
        std::fs::create_dir_all(at("home/state2")).unwrap();
        std::os::unix::fs::symlink("home", at("link")).unwrap();
        let (export, own) = (at(export), at(own));
        let exports = [Offered { name: "x", path: &export, writable }];
        let own = [OwnFile { what: "the state", remedy: "move it", path: &own, public }];
        let refused = refuse(&exports, &own);
        if let Err(failure) = &refused {
            assert!(failure.message.contains("'x'") && failure.message.contains("move it"), "{}", failure.message);
        }
        refused.is_err()
    }

    #[test]
    fn an_export_holds_nothing_of_the_servers_and_lies_in_nothing() {
        let secret = (false, false);
        assert!(refused("home", "home/state", secret));
        assert!(refused("home/state", "home/state", secret));
        assert!(refused("home/state", "home", secret), "an export in it");
        assert!(refused("link", "home/state", secret), "by another name");
        assert!(refused("home", "link/state", secret));
        assert!(refused("home", "home/state/not-yet", secret));
        assert!(!refused("home/data", "home/state", secret));
        assert!(!refused("home/state2", "home/state", secret), "names are compared whole");
        let log = "home/data/log";
        assert!(refused("home/data", log, (true, true)));
        assert!(!refused("home/data", log, (false, true)), "it can be read and not changed");
    }
}
