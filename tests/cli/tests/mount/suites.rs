//! Suites whose tools `xtask long mount` compiles, and a real project, on a mount.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

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

/// Cases that pjdfstest skips: it would mount the file system anew to read it alone, or needs a second one, or the most links of a
/// file, which FUSE has no way to tell.
const SKIPPED: [&str; 3] = ["::erofs_", "::exdev_target", "link::link_count_max"];

/// Of 398 cases in version 0.2.2, all but those that fail and are skipped.
const PASSED_MIN: usize = 378;

/// The users of Debian that pjdfstest becomes.
const USERS: &str = "[features]\nrename_ctime = {}\nposix_fallocate = {}\nutimensat = {}\nutime_now = {}\n[settings]\nnaptime = 0.01\n\
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
    let such =
        |word: &str| -> Vec<&str> { text.lines().filter_map(|line| line.strip_suffix(word)).map(str::trim).collect() };
    let (passed, failed, skipped) = (such(" ok"), such("FAILED"), such("skipped"));
    println!("pjdfstest: {} cases passed, {} failed, {} skipped", passed.len(), failed.len(), skipped.len());
    let mut known: Vec<String> = KNOWN.iter().map(|call| format!("{call}::uid_gid_eq_euid_egid")).collect();
    known.retain(|name| !failed.contains(&name.as_str()));
    assert!(known.is_empty(), "these work now; take them out of the table: {known:?}");
    assert_eq!(failed.len(), KNOWN.len(), "{failed:?}");
    let unexpected: Vec<_> = skipped.iter().filter(|name| !SKIPPED.iter().any(|part| name.contains(part))).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    assert!(passed.len() >= PASSED_MIN, "{} passed", passed.len());
    is_the_servers(&scene, &mount);
    mount.unmount();
}

/// It leaves a mapping behind every other time: the kernel goes through all of them for each operation, and at last has no room
/// for more. So many operations of one process are no trouble.
const OPERATIONS_AT_ONCE: u64 = 25_000;

/// Runs of fsx on a file of the mount, each with another seed, which make so many operations together.
fn fsx(mount: &Mount, operations: u64) -> impl Iterator<Item = Command> {
    (0..operations.div_ceil(OPERATIONS_AT_ONCE)).map(move |run| {
        let left = (operations - run * OPERATIONS_AT_ONCE).min(OPERATIONS_AT_ONCE);
        let mut command = tool("fsx");
        command.args(["-N", &left.to_string(), "-S", &(7 + run).to_string(), "file"]).current_dir(&mount.point);
        command
    })
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
    fsx(&mount, operations()).for_each(|mut command| drop(run(&mut command)));
    is_the_servers(&scene, &mount);
    mount.unmount();
}

#[test]
fn fsx_finds_no_difference_while_the_server_is_killed_every_five_seconds() {
    let scene = Scene::new();
    let mut server: Server = scene.serve();
    let address = server.address().to_owned();
    let mount = Mount::new(&scene, &server, &[]);
    let operations = operations();
    // Fewer operations take less time.
    let between = if operations < 1_000_000 { 1 } else { 5 };
    let (began, mut kills) = (Instant::now(), 0);
    for command in fsx(&mount, operations) {
        let tries = Running::start(command);
        while !tries.has_ended() {
            pass(Duration::from_secs(between));
            server.kill();
            server = again(&scene, &address);
            kills += 1;
        }
        let ended = tries.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.messages);
    }
    println!("fsx: {kills} kills in {:?}, {operations} operations", began.elapsed());
    assert!(kills >= 3, "{kills} kills");
    is_the_servers(&scene, &mount);
    mount.unmount();
}

/// What cargo says when it builds the command in a directory; the user's own registry has all that it needs.
fn build(project: &Path) -> String {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--locked", "--offline", "--package", "xdfs", "--bin", "xdfs"]);
    // Else a package that names a toolchain of its own asks rustup for that.
    build.env("RUSTC", Path::new(env!("CARGO")).with_file_name("rustc")).env_remove("CARGO_TARGET_DIR");
    let output = build.current_dir(project).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// The names of what cargo says that it compiled.
fn compiled(said: &str) -> Vec<&str> {
    said.lines().filter_map(|line| line.trim().strip_prefix("Compiling ")?.split(' ').next()).collect()
}

#[test]
fn a_real_project_is_cloned_and_compiled() {
    let scene = Scene::new();
    let server = serve(&scene);
    let mount = Mount::new(&scene, &server, &[]);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    shell(
        &mount.point,
        &format!("git -c safe.directory='*' clone --quiet {source} project; git -C project fsck --strict"),
    );
    let project = mount.path("project");
    let first = build(&project);
    let all = compiled(&first);
    println!("{} packages were compiled", all.len());
    // With what it needs: programs in C, and scripts that run on the mount.
    assert!(all.len() > 50 && ["xdfs", "aws-lc-sys", "libc"].iter().all(|name| all.contains(name)), "{first}");
    let version = || run(Command::new(project.join("target/debug/xdfs")).arg("--version"));
    let told = version();
    assert!(told.starts_with("xdfs "), "{told}");
    let again = build(&project);
    assert_eq!(compiled(&again), Vec::<&str>::new(), "nothing was changed: {again}");
    shell(&project, "touch crates/cli/src/lib.rs");
    let touched = build(&project);
    assert_eq!(compiled(&touched), ["xdfs"], "{touched}");
    assert_eq!(version(), told);
    is_the_servers(&scene, &mount);
    mount.unmount();
}
