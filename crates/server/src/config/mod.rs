//! The configuration file of a server (TOML): read whole, checked whole, and only then used.
//!
//! An unknown key and a name that does not resolve (a directory, a user, a cipher suite) are errors
//! that report file, line and remedy: a misspelt setting must never mean "no limit". Anything
//! the file leaves out has the shipped default. It holds no secrets.

mod error;
mod file;
mod limits;

#[cfg(test)]
mod tests;

pub use error::ConfigError;

use crate::admit::ServerLimits;
use crate::audit::OnFailure;
use crate::authorise::{Access, Export};
use crate::metrics::MetricsPlace;
use crate::stores::StoreName;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xdfs_engine::journal::ExportJournals;
use xdfs_io::store::{LocalStore, Store};
use xdfs_proto::base::{Error, Level};
use xdfs_secure::journal::JournalKey;

/// Largest configuration file: thousands of exports.
const FILE_BYTES_MAX: usize = 4 << 20;

/// The content of a configuration file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// The address to listen on.
    pub listen: Option<SocketAddr>,
    /// The drivers that channels pass through, in the words of the command.
    pub stack: Option<String>,
    /// The folder of host key and users.
    pub state: Option<PathBuf>,
    /// The exports.
    pub exports: Vec<ExportSettings>,
    /// The lowest protection of every transfer.
    pub min_protection: Level,
    /// Names of the cipher suites that records may use; all known ones if it is empty (SEC-13).
    pub suites: Vec<String>,
    /// Channels of a session at most.
    pub channels: Option<u16>,
    /// The site's certificate, and its private key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Where the metrics are answered.
    pub metrics: Option<MetricsPlace>,
    /// Bounds of the server.
    pub limits: ServerLimits,
    /// The confinement of the process.
    pub confinement: Confinement,
    /// Where events go.
    pub log: LogSettings,
    /// The file, for errors that are found later.
    origin: error::ConfigFile,
    /// Line of the audit log's file.
    audit_line: usize,
}

/// One export, as given in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportSettings {
    /// Its name.
    pub name: String,
    /// What holds its files.
    pub root: ExportRoot,
    /// Its access rules.
    pub access: Access,
    /// Bytes per second of all its sessions together; 0 is no limit.
    pub bandwidth: u64,
    /// Line of its directory.
    line: usize,
    /// Lines of its users.
    users_lines: Vec<(String, usize)>,
}

/// What holds the files of an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExportRoot {
    /// A directory of this machine.
    Directory(PathBuf),
    /// Another store.
    Store(StoreName),
}

impl ExportSettings {
    /// The directory of its files; none if another store has them.
    pub fn directory(&self) -> Option<&Path> {
        match &self.root {
            ExportRoot::Directory(directory) => Some(directory),
            ExportRoot::Store(_) => None,
        }
    }
}

/// Whether the server gives up privileges that it does not need (Landlock, seccomp).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Confinement {
    /// As far as the kernel supports it; what it does not is reported once.
    #[default]
    Automatic,
    /// Completely, or the server does not start.
    Required,
    /// Not at all.
    Off,
}

/// Where events go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogSettings {
    /// The file of the audit log; it is opened again on SIGHUP, so that it can be rotated.
    pub audit: Audit,
    /// What the server does if it cannot be written.
    pub audit_failure: OnFailure,
    /// Only problems on standard error.
    pub quiet: bool,
}

/// Where the audit log goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Audit {
    /// Nowhere.
    #[default]
    Off,
    /// To standard error, instead of the lines for people; the journal takes it from there.
    StandardError,
    /// Appended to this file.
    File(PathBuf),
}

impl Settings {
    /// Reads and checks the file `path`. Relative names in it are resolved from the file's own
    /// folder.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        use xdfs_io::store::{Secrecy, read_named};
        let whole = |message: String| ConfigError::whole(path, message);
        let bytes = read_named(path, FILE_BYTES_MAX, Secrecy::Public).map_err(|error| whole(error.message))?;
        let bytes = bytes.ok_or_else(|| whole("there is no such file".into()))?;
        let text =
            String::from_utf8(bytes).map_err(|_| whole("it is not UTF-8\nhelp: write it again as UTF-8".into()))?;
        Self::parse(path, &text)
    }

    /// Checks `text`, the content of `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        file::parse(path, text)
    }

    /// Checks with `exists` that every named user exists.
    pub fn check_users(&self, exists: impl Fn(&str) -> bool) -> Result<(), ConfigError> {
        for export in &self.exports {
            if let Some((user, line)) = export.users_lines.iter().find(|(user, _)| !exists(user)) {
                let text = format!(
                    "export '{}' names the user '{}', who does not exist\nhelp: add them with 'xdfs user add', or take the \
                     name out",
                    export.name,
                    user.escape_debug()
                );
                return Err(self.origin.at(*line, text));
            }
        }
        Ok(())
    }

    /// Checks that the directory of the audit log exists.
    pub fn check_audit(&self, is_directory: impl Fn(&Path) -> bool) -> Result<(), ConfigError> {
        let Audit::File(path) = &self.log.audit else { return Ok(()) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if is_directory(folder) {
            return Ok(());
        }
        let shown = folder.display().to_string();
        let text = format!("the audit log needs the directory {}\nhelp: make it", shown.escape_debug());
        Err(self.origin.at(self.audit_line, text))
    }

    /// Opens the directories of all exports, whose journals are authenticated under `key`.
    pub fn open_exports(&self, key: &Arc<JournalKey>) -> Result<Vec<Export>, ConfigError> {
        self.exports.iter().map(|export| self.open_export(export, key)).collect()
    }

    fn open_export(&self, export: &ExportSettings, key: &Arc<JournalKey>) -> Result<Export, ConfigError> {
        let directory = match &export.root {
            ExportRoot::Directory(directory) => directory,
            ExportRoot::Store(name) => {
                let refused = |error: Error| {
                    self.origin.at(
                        export.line,
                        format!("export '{}': {}\nhelp: name another store", export.name, error.message),
                    )
                };
                return Ok(Self::export_of(export, name.open().map_err(refused)?));
            }
        };
        let store = LocalStore::open_root(directory, export.access.writable).map_err(|error| {
            let text =
                format!("export '{}': {}\nhelp: make the directory, or name another", export.name, error.message);
            self.origin.at(export.line, text)
        })?;
        let store = with_journals(store, &export.name, key, &self.limits);
        Ok(Self::export_of(export, Arc::new(store)))
    }

    fn export_of(export: &ExportSettings, store: Arc<dyn Store>) -> Export {
        Export::new(&export.name, store, export.access.clone()).with_bandwidth(export.bandwidth)
    }
}

/// `store` configured for the export `name`: its journals are authenticated under `key`, and what
/// is kept is bounded.
pub fn with_journals(store: LocalStore, name: &str, key: &Arc<JournalKey>, limits: &ServerLimits) -> LocalStore {
    store.with_journal_tags(ExportJournals::tags(key, name)).with_kept_limits(limits.kept)
}
