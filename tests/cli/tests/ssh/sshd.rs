//! An ssh server of the test's own: every connection is handed to a new `sshd -i`, as inetd does, so that the port is the
//! test's from the start.

use std::fs::OpenOptions;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use xdfs_test_cli::{Scene, xdfs_binary};

/// Where Debian puts it, which is in nobody's search path but root's.
const SSHD: &str = "/usr/sbin/sshd";

/// A running server, which ends with this value; its connections end with their clients.
pub struct Sshd {
    port: u16,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sshd {
    /// Starts it for the user of the tests, whose commands find the `xdfs` under test. `forced` stands before the key in
    /// the file of accepted keys, as `command="..."` does.
    pub fn start(scene: &Scene, forced: &str) -> Self {
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
        scene.write("accepted", format!("{forced}{public}").as_bytes());
        scene.directory("bin");
        scene.directory("home");
        std::os::unix::fs::symlink(xdfs_binary(), scene.path("bin/xdfs")).expect("a new link");
        let (top, bin) = (scene.path(""), scene.path("bin"));
        let (top, bin) = (top.display(), bin.display());
        let config = format!(
            "HostKey {top}/host-key\nAuthorizedKeysFile {top}/accepted\nStrictModes no\nPasswordAuthentication no\n\
             PidFile none\nUsePAM no\nPermitRootLogin yes\nSetEnv PATH={bin}:/usr/bin:/bin HOME={top}/home\n"
        );
        scene.write("sshd_config", config.as_bytes());
        let common = format!(
            "IdentityFile {top}/user-key\n IdentitiesOnly yes\n UserKnownHostsFile {top}/known\n \
             StrictHostKeyChecking accept-new\n LogLevel ERROR\n"
        );
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        // By name `box` as usual; by `piped` through a program, and then nobody knows an address.
        let client = format!(
            "Host box\n HostName 127.0.0.1\n Port {port}\n {common}\
             Host piped\n ProxyCommand {SSHD} -i -f {top}/sshd_config\n {common}"
        );
        scene.write("ssh_config", client.as_bytes());
        let stopped = Arc::new(AtomicBool::new(false));
        let (stop, config, log) = (Arc::clone(&stopped), scene.path("sshd_config"), scene.path("sshd.log"));
        let thread = std::thread::spawn(move || serve(&listener, &stop, &config, &log));
        Self { port, stopped, thread: Some(thread) }
    }

    /// The option by which `xdfs` finds it.
    pub fn option(scene: &Scene) -> String {
        format!("--ssh=ssh -F {}", scene.path("ssh_config").display())
    }
}

fn serve(listener: &TcpListener, stop: &AtomicBool, config: &PathBuf, log: &PathBuf) {
    loop {
        let (connection, _) = listener.accept().expect("a connection");
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let log = OpenOptions::new().create(true).append(true).open(log).expect("a log");
        let output = connection.try_clone().expect("a descriptor");
        let child = Command::new(SSHD)
            .args(["-i", "-e", "-f"])
            .arg(config)
            .stdin(Stdio::from(OwnedFd::from(connection)))
            .stdout(Stdio::from(OwnedFd::from(output)))
            .stderr(log)
            .spawn();
        let mut child = child.expect("sshd can be started");
        std::thread::spawn(move || child.wait());
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Lets it see that. If it fails, the thread has ended.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
