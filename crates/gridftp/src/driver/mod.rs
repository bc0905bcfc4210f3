//! Drivers for stacks of `xdfs-xio`, a directory each: [`RemoteFile`], whose elements are files of FTP and
//! GridFTP servers, and [`ModeE`].

mod ftp;
mod mode_e;

pub use ftp::RemoteFile;
pub use mode_e::ModeE;

use std::sync::Arc;
use xdfs_xio::{Error, ErrorKind, Registry, Result};

/// Adds this crate's drivers to those of a program: `mode_e`, `ftp` and `gridftp`.
///
/// # Errors
/// If there is a driver of one of these names.
pub fn add_to(registry: &mut Registry) -> Result<()> {
    registry.add("mode_e", Arc::new(ModeE))?;
    registry.add("ftp", Arc::new(RemoteFile::Ftp))?;
    registry.add("gridftp", Arc::new(RemoteFile::GridFtp))
}

fn within(name: &str, value: u64, most: u64) -> Result<u64> {
    if (1..=most).contains(&value) {
        return Ok(value);
    }
    Err(Error::new(ErrorKind::Usage, format!("'{name}' is {value}; it is 1 to {most}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "looks at the files of the crate itself")]

    use super::*;

    /// The page that people read and the tables that the drivers have say the same.
    #[test]
    fn the_page_describes_every_driver_and_every_attribute() {
        let page = include_str!("../../../../docs/xio.md");
        let mut registry = Registry::empty();
        assert!(add_to(&mut registry).is_ok());
        for name in registry.names() {
            let heads = |section: &&str| section.lines().next().is_some_and(|head| head.contains(&format!("`{name}`")));
            let section = page.split("\n### ").find(heads);
            let section = section.unwrap_or_else(|| panic!("docs/xio.md has no section on {name}"));
            for part in ["Contact", "ommands"] {
                assert!(section.contains(part), "docs/xio.md, {name}: it says nothing of {part}");
            }
            for info in registry.find(name).map(|driver| driver.attributes()).unwrap_or_default() {
                let row = format!("| `{}` | {} |", info.name, info.about);
                assert!(section.contains(&row), "docs/xio.md, {name}: there is no row {row}");
            }
        }
    }

    #[test]
    fn every_driver_has_its_directory_with_the_same_files() {
        let mut registry = Registry::empty();
        assert!(add_to(&mut registry).is_ok());
        for name in registry.names() {
            // `gridftp` is `ftp` with other attributes.
            let directory = if name == "gridftp" { "ftp" } else { name };
            for file in ["mod.rs", "tests.rs"] {
                let path = format!("{}/src/driver/{directory}/{file}", env!("CARGO_MANIFEST_DIR"));
                assert!(std::path::Path::new(&path).is_file(), "there is no {path}");
            }
        }
    }
}
