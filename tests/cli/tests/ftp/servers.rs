//! FTP servers of the test's own: Debian's programs, started for each connection with the socket as
//! their standard input, as inetd does, so that no port is fixed and nothing is waited for.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::site::Site;

/// A server program with a directory that its users may write.
pub struct FtpServer {
    /// The directory in the local file system.
    pub here: PathBuf,
    /// What the URL of a name in it starts with.
    pub url: String,
    program: Program,
    children: Children,
    _scratch: TempDir,
}

/// How a server is started.
#[derive(Clone)]
struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
}

/// The processes of the connections so far.
type Children = Arc<Mutex<Vec<Child>>>;

impl FtpServer {
    /// Debian's vsftpd for anonymous users, with these lines besides the usual ones.
    pub fn vsftpd(lines: &str) -> Self {
        Self::vsftpd_in(lines, Vec::new())
    }

    /// The same with variables.
    pub fn vsftpd_in(lines: &str, environment: Vec<(&'static str, PathBuf)>) -> Self {
        assert!(xdfs_test_needs::program("vsftpd", "vsftpd"));
        let scratch = scratch();
        let (root, empty) = (scratch.path().display(), scratch.path().join("empty"));
        std::fs::create_dir(&empty).expect("a new directory");
        let configuration = format!(
            "listen=NO\nanonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\nanon_upload_enable=YES\n\
             anon_mkdir_write_enable=YES\nanon_other_write_enable=YES\nanon_umask=022\nanon_root={root}\n\
             secure_chroot_dir={}\nseccomp_sandbox=NO\n{lines}",
            empty.display()
        );
        let file = scratch.path().join("vsftpd.conf");
        std::fs::write(&file, configuration).expect("a new file");
        let arguments = vec![file.display().to_string()];
        let program = Program { path: "vsftpd".into(), arguments, environment };
        Self::start(scratch, program, "ftp://{address}/open")
    }

    /// Debian's globus-gridftp-server for anonymous users.
    pub fn globus() -> Self {
        Self::globus_with(&[])
    }

    /// The same with more arguments.
    pub fn globus_with(arguments: &[&str]) -> Self {
        assert!(xdfs_test_needs::program("globus-gridftp-server", "globus-gridftp-server-progs"));
        let usual = ["-i", "-aa", "-anonymous-user", "nobody"];
        let arguments = usual.iter().chain(arguments).map(|&argument| argument.to_owned()).collect();
        let program = Program { path: "globus-gridftp-server".into(), arguments, environment: Vec::new() };
        let scratch = scratch();
        let url = format!("gsiftp://{{address}}{}/open", scratch.path().display());
        Self::start(scratch, program, &url)
    }

    /// The same for the users of a site, whom their certificates let in.
    pub fn globus_of(site: &Site) -> Self {
        Self::globus_of_in(site, Vec::new())
    }

    /// The same with more variables.
    pub fn globus_of_in(site: &Site, variables: Vec<(&'static str, PathBuf)>) -> Self {
        assert!(xdfs_test_needs::program("globus-gridftp-server", "globus-gridftp-server-progs"));
        let arguments = ["-i", "-allow-root"].map(str::to_owned).to_vec();
        let environment = site.environment().into_iter().chain(variables).collect();
        let program = Program { path: "globus-gridftp-server".into(), arguments, environment };
        let scratch = scratch();
        let url = format!("gsiftp://{{address}}{}/open", scratch.path().display());
        let mut server = Self::start(scratch, program, &url);
        server.url = server.url.replace("127.0.0.1", "localhost");
        server
    }

    /// Debian's proftpd for anonymous users, with these lines besides the usual ones.
    pub fn proftpd(lines: &str) -> Self {
        let scratch = scratch();
        let (root, peers) = (scratch.path().display(), peers());
        let configuration = format!(
            "ServerName test\nServerType inetd\nDefaultServer on\nPort 0\nUser nobody\nGroup nogroup\nScoreboardFile none\n\
             DelayEngine off\nAuthPAM off\nUseFtpUsers off\nAuthOrder mod_auth_unix.c\nWtmpLog off\nTransferLog none\n\
             SystemLog none\nUseReverseDNS off\nModulePath {}\nLoadModule mod_digest.c\nLoadModule mod_tls.c\n{lines}\
             <Anonymous {root}>\nUser nobody\nGroup nogroup\nUserAlias anonymous nobody\nRequireValidShell off\n\
             AllowOverwrite on\nAllowStoreRestart on\n<Limit WRITE>\nAllowAll\n</Limit>\n</Anonymous>\n",
            peers.join("usr/lib/proftpd").display()
        );
        let file = scratch.path().join("proftpd.conf");
        std::fs::write(&file, configuration).expect("a new file");
        let libraries = peers.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        let program = Program {
            path: peers.join("usr/sbin/proftpd"),
            arguments: vec!["-c".to_owned(), file.display().to_string()],
            environment: vec![("LD_LIBRARY_PATH", libraries)],
        };
        Self::start(scratch, program, "ftp://{address}/open")
    }

    /// Debian's pure-ftpd for a user with a password, with these arguments besides the usual ones: its
    /// anonymous users may rename nothing.
    pub fn pure_ftpd(arguments: &[&str]) -> Self {
        // What `openssl passwd -6 -salt xdfstest secret` prints: pure-pw's own kind takes seconds for each login.
        const SECRET: &str =
            "$6$xdfstest$dvfWcZcFf.KI46D6smNAP4DA4Cchu0U9sjaLANL3V.tp1IK9jaYxSju10HFsC.zLdb91uBiINtqTRDzfpBhZ6.";
        let (scratch, peers) = (scratch(), peers());
        let (passwords, index) = (scratch.path().join("passwords"), scratch.path().join("index"));
        let line = format!("anna:{SECRET}:65534:65534::{}/./::::::::::::\n", scratch.path().display());
        std::fs::write(&passwords, line).expect("a new file");
        let made =
            Command::new(peers.join("usr/bin/pure-pw")).arg("mkdb").arg(&index).arg("-f").arg(&passwords).status();
        assert!(made.expect("pure-pw can be started").success());
        let users = format!("puredb:{}", index.display());
        let usual = ["-l", &users, "-E", "-H"];
        let arguments = usual.into_iter().chain(arguments.iter().copied()).map(str::to_owned).collect();
        let program = Program { path: peers.join("usr/sbin/pure-ftpd"), arguments, environment: Vec::new() };
        Self::start(scratch, program, "ftp://anna:secret@{address}/open")
    }

    fn start(scratch: TempDir, program: Program, url: &str) -> Self {
        assert!(xdfs_test_needs::root("a server for anonymous users gives its rights up"));
        let (here, children) = (scratch.path().join("open"), Children::default());
        let address = serve("127.0.0.1:0", &program, &children);
        Self { here, url: url.replace("{address}", &address), program, children, _scratch: scratch }
    }

    /// What URLs of the same server over IPv6 start with.
    pub fn over_ipv6(&self) -> String {
        let address = serve("[::1]:0", &self.program, &self.children);
        let (before, rest) = self.url.split_once("127.0.0.1:").expect("an address");
        let path = rest.trim_start_matches(|character: char| character.is_ascii_digit());
        format!("{before}{address}{path}")
    }

    /// Ends the processes of all connections so far.
    pub fn kill_sessions(&self) {
        for mut child in self.children.lock().expect("no panic").drain(..) {
            let group = Pid::from_child(&child);
            kill_process_group(group, Signal::KILL).expect("its group is there as long as it was not waited for");
            child.wait().expect("it is ours");
        }
    }

    /// The URL of a name.
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }

    /// Writes a file of the server.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.here.join(name);
        if let Some(above) = path.parent() {
            std::fs::create_dir_all(above).expect("a directory");
            std::fs::set_permissions(above, Permissions::from_mode(0o777)).expect("our own directory");
        }
        std::fs::write(path, bytes).expect("a file");
    }

    /// Reads a file of the server.
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.here.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The names in its directory, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.here).expect("a directory").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// A program that is started for each connection. It ends with the test's process.
fn serve(address: &str, program: &Program, children: &Children) -> String {
    let listener = TcpListener::bind(address).expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    let (program, children) = (program.clone(), Arc::clone(children));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let output = stream.try_clone().expect("a descriptor");
            let mut command = Command::new(&program.path);
            command.args(&program.arguments).envs(program.environment.iter().cloned());
            // A session has several processes.
            command.process_group(0).stdin(OwnedFd::from(stream)).stdout(OwnedFd::from(output)).stderr(Stdio::null());
            let child = command.spawn().expect("the server can be started");
            let mut children = children.lock().expect("no panic");
            children.retain_mut(|child| child.try_wait().is_ok_and(|ended| ended.is_none()));
            children.push(child);
        }
    });
    address
}

/// Where the set-up has unpacked the servers that exclude vsftpd.
fn peers() -> PathBuf {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
    let there = ["proftpd", "pure-ftpd"].iter().all(|name| peers.join("usr/sbin").join(name).is_file());
    let found = if there { Ok(()) } else { Err("proftpd and pure-ftpd, unpacked in target/peers".to_owned()) };
    assert!(xdfs_test_needs::found(found).is_some());
    peers.canonicalize().expect("it is there")
}

/// A directory that others may enter, with one that they may write.
fn scratch() -> TempDir {
    let scratch = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).expect("our own directory");
    let open = scratch.path().join("open");
    std::fs::create_dir(&open).expect("a new directory");
    std::fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("our own directory");
    scratch
}
