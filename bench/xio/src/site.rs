//! What the driver `gsi` of both programs wants: an authority, and a host and a user whom it signed. Made with openssl
//! for the run, in a directory that goes with the value.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const AUTHORITY: &str = "/O=Bench/CN=authority";
const HOST: &str = "/O=Bench/CN=localhost";
const USER: &str = "/O=Bench/CN=user";

/// The files of a run.
pub(crate) struct Site(PathBuf);

impl Site {
    pub(crate) fn make() -> io::Result<Self> {
        let site = Self(std::env::temp_dir().join(format!("xio-bench-{}", std::process::id())));
        fs::create_dir(&site.0)?;
        fs::create_dir(site.0.join("authorities"))?;
        let own = ["-keyout", "ca.key", "-out", "ca.pem"];
        site.openssl(&[&["req", "-x509", "-days", "2", "-subj", AUTHORITY], &NEW_KEY[..], &own].concat())?;
        // Without extensions it would be a certificate of version 1.
        fs::write(site.0.join("extensions"), "basicConstraints = CA:FALSE\nsubjectAltName = DNS:localhost\n")?;
        site.sign(HOST, "host")?;
        site.sign(USER, "user")?;
        let hash = site.openssl(&["x509", "-in", "ca.pem", "-noout", "-hash"])?;
        let named = |suffix: &str| site.0.join("authorities").join(format!("{}.{suffix}", hash.trim()));
        fs::copy(site.0.join("ca.pem"), named("0"))?;
        let policy = format!(
            "access_id_CA X509 '{AUTHORITY}'\npos_rights globus CA:sign\ncond_subjects globus '\"/O=Bench/*\"'\n"
        );
        fs::write(named("signing_policy"), policy)?;
        // A certificate and its key in one file are taken as a proxy is.
        let proxy = [fs::read(site.0.join("user.pem"))?, fs::read(site.0.join("user.key"))?].concat();
        fs::write(site.0.join("proxy"), proxy)?;
        private(&site.0.join("proxy"))?;
        Ok(site)
    }

    /// A server's variables of the environment.
    pub(crate) fn of_server(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("X509_CERT_DIR", self.0.join("authorities")),
            ("X509_USER_CERT", self.0.join("host.pem")),
            ("X509_USER_KEY", self.0.join("host.key")),
        ]
    }

    /// A client's.
    pub(crate) fn of_client(&self) -> [(&'static str, PathBuf); 2] {
        [("X509_CERT_DIR", self.0.join("authorities")), ("X509_USER_PROXY", self.0.join("proxy"))]
    }

    fn sign(&self, subject: &str, name: &str) -> io::Result<()> {
        let [key, request, signed] = ["key", "csr", "pem"].map(|suffix| format!("{name}.{suffix}"));
        self.openssl(&[&["req", "-subj", subject, "-keyout", &key, "-out", &request], &NEW_KEY[..]].concat())?;
        let authority = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions"];
        let words = ["x509", "-req", "-days", "2", "-sha256", "-in", &request, "-out", &signed];
        self.openssl(&[&words[..], &authority].concat())?;
        private(&self.0.join(key))
    }

    fn openssl(&self, words: &[&str]) -> io::Result<String> {
        let output = Command::new("openssl").args(words).current_dir(&self.0).stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(io::Error::other(format!("openssl {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr))))
    }
}

/// A key of the size that grids use.
const NEW_KEY: [&str; 4] = ["-newkey", "rsa:2048", "-nodes", "-sha256"];

/// Keys that others may read are refused.
fn private(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o600))
}

impl Drop for Site {
    fn drop(&mut self) {
        // What cannot be removed is a small thing in the directory of temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
