//! Servers for the tests: Debian's programs, started for each connection with the socket as their
//! standard input, as inetd does. So no port is fixed and nothing is waited for.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs::Permissions;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use site::Site;
use tempfile::TempDir;
use unpacked::Program;
use xdfs_gridftp::client::{Client, Error};
use xdfs_gridftp::command::{self, Login};
use xdfs_gridftp::ranges::Range;

pub mod site;
pub mod unpacked;

/// How long a test waits for a server.
pub const WAIT: Duration = Duration::from_secs(20);

/// A server program with a directory that anonymous users may write.
pub struct Server {
    pub address: SocketAddr,
    /// The directory in the local file system.
    pub here: PathBuf,
    /// The same as the server names it.
    pub there: String,
    /// What stands before the host in its URLs.
    pub login: &'static str,
    /// Sessions that were begun.
    sessions: Arc<AtomicUsize>,
    scratch: TempDir,
}

impl Server {
    /// Debian's globus-gridftp-server. It must be root to serve as another user.
    pub fn globus() -> Option<Self> {
        Self::globus_at("127.0.0.1:0")
    }

    /// The same at an address of one's choice.
    pub fn globus_at(address: &str) -> Option<Self> {
        Self::globus_with(address, &[])
    }

    /// The same with more arguments.
    pub fn globus_with(address: &str, arguments: &[&str]) -> Option<Self> {
        if !xdfs_test_needs::root("a server for anonymous users gives its rights up")
            || !xdfs_test_needs::program("globus-gridftp-server", "globus-gridftp-server-progs")
        {
            return None;
        }
        let scratch = scratch();
        let here = scratch.path().join("open");
        let there = here.to_str().unwrap().to_owned();
        let listener = TcpListener::bind(address).unwrap();
        let arguments = [&["-i", "-aa", "-anonymous-user", "nobody"], arguments].concat();
        Some(Self::start(listener, scratch, here, there, "globus-gridftp-server", &arguments))
    }

    /// The same, whose calls of `setsockopt` go into a file.
    pub fn globus_traced(trace: &Path) -> Option<Self> {
        if !xdfs_test_needs::root("a server for anonymous users gives its rights up")
            || !xdfs_test_needs::program("globus-gridftp-server", "globus-gridftp-server-progs")
            || !xdfs_test_needs::tracing()
        {
            return None;
        }
        let scratch = scratch();
        let here = scratch.path().join("open");
        let there = here.to_str().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let trace = ["-f", "-qq", "-A", "-e", "trace=setsockopt", "-o", trace.to_str().unwrap()];
        let server = ["globus-gridftp-server", "-i", "-aa", "-anonymous-user", "nobody"];
        let arguments = [&trace[..], &server].concat();
        Some(Self::start(listener, scratch, here, there, "strace", &arguments))
    }

    /// The same for the users of a site, whom their certificates let in.
    pub fn globus_of(site: &Site) -> Option<Self> {
        Self::globus_of_at(site, "127.0.0.1:0", &[])
    }

    /// The same at an address of one's choice, with more arguments.
    pub fn globus_of_at(site: &Site, address: &str, arguments: &[&str]) -> Option<Self> {
        if !xdfs_test_needs::program("globus-gridftp-server", "globus-gridftp-server-progs") {
            return None;
        }
        let scratch = scratch();
        let here = scratch.path().join("open");
        let there = here.to_str().unwrap().to_owned();
        let listener = TcpListener::bind(address).unwrap();
        let arguments = [&["-i", "-allow-root"], arguments].concat();
        let environment = site.environment();
        Some(Self::start_in(listener, scratch, here, there, "globus-gridftp-server", &arguments, environment))
    }

    /// Debian's vsftpd.
    pub fn vsftpd() -> Option<Self> {
        if !xdfs_test_needs::root("a server for anonymous users gives its rights up")
            || !xdfs_test_needs::program("vsftpd", "vsftpd")
        {
            return None;
        }
        let scratch = scratch();
        let root = scratch.path().to_str().unwrap();
        let empty = scratch.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        let configuration = format!(
            "listen=NO\nanonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\nanon_upload_enable=YES\n\
             anon_mkdir_write_enable=YES\nanon_other_write_enable=YES\nanon_umask=022\nanon_root={root}\n\
             secure_chroot_dir={}\nseccomp_sandbox=NO\nxferlog_enable=YES\nvsftpd_log_file={root}/log\n",
            empty.display()
        );
        let file = scratch.path().join("vsftpd.conf");
        std::fs::write(&file, configuration).unwrap();
        let here = scratch.path().join("open");
        let argument = file.to_str().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Some(Self::start(listener, scratch, here, "/open".to_owned(), "vsftpd", &[&argument]))
    }

    /// Debian's proftpd.
    pub fn proftpd() -> Option<Self> {
        if !xdfs_test_needs::root("a server for anonymous users gives its rights up") {
            return None;
        }
        let scratch = scratch();
        let program = unpacked::proftpd(scratch.path(), "")?;
        Some(Self::start_unpacked(scratch, program, ""))
    }

    /// Debian's pure-ftpd.
    pub fn pure_ftpd() -> Option<Self> {
        if !xdfs_test_needs::root("a server gives its rights up for its users") {
            return None;
        }
        let scratch = scratch();
        let program = unpacked::pure_ftpd(scratch.path(), &[])?;
        Some(Self::start_unpacked(scratch, program, unpacked::PURE_FTPD_LOGIN))
    }

    fn start_unpacked(scratch: TempDir, program: Program, login: &'static str) -> Self {
        let Program { path, arguments, environment } = program;
        let here = scratch.path().join("open");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let path = path.to_str().unwrap();
        let server = Self::start_in(listener, scratch, here, "/open".to_owned(), path, &arguments, environment);
        Self { login, ..server }
    }

    fn start(
        listener: TcpListener,
        scratch: TempDir,
        here: PathBuf,
        there: String,
        program: &str,
        arguments: &[&str],
    ) -> Self {
        Self::start_in(listener, scratch, here, there, program, arguments, Vec::new())
    }

    fn start_in(
        listener: TcpListener,
        scratch: TempDir,
        here: PathBuf,
        there: String,
        program: &str,
        arguments: &[&str],
        environment: Vec<(&'static str, PathBuf)>,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let (program, arguments) = (program.to_owned(), arguments.iter().map(ToString::to_string).collect::<Vec<_>>());
        let sessions = Arc::new(AtomicUsize::new(0));
        let begun = Arc::clone(&sessions);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                begun.fetch_add(1, Ordering::AcqRel);
                let output = stream.try_clone().unwrap();
                let mut command = Command::new(&program);
                command
                    .args(&arguments)
                    .envs(environment.iter().cloned())
                    .stdin(OwnedFd::from(stream))
                    .stdout(OwnedFd::from(output));
                let mut child = command.stderr(Stdio::null()).spawn().unwrap();
                std::thread::spawn(move || child.wait());
            }
        });
        Self { address, here, there, login: "", sessions, scratch }
    }

    /// How many sessions were begun.
    pub fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Acquire)
    }

    /// How often somebody has logged in, as vsftpd's log has it.
    pub fn logins(&self) -> usize {
        let log = std::fs::read_to_string(self.scratch.path().join("log")).unwrap();
        log.lines().filter(|line| line.contains("OK LOGIN")).count()
    }

    /// An anonymous session.
    pub fn client(&self) -> Client {
        Client::connect(self.address, Login::anonymous(), WAIT).unwrap()
    }

    /// What the server calls a name of its directory.
    pub fn name(&self, name: &str) -> Vec<u8> {
        format!("{}/{name}", self.there).into_bytes()
    }
}

/// The log of a server, once it has so many of these words: it is written when a session ends.
pub fn log_with(path: &Path, words: &str, count: usize) -> String {
    let until = Instant::now() + WAIT;
    loop {
        let log = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
        if log.matches(words).count() >= count {
            return log;
        }
        assert!(Instant::now() < until, "{log}");
        std::thread::yield_now();
    }
}

/// A directory that others may enter, with one that they may write.
fn scratch() -> TempDir {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).unwrap();
    let open = scratch.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    scratch
}

/// Bytes without a pattern that a block's size could hide.
pub fn content(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(next).collect()
}

/// A file that the server has.
pub fn put(directory: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(directory.join(name), bytes).unwrap();
}

/// All of a file.
pub fn whole(length: usize) -> Range {
    Range { start: 0, end: length as u64 }
}

/// What a download from `start` leaves in memory.
pub fn download(client: &mut Client, name: &[u8], wanted: Range, streams: Option<u16>) -> Result<Vec<u8>, Error> {
    let mut file = vec![0; usize::try_from(wanted.end).unwrap()];
    let mut received = 0;
    let mut sink = |offset: u64, bytes: &[u8]| {
        let at = usize::try_from(offset).unwrap();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        received += bytes.len() as u64;
        Ok(())
    };
    match streams {
        None => client.download(name, wanted, &mut sink)?,
        Some(streams) => client.download_parallel(name, wanted, streams, &mut sink)?,
    }
    assert_eq!(received, wanted.end - wanted.start);
    Ok(file)
}

/// Uploads bytes, in Mode S from `start` or in Mode E.
pub fn upload(
    client: &mut Client,
    name: &[u8],
    bytes: &[u8],
    start: usize,
    streams: Option<u16>,
) -> Result<u64, Error> {
    let mut fill = |offset: u64, into: &mut [u8]| {
        let rest = &bytes[usize::try_from(offset).unwrap()..];
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    };
    match streams {
        None => client.upload(name, start as u64, &mut fill),
        Some(streams) => client.upload_parallel(name, streams, &mut fill),
    }
}

/// Files of many lengths, with some names that the server refuses between them, both ways and twice over one channel.
pub fn many_both_ways(server: &Server, client: &mut Client) {
    client.make_directory(&server.name("many")).unwrap();
    let contents: Vec<Vec<u8>> = (0..150).map(|index| content(index * 37 % 20_000 * (index % 7))).collect();
    let is_bad = |index: usize| index % 50 == 49;
    let path = |index: usize| if is_bad(index) { format!("many/no/f{index}") } else { format!("many/f{index}") };
    let names: Vec<Vec<u8>> = (0..contents.len()).map(|index| server.name(&path(index))).collect();
    for round in 0..2 {
        let files: Vec<(&[u8], &[u8])> =
            names.iter().zip(&contents).map(|(name, bytes)| (&name[..], &bytes[..])).collect();
        let outcomes = client.upload_many(&files).unwrap();
        assert_eq!(outcomes.len(), files.len());
        for (index, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome.is_err(), is_bad(index), "round {round}, {index}: {outcome:?}");
            if !is_bad(index) {
                assert!(std::fs::read(server.here.join(path(index))).unwrap() == contents[index], "{index}");
            }
        }
        let sizes: Vec<command::Command> = names.iter().map(|name| command::Command::Size(name.clone())).collect();
        for (index, reply) in client.ask_many(&sizes).unwrap().iter().enumerate() {
            assert_eq!(reply.is_err(), is_bad(index), "{index}");
        }
        let wanted: Vec<(&[u8], usize)> =
            names.iter().zip(&contents).map(|(name, bytes)| (&name[..], bytes.len())).collect();
        let mut received = Vec::new();
        client.download_many(&wanted, &mut |one| received.push(one)).unwrap();
        assert_eq!(received.len(), wanted.len());
        for (index, one) in received.iter().enumerate() {
            assert_eq!(one.is_err(), is_bad(index), "round {round}, {index}: {:?}", one.as_ref().err());
            assert!(one.is_err() || one.as_ref().unwrap() == &contents[index], "{index}");
        }
    }
    assert!(client.is_ready());
    // A name that cannot be sent is found before anything is.
    let bad: [(&[u8], usize); 2] = [(&names[0], contents[0].len()), (b"a\nb", 1)];
    assert!(client.download_many(&bad, &mut |_| panic!("nothing was asked for")).is_err() && client.is_ready());
    // Other transfers go on as ever.
    let name = server.name("many/f7");
    assert_eq!(download(client, &name, whole(contents[7].len()), None).unwrap(), contents[7]);
    assert_eq!(download(client, &name, whole(contents[7].len()), Some(4)).unwrap(), contents[7]);
}
