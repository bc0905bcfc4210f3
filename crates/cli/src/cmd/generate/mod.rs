//! `xdfs generate`: the man pages and the shell completions, made from the same definition as
//! `--help`.
//!
//! The results are committed below `docs/`; the tests compare them, so they stay up to date.

mod client_config;
mod completions;
mod man;
mod server_toml;
mod text;

use std::io;
use std::path::Path;

use crate::args::Generated;
use crate::exit::{Exit, Failure};
use crate::text::printable_path;

/// A file's name below the directory, and its content.
type Page = (String, Vec<u8>);

/// Writes the requested files into `directory`.
pub(crate) fn run(what: Generated, directory: &Path) -> Result<Exit, Failure> {
    let pages = match what {
        Generated::Man => man::pages(),
        Generated::Completions => Ok(completions::completions()),
    };
    for (name, content) in pages.map_err(|error| failure(directory, &error))? {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(parent).map_err(|error| failure(parent, &error))?;
        std::fs::write(&path, content).map_err(|error| failure(&path, &error))?;
    }
    Ok(Exit::Done)
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::of_io(error), format!("{}: cannot be written: {error}", printable_path(path)))
}

#[cfg(test)]
mod tests;
