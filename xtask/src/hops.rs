//! What a block costs: system calls per block of 1 MiB on the direct route, counted with `strace -c` over the command
//! in a real transfer of 2 GB, and allocations, counted in front of libc's allocator (`hops.c`), compared with the
//! committed numbers. Whoever adds a hop moves the number here and says why.

use crate::{Failure, Outcome, ci, process, tree};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Bytes of a block.
const BLOCK: u64 = 1 << 20;
/// Blocks of the counted transfer: 2 GB.
const BLOCKS: u64 = 1908;
/// Calls that move bytes, per block, at the sender: the head, into the pipe, out of the pipe. A little more for what a
/// full socket leaves in the pipe, and for the few control records.
const SENDER_CALLS: f64 = 3.1;
/// Writes per block at the receiver: one, and nothing else.
const RECEIVER_WRITES: f64 = 1.0;

/// Allocations per block, at either side. A block itself makes none; what remains belongs to the acknowledgements, of
/// which one is sent for about eight blocks.
const ALLOCATIONS: f64 = 0.95;

/// A transfer that took more is counted again: a receiver that a busy machine keeps waiting acknowledges more often.
const ATTEMPTS: usize = 3;

/// What a driver stack costs: the short form of `xio-bench`, which judges switches between threads as they are, and times by
/// five times their bound.
pub(crate) fn stacks() -> Outcome {
    process::run(Command::new(ci::tested("xio-bench")?).arg("--short"))?;
    Ok("no layer costs a multiple of what it may".to_owned())
}

/// Counts and compares.
pub(crate) fn check() -> Outcome {
    let scene = Scene::new()?;
    let (sent, written) = scene.count_calls()?;
    let (mut sending, mut receiving) = scene.count_allocations()?;
    for _ in 1..ATTEMPTS {
        if sending.max(receiving) > ALLOCATIONS {
            (sending, receiving) = scene.count_allocations()?;
        }
    }
    let figures = format!(
        "per block {sent:.2} calls that move bytes and {sending:.2} allocations at the sender, {written:.2} writes and \
         {receiving:.2} allocations at the receiver"
    );
    if sent <= SENDER_CALLS && written <= RECEIVER_WRITES + 0.01 && sending.max(receiving) <= ALLOCATIONS {
        return Ok(figures);
    }
    Err(Failure(format!(
        "{figures}\nallowed: {SENDER_CALLS} calls, {RECEIVER_WRITES} write, {ALLOCATIONS} allocations: see xtask/src/hops.rs"
    )))
}

/// A folder in memory with a source file, removed at the end.
struct Scene {
    folder: PathBuf,
    binary: PathBuf,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn text(error: impl std::fmt::Display) -> Failure {
    Failure(error.to_string())
}

/// Where a server is, and by which key it is known.
struct Place {
    address: String,
    host_key: String,
}

impl Scene {
    fn new() -> Result<Self, Failure> {
        let folder = Path::new("/dev/shm").join(format!("xdfs-hops-{}", std::process::id()));
        fs::create_dir_all(folder.join("served")).map_err(text)?;
        let binary = ci::tested("xdfs")?;
        let scene = Self { folder, binary };
        let source = fs::File::create(scene.folder.join("source")).map_err(text)?;
        source.set_len(BLOCKS * BLOCK).map_err(text)?;
        Ok(scene)
    }

    /// A server under a tool, and where it is.
    fn serve(&self, mut command: Command) -> Result<(Child, Place), Failure> {
        let export = format!("d={}", self.folder.join("served").display());
        command.args([
            "serve",
            "--export",
            &export,
            "--listen",
            "127.0.0.1:0",
            "--json",
            "--confinement",
            "off",
            "--allow-anonymous",
            "rw",
        ]);
        command.arg("--state").arg(self.folder.join("state"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(text)?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("no standard output")?;
        BufReader::new(stdout).read_line(&mut line).map_err(text)?;
        let ready: serde_json::Value = serde_json::from_str(&line).map_err(text)?;
        let word = |name: &str| ready[name].as_str().map(str::to_owned).ok_or("the server was not ready");
        Ok((child, Place { address: word("address")?, host_key: word("host_key")? }))
    }

    /// Ends a server in order: the program itself, so that a tool around it writes what it counted.
    fn end(mut child: Child) -> Result<(), Failure> {
        let pid = child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let target = children.split_whitespace().next().map_or_else(|| pid.to_string(), str::to_owned);
        Command::new("kill").args(["-TERM", &target]).status().map_err(text)?;
        child.wait().map_err(text)?;
        Ok(())
    }

    fn copy(
        &self,
        mut command: Command,
        place: &Place,
        length: u64,
        target: &str,
    ) -> Result<std::process::Output, Failure> {
        let url = format!("xdfs://{}/{target}#{}", place.address, place.host_key);
        let source = self.folder.join("source");
        let length = length.to_string();
        command.args([
            "cp",
            "-P",
            "1",
            "-b",
            "1MiB",
            "--protection",
            "clear",
            "--verify",
            "none",
            "-q",
            "--length",
            &length,
        ]);
        let output = command.arg(source).arg(url).stdin(Stdio::null()).output().map_err(text)?;
        if output.status.success() {
            return Ok(output);
        }
        Err(Failure(format!("the transfer failed: {}", String::from_utf8_lossy(&output.stderr))))
    }

    /// Allocations per block at the sender and at the receiver: what a transfer of 2 GB makes more than one of an eighth.
    fn count_allocations(&self) -> Result<(f64, f64), Failure> {
        let library = self.folder.join("hops.so");
        let source = tree::root().join("xtask/src/hops.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        if !compiler.status().map_err(text)?.success() {
            return Err(Failure("xtask/src/hops.c does not compile".to_owned()));
        }
        let mut counts = Vec::new();
        for blocks in [BLOCKS / 8, BLOCKS] {
            let (server_file, client_file) = (self.folder.join("server-count"), self.folder.join("client-count"));
            let counted = |file: &Path| {
                let mut command = Command::new(&self.binary);
                command.env("LD_PRELOAD", &library).env("XDFS_HOPS_FILE", file);
                command
            };
            let (child, place) = self.serve(counted(&server_file))?;
            let outcome = self.copy(counted(&client_file), &place, blocks * BLOCK, "d/target");
            Self::end(child)?;
            outcome?;
            counts.push((number(&client_file)?, number(&server_file)?));
        }
        let per_block = |few: f64, many: f64| (many - few) / (BLOCKS - BLOCKS / 8) as f64;
        Ok((per_block(counts[0].0, counts[1].0), per_block(counts[0].1, counts[1].1)))
    }

    fn traced(&self, to: &str) -> (Command, PathBuf) {
        let summary = self.folder.join(to);
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-o"]).arg(&summary).arg(&self.binary);
        (command, summary)
    }

    /// Calls per block: at the sender, and writes at the receiver.
    fn count_calls(&self) -> Result<(f64, f64), Failure> {
        let (server, server_summary) = self.traced("server");
        let (child, place) = self.serve(server)?;
        let (client, client_summary) = self.traced("client");
        let outcome = self.copy(client, &place, BLOCKS * BLOCK, "d/target");
        Self::end(child)?;
        outcome?;
        let sent = calls(&client_summary, &["sendto", "sendmsg", "splice", "sendfile"])?;
        let written = calls(&server_summary, &["pwrite64", "pwritev", "pwritev2"])?;
        Ok((sent as f64 / BLOCKS as f64, written as f64 / BLOCKS as f64))
    }
}

/// The number in a file.
fn number(file: &Path) -> Result<f64, Failure> {
    fs::read_to_string(file).map_err(text)?.trim().parse().map_err(text)
}

/// Sums the calls of the named kinds in a summary of `strace -c`.
fn calls(summary: &Path, names: &[&str]) -> Result<u64, Failure> {
    let text = fs::read_to_string(summary).map_err(text)?;
    let of = |line: &str| -> Option<u64> {
        let columns: Vec<&str> = line.split_whitespace().collect();
        names.contains(columns.last()?).then(|| columns.get(3)?.parse().ok())?
    };
    Ok(text.lines().filter_map(of).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_named_kinds_are_summed() -> Result<(), Failure> {
        let file = std::env::temp_dir().join(format!("xdfs-hops-test-{}", std::process::id()));
        let table = "% time seconds usecs/call calls errors syscall\n 60.0 0.1 5 100 splice\n 30.0 0.1 5 50 3 sendto\n 1.0 0.1 5 7 read\n";
        fs::write(&file, table).map_err(text)?;
        let sum = calls(&file, &["splice", "sendto"]);
        fs::remove_file(&file).map_err(text)?;
        assert_eq!(sum.ok(), Some(150));
        Ok(())
    }
}
