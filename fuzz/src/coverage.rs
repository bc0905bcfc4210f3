//! Which lines of the decoders the committed corpus reaches, by the compiler's own counters (`-C instrument-coverage`).
//! The two programs that read them come with the toolchain: `rustup component add llvm-tools`.

use crate::corpus;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What counts as a decoder: these files, without their tests, which are not compiled here.
const DECODERS: [&str; 7] = [
    "crates/proto/src/wire/",
    "crates/proto/src/base/path.rs",
    "crates/secure/src/login/messages.rs",
    "crates/secure/src/identity/token.rs",
    "crates/secure/src/identity/openssh.rs",
    "crates/client/src/trust/lines.rs",
    "crates/server/src/config/file.rs",
];
/// The share that the corpus has to reach, in percent.
const LINES_MIN: usize = 95;

/// Builds with counters, replays the corpus, counts.
pub(crate) fn measure() -> Result<String, String> {
    let tools = tools()?;
    let [profdata, cov] = ["llvm-profdata", "llvm-cov"].map(|name| tools.join(name));
    if !profdata.exists() || !cov.exists() {
        return Ok("lines not counted: that needs `rustup component add llvm-tools`".to_owned());
    }
    let folder = corpus::home().join("target/coverage");
    let program = build(&folder)?;
    let raw = folder.join("replay.profraw");
    let merged = folder.join("replay.profdata");
    run(Command::new(&program).arg("--replay").env("LLVM_PROFILE_FILE", &raw))?;
    run(Command::new(profdata).args(["merge", "--sparse", "--output"]).arg(&merged).arg(&raw))?;
    let mut export = Command::new(cov);
    export.args(["export", "--format=lcov"]).arg(format!("--instr-profile={}", merged.display())).arg(&program);
    count(&run(&mut export)?)
}

/// The folder of the toolchain's own programs.
fn tools() -> Result<PathBuf, String> {
    let sysroot = run(Command::new("rustc").args(["--print", "sysroot"]))?;
    let version = run(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    Ok(Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin"))
}

fn build(folder: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--manifest-path"]).arg(corpus::home().join("Cargo.toml"));
    cargo.arg("--target-dir").arg(folder);
    // Without inlining and merging, so that a line's counter is its own.
    run(cargo.env("RUSTFLAGS", "-C instrument-coverage -C opt-level=1"))?;
    Ok(folder.join("release/xdfs-fuzz"))
}

/// Reads the lines of `lcov`: `SF:file`, then `DA:line,count` for each line with code.
fn count(lcov: &str) -> Result<String, String> {
    let (mut lines, mut reached, mut missed) = (0, 0, Vec::new());
    let mut file = "";
    for line in lcov.lines() {
        if let Some(name) = line.strip_prefix("SF:") {
            file = DECODERS.iter().find_map(|part| name.find(part).map(|at| &name[at..])).unwrap_or("");
        } else if let Some((number, count)) = line.strip_prefix("DA:").and_then(|data| data.split_once(',')) {
            if !file.is_empty() {
                lines += 1;
                match count {
                    "0" => missed.push(format!("{file}:{number}")),
                    _ => reached += 1,
                }
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

fn run(command: &mut Command) -> Result<String, String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{shown}: its output is no text"))
}
