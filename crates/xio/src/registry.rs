//! The drivers by name, in one readable table. No code runs before `main` to fill it; a program
//! adds its own to a registry of its own.

use crate::driver::Driver;
use crate::drivers;
use crate::error::{Error, ErrorKind, Result};
use crate::load;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

/// What a driver's name may have.
const NAME_LETTERS: &str = "a-z, 0-9 and '_'";

/// Drivers by name.
#[derive(Clone, Default)]
pub struct Registry {
    drivers: BTreeMap<String, Arc<dyn Driver>>,
    /// Where others are looked for.
    folders: Vec<PathBuf>,
    /// What is told of the environment where a driver is in none of them.
    remarks: Vec<String>,
}

impl Registry {
    /// None at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Those of this crate.
    pub fn built_in() -> Self {
        let drivers = drivers::built_in().into_iter().map(|(name, driver)| (name.to_owned(), driver));
        Self { drivers: drivers.collect(), ..Self::default() }
    }

    /// Those of this crate, and those that come as files in the folders of `XDFS_DRIVER_PATH` and
    /// `LD_LIBRARY_PATH`. Their code runs in this process: no peer may choose their names.
    pub fn with_installed() -> Self {
        let [own, libraries] = ["XDFS_DRIVER_PATH", "LD_LIBRARY_PATH"].map(std::env::var_os);
        Self::with_lists(own.as_deref(), libraries.as_deref())
    }

    /// The same with these two lists of folders.
    fn with_lists(own: Option<&OsStr>, libraries: Option<&OsStr>) -> Self {
        let (folders, remarks) = load::folders(own.unwrap_or_default(), libraries.unwrap_or_default());
        Self { remarks, ..Self::with_folders(folders) }
    }

    /// Those of this crate, and those that come as files in these folders.
    pub fn with_folders(folders: Vec<PathBuf>) -> Self {
        Self { folders, ..Self::built_in() }
    }

    /// Adds a driver; a name is given once.
    pub fn add(&mut self, name: &str, driver: Arc<dyn Driver>) -> Result<()> {
        if !is_name(name) {
            let what = format!("'{}' is no name of a driver: {NAME_LETTERS}", name.escape_debug());
            return Err(Error::new(ErrorKind::Usage, what));
        }
        if self.drivers.contains_key(name) {
            return Err(Error::new(ErrorKind::Usage, format!("there is a driver '{name}' already")));
        }
        self.drivers.insert(name.to_owned(), driver);
        Ok(())
    }

    /// The driver of that name, if it is one of this crate or was added.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Driver>> {
        self.drivers.get(name)
    }

    /// The driver of that name, which may be loaded for it, or an error that says where there is none.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Driver>> {
        if let Some(driver) = self.find(name) {
            return Ok(driver.clone());
        }
        let (shown, mut what) = (name.escape_debug(), format!("there is no driver '{}'", name.escape_debug()));
        let valid = is_name(name);
        if !valid {
            what.push_str(&format!(", since a name has only {NAME_LETTERS}"));
        } else if let Some(driver) = load::find(name, &self.folders)? {
            return Ok(driver);
        }
        let known: Vec<_> = self.names().collect();
        what.push_str(&format!("; there are: {}", known.join(", ")));
        if valid && !self.folders.is_empty() {
            let folders: Vec<_> = self.folders.iter().map(|folder| folder.display().to_string()).collect();
            what.push_str(&format!("; nor is libxdfs_xio_{shown}.so in {}", folders.join(", ")));
        }
        self.remarks.iter().filter(|_| valid).for_each(|remark| what.push_str(&format!("; {remark}")));
        Err(Error::new(ErrorKind::Usage, what).of_driver(name))
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.drivers.keys().map(String::as_str)
    }
}

/// Whether a driver can be called so.
fn is_name(name: &str) -> bool {
    let letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    !name.is_empty() && name.chars().all(letter)
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(own: Option<&str>, libraries: Option<&str>, name: &str) -> String {
        let registry = Registry::with_lists(own.map(OsStr::new), libraries.map(OsStr::new));
        registry.get(name).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn who_has_no_folder_of_drivers_is_told_which_variable_names_them() {
        for own in [None, Some("")] {
            let text = told(own, Some("/nonexistent"), "mine");
            assert!(
                text.ends_with("; nor is libxdfs_xio_mine.so in /nonexistent; XDFS_DRIVER_PATH is not set"),
                "{text}"
            );
        }
        assert!(!told(Some("/nonexistent"), None, "mine").contains("XDFS_DRIVER_PATH"));
        let text = told(Some("drivers:/nonexistent:./more"), Some("lib"), "mine");
        let relative = "; 'drivers' in XDFS_DRIVER_PATH is not absolute; './more' in XDFS_DRIVER_PATH is not absolute";
        assert!(text.ends_with(&format!("; nor is libxdfs_xio_mine.so in /nonexistent{relative}")), "{text}");
    }

    #[test]
    fn a_name_that_no_driver_can_have_is_told_as_that_and_looked_for_nowhere() {
        for name in ["my-xor", "MyXor", "my.xor"] {
            let text = told(None, Some("/nonexistent"), name);
            assert!(
                text.contains(&format!("no driver '{name}', since a name has only a-z, 0-9 and '_'; there")),
                "{text}"
            );
            assert!(!text.contains(".so") && !text.contains("XDFS_DRIVER_PATH"), "{text}");
        }
    }
}
