//! Which lines of the decoders the committed corpus reaches, by the compiler's own counters (`-C instrument-coverage`).
//! The two programs that read them come with the toolchain (`rustup component add llvm-tools`), or from Debian (llvm-19).

use crate::corpus;
use crate::guide::output;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages that are compiled a second time, with counters: those of the decoders, and this one.
const COUNTED: [&str; 6] = ["xdfs-proto", "xdfs-secure", "xdfs-client", "xdfs-server", "xdfs-gridftp", "xdfs-fuzz"];
/// Packages that are compiled a second time since they use those. All others stay as they are.
const BETWEEN: [&str; 3] = ["xdfs-io", "xdfs-engine", "xdfs-xio"];
/// Set where this program stands before the compiler.
const WRAPS: &str = "XDFS_FUZZ_WRAPS_RUSTC";

/// What counts as a decoder: these files, without their tests, which are not compiled here.
const DECODERS: [&str; 15] = [
    "crates/proto/src/wire/",
    "crates/proto/src/base/path.rs",
    "crates/secure/src/login/messages.rs",
    "crates/secure/src/identity/token.rs",
    "crates/secure/src/identity/openssh.rs",
    "crates/secure/src/handshake/tls/der.rs",
    "crates/secure/src/handshake/tls/gsi/certificate.rs",
    "crates/secure/src/handshake/tls/gsi/chain.rs",
    "crates/secure/src/handshake/tls/gsi/delegation.rs",
    "crates/secure/src/handshake/tls/gsi/names.rs",
    "crates/secure/src/handshake/tls/gsi/policy.rs",
    "crates/secure/src/handshake/tls/gsi/stream.rs",
    "crates/gridftp/src/markers.rs",
    "crates/client/src/trust/lines.rs",
    "crates/server/src/config/file.rs",
];
/// The share that the corpus has to reach, in percent, as the counters of LLVM 19 see it.
const LINES_MIN: usize = 95;

/// Builds with counters, replays the corpus, counts.
pub(crate) fn measure() -> Result<String, String> {
    let Some([profdata, cov]) = xdfs_test_needs::found(tools()?) else { return Ok("lines not counted".to_owned()) };
    let folder = corpus::home().join("target/coverage");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = build(&folder)?;
    let raw = folder.join("replay.profraw");
    let merged = folder.join("replay.profdata");
    output(Command::new(&program).arg("--replay").env("LLVM_PROFILE_FILE", &raw))?;
    output(Command::new(profdata).args(["merge", "--sparse", "--output"]).arg(&merged).arg(&raw))?;
    let mut export = Command::new(cov);
    export.args(["export", "--format=lcov"]).arg(format!("--instr-profile={}", merged.display())).arg(&program);
    count(&output(&mut export)?)
}

/// The toolchain's own programs, or else Debian's, whose version reads the counters of a toolchain that is not much newer. The
/// inner error says what is missing.
fn tools() -> Result<Result<[PathBuf; 2], String>, String> {
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    let folder = Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin");
    let own = ["llvm-profdata", "llvm-cov"].map(|name| folder.join(name));
    let others = ["llvm-profdata-19", "llvm-cov-19"].map(PathBuf::from);
    let works = |tool: &PathBuf| tool.is_file() || Command::new(tool).arg("--version").output().is_ok();
    let found = [own, others].into_iter().find(|tools| tools.iter().all(works));
    Ok(found.ok_or_else(|| "llvm-profdata (`rustup component add llvm-tools`, or package llvm-19)".to_owned()))
}

/// Builds beside this program, so that the libraries that are not counted need not be compiled again.
fn build(folder: &Path) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("this program: {error}");
    let own = std::env::current_exe().map_err(failed)?;
    let outside = "this program lies in no folder of cargo";
    let folder_of_profile = own.parent().ok_or(outside)?;
    let target = folder_of_profile.parent().ok_or(outside)?;
    let profile = if folder_of_profile.ends_with("debug") { "test" } else { "fuzz" };
    // The build replaces this program.
    let wrapper = folder.join("wrapper");
    std::fs::copy("/proc/self/exe", &wrapper).map_err(failed)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // With the features that the whole workspace asks for, as CI has built its libraries.
    cargo.args(["build", "--quiet", "--locked", "--profile", profile, "--workspace", "--bin", "xdfs-fuzz"]);
    cargo.arg("--manifest-path").arg(corpus::home().join("Cargo.toml"));
    cargo.arg("--target-dir").arg(target).env("RUSTC_WRAPPER", &wrapper).env(WRAPS, "1");
    for package in COUNTED.into_iter().chain(BETWEEN) {
        // Without inlining and merging, so that a line's counter is its own; and compiled sooner.
        cargo.arg("--config").arg(format!("profile.{profile}.package.{package}.opt-level=0"));
        // So that cargo tells these from those without counters.
        cargo.arg("--config").arg(format!("profile.{profile}.package.{package}.codegen-units=15"));
    }
    output(&mut cargo)?;
    let program = folder.join("xdfs-fuzz");
    std::fs::copy(folder_of_profile.join("xdfs-fuzz"), &program).map_err(failed)?;
    Ok(program)
}

/// Where cargo started this program instead of the compiler: the compiler, told to count in [`COUNTED`]. Returns what failed.
pub(crate) fn wrap() -> Option<String> {
    std::env::var_os(WRAPS)?;
    let mut words = std::env::args_os().skip(1);
    let mut compiler = Command::new(words.next()?);
    let words: Vec<_> = words.collect();
    let named = words.iter().skip_while(|word| *word != "--crate-name").nth(1);
    let counted = |name: &str| COUNTED.iter().any(|package| package.replace('-', "_") == name);
    if named.and_then(|name| name.to_str()).is_some_and(counted) {
        compiler.args(["-C", "instrument-coverage"]);
    }
    Some(format!("the compiler: {}", compiler.args(&words).env_remove(WRAPS).exec()))
}

/// Reads the lines of `lcov`: `SF:file`, then `DA:line,count` for each line with code.
fn count(lcov: &str) -> Result<String, String> {
    let (mut lines, mut reached, mut missed) = (0, 0, Vec::new());
    let mut file = "";
    for line in lcov.lines() {
        if let Some(name) = line.strip_prefix("SF:") {
            file = DECODERS.iter().find_map(|part| name.find(part).map(|at| &name[at..])).unwrap_or("");
        } else if let Some((number, count)) = line.strip_prefix("DA:").and_then(|data| data.split_once(','))
            && !file.is_empty()
        {
            lines += 1;
            match count {
                "0" => missed.push(format!("{file}:{number}")),
                _ => reached += 1,
            }
        }
    }
    if lines == 0 {
        return Err("the counters know no line of the decoders".to_owned());
    }
    if std::env::var_os("XDFS_FUZZ_LINES").is_some() {
        missed.iter().for_each(|line| println!("not reached: {line}"));
    }
    let text = format!("the corpus reaches {reached} of the decoders' {lines} lines ({} %)", reached * 100 / lines);
    if reached * 100 >= lines * LINES_MIN { Ok(text) } else { Err(format!("{text}: not reached: {missed:?}")) }
}
