//! A site with GSI: an authority as `globus-simple-ca` makes it, a host and a user whom it signed, and proxies of the
//! user. Its programs write into `/etc/grid-security` whatever they are told, so they run where that is an empty file
//! system of their own.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Whose certificate the user has.
pub const USER: &str = "/O=Grid/OU=xdfs/OU=Test CA/CN=Anna Example";

/// Makes everything; `$1` is the site's directory.
const SCRIPT: &str = r#"
set -e
mkdir -p /etc/grid-security /var/lib/globus
mount -t tmpfs none /etc/grid-security
mount -t tmpfs none /var/lib/globus
export HOME=$1
cd $1
grid-ca-create -noint -subject "cn=Test CA,ou=xdfs,o=Grid" -pass globus -bits 2048 -days 30
for name in globus-host-ssl globus-user-ssl grid-security; do
    ln -s /etc/grid-security/certificates/$name.conf.* /etc/grid-security/$name.conf
done
mkdir host user other
request() {
    openssl req -new -newkey rsa:2048 -nodes -subj "$2" -keyout $1/$1key.pem -out $1/$1cert_request.pem
}
request host /O=Grid/OU=xdfs/CN=host\\/localhost
request other /O=Grid/OU=xdfs/CN=Otto
grid-cert-request -nopw -cn "Anna Example" -dir $1/user -force
for name in host user other; do
    grid-ca-sign -force -in $name/${name}cert_request.pem -out $name/${name}cert.pem -passin pass:globus
done
cp -r /etc/grid-security/certificates certificates
cp -r /var/lib/globus/simple_ca ca
chmod 600 */*key.pem
"#;

/// A site.
pub struct Site {
    pub root: PathBuf,
}

impl Site {
    /// The one of this process.
    pub fn of_process() -> Option<&'static Self> {
        static SITE: OnceLock<Site> = OnceLock::new();
        let can = xdfs_test_needs::root("a site's programs get a mount namespace of their own")
            && xdfs_test_needs::program("grid-ca-create", "globus-simple-ca")
            && xdfs_test_needs::program("grid-cert-request", "globus-gsi-cert-utils-progs")
            && xdfs_test_needs::program("grid-proxy-init", "globus-proxy-utils")
            && xdfs_test_needs::program("openssl", "openssl");
        can.then(|| SITE.get_or_init(Self::make))
    }

    fn make() -> Self {
        let above = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gsi");
        fs::create_dir_all(&above).unwrap();
        // What ended processes have left.
        for entry in fs::read_dir(&above).unwrap().flatten() {
            if !Path::new("/proc").join(entry.file_name()).exists() {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let root = above.join(std::process::id().to_string());
        fs::create_dir_all(&root).unwrap();
        let mut command = Command::new("unshare");
        run(command.args(["-m", "bash", "-c", SCRIPT, "site"]).arg(&root));
        let site = Self { root };
        fs::write(site.root.join("map"), format!("\"{USER}\" root\n")).unwrap();
        site.proxy("proxy", &[]);
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Makes a proxy at another time, as `+2 days`.
    pub fn proxy_at(&self, time: &str, name: &str) -> PathBuf {
        let path = self.path(name);
        let mut command = Command::new("faketime");
        command.env("X509_CERT_DIR", self.path("certificates")).args([time, "grid-proxy-init", "-q", "-hours", "1"]);
        command.arg("-cert").arg(self.path("user/usercert.pem")).arg("-key").arg(self.path("user/userkey.pem"));
        run(command.arg("-out").arg(&path).arg("-pwstdin"));
        path
    }

    /// Makes a proxy of the user's, with more arguments of `grid-proxy-init`.
    pub fn proxy(&self, name: &str, arguments: &[&str]) -> PathBuf {
        self.proxy_of("user", name, arguments)
    }

    /// The same of somebody's.
    pub fn proxy_of(&self, whose: &str, name: &str, arguments: &[&str]) -> PathBuf {
        let path = self.path(name);
        let mut command = Command::new("grid-proxy-init");
        command.env("X509_CERT_DIR", self.path("certificates")).arg("-q").args(arguments);
        command.arg("-cert").arg(self.path(&format!("{whose}/{whose}cert.pem")));
        command.arg("-key").arg(self.path(&format!("{whose}/{whose}key.pem"))).arg("-out").arg(&path);
        run(command.arg("-pwstdin"));
        path
    }

    /// What a server of the site is started with.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("X509_CERT_DIR", self.path("certificates")),
            ("X509_USER_CERT", self.path("host/hostcert.pem")),
            ("X509_USER_KEY", self.path("host/hostkey.pem")),
            ("GRIDMAP", self.path("map")),
        ]
    }

    /// A copy of the authorities, to change.
    pub fn other_authorities(&self, name: &str) -> PathBuf {
        let copy = self.path(name);
        fs::create_dir(&copy).unwrap();
        for entry in fs::read_dir(self.path("certificates")).unwrap().flatten() {
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        copy
    }

    /// The name of the authority's files, without what is behind the dot.
    pub fn hash(&self) -> String {
        let names = fs::read_dir(self.path("certificates")).unwrap().flatten();
        let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
        names.find_map(|name| name.strip_suffix(".0").map(str::to_owned)).unwrap()
    }

    /// The authority's list of these revoked certificates, which is to be followed by another at `next`.
    pub fn revocation_list(&self, revoked: &[&str], next: &str) -> Vec<u8> {
        let own = self.path(&format!("list-{}-{next}", revoked.join("-")));
        fs::create_dir(&own).unwrap();
        fs::write(own.join("index.txt"), "").unwrap();
        fs::write(own.join("number"), "01\n").unwrap();
        let text = format!(
            "[ca]\ndefault_ca=own\n[own]\ndatabase={0}/index.txt\ncrlnumber={0}/number\ndefault_md=sha256\n",
            own.display()
        );
        fs::write(own.join("config"), text).unwrap();
        let openssl = |arguments: &[&str]| {
            let mut command = Command::new("openssl");
            command.current_dir(&self.root).arg("ca").arg("-config").arg(own.join("config")).args(arguments);
            run(command.args(["-cert", "ca/cacert.pem", "-keyfile", "ca/private/cakey.pem", "-passin", "pass:globus"]));
        };
        for whose in revoked {
            openssl(&["-revoke", &format!("{whose}/{whose}cert.pem")]);
        }
        let out = own.join("list.pem");
        let out_text = out.to_str().unwrap();
        openssl(&["-gencrl", "-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", next, "-out", out_text]);
        fs::read(&out).unwrap()
    }

    /// A file with a key, that nobody else may read.
    pub fn secret(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    }
}

/// Runs a program to its end; what it says is shown if it fails.
pub fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
}
