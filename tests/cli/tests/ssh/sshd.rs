//! An ssh server of the test's own: every connection is handed to a new `sshd -i`, as inetd does, so that the port is the
//! test's from the start.

use std::fs::OpenOptions;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use xdfs_test_cli::{Scene, xdfs_binary};

/// Where Debian puts it, which is in nobody's search path but root's.
const SSHD: &str = "/usr/sbin/sshd";

/// The user of [`Options::person`], who is neither root nor anybody, and a password of theirs.
pub const PERSON: u32 = 4711;
pub const PASSWORD: &str = "a horse and a stable";

/// That password as /etc/shadow has it.
const HASH: &str = "$6$xdfstest$zpZxPO7i08DnyuCzMpawnt..sgh7jSNeeiDKRF6AZtvEhq4ikqwcJxOchFDklUVGspvoGXLbXWqu8LjQl/kft0";

/// What a server of a test has beyond the usual.
pub struct Options<'a> {
    /// Before the key in the file of accepted keys, as `command="..."`.
    pub forced: &'a str,
    /// The address that it listens on.
    pub address: &'a str,
    /// Its machine has the user `person` too, with a password. Only root can start this one.
    pub person: bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { forced: "", address: "127.0.0.1", person: false }
    }
}

/// A running server, which ends with this value; its connections end with their clients.
pub struct Sshd {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Sshd {
    /// Starts it for the user of the tests, whose commands find the `xdfs` under test. `forced` stands before the key in
    /// the file of accepted keys, as `command="..."` does.
    pub fn start(scene: &Scene, forced: &str) -> Self {
        Self::start_with(scene, &Options { forced, ..Options::default() })
    }

    /// The same with more options.
    pub fn start_with(scene: &Scene, options: &Options<'_>) -> Self {
        assert!(xdfs_test_needs::program("ssh", "openssh-client") && xdfs_test_needs::program(SSHD, "openssh-server"));
        if rustix::process::geteuid().is_root() {
            // It wants this directory; Debian's service makes it at boot.
            std::fs::create_dir_all("/run/sshd").expect("root may");
        }
        for key in ["host-key", "user-key"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(scene.path(key));
            assert!(command.status().expect("ssh-keygen can be started").success());
        }
        let public = String::from_utf8(scene.read("user-key.pub")).expect("text");
        scene.write("accepted", format!("{}{public}", options.forced).as_bytes());
        scene.directory("bin");
        scene.directory("home");
        std::os::unix::fs::symlink(xdfs_binary(), scene.path("bin/xdfs")).expect("a new link");
        let top = scene.path("").display().to_string();
        let top = top.trim_end_matches('/');
        let passwords = if options.person { "yes" } else { "no" };
        let config = format!(
            "HostKey {top}/host-key\nAuthorizedKeysFile {top}/accepted\nStrictModes no\n\
             PasswordAuthentication {passwords}\nPidFile none\nUsePAM no\nPermitRootLogin yes\n\
             SetEnv PATH={top}/bin:/usr/bin:/bin HOME={top}/home\n"
        );
        scene.write("sshd_config", config.as_bytes());
        let listener = TcpListener::bind((options.address, 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        scene.write("ssh_config", client_config(top, address).as_bytes());
        let mut server = Command::new(SSHD);
        if options.person {
            server = with_person(scene, top);
        }
        server.args(["-i", "-e", "-f"]).arg(scene.path("sshd_config"));
        let stopped = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let (stop, count, log) = (Arc::clone(&stopped), Arc::clone(&connections), scene.path("sshd.log"));
        let thread = std::thread::spawn(move || serve(&listener, (&stop, &count), server, &log));
        Self { address, stopped, connections, thread: Some(thread) }
    }

    /// The option by which `xdfs` finds it.
    pub fn option(scene: &Scene) -> String {
        format!("--ssh=ssh -F {}", scene.path("ssh_config").display())
    }

    /// The connections that it had so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// The configuration of ssh: by name `box` as usual; by `piped` through a program, and then nobody knows an address; by
/// `behind` through `box`; `agent` has no key in a file, and by `asking` a person has to answer all questions.
fn client_config(top: &str, address: SocketAddr) -> String {
    let key = format!("IdentityFile {top}/user-key\n IdentitiesOnly yes\n");
    let known = format!(" UserKnownHostsFile {top}/known\n LogLevel ERROR\n");
    let accept = " StrictHostKeyChecking accept-new\n";
    let place = format!("HostName {}\n Port {}\n ", address.ip(), address.port());
    format!(
        "Host box\n {place}{key}{accept}{known}\
         Host piped\n ProxyCommand {SSHD} -i -f {top}/sshd_config\n {key}{accept}{known}\
         Host behind\n ProxyJump box\n {place}{key}{accept}{known}\
         Host agent\n {place}IdentityFile none\n{accept}{known}\
         Host asking\n {place}PubkeyAuthentication no\n StrictHostKeyChecking ask\n{known}"
    )
}

/// The start of a command that runs where the user `person` exists: in a mount name space with files of its own for
/// those of the machine, which stay as they are.
fn with_person(scene: &Scene, top: &str) -> Command {
    let add = |name: &str, line: &str| {
        let text = std::fs::read_to_string(format!("/etc/{name}")).expect("root reads it");
        scene.write(name, format!("{text}\n{line}\n").as_bytes());
    };
    add("passwd", &format!("person:x:{PERSON}:{PERSON}::{top}/home:/bin/sh"));
    add("shadow", &format!("person:{HASH}:19000:0:99999:7:::"));
    std::os::unix::fs::chown(scene.path("home"), Some(PERSON), Some(PERSON)).expect("root may");
    let script = "mount --bind \"$0/passwd\" /etc/passwd && mount --bind \"$0/shadow\" /etc/shadow && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, top, SSHD]);
    command
}

fn serve(listener: &TcpListener, (stop, count): (&AtomicBool, &AtomicUsize), mut server: Command, log: &PathBuf) {
    loop {
        let (connection, _) = listener.accept().expect("a connection");
        if stop.load(Ordering::Relaxed) {
            return;
        }
        count.fetch_add(1, Ordering::Relaxed);
        let log = OpenOptions::new().create(true).append(true).open(log).expect("a log");
        let output = connection.try_clone().expect("a descriptor");
        server.stdin(Stdio::from(OwnedFd::from(connection))).stdout(Stdio::from(OwnedFd::from(output))).stderr(log);
        let mut child = server.spawn().expect("sshd can be started");
        // The command holds the connection as well, and it has to end with sshd.
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        std::thread::spawn(move || child.wait());
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Lets it see that. If it fails, the thread has ended.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
