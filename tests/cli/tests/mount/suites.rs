//! Suites whose tools `xtask long mount` compiles, and a real project, on a mount.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use xdfs_test_cli::{Running, Scene, Server, pass};

use crate::losses::again;
use crate::torture::{is_the_servers, serve};
use crate::{Mount, run, shell};

/// A program that was installed for the long form.
fn tool(name: &str) -> Command {
    let folder = std::env::var_os("XDFS_TORTURE_TOOLS").expect("`xtask long mount` installs the tools and says where");
    Command::new(Path::new(&folder).join(name))
}

/// Cases of pjdfstest that fail, each a row of the table in docs/mount.md: what is made belongs to the server's user.
const KNOWN: [&str; 4] = ["mkdir", "mkfifo", "mknod", "open"];

/// The users of Debian that pjdfstest becomes.
const USERS: &str = "[features]\nposix_fallocate = {}\nutimensat = {}\nutime_now = {}\n[settings]\nnaptime = 0.01\n\
    allow_remount = false\n[dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"], [\"bin\", \"bin\"]]\n";

#[test]
fn pjdfstest_fails_where_the_table_says_so() {
    let scene = Scene::new();
    let server = serve(&scene);
    let mount = Mount::new(&scene, &server, &["-o", "owner=server,allow_other"]);
    let settings = scene.write("pjdfstest.toml", USERS.as_bytes());
    let mut command = tool("pjdfstest");
    let output = command.arg("-c").arg(settings).arg("-p").arg(&mount.point).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Summary:"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let failed: Vec<&str> = text.lines().filter_map(|line| line.strip_suffix("FAILED")).map(str::trim).collect();
    let mut known: Vec<String> = KNOWN.iter().map(|call| format!("{call}::uid_gid_eq_euid_egid")).collect();
    known.retain(|name| !failed.contains(&name.as_str()));
    assert!(known.is_empty(), "these work now; take them out of the table: {known:?}");
    assert_eq!(failed.len(), KNOWN.len(), "{failed:?}");
    is_the_servers(&scene, &mount);
    mount.unmount();
}

/// fsx on a file of the mount.
fn fsx(mount: &Mount, operations: u64) -> Command {
    let mut command = tool("fsx");
    command.args(["-N", &operations.to_string(), "-S", "7", "file"]).current_dir(&mount.point);
    command
}

/// How many operations fsx makes.
fn operations() -> u64 {
    std::env::var("XDFS_TORTURE_OPERATIONS").map_or(10_000, |text| text.parse().unwrap())
}

#[test]
fn fsx_finds_no_difference() {
    let scene = Scene::new();
    let server = serve(&scene);
    let mount = Mount::new(&scene, &server, &[]);
    run(&mut fsx(&mount, operations()));
    is_the_servers(&scene, &mount);
    mount.unmount();
}

#[test]
fn fsx_finds_no_difference_while_the_server_is_killed_every_five_seconds() {
    let scene = Scene::new();
    let mut server: Server = scene.serve();
    let address = server.address().to_owned();
    let mount = Mount::new(&scene, &server, &[]);
    let tries = Running::start(fsx(&mount, operations()));
    while !tries.has_ended() {
        pass(Duration::from_secs(5));
        server.kill();
        server = again(&scene, &address);
    }
    let ended = tries.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.messages);
    is_the_servers(&scene, &mount);
    mount.unmount();
}

#[test]
fn a_real_project_is_cloned_and_compiled() {
    let scene = Scene::new();
    let server = serve(&scene);
    let mount = Mount::new(&scene, &server, &[]);
    let project = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    shell(
        &mount.point,
        &format!("git -c safe.directory='*' clone --quiet {project} project; git -C project fsck --strict"),
    );
    // The user's own registry: what it compiles is there already.
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--offline", "--package", "xdfs-proto"]);
    let output = build.env_remove("CARGO_TARGET_DIR").current_dir(mount.path("project")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    is_the_servers(&scene, &mount);
    mount.unmount();
}
