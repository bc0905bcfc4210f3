//! Converts the text of a configuration file to [`Settings`].

use super::error::{ConfigError, ConfigFile, line_of};
use super::limits::{LimitsTable, bandwidth, within};
use super::{Audit, Confinement, ExportRoot, ExportSettings, LogSettings, Settings};
use crate::audit::OnFailure;
use crate::authorise::{Access, Anonymous, Preserve, Users};
use crate::metrics::{MetricsPlace, parse_place};
use crate::stores::StoreName;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::Spanned;
use xdfs_proto::base::{Level, RelPath};
use xdfs_proto::limits::CHANNELS_HARD_MAX;

/// The known cipher suites.
const SUITES: [&str; 2] = ["aes-256-gcm", "chacha20-poly1305"];

/// A word with its position.
type Word = Spanned<String>;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileTable {
    listen: Option<Word>,
    stack: Option<String>,
    state: Option<Word>,
    min_protection: Option<Word>,
    suites: Option<Spanned<Vec<Word>>>,
    confinement: Option<Word>,
    certificate: Option<Word>,
    certificate_key: Option<Word>,
    metrics: Option<Word>,
    #[serde(default)]
    limits: LimitsTable,
    #[serde(default)]
    log: LogTable,
    #[serde(default)]
    exports: BTreeMap<Word, ExportTable>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LogTable {
    audit: Option<Word>,
    audit_failure: Option<Word>,
    #[serde(default)]
    quiet: bool,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ExportTable {
    directory: Word,
    access: Option<Word>,
    users: Option<Vec<Word>>,
    anonymous: Option<Word>,
    min_protection: Option<Word>,
    keep: Option<Vec<Word>>,
    #[serde(default)]
    pipes: bool,
    bandwidth: Option<Word>,
}

/// The file and its text, for errors.
struct Text<'a> {
    path: &'a Path,
    origin: ConfigFile,
    text: &'a str,
}

impl Text<'_> {
    fn at(&self, byte: usize, message: String) -> ConfigError {
        self.origin.at(line_of(self.text, byte), message)
    }

    /// The value that `word` names in `table`.
    fn choose<T: Copy>(&self, key: &str, word: &Word, table: &[(&str, T)]) -> Result<T, ConfigError> {
        let found = table.iter().find(|(name, _)| name == word.get_ref());
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            let text = format!(
                "{key} = \"{}\" is not known\nhelp: write one of: {}",
                word.get_ref().escape_debug(),
                names.join(", ")
            );
            self.at(word.span().start, text)
        })
    }

    /// A path; a relative one is resolved from the file's folder.
    fn path_of(&self, word: &Word) -> Result<PathBuf, ConfigError> {
        if word.get_ref().is_empty() || word.get_ref().contains('\0') {
            return Err(self.at(word.span().start, "this names no file\nhelp: write a path".into()));
        }
        Ok(self.path.parent().unwrap_or(Path::new("")).join(word.get_ref()))
    }
}

/// Parses the text of a configuration file.
pub(super) fn parse(path: &Path, text: &str) -> Result<Settings, ConfigError> {
    let file = Text { path, origin: ConfigFile::new(path), text };
    let table: FileTable = toml::from_str(text).map_err(|error| {
        let byte = error.span().map_or(0, |span| span.start);
        file.at(byte, format!("{}\nhelp: 'man xdfs-server.toml' lists the keys", error.message()))
    })?;
    let at = |byte, message| file.at(byte, message);
    let mut limits = table.limits;
    let channels = within("channels", limits.channels.take(), 1, CHANNELS_HARD_MAX.into(), &at)?;
    let listen = table.listen.map(|word| listen(&file, &word)).transpose()?;
    let suites = table.suites.map(|words| suites(&file, &words)).transpose()?.unwrap_or_default();
    let confinement = table.confinement.map(|word| {
        let known = [("auto", Confinement::Automatic), ("required", Confinement::Required), ("off", Confinement::Off)];
        file.choose("confinement", &word, &known)
    });
    Ok(Settings {
        listen,
        stack: table.stack,
        state: table.state.map(|word| file.path_of(&word)).transpose()?,
        exports: exports(&file, table.exports)?,
        min_protection: level(&file, table.min_protection.as_ref())?,
        suites,
        // Within its bounds it fits.
        channels: channels.map(|channels| channels as u16),
        certificate: certificate(&file, table.certificate.as_ref(), table.certificate_key.as_ref())?,
        metrics: table.metrics.map(|word| metrics(&file, &word)).transpose()?,
        limits: limits.resolve(&at)?,
        confinement: confinement.transpose()?.unwrap_or_default(),
        log: log(&file, &table.log)?,
        origin: ConfigFile::new(path),
        audit_line: table.log.audit.as_ref().map_or(0, |word| line_of(text, word.span().start)),
    })
}

/// Both files or neither.
fn certificate(
    file: &Text<'_>,
    certificate: Option<&Word>,
    key: Option<&Word>,
) -> Result<Option<(PathBuf, PathBuf)>, ConfigError> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some((file.path_of(certificate)?, file.path_of(key)?))),
        (None, None) => Ok(None),
        (Some(one), None) => {
            Err(file.at(one.span().start, "certificate needs certificate-key, the file of its private key".into()))
        }
        (None, Some(one)) => {
            Err(file.at(one.span().start, "certificate-key needs certificate, the file of the certificate".into()))
        }
    }
}

fn listen(file: &Text<'_>, word: &Word) -> Result<SocketAddr, ConfigError> {
    let text = word.get_ref().strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    text.as_ref().unwrap_or(word.get_ref()).parse().map_err(|_| {
        let text = format!(
            "listen = \"{}\" is no address and port\nhelp: write it like \"0.0.0.0:2799\" or \"[::]:2799\" (no host names but localhost)",
            word.get_ref().escape_debug()
        );
        file.at(word.span().start, text)
    })
}

fn suites(file: &Text<'_>, words: &Spanned<Vec<Word>>) -> Result<Vec<String>, ConfigError> {
    let known = SUITES.map(|name| (name, name));
    if words.get_ref().is_empty() {
        let text = format!("no suite is allowed, so nobody can connect\nhelp: name some of: {}", SUITES.join(", "));
        return Err(file.at(words.span().start, text));
    }
    words.get_ref().iter().map(|word| Ok(file.choose("suites", word, &known)?.to_owned())).collect()
}

fn metrics(file: &Text<'_>, word: &Word) -> Result<MetricsPlace, ConfigError> {
    let place = parse_place(word.get_ref()).map_err(|error| file.at(word.span().start, format!("metrics: {error}")))?;
    Ok(match place {
        MetricsPlace::Unix(path) => MetricsPlace::Unix(file.path.parent().unwrap_or(Path::new("")).join(path)),
        tcp @ MetricsPlace::Tcp(_) => tcp,
    })
}

/// What copies may preserve.
fn keep(file: &Text<'_>, words: &[Word]) -> Result<Preserve, ConfigError> {
    let mut keep = Preserve::default();
    for word in words {
        let names = [("modes", 0), ("owner", 1), ("acl", 2), ("xattr", 3), ("special", 4)];
        let field = match file.choose("keep", word, &names)? {
            0 => &mut keep.modes,
            1 => &mut keep.owner,
            2 => &mut keep.acl,
            3 => &mut keep.xattr,
            _ => &mut keep.special,
        };
        *field = true;
    }
    Ok(keep)
}

fn level(file: &Text<'_>, word: Option<&Word>) -> Result<Level, ConfigError> {
    let known = [Level::Clear, Level::Integrity, Level::Private].map(|level| (level.name(), level));
    word.map_or(Ok(Level::Clear), |word| file.choose("min-protection", word, &known))
}

fn log(file: &Text<'_>, table: &LogTable) -> Result<LogSettings, ConfigError> {
    let audit = match &table.audit {
        None => Audit::Off,
        Some(word) if word.get_ref() == "off" => Audit::Off,
        Some(word) if word.get_ref() == "stderr" => Audit::StandardError,
        Some(word) => Audit::File(file.path_of(word)?),
    };
    let known = [("go-on", OnFailure::GoOn), ("stop", OnFailure::Stop)];
    let audit_failure = table.audit_failure.as_ref().map(|word| file.choose("audit-failure", word, &known));
    Ok(LogSettings { audit, audit_failure: audit_failure.transpose()?.unwrap_or_default(), quiet: table.quiet })
}

fn exports(file: &Text<'_>, tables: BTreeMap<Word, ExportTable>) -> Result<Vec<ExportSettings>, ConfigError> {
    tables.into_iter().map(|(name, table)| export(file, &name, &table)).collect()
}

fn export(file: &Text<'_>, name: &Word, table: &ExportTable) -> Result<ExportSettings, ConfigError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    // One component that needs no escape in a URL.
    let fits = name.get_ref().bytes().all(plain) && RelPath::parse(name.get_ref().as_bytes()).is_ok();
    if !fits || name.get_ref().is_empty() {
        let text = format!(
            "'{}' cannot be the name of an export\nhelp: use letters, digits, '-', '.' and '_'",
            name.get_ref().escape_debug()
        );
        return Err(file.at(name.span().start, text));
    }
    let writable = match &table.access {
        None => true,
        Some(word) => file.choose("access", word, &[("ro", false), ("rw", true)])?,
    };
    let visitors = [
        ("none", Anonymous::Nothing),
        ("ro", Anonymous::Read),
        ("create", Anonymous::Create),
        ("rw", Anonymous::Write),
    ];
    let anonymous = table.anonymous.as_ref().map(|word| (file.choose("anonymous", word, &visitors), word.span().start));
    let anonymous = match anonymous {
        None => Anonymous::Nothing,
        Some((Ok(rights), byte)) if rights > Anonymous::Read && !writable => {
            let text = "visitors cannot write to an export that is read-only\nhelp: write anonymous = \"ro\" or access = \"rw\"";
            return Err(file.at(byte, text.into()));
        }
        Some((rights, _)) => rights?,
    };
    let line = |word: &Word| line_of(file.text, word.span().start);
    let words = table.users.as_deref().unwrap_or_default();
    let names: BTreeSet<String> = words.iter().map(|word| word.get_ref().clone()).collect();
    Ok(ExportSettings {
        name: name.get_ref().clone(),
        root: match StoreName::parse(table.directory.get_ref()) {
            Some(name) => ExportRoot::Store(name),
            None => ExportRoot::Directory(file.path_of(&table.directory)?),
        },
        access: Access {
            writable,
            users: if table.users.is_some() { Users::Only(names) } else { Users::All },
            anonymous,
            floor: level(file, table.min_protection.as_ref())?,
            keep: keep(file, table.keep.as_deref().unwrap_or_default())?,
            pipes: table.pipes,
        },
        bandwidth: bandwidth("bandwidth", table.bandwidth.as_ref(), &|byte, message| file.at(byte, message))?,
        line: line(&table.directory),
        users_lines: words.iter().map(|word| (word.get_ref().clone(), line(word))).collect(),
    })
}
