//! What GridFTP's security layer wants before it protects anything: an authority, a host and a user signed by it, and a
//! map from the user's name to an account. Made with openssl alone, in the scratch directory, for this run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Plain, Stdio};

use crate::error::{Context, Error, Result};

/// The name that the client expects of the server.
pub(super) const HOST: &str = "/O=Bench/CN=localhost";
const USER: &str = "/O=Bench/CN=benchuser";
const AUTHORITY: &str = "/O=Bench/CN=authority";

/// Where everything is.
#[derive(Debug, Clone)]
pub(super) struct Certificates {
    /// The authority's certificate under the name that the libraries look for.
    pub(super) authorities: PathBuf,
    /// The server's certificate and key.
    pub(super) host: (PathBuf, PathBuf),
    /// The user's certificate and key in one file. As a proxy they are used as they are, without a shorter-lived copy.
    pub(super) user: PathBuf,
    /// Who the user is on the server.
    pub(super) map: PathBuf,
}

impl Certificates {
    /// Makes them in `directory`, or finds those that were made there.
    pub(super) fn prepare(directory: &Path, account: &str) -> Result<Self> {
        let own = directory.join("gsi");
        let made = Self {
            authorities: own.join("authorities"),
            host: (own.join("host.pem"), own.join("host.key")),
            user: own.join("user.proxy"),
            map: own.join("map"),
        };
        if own.exists() {
            return Ok(made);
        }
        fs::create_dir_all(&made.authorities).context(|| own.display().to_string())?;
        let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-sha256"];
        let authority = ["-subj", AUTHORITY, "-keyout", "ca.key", "-out", "ca.pem"];
        openssl(&own, &[&request[..], &authority[..]].concat())?;
        sign(&own, HOST, "host")?;
        sign(&own, USER, "user")?;
        let hash = openssl(&own, &["x509", "-in", "ca.pem", "-noout", "-hash"])?;
        let name = |suffix: &str| made.authorities.join(format!("{}.{suffix}", hash.trim()));
        copy(&own.join("ca.pem"), &name("0"))?;
        let policy = format!(
            "access_id_CA X509 '{AUTHORITY}'\npos_rights globus CA:sign\ncond_subjects globus '\"/O=Bench/*\"'\n"
        );
        write(&name("signing_policy"), policy.as_bytes())?;
        write(&made.map, format!("\"{USER}\" {account}\n").as_bytes())?;
        let read = |name: &str| fs::read(own.join(name)).context(|| name.to_owned());
        write(&made.user, &[read("user.pem")?, read("user.key")?].concat())?;
        Ok(made)
    }
}

fn sign(own: &Path, subject: &str, name: &str) -> Result<()> {
    let file = |suffix: &str| format!("{name}.{suffix}");
    let (key, request, signed) = (file("key"), file("csr"), file("pem"));
    openssl(
        own,
        &["req", "-newkey", "rsa:2048", "-nodes", "-sha256", "-subj", subject, "-keyout", &key, "-out", &request],
    )?;
    // Without extensions it would be a certificate of version 1, which no library but theirs takes.
    write(&own.join("extensions"), b"basicConstraints = CA:FALSE\nsubjectAltName = DNS:localhost\n")?;
    let authority =
        ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions", "-days", "2", "-sha256"];
    openssl(own, &[&["x509", "-req", "-in", &request, "-out", &signed], &authority[..]].concat())?;
    // The libraries refuse a key that others may read.
    fs::set_permissions(own.join(&key), fs::Permissions::from_mode(0o600)).context(|| key.clone())
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).context(|| path.display().to_string())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).context(|| path.display().to_string())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(drop).context(|| to.display().to_string())
}

fn openssl(directory: &Path, arguments: &[&str]) -> Result<String> {
    let line = || format!("openssl {}", arguments.join(" "));
    let output =
        Plain::new("openssl").args(arguments).current_dir(directory).stdin(Stdio::null()).output().context(line)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Failed { command: line(), status: output.status.to_string(), output: text })
}
