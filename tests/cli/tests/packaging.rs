//! What systemd is given: the packaged service, the configuration with which it starts, and units of mounts.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use xdfs_test_cli::{Scene, Server, exit, pattern};

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

/// Units that systemd must take without a complaint.
#[track_caller]
fn are_taken(units: &[PathBuf]) {
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(units).output();
    let verified = verified.expect("systemd is installed");
    let complaints = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && complaints.is_empty(), "{units:?}: {complaints}");
}

#[test]
fn systemd_takes_the_unit_and_the_line_of_fstab_that_the_page_of_the_mount_shows() {
    assert!(xdfs_test_needs::program("systemd-analyze", "systemd"));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mount.md");
    let page = std::fs::read_to_string(page).expect("it is a page of ours");
    let code = |line: &str| line.strip_prefix("    ").map(str::to_owned);
    let unit = page.lines().skip_while(|line| *line != "    [Unit]");
    let unit: Vec<String> =
        unit.take_while(|line| line.is_empty() || line.starts_with("    ")).flat_map(code).collect();
    assert!(unit.contains(&"Type=xdfs".to_owned()), "{unit:?}");
    let scene = Scene::new();
    are_taken(&[scene.write("mnt-data.mount", unit.join("\n").as_bytes())]);

    let fstab = page.lines().flat_map(code).find(|line| line.starts_with("xdfs://") && line.ends_with("0  0"));
    let fstab = scene.write("fstab", fstab.expect("an example").as_bytes());
    let made = scene.directory("made");
    let mut generate = Command::new("/usr/lib/systemd/system-generators/systemd-fstab-generator");
    let generated = generate.args([&made, &made, &made]).env("SYSTEMD_FSTAB", fstab).status();
    assert!(generated.expect("it comes with systemd").success());
    assert!(scene.read("made/mnt-data.mount").windows(10).any(|text| text == b"Type=xdfs\n"));
    assert!(
        scene.path("made/remote-fs.target.wants/mnt-data.mount").symlink_metadata().is_ok(),
        "it waits for a network"
    );
    are_taken(&[made.join("mnt-data.mount")]);
}

/// The packaged configuration, with the directories of a scene in place of the system's.
fn configured(scene: &Scene) -> String {
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/server.toml");
    let mut text = std::fs::read_to_string(packaged).expect("the configuration is packaged");
    for system in ["/srv/xdfs", "/var/lib/xdfs", "/var/log/xdfs"] {
        assert!(text.contains(system), "{system} is in {text}");
        let directory = scene.path(&system[1..]);
        text = text.replace(system, directory.to_str().expect("a path of ours is UTF-8"));
    }
    text
}

#[test]
fn the_packaged_configuration_starts_a_server_as_it_is() {
    let scene = Scene::new();
    for directory in ["srv/xdfs", "var/log/xdfs"] {
        scene.directory(directory);
    }
    scene.write("server.toml", configured(&scene).as_bytes());
    let checked = scene.run(["serve", "--check", "--config", "server.toml"]);
    checked.ends_with(exit::DONE);
    assert!(checked.output.ends_with(b":2799 and offers data\n"), "{checked:?}");
    assert!(!scene.path("var/lib/xdfs").exists(), "a check makes nothing");
    assert_eq!(scene.names("var/log/xdfs"), [""; 0], "a check logs nothing");

    let server = scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]);
    let server = Server::start(server, &["--config", "server.toml"]);
    // Nobody comes in by default.
    scene.run(["ls", &server.url("")]).ends_with(exit::LOGIN_REFUSED);
    let password = scene.write("password", b"correct horse battery\n");
    std::fs::set_permissions(password, PermissionsExt::from_mode(0o600)).expect("our own");
    let state = scene.path("var/lib/xdfs");
    let added = scene.command(["user", "add", "anna", "--password-file", "password", "--state"]).arg(state).output();
    assert!(added.expect("it starts").status.success());
    scene.write("file", &pattern(100_000, 1));
    let url = server.url("file").replace("xdfs://", "xdfs://anna@");
    scene.run(["cp", "--password-file", "password", "file", &url]).ends_with(exit::DONE);
    assert_eq!(scene.read("srv/xdfs/file"), pattern(100_000, 1));
    assert_eq!(server.stop(), Some(exit::DONE));
}

#[test]
fn a_check_names_what_would_keep_the_server_from_starting() {
    let scene = Scene::new();
    let check = |config: &str| {
        scene.write("server.toml", config.as_bytes());
        scene.run(["serve", "--check", "--config", "server.toml"])
    };
    for (config, code, told) in [
        ("", exit::USAGE, "nothing is offered"),
        ("[exports.x]\ndirectory = \"absent\"\n", exit::USAGE, "server.toml:2: export 'x'"),
        ("[exports.x]\ndirectory = \".\"\nusers = [\"anna\"]\n", exit::USAGE, "anna"),
        (
            "[exports.x]\ndirectory = \"memory:\"\n[log]\naudit = \"absent/log\"\n",
            exit::USAGE,
            "server.toml:4: the audit log needs the directory absent\nhelp: make it",
        ),
    ] {
        check(config).ends_with(code).says(&[told]);
    }
}
