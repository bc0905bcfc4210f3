//! Installs the Debian packages that the tests need. Without anything missing it touches neither network nor system.
//! The bench installs the peers it compares with by itself, when told to: it alone knows them.

use crate::{Failure, Outcome, process, unpack};
use std::path::Path;
use std::process::{Command, Stdio};

/// How to see that something is there.
#[derive(Debug)]
enum Sign {
    /// A program of this name in the search path or in the system's folders.
    Program(&'static str),
    /// This file.
    File(&'static str),
    /// `python3` finds this module.
    PythonModule(&'static str),
    /// The programs that read the compiler's counters: the toolchain's own, or those of this name.
    Counters(&'static str),
}

/// A Debian package.
#[derive(Debug)]
struct Need {
    package: &'static str,
    sign: Sign,
    why: &'static str,
}

const NEEDS: &[Need] = &[
    need("git", Sign::Program("git"), "lists the files that belong to the tree"),
    need("iproute2", Sign::Program("ip"), "network namespaces, and ss to see a socket's options"),
    need("strace", Sign::Program("strace"), "counts the system calls of a transfer"),
    need("e2fsprogs", Sign::Program("mkfs.ext4"), "a file system whose power is cut"),
    need("xfsprogs", Sign::Program("mkfs.xfs"), "a file system with projects, which quotas are for"),
    need("openssh-client", Sign::Program("ssh"), "starts a server for one command"),
    need("openssh-server", Sign::Program("sshd"), "the other end of ssh"),
    need("globus-xioperf", Sign::Program("globus-xioperf"), "the other end of xioperf"),
    need(
        "libglobus-xio-gsi-driver",
        Sign::File("/usr/lib/x86_64-linux-gnu/libglobus_xio_gsi_driver.so"),
        "the other end of the driver gsi",
    ),
    need(
        "libglobus-xio-udt-driver",
        Sign::File("/usr/lib/x86_64-linux-gnu/libglobus_xio_udt_driver.so"),
        "the other end of UDT",
    ),
    need("libudt-dev", Sign::File("/usr/include/udt/udt.h"), "the driver udt_ref"),
    need("libglobus-xio-dev", Sign::File("/usr/include/globus/globus_xio.h"), "programs in C that both libraries run"),
    need("pkg-config", Sign::Program("pkg-config"), "where the headers of another library are"),
    need("curl", Sign::Program("curl"), "the other end of HTTP"),
    need("zstd", Sign::Program("zstd"), "the other end of compressed files"),
    need("nginx-light", Sign::Program("nginx"), "the other end of HTTP, and a proxy"),
    need("globus-gridftp-server-progs", Sign::Program("globus-gridftp-server"), "a server of GridFTP"),
    need("globus-gass-copy-progs", Sign::Program("globus-url-copy"), "another client of GridFTP"),
    need("globus-simple-ca", Sign::Program("grid-ca-create"), "an authority for GridFTP"),
    need("globus-gsi-cert-utils-progs", Sign::Program("grid-cert-request"), "certificates for GridFTP"),
    need("globus-proxy-utils", Sign::Program("grid-proxy-init"), "proxies for GridFTP"),
    need("openssl", Sign::Program("openssl"), "certificates and revocation lists"),
    need("vsftpd", Sign::Program("vsftpd"), "a server of FTP"),
    need("faketime", Sign::Program("faketime"), "sets the clock of a command"),
    need("fuse3", Sign::Program("fusermount3"), "mounts for users"),
    need("fio", Sign::Program("fio"), "writes at random and reads it again, on a mount"),
    need("stress-ng", Sign::Program("stress-ng"), "locks, renames and links, on a mount"),
    need("dbench", Sign::Program("dbench"), "the calls of a file server, on a mount"),
    need("acl", Sign::Program("setfacl"), "access control lists on a mount"),
    need("attr", Sign::Program("setfattr"), "extended attributes on a mount"),
    need("rsync", Sign::Program("rsync"), "judges what a copy of a tree kept"),
    need("zsh", Sign::Program("zsh"), "completes command lines"),
    need("fish", Sign::Program("fish"), "completes command lines"),
    need("util-linux", Sign::Program("unshare"), "namespaces and loop devices"),
    need("mount", Sign::Program("losetup"), "loop devices and file systems on them"),
    need("llvm-19", Sign::Counters("llvm-profdata-19"), "counts the lines that the fuzz corpus reaches"),
    need("systemd", Sign::Program("systemd-analyze"), "judges how exposed the service is"),
    need("musl-tools", Sign::Program("musl-gcc"), "compiles the C parts of the static program"),
    need("rpm", Sign::Program("rpmbuild"), "makes and reads packages of Fedora"),
    need("mandoc", Sign::Program("mandoc"), "judges the man pages"),
    need("debootstrap", Sign::Program("debootstrap"), "a clean Debian to install into"),
    need("python3", Sign::Program("python3"), "the minimal client in another language"),
    need("python3-venv", Sign::PythonModule("ensurepip"), "clean environments for the Python package"),
    need("python3-cryptography", Sign::PythonModule("cryptography"), "AES-GCM for the minimal client"),
    need("python3-openssl", Sign::PythonModule("OpenSSL"), "TLS with an exporter for the minimal client"),
];

const fn need(package: &'static str, sign: Sign, why: &'static str) -> Need {
    Need { package, sign, why }
}

/// Installs what is missing.
pub(crate) fn install() -> Outcome {
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !is_there(&need.sign)).collect();
    let unpacked = unpack::missing()?;
    if missing.is_empty() && unpacked.is_empty() {
        return Ok("set-up: everything is there".to_owned());
    }
    if missing.is_empty() {
        return Ok(format!("set-up: unpacked {}", unpacked.join(", ")));
    }
    for need in &missing {
        println!("set-up: installing {} ({})", need.package, need.why);
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    apt(&packages)?;
    let still: Vec<&str> = NEEDS.iter().filter(|need| !is_there(&need.sign)).map(|need| need.package).collect();
    if still.is_empty() {
        return Ok(format!("set-up: installed {}", packages.join(", ")));
    }
    Err(format!(
        "set-up: {} installed, and what it brings is not found; is another python3 or PATH in the way?",
        still.join(", ")
    )
    .into())
}

fn is_there(sign: &Sign) -> bool {
    match sign {
        Sign::Program(name) => program(name),
        Sign::File(path) => Path::new(path).is_file(),
        Sign::PythonModule(name) => python_with(name).is_some(),
        Sign::Counters(name) => program(name) || toolchain_counts(),
    }
}

/// Whether the toolchain has its own `llvm-profdata`: `rustup component add llvm-tools`.
fn toolchain_counts() -> bool {
    let sysroot = process::output(Command::new("rustc").args(["--print", "sysroot"])).unwrap_or_default();
    let folders = std::fs::read_dir(Path::new(sysroot.trim()).join("lib/rustlib"));
    folders.is_ok_and(|folders| folders.flatten().any(|host| host.path().join("bin/llvm-profdata").is_file()))
}

/// The Python that tests run: the one that has what the minimal client needs.
pub(crate) fn python() -> Option<&'static str> {
    python_with("cryptography, OpenSSL")
}

/// The user's own `python3`, or Debian's where a package of Debian's brought the module.
pub(crate) fn python_with(module: &str) -> Option<&'static str> {
    let import = format!("import {module}");
    ["python3", "/usr/bin/python3"].into_iter().find(|python| {
        let mut command = Command::new(python);
        let status =
            command.args(["-c", &import]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    })
}

/// Looks in the search path, and in the folders of system programs, which users often have not in theirs.
fn program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path).chain(system).any(|folder| folder.join(name).is_file())
}

fn apt(packages: &[&str]) -> Result<(), Failure> {
    let list = packages.join(" ");
    if !program("apt-get") {
        return Err(format!("there is no apt-get here; install by hand what Debian calls: {list}").into());
    }
    let root = is_root();
    if !root && !program("sudo") {
        return Err(format!("neither root nor sudo; ask an administrator for: apt-get install {list}").into());
    }
    process::run(&mut apt_get(&["update", "--quiet"]))?;
    let mut install = apt_get(&["install", "--quiet", "--yes", "--no-install-recommends"]);
    process::run(install.args(packages))
}

/// apt-get as root, which asks nothing.
pub(crate) fn apt_get(arguments: &[&str]) -> Command {
    let root = is_root();
    let mut command = Command::new(if root { "env" } else { "sudo" });
    if !root {
        command.arg("env");
    }
    // RUNLEVEL=1 keeps packages from starting the servers they bring.
    command.args(["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get"]).args(arguments);
    command
}

fn is_root() -> bool {
    // The owner of our own entry in /proc is the effective user.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(Path::new("/proc/self")).is_ok_and(|metadata| metadata.uid() == 0)
}
