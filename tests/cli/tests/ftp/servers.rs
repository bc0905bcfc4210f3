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
use xdfs_test_cli::until;

use super::site::Site;
use super::unpacked::{self, PURE_FTPD_LOGIN, Program};

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

/// The processes of the connections so far.
type Children = Arc<Mutex<Vec<Child>>>;

impl FtpServer {
    /// Debian's vsftpd for anonymous users, with these lines besides the usual ones.
    pub fn vsftpd(lines: &str) -> Self {
        Self::vsftpd_in(lines, Vec::new())
    }

    /// The same with variables.
    pub fn vsftpd_in(lines: &str, environment: Vec<(&'static str, PathBuf)>) -> Self {
        Self::vsftpd_with("127.0.0.1:0", lines, environment)
    }

    /// The same at an address of one's choice.
    pub fn vsftpd_at(address: &str, lines: &str) -> Self {
        Self::vsftpd_with(address, lines, Vec::new())
    }

    fn vsftpd_with(address: &str, lines: &str, environment: Vec<(&'static str, PathBuf)>) -> Self {
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
        Self::start_at(address, scratch, program, "ftp://{address}/open")
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
        Self::globus_of_both(site, &[], variables)
    }

    /// The same with more arguments.
    pub fn globus_of_with(site: &Site, arguments: &[&str]) -> Self {
        Self::globus_of_both(site, arguments, Vec::new())
    }

    fn globus_of_both(site: &Site, arguments: &[&str], variables: Vec<(&'static str, PathBuf)>) -> Self {
        assert!(xdfs_test_needs::program("globus-gridftp-server", "globus-gridftp-server-progs"));
        let arguments = ["-i", "-allow-root"].iter().chain(arguments).map(|&argument| argument.to_owned()).collect();
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
        let program = unpacked::proftpd(scratch.path(), lines).expect("the server is there");
        Self::start(scratch, program, "ftp://{address}/open")
    }

    /// Debian's pure-ftpd for a user with a password, with these arguments besides the usual ones.
    pub fn pure_ftpd(arguments: &[&str]) -> Self {
        let scratch = scratch();
        let program = unpacked::pure_ftpd(scratch.path(), arguments).expect("the server is there");
        Self::start(scratch, program, &format!("ftp://{PURE_FTPD_LOGIN}{{address}}/open"))
    }

    fn start(scratch: TempDir, program: Program, url: &str) -> Self {
        Self::start_at("127.0.0.1:0", scratch, program, url)
    }

    fn start_at(address: &str, scratch: TempDir, program: Program, url: &str) -> Self {
        assert!(xdfs_test_needs::root("a server for anonymous users gives its rights up"));
        let (here, children) = (scratch.path().join("open"), Children::default());
        let address = serve(address, &program, &children);
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

/// The log of a server, once this is so: it is written when a session ends.
#[track_caller]
pub fn log_with(path: &Path, is_so: impl Fn(&str) -> bool) -> String {
    until(|| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned(), |log| is_so(log))
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

/// A directory that others may enter, with one that they may write.
fn scratch() -> TempDir {
    let scratch = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).expect("our own directory");
    let open = scratch.path().join("open");
    std::fs::create_dir(&open).expect("a new directory");
    std::fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("our own directory");
    scratch
}
