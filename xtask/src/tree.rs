//! The files of the repository: what git tracks, and what it would track if it were added.

use crate::Failure;
use crate::lex;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One text file, with its path relative to the root of the repository.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative path with `/` between its parts.
    pub(crate) path: String,
    /// Its text as it stands.
    pub(crate) text: String,
}

impl File {
    /// Is it Rust?
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The text with comments and literals blanked; line and column stay where they were.
    pub(crate) fn code(&self) -> String {
        lex::blank(&self.text)
    }
}

/// The root of the repository: the folder above xtask.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// All text files below the root that git tracks or would track. Files that are not UTF-8 are left out.
pub(crate) fn files() -> Result<Vec<File>, Failure> {
    let root = root();
    let mut files = Vec::new();
    for path in paths(&root)? {
        let Ok(bytes) = std::fs::read(root.join(&path)) else {
            continue; // tracked, and deleted in the working copy
        };
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path, text });
        }
    }
    Ok(files)
}

/// Their names.
pub(crate) fn paths(root: &Path) -> Result<Vec<String>, Failure> {
    // A build machine may check out as another user than it builds as; git refuses such a folder unless told.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    let mut paths: Vec<String> = listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}
