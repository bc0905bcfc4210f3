//! The drivers by name, in one readable table. No code runs before `main` to fill it; a program
//! adds its own to a registry of its own.

use crate::driver::Driver;
use crate::drivers;
use crate::error::{Error, ErrorKind, Result};
use crate::load;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Drivers by name.
#[derive(Clone, Default)]
pub struct Registry {
    drivers: BTreeMap<String, Arc<dyn Driver>>,
    /// Where others are looked for.
    folders: Vec<PathBuf>,
}

impl Registry {
    /// None at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Those of this crate.
    pub fn built_in() -> Self {
        let drivers = drivers::built_in().into_iter().map(|(name, driver)| (name.to_owned(), driver));
        Self { drivers: drivers.collect(), folders: Vec::new() }
    }

    /// Those of this crate, and those that come as files in the folders of `XDFS_DRIVER_PATH` and
    /// `LD_LIBRARY_PATH`. Their code runs in this process: no peer may choose their names.
    pub fn with_installed() -> Self {
        Self::with_folders(load::folders())
    }

    /// Those of this crate, and those that come as files in these folders.
    pub fn with_folders(folders: Vec<PathBuf>) -> Self {
        Self { folders, ..Self::built_in() }
    }

    /// Adds a driver; a name is given once.
    pub fn add(&mut self, name: &str, driver: Arc<dyn Driver>) -> Result<()> {
        if !is_name(name) {
            let what = format!("'{}' is no name of a driver: a-z, 0-9 and '_'", name.escape_debug());
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
        if is_name(name)
            && let Some(driver) = load::find(name, &self.folders)?
        {
            return Ok(driver);
        }
        let known: Vec<_> = self.names().collect();
        let mut what = format!("there is no driver '{}'; there are: {}", name.escape_debug(), known.join(", "));
        if !self.folders.is_empty() {
            let folders: Vec<_> = self.folders.iter().map(|folder| folder.display().to_string()).collect();
            what.push_str(&format!("; nor is libxdfs_xio_{}.so in {}", name.escape_debug(), folders.join(", ")));
        }
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
