//! The drivers by name, in one readable table. No code runs before `main` to fill it; a program
//! adds its own to a registry of its own.

use crate::driver::Driver;
use crate::drivers;
use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Drivers by name.
#[derive(Clone, Default)]
pub struct Registry {
    drivers: BTreeMap<String, Arc<dyn Driver>>,
}

impl Registry {
    /// None at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Those of this crate.
    pub fn built_in() -> Self {
        let drivers = drivers::built_in().into_iter().map(|(name, driver)| (name.to_owned(), driver));
        Self { drivers: drivers.collect() }
    }

    /// Adds a driver; a name is given once.
    pub fn add(&mut self, name: &str, driver: Arc<dyn Driver>) -> Result<()> {
        let valid = !name.is_empty()
            && name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
        if !valid {
            let what = format!("'{}' is no name of a driver: a-z, 0-9 and '_'", name.escape_debug());
            return Err(Error::new(ErrorKind::Usage, what));
        }
        if self.drivers.contains_key(name) {
            return Err(Error::new(ErrorKind::Usage, format!("there is a driver '{name}' already")));
        }
        self.drivers.insert(name.to_owned(), driver);
        Ok(())
    }

    /// The driver of that name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Driver>> {
        self.drivers.get(name)
    }

    /// The driver of that name, or an error that names those that there are.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Driver>> {
        self.find(name).cloned().ok_or_else(|| {
            let known: Vec<_> = self.names().collect();
            let what = format!("there is no driver '{}'; there are: {}", name.escape_debug(), known.join(", "));
            Error::new(ErrorKind::Usage, what).of_driver(name)
        })
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.drivers.keys().map(String::as_str)
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
