//! FTP servers of the test's own: Debian's programs, started for each connection with the socket as
//! their standard input, as inetd does, so that no port is fixed and nothing is waited for.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

/// A server program with a directory that its users may write.
pub struct FtpServer {
    /// The directory in the local file system.
    pub here: PathBuf,
    /// What the URL of a name in it starts with, for anonymous users.
    pub url: String,
    /// What its program is started with.
    environment: Environment,
    _scratch: TempDir,
}

/// Variables of a program.
type Environment = Arc<Mutex<Vec<(&'static str, PathBuf)>>>;

impl FtpServer {
    /// Debian's vsftpd, with these lines besides the usual ones.
    pub fn vsftpd(lines: &str) -> Self {
        assert!(xdfs_test_needs::root("a server for anonymous users gives its rights up"));
        assert!(xdfs_test_needs::program("vsftpd", "vsftpd"));
        let (scratch, here) = scratch();
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
        let environment = Environment::default();
        let port = serve("vsftpd", &[file.to_str().expect("text")], &environment);
        Self { here, url: format!("ftp://127.0.0.1:{port}/open"), environment, _scratch: scratch }
    }

    /// Debian's globus-gridftp-server for anonymous users.
    pub fn globus() -> Self {
        assert!(xdfs_test_needs::root("a server for anonymous users gives its rights up"));
        assert!(xdfs_test_needs::program("globus-gridftp-server", "globus-gridftp-server-progs"));
        let (scratch, here) = scratch();
        let environment = Environment::default();
        let port = serve("globus-gridftp-server", &["-i", "-aa", "-anonymous-user", "nobody"], &environment);
        let url = format!("gsiftp://127.0.0.1:{port}{}", here.display());
        Self { here, url, environment, _scratch: scratch }
    }

    /// Sets a variable of the program for the connections to come.
    pub fn environment(&self, name: &'static str, value: &Path) {
        self.environment.lock().expect("no panic").push((name, value.to_owned()));
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
fn serve(program: &str, arguments: &[&str], environment: &Environment) -> u16 {
    let environment = Arc::clone(environment);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("its address").port();
    let (program, arguments) = (program.to_owned(), arguments.iter().map(ToString::to_string).collect::<Vec<_>>());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let output = stream.try_clone().expect("a descriptor");
            let mut command = Command::new(&program);
            command.args(&arguments).stdin(OwnedFd::from(stream)).stdout(OwnedFd::from(output));
            command.envs(environment.lock().expect("no panic").iter().cloned());
            let mut child = command.stderr(Stdio::null()).spawn().expect("the server can be started");
            std::thread::spawn(move || child.wait());
        }
    });
    port
}

/// A directory that others may enter, with one that they may write.
fn scratch() -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).expect("our own directory");
    let open = scratch.path().join("open");
    std::fs::create_dir(&open).expect("a new directory");
    std::fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("our own directory");
    (scratch, open)
}
