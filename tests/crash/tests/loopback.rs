//! Power cuts of a real ext4 around real commits.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use xdfs_test_crash::loopback::{Disk, series};

/// Cuts where nobody asks for a time.
const CUTS: usize = 1_000;

#[test]
fn a_power_cut_at_any_step_leaves_the_old_file_or_the_new_one() {
    let Some(mut disk) = Disk::new() else { return };
    let seconds: Option<u64> = std::env::var("XDFS_CRASH_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let cuts = series(&mut disk, |done| until.map_or(done < CUTS, |until| Instant::now() < until));
    println!(
        "{} power cuts, {} before anything durable was told, {} left the new file",
        cuts.all, cuts.inside, cuts.new
    );
    assert_eq!(cuts.broken, None);
    assert!(until.is_some() || cuts.all >= CUTS, "{cuts:?}");
    assert!(cuts.new > 0 && cuts.inside * 10 >= cuts.all * 8, "{cuts:?}");
}

#[test]
fn a_mount_namespace_that_somebody_makes_meanwhile_does_not_keep_what_was_cut() {
    let Some(mut disk) = Disk::new() else { return };
    let mut other = Command::new("unshare");
    other.args(["--mount", "sh", "-c", "echo made; read word"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut other = other.spawn().expect("util-linux is there");
    let mut made = String::new();
    let output = other.stdout.take().expect("it is ours");
    BufReader::new(output).read_line(&mut made).expect("it answers");
    assert_eq!(made, "made\n");
    let cuts = series(&mut disk, |done| done < 12);
    drop(other.stdin.take());
    other.wait().expect("it ends behind its input");
    assert_eq!(cuts.broken, None);
    assert_eq!(cuts.new, 2, "{cuts:?}");
}
