//! Certificates of users for `gsiftp://`: where there is a proxy it logs in, and nobody asks for a password.

use xdfs_client::Level;
use xdfs_gridftp::client::{DataProtection, GsiPeer, Security};
use xdfs_gridftp::command::Login;
use xdfs_gridftp::credentials::Places;
use xdfs_secure::handshake::tls::gsi::{Expected, Gsi};

use crate::exit::{Exit, Failure};
use crate::plan::LoginPlan;
use crate::url::{Ftp, Url, Via};

/// Whether a URL's server is logged in to by a certificate: it speaks GridFTP, the user has a proxy, and nothing asks for
/// another login.
pub(super) fn is_used(url: &Url, plan: &LoginPlan) -> bool {
    let names_another = url.password.is_some()
        || plan.password_file.is_some()
        || matches!(url.user.as_deref(), Some("anonymous" | "ftp"));
    url.via == Via::Ftp(Ftp::Grid) && !names_another && Places::of_environment().has_credential()
}

/// The account: the one that the site has for the certificate, or the one that the URL names.
pub(super) fn login(url: &Url) -> Login {
    url.user.as_ref().map_or_else(Login::mapped, |user| Login::certified(user.clone().into_bytes()))
}

/// Reads and checks the user's credential.
pub(super) fn load(url: &Url) -> Result<Gsi, Failure> {
    Places::of_environment().load().map_err(|error| {
        let failure = Failure::new(Exit::LoginRefused, format!("{url}: {error}"));
        failure.help(format!(
            "gsiftp://anonymous@{}/ logs in without a certificate, where the server admits that",
            url.host
        ))
    })
}

/// Who the server must be, and what protects the data.
pub(super) fn security(url: &Url, gsi: Gsi, level: Level) -> Security {
    let data = match level {
        Level::Clear => DataProtection::Authenticated,
        Level::Integrity => DataProtection::Safe,
        Level::Private => DataProtection::Private,
    };
    Security::Gsi(GsiPeer { gsi, expected: Expected::Host(url.host.to_string()), data })
}
