//! What is packaged: the service of systemd.

use std::path::Path;
use std::process::Command;

/// The highest exposure that systemd may find; 10 is a service without any protection.
const EXPOSURE_MAX: f64 = 1.5;

#[test]
fn systemd_finds_the_service_hardly_exposed() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/xdfs.service");
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--no-pager"]).arg(&unit);
    if !xdfs_test_needs::program("systemd-analyze", "systemd") {
        return;
    }
    let output = analyze.output().expect("it was started before");
    let text = String::from_utf8_lossy(&output.stdout);
    let overall = text.lines().find(|line| line.contains("Overall exposure level"));
    let level = overall.and_then(|line| line.split_once("xdfs.service: ")?.1.split(' ').next()?.parse::<f64>().ok());
    let level = level.unwrap_or_else(|| panic!("no judgement: {text}{}", String::from_utf8_lossy(&output.stderr)));
    assert!(level <= EXPOSURE_MAX, "exposure {level}: {text}");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(!complaints.contains("xdfs.service:"), "{complaints}");
}
