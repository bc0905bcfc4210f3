//! Who logs in to an FTP server: the user of the URL with a password from the URL, from
//! `--password-file`, from `.netrc` or from the terminal; without a user the one that `.netrc` has for
//! the host, or anonymous.

use std::path::PathBuf;

use xdfs_gridftp::command::Login;
use xdfs_io::store::{Secrecy, read_named};

use super::super::user::first_line;
use super::netrc;
use crate::exit::{Exit, Failure};
use crate::output::complain;
use crate::plan::LoginPlan;
use crate::text::printable_path;
use crate::url::Url;
use crate::{ask, state};

/// Longest `.netrc` that is read.
const NETRC_BYTES_MAX: usize = 1 << 20;

/// The login for a URL's server.
pub(super) fn of(url: &Url, plan: &LoginPlan) -> Result<Login, Failure> {
    let Some(user) = &url.user else {
        let entry = match netrc_of(&url.host.to_string(), None) {
            Ok(entry) => entry,
            // It may have nothing for this host, and anybody may come in there.
            Err(failure) => {
                complain(&failure.message);
                None
            }
        };
        return Ok(entry.map_or_else(Login::anonymous, |entry| Login {
            user: entry.user.into_bytes(),
            password: entry.password.unwrap_or_default().into_bytes(),
        }));
    };
    let login = |password: Vec<u8>| Ok(Login { user: user.clone().into_bytes(), password });
    if let Some(password) = &url.password {
        return login(password.0.clone());
    }
    if let Some(path) = &plan.password_file {
        return login(first_line(path)?.to_vec());
    }
    if let Some(password) = netrc_of(&url.host.to_string(), Some(user))?.and_then(|entry| entry.password) {
        return login(password.into_bytes());
    }
    if matches!(user.as_str(), "anonymous" | "ftp") {
        return login(Login::anonymous().password);
    }
    match ask::secret(&format!("Password of {user} at {}: ", url.host)).map_err(|error| Failure::local(&error))? {
        Some(password) => login(password.to_vec()),
        None => Err(Failure::new(
            Exit::Usage,
            format!(
                "{url}: no password, and no terminal to ask for it\nhelp: put it into ~/.netrc or name a file with --password-file"
            ),
        )),
    }
}

/// What `.netrc` has for a host.
fn netrc_of(host: &str, user: Option<&str>) -> Result<Option<netrc::Entry>, Failure> {
    let named = std::env::var_os("NETRC").map(PathBuf::from);
    let Some(path) = named.or_else(|| Some(state::home()?.join(".netrc"))) else { return Ok(None) };
    let refused = |error| {
        let Failure { exit, message } = Failure::local(&error);
        Failure::new(exit, format!("{message} (it holds passwords: 'chmod 600 {}')", printable_path(&path)))
    };
    let Some(bytes) = read_named(&path, NETRC_BYTES_MAX, Secrecy::Secret).map_err(refused)? else { return Ok(None) };
    Ok(netrc::find(&String::from_utf8_lossy(&bytes), host, user))
}
