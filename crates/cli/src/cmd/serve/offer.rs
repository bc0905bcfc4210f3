//! What a server offers, from the command line and the configuration file together: the command
//! line wins.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use xdfs_io::store::{LocalStore, Store};
use xdfs_proto::base::Level;
use xdfs_secure::journal::JournalKey;
use xdfs_server::config::{Audit, Settings, with_journals};
use xdfs_server::privilege::Needs;
use xdfs_server::users::{Accounts, StateFolder};
use xdfs_server::{Access, Anonymous, Export, Policy, Preserve, ServerLimits, SiteCertificate};

use super::fixed::{Fixed, check_places};
use super::inside::{self, Offered, OwnFile};
use super::paths::folder_of;
use super::site;
use crate::descriptors;
use crate::exit::{Exit, Failure, Side};
use crate::plan::{ExportPlan, Root, ServePlan};
use crate::text::printable_path;

/// The whole configuration of a server, except its identity.
#[derive(Debug)]
pub(super) struct ServerOffer {
    /// Settings that do not change until the next start.
    pub(super) fixed: Fixed,
    /// Its exports.
    pub(super) exports: Vec<Export>,
    /// The policy of sessions.
    pub(super) policy: Policy,
    /// Bounds.
    pub(super) limits: ServerLimits,
    /// Only problems in the log.
    pub(super) quiet: bool,
    /// The site's certificate, loaded and valid.
    pub(super) site: Option<SiteCertificate>,
    /// Its needs of the file system.
    pub(super) needs: Needs,
}

impl ServerOffer {
    /// Reads the configuration file, if any, and opens every directory, and the state folder: that of a `running` server.
    pub(super) fn resolve(plan: &ServePlan, running: Option<&Fixed>) -> Result<(Self, StateFolder), Failure> {
        let settings = read(plan)?;
        let fixed = Fixed::of(plan, &settings)?;
        let folder = running.map_or(&fixed.state, |running| &running.state).clone();
        let state = StateFolder::create(&folder).map_err(|error| Failure::local(&error))?;
        let key = state.journal_key().map_err(|error| Failure::local(&error))?;
        let accounts = state.accounts().map_err(|error| Failure::local(&error))?;
        Ok((Self::of(plan, settings, fixed, (&folder, &key, &accounts))?, state))
    }

    /// The same without making anything, for a server that is not started.
    pub(super) fn check(plan: &ServePlan) -> Result<Self, Failure> {
        let settings = read(plan)?;
        let fixed = Fixed::of(plan, &settings)?;
        let accounts = match StateFolder::open(&fixed.state).map_err(|error| Failure::local(&error))? {
            Some(state) => {
                state.present_host_key().map_err(|error| Failure::local(&error))?;
                state.accounts().map_err(|error| Failure::local(&error))?
            }
            None => Accounts::default(),
        };
        check_places(&fixed)?;
        // Nothing is resumed, so no journal is read or written with it.
        let key = Arc::new(JournalKey::new(&[0; JournalKey::BYTES]));
        let folder = fixed.state.clone();
        let mut offer = Self::of(plan, settings, fixed, (&folder, &key, &accounts))?;
        offer.needs.readable.retain(|path| *path != folder);
        Ok(offer)
    }

    /// What `settings` and the command line say together.
    fn of(
        plan: &ServePlan,
        settings: Settings,
        fixed: Fixed,
        (folder, key, accounts): (&Path, &Arc<JournalKey>, &Accounts),
    ) -> Result<Self, Failure> {
        let known = |user: &str| accounts.find(user).is_some();
        settings.check_users(known).map_err(|error| invalid(&error))?;
        settings.check_audit(Path::is_dir).map_err(|error| invalid(&error))?;
        let mut needs = Needs::default();
        // The users are reloaded when they change.
        needs.readable.push(folder.to_owned());
        let mut exports = Vec::new();
        let mut offered = Vec::new();
        for export in &plan.exports {
            exports.push(open(export, key, &settings.limits)?);
            if let Root::Directory(path) = &export.root {
                offered.push(Offered { name: &export.name, path, writable: export.writable });
                need(&mut needs, path, export.writable);
            }
        }
        let named: Vec<&str> = plan.exports.iter().map(|export| export.name.as_str()).collect();
        let mut of_file = settings.open_exports(key).map_err(|error| invalid(&error))?;
        of_file.retain(|export| !named.contains(&export.name()));
        for export in settings.exports.iter().filter(|export| !named.contains(&export.name.as_str())) {
            if let Some(path) = export.directory() {
                offered.push(Offered { name: &export.name, path, writable: export.access.writable });
                need(&mut needs, path, export.access.writable);
            }
        }
        exports.append(&mut of_file);
        let granted = exports.iter().map(Export::access).filter(|access| access.writable);
        needs.pipes = granted.clone().any(|access| access.pipes);
        needs.keep = granted.fold(Preserve::default(), |all, access| all.or(access.keep));
        if exports.is_empty() {
            let text = "nothing is offered\nhelp: add an export to the configuration file, or give --export NAME=DIR";
            return Err(Failure::new(Exit::Usage, text.to_owned()));
        }
        // The file is replaced by another one in its folder, and reloaded from there.
        needs.readable.extend(plan.config.as_deref().map(folder_of));
        if let Audit::File(path) = &fixed.audit {
            needs.appendable.push(folder_of(path));
        }
        let certificate = plan.certificate.clone().or(settings.certificate);
        needs
            .readable
            .extend(certificate.iter().flat_map(|(chain, key)| site::folders(chain).chain(site::folders(key))));
        refuse_own(&offered, folder, plan.config.as_deref(), &fixed.audit, certificate.as_ref())?;
        let site = certificate.map(|(chain, key)| site::read(&chain, &key)).transpose()?;
        let floor = plan.level_min.unwrap_or(Level::Clear).max(settings.min_protection);
        let channels_max = plan.channels_max.or(settings.channels).unwrap_or(Policy::default().channels_max);
        let mut policy = Policy { channels_max, floor, ..Policy::default() };
        if !settings.suites.is_empty() {
            policy.suites.retain(|suite| settings.suites.iter().any(|name| name == suite.name()));
        }
        // A connection with a stack is two descriptors.
        let limit = descriptors::raise_limit() / if fixed.stack.is_some() { 2 } else { 1 };
        Ok(Self {
            fixed,
            exports,
            policy,
            limits: descriptors::share(settings.limits, limit),
            quiet: plan.quiet || settings.log.quiet,
            site,
            needs,
        })
    }

    /// Whether visitors are admitted without a login: if any export is open to them.
    pub(super) fn visitors(&self) -> bool {
        self.exports.iter().any(|export| export.access().anonymous != Anonymous::Nothing)
    }
}

/// What the configuration file says, if there is one.
fn read(plan: &ServePlan) -> Result<Settings, Failure> {
    let Some(path) = &plan.config else { return Ok(Settings::default()) };
    Settings::read(path).map_err(|error| invalid(&error))
}

fn invalid(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, format!("--config {error}"))
}

fn refuse_own(
    offered: &[Offered<'_>],
    state: &Path,
    config: Option<&Path>,
    audit: &Audit,
    certificate: Option<&(PathBuf, PathBuf)>,
) -> Result<(), Failure> {
    let what = "the server's state, with its key and its users,";
    let mut own = vec![OwnFile { what, remedy: "give it another place with --state DIR", path: state, public: false }];
    let moved = "give it another place";
    own.extend(config.map(|path| OwnFile { what: "the server's configuration", remedy: moved, path, public: true }));
    own.extend(certificate.map(|(_, key)| OwnFile {
        what: "the certificate's key",
        remedy: moved,
        path: key,
        public: false,
    }));
    if let Audit::File(path) = audit {
        own.push(OwnFile { what: "the audit log", remedy: "give it another place with 'audit'", path, public: true });
    }
    inside::refuse(offered, &own)
}

fn need(needs: &mut Needs, path: &Path, writable: bool) {
    let list = if writable { &mut needs.writable } else { &mut needs.readable };
    list.push(path.to_owned());
}

fn open(plan: &ExportPlan, key: &Arc<JournalKey>, limits: &ServerLimits) -> Result<Export, Failure> {
    let (writable, anonymous, keep) = (plan.writable, plan.anonymous, plan.keep);
    let access = Access { writable, anonymous, keep, pipes: plan.pipes, ..Access::default() };
    let store: Arc<dyn Store> = match &plan.root {
        Root::Store(name) => name.open().map_err(|error| {
            let message = format!("--export {}={name}: {error}", plan.name);
            Failure::new(Exit::of_error(&error, Side::Here), message).help("name another store, or a directory")
        })?,
        Root::Directory(path) => {
            let store = LocalStore::open_root(path, plan.writable).map_err(|error| {
                let (name, shown) = (&plan.name, printable_path(path));
                let message = format!("--export {name}={shown}: {error}");
                Failure::new(Exit::of_error(&error, Side::Here), message).help("name a directory that is there")
            })?;
            Arc::new(with_journals(store, &plan.name, key, limits))
        }
    };
    Ok(Export::new(&plan.name, store, access))
}
