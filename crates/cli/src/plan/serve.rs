//! The plan of `xdfs serve`: what it offers, and where.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use xdfs_proto::base::Level;
use xdfs_server::config::Confinement;
use xdfs_server::metrics::MetricsPlace;
use xdfs_server::stores::StoreName;
use xdfs_server::{Anonymous, Preserve};

use super::{PlanError, level_of, show};
use crate::args::{ConfinementArg, KeepArg, Rights, ServeArgs};
use crate::url::is_export_name;

/// The plan of a server.
#[derive(Debug)]
pub(crate) struct ServePlan {
    /// The state folder, if specified.
    pub(crate) state: Option<PathBuf>,
    /// The configuration file; the fields below override it.
    pub(crate) config: Option<PathBuf>,
    /// Its exports, without duplicate names; at least one if there is no file.
    pub(crate) exports: Vec<ExportPlan>,
    /// The listening address; port 0 selects a free one.
    pub(crate) listen: Option<SocketAddr>,
    /// The drivers that channels pass through.
    pub(crate) stack: Option<String>,
    /// Every transfer gets at least this level.
    pub(crate) level_min: Option<Level>,
    /// Channels that one session may have.
    pub(crate) channels_max: Option<u16>,
    /// The site's certificate and its private key.
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    /// The confinement of the process.
    pub(crate) confinement: Option<Confinement>,
    /// Where the metrics are answered.
    pub(crate) metrics: Option<MetricsPlace>,
    /// Wait for a running server to hand its listener over.
    pub(crate) standby: bool,
    /// JSON instead of text on standard output.
    pub(crate) json: bool,
    /// Only problems in the log.
    pub(crate) quiet: bool,
}

/// The plan of a server for one client, which started it over ssh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StdioPlan {
    /// The ports on which further channels may connect; `None` lets the kernel choose one.
    pub(crate) ports: Option<RangeInclusive<u16>>,
}

/// Resolves the arguments of `serve --stdio`.
pub(super) fn resolve_stdio(args: &ServeArgs) -> Result<StdioPlan, PlanError> {
    let ports = |text: &String| {
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let range = from.parse().ok().zip(to.parse().ok()).filter(|(from, to)| 0 < *from && from <= to);
        range.map(|(from, to)| from..=to).ok_or_else(|| PlanError::Ports(text.escape_debug().to_string()))
    };
    Ok(StdioPlan { ports: args.ports.as_ref().map(ports).transpose()? })
}

impl ServePlan {
    /// Whether there is something to reload while it serves.
    pub(crate) fn is_read_again(&self) -> bool {
        self.config.is_some() || self.certificate.is_some()
    }
}

/// One tree that a server offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExportPlan {
    /// Its name in URLs.
    pub(crate) name: String,
    /// What it holds.
    pub(crate) root: Root,
    /// Users may write into it.
    pub(crate) writable: bool,
    /// What visitors may do without a login.
    pub(crate) anonymous: Anonymous,
    /// Metadata that copies may set besides content.
    pub(crate) keep: Preserve,
    /// Whether named pipes may be opened.
    pub(crate) pipes: bool,
}

/// What an export holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Root {
    /// A directory of this machine.
    Directory(PathBuf),
    /// Another store.
    Store(StoreName),
}

/// Resolves the arguments of `serve`.
pub(super) fn resolve(args: ServeArgs) -> Result<ServePlan, PlanError> {
    let anonymous = match args.allow_anonymous {
        None => Anonymous::Nothing,
        Some(Rights::Ro) => Anonymous::Read,
        Some(Rights::Create) => Anonymous::Create,
        Some(Rights::Rw) => Anonymous::Write,
    };
    let wanted = |kind: KeepArg| args.keep.contains(&kind);
    let keep = Preserve {
        modes: wanted(KeepArg::Modes),
        owner: wanted(KeepArg::Owner),
        acl: wanted(KeepArg::Acl),
        xattr: wanted(KeepArg::Xattr),
        special: wanted(KeepArg::Special),
    };
    let mut exports: Vec<ExportPlan> = Vec::with_capacity(args.export.len());
    for text in &args.export {
        let mut export = parse_export(text)?;
        (export.anonymous, export.keep, export.pipes) = (anonymous, keep, args.pipes);
        if exports.iter().any(|other| other.name == export.name) {
            return Err(PlanError::ExportTwice(export.name));
        }
        exports.push(export);
    }
    let (listen, stack) = args.listen.as_deref().map(parse_listen).transpose()?.unzip();
    Ok(ServePlan {
        config: args.config,
        state: args.state,
        exports,
        listen,
        stack: stack.flatten(),
        level_min: args.min_protection.map(level_of),
        channels_max: args.max_channels,
        confinement: args.confinement.map(|how| match how {
            ConfinementArg::Auto => Confinement::Automatic,
            ConfinementArg::Required => Confinement::Required,
            ConfinementArg::Off => Confinement::Off,
        }),
        certificate: args.certificate.zip(args.certificate_key),
        metrics: args.metrics.clone(),
        standby: args.standby,
        json: args.json,
        quiet: args.quiet,
    })
}

/// `NAME=DIR`, `NAME=DIR:ro`, `NAME=DIR:rw`, `NAME=memory:` (or another store) with the same endings.
fn parse_export(text: &OsStr) -> Result<ExportPlan, PlanError> {
    let form = || PlanError::ExportForm(show(text));
    let bytes = text.as_bytes();
    let equals = bytes.iter().position(|&byte| byte == b'=').ok_or_else(form)?;
    let (name, root) = (&bytes[..equals], &bytes[equals + 1..]);
    let name = std::str::from_utf8(name).ok().filter(|name| is_export_name(name));
    let name = name.ok_or_else(|| PlanError::ExportName(show(text)))?.to_owned();
    let (root, writable) = match (root.strip_suffix(b":ro"), root.strip_suffix(b":rw")) {
        (Some(root), _) => (root, false),
        (None, Some(root)) => (root, true),
        (None, None) => (root, true),
    };
    let root = match root {
        b"" => return Err(form()),
        _ => match store_name(root, root.len() < bytes.len() - equals - 1) {
            Some(name) => Root::Store(name),
            None => Root::Directory(PathBuf::from(OsStr::from_bytes(root))),
        },
    };
    Ok(ExportPlan { name, root, writable, anonymous: Anonymous::Nothing, keep: Preserve::default(), pipes: false })
}

/// The store that `root` names; none if it is a directory. With `cut`, an ending was taken from it:
/// 'memory::ro' has lost ':ro', 'memory:ro' the colon with it.
fn store_name(root: &[u8], cut: bool) -> Option<StoreName> {
    let text = std::str::from_utf8(root).ok()?;
    let with_colon = || StoreName::parse(&format!("{text}:")).filter(|_| cut && !text.contains(':'));
    StoreName::parse(text).or_else(with_colon)
}

/// An address with a port, and drivers behind `?stack=`.
fn parse_listen(text: &str) -> Result<(SocketAddr, Option<String>), PlanError> {
    let Some((address, query)) = text.split_once('?') else { return Ok((parse_address(text)?, None)) };
    let stack = query.strip_prefix("stack=").ok_or_else(|| PlanError::ListenForm(show(text.as_ref())))?;
    Ok((parse_address(address)?, Some(stack.to_owned())))
}

/// An address with a port; `localhost` is the only name that needs no lookup.
fn parse_address(text: &str) -> Result<SocketAddr, PlanError> {
    let malformed = || PlanError::Listen(show(text.as_ref()));
    let address = match text.strip_prefix("localhost:") {
        Some(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port.parse().map_err(|_| malformed())?),
        None => text.parse().map_err(|_| malformed())?,
    };
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(text: &str) -> Result<ExportPlan, PlanError> {
        parse_export(OsStr::new(text))
    }

    fn directory(name: &str, path: &str, writable: bool) -> Result<ExportPlan, PlanError> {
        let root = Root::Directory(path.into());
        let (name, anonymous, keep) = (name.to_owned(), Anonymous::Nothing, Preserve::default());
        Ok(ExportPlan { name, root, writable, anonymous, keep, pipes: false })
    }

    #[test]
    fn an_export_is_a_name_a_root_and_a_right() {
        assert_eq!(export("data=/srv/data"), directory("data", "/srv/data", true));
        assert_eq!(export("data=/srv/data:rw"), directory("data", "/srv/data", true));
        assert_eq!(export("data=/srv/data:ro"), directory("data", "/srv/data", false));
        assert_eq!(export("d-1._x=."), directory("d-1._x", ".", true));
        assert_eq!(export("d=/a=b:c"), directory("d", "/a=b:c", true));
        assert_eq!(export("d=/a:ro:ro"), directory("d", "/a:ro", false));
        assert_eq!(export("d=./memory"), directory("d", "./memory", true));
        assert_eq!(export("d=memory"), directory("d", "memory", true));
    }

    #[test]
    fn a_memory_export_may_be_read_only_too() {
        let anonymous = Anonymous::Nothing;
        let memory = |writable| {
            let (name, keep) = ("m".to_owned(), Preserve::default());
            let root = Root::Store(StoreName::parse("memory:").unwrap());
            Ok(ExportPlan { name, root, writable, anonymous, keep, pipes: false })
        };
        assert_eq!(export("m=memory:"), memory(true));
        assert_eq!(export("m=memory:ro"), memory(false));
        assert_eq!(export("m=memory:rw"), memory(true));
        assert_eq!(export("m=memory::ro"), memory(false));
    }

    #[test]
    fn what_names_no_store_is_a_directory() {
        assert_eq!(export("o=memory"), directory("o", "memory", true));
        assert_eq!(export("o=memory:x"), directory("o", "memory:x", true));
    }

    #[test]
    fn a_malformed_export_is_refused_with_what_was_typed() {
        for text in ["data", "data=", "data=:ro"] {
            assert_eq!(export(text), Err(PlanError::ExportForm(text.to_owned())));
        }
        for text in ["=/srv", "a b=/srv", "..=/srv", "a/b=/srv", "\u{fc}=/srv"] {
            assert_eq!(export(text), Err(PlanError::ExportName(text.to_owned())));
        }
    }

    #[test]
    fn a_server_listens_on_an_address_with_a_port() {
        for (text, address) in [
            ("127.0.0.1:2799", "127.0.0.1:2799"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("[::1]:40001", "[::1]:40001"),
            ("localhost:5", "127.0.0.1:5"),
            ("0.0.0.0:2799", "0.0.0.0:2799"),
            ("[::]:2799", "[::]:2799"),
        ] {
            assert_eq!(parse_listen(text), Ok((address.parse().unwrap(), None)));
            let with = format!("{text}?stack=tcp,tls:name=a");
            assert_eq!(parse_listen(&with), Ok((address.parse().unwrap(), Some("tcp,tls:name=a".to_owned()))));
        }
        for text in
            ["", "127.0.0.1", "localhost", "localhost:x", "127.0.0.1:65536", "::1:5", ":2799", "example.org:2799"]
        {
            assert_eq!(parse_listen(text), Err(PlanError::Listen(text.to_owned())), "{text}");
        }
        let form = "127.0.0.1:1?drivers=tcp";
        assert_eq!(parse_listen(form), Err(PlanError::ListenForm(form.to_owned())));
    }
}
