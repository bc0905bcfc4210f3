//! The configuration file of the clients: short names of servers, what it says of them, and who one is where no user is typed.

use std::process::Command;
use std::time::Duration;

use xdfs_test_cli::{Outcome, Running, Scene, least, pattern};

/// Writes the file of `person`.
fn configure(scene: &Scene, person: &str, text: &str) {
    scene.write(format!("home-{person}/.config/xdfs/config"), text.as_bytes());
}

/// Runs `xdfs` as a person who is called `login` on this machine.
fn run_with(scene: &Scene, person: &str, login: &str, words: &[&str]) -> Outcome {
    let mut command: Command = scene.command_as(person, words);
    command.env("USER", login);
    Running::start(command).wait()
}

#[test]
fn a_short_name_stands_for_a_server_in_every_command() {
    let scene = Scene::new();
    let server = scene.serve_for("anna", "anna");
    let address = server.address();
    let text = format!(
        "[hosts.lab]\naddress = \"{address}\"\nuser = \"anna\"\nexport = \"data\"\nhost-key = \"{}\"\nchannels = 3\n\
         protection = \"integrity\"\n",
        server.host_key()
    );
    configure(&scene, "anna", &text);
    scene.write("a b#.bin", b"content");
    let run = |words: &[&str]| scene.run_as("anna", words);
    run(&["mkdir", "lab:run7"]).ends_with(0).is_silent();
    let copied = run(&["cp", "--json", "a b#.bin", "lab:run7/"]);
    let copied = copied.ends_with(0).objects();
    assert_eq!((copied[0]["channels"].as_u64(), copied[0]["protection"].as_str()), (Some(3), Some("integrity")));
    assert_eq!(scene.read("server/run7/a b#.bin"), b"content");
    let typed = run(&["cp", "--json", "-P", "2", "--protection", "private", "a b#.bin", "lab:run7/two"]);
    let typed = typed.ends_with(0).objects();
    assert_eq!((typed[0]["channels"].as_u64(), typed[0]["protection"].as_str()), (Some(2), Some("private")));
    assert_eq!(run(&["cat", "lab:/data/run7/two"]).ends_with(0).output, b"content");
    assert_eq!(run(&["ls", "lab:/"]).ends_with(0).text(), "data\n");
    assert_eq!(run(&["ls", "lab:run7"]).ends_with(0).text(), "a b#.bin\ntwo\n");
    assert_eq!(run(&["ls", "lab:r*/[s-u]*"]).ends_with(0).text(), "two\n");
    run(&["ls", "lab:run7/*.jpg"]).ends_with(6).says(&["/data/run7/*.jpg", "no name fits this pattern"]);
    run(&["ln", "lab:run7/two", "lab:run7/three"]).ends_with(0);
    run(&["ln", "-s", "lab:two", "lab:run7/link"]).ends_with(0);
    assert_eq!(std::fs::read_link(scene.path("server/run7/link")).unwrap(), std::path::Path::new("lab:two"));
    run(&["mv", "lab:run7/three", "lab:run7/four"]).ends_with(0);
    run(&["cp", "-r", "lab:run7/.", "back"]).ends_with(0);
    assert_eq!(scene.read("back/four"), b"content");
    run(&["sync", "back", "lab:again"]).ends_with(0);
    run(&["sum", "lab:again/two"]).ends_with(0);
    run(&["rm", "-r", "lab:again", "lab:run7"]).ends_with(0);
    assert!(scene.names("server").iter().all(|name| name.starts_with('.')), "{:?}", scene.names("server"));
}

#[test]
fn the_limit_of_a_server_holds_for_copies_and_what_is_typed_counts_before_it() {
    const SIZE: usize = 4 << 20;
    let scene = Scene::new();
    let server = scene.serve_for("anna", "anna");
    let text = format!(
        "[hosts.lab]\naddress = \"{}\"\nuser = \"anna\"\nexport = \"data\"\nhost-key = \"{}\"\nbandwidth = \"1M\"\n",
        server.address(),
        server.host_key()
    );
    configure(&scene, "anna", &text);
    scene.write("file", &pattern(SIZE, 3));
    let seconds = |options: &[&str]| {
        let copied = scene.run_as("anna", [&["cp", "--json"], options, &["file", "lab:file"]].concat());
        copied.ends_with(0).objects()[0]["seconds"].as_f64().unwrap()
    };
    let limited = seconds(&[]);
    assert!(limited >= 3.8, "{limited} s for 4 MiB at 1 MiB/s");
    let half = Duration::from_secs_f64(limited / 2.0);
    assert!(least(half, |_| Duration::from_secs_f64(seconds(&["--bwlimit", "off"]))) < half);
}

#[test]
fn a_name_without_an_entry_is_told_where_entries_are() {
    let scene = Scene::new();
    let known = scene.run(["cp", "lab:x", "."]);
    known.ends_with(2).says(&["'lab' is no server of", ".config/xdfs/config", "[hosts.lab]", "xdfs://lab/EXPORT/path"]);
    known.says(&["write ssh:lab:x for"]);
    configure(&scene, "somebody", "[hosts.far]\naddress = \"far.example\"\n");
    scene.write("here", b"x");
    scene.run(["cp", "here", "lab:x"]).ends_with(2).says(&["'lab' is no server of", "which has far"]);
    let of_user = scene.run(["cp", "here", "root@lab:a b"]);
    of_user.ends_with(2).says(&["help: write 'ssh:root@lab:a b' for", "xdfs://root@lab/EXPORT/path"]);
    scene.run(["ls", "lab:x"]).ends_with(2).says(&["'lab' is no server of"]);
    scene.run(["ls", "far:x"]).ends_with(2).says(&["no default export", "far:/EXPORT/path"]);
    // A local file of such a name is written with its directory.
    scene.run(["cp", "./lab:x", "there"]).ends_with(2).says(&["neither side is on a server"]);
}

#[test]
fn an_error_of_the_file_names_its_line_and_other_commands_do_not_read_it() {
    let scene = Scene::new();
    configure(&scene, "somebody", "[hosts.lab]\naddress = \"h\"\nuzer = \"x\"\n");
    let refused = scene.run(["ls", "xdfs://localhost/data"]);
    refused.ends_with(2).says(&["/.config/xdfs/config:3: ", "uzer", "man xdfs-config"]);
    scene.run(["user", "list"]).ends_with(0);
    let mut elsewhere = scene.command(["ls", "lab:x"]);
    scene.write("elsewhere/xdfs/config", b"[hosts]\nlab = 1\n");
    elsewhere.env("XDG_CONFIG_HOME", scene.path("elsewhere"));
    Running::start(elsewhere).wait().ends_with(2).says(&["elsewhere/xdfs/config:2: "]);
}

#[test]
fn a_file_that_somebody_else_could_change_and_what_is_no_file_are_refused() {
    let scene = Scene::new();
    let text = b"[hosts.lab]\naddress = \"h\"\n";
    let path = scene.write("home-somebody/.config/xdfs/config", text);
    let refused = |text: &str| {
        scene.run(["ls", "lab:/data"]).ends_with(2).says(&[text]);
    };
    std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
    refused("belongs to user 65534, who could change it; run: chown 0 ");
    std::fs::remove_file(&path).unwrap();
    // Nobody writes into it: a reader would wait for ever.
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    refused("it is a FIFO");
}

#[test]
fn a_known_server_learns_the_local_name_and_no_other_does() {
    let scene = Scene::new();
    let server = scene.serve_for("anna", "annika");
    scene.write("file", b"content");
    // Visitors read here: what can be written was written by the user.
    let plain = |name: &str| format!("xdfs://{}/data/{name}", server.address());
    let write = |login: &str, name: &str| run_with(&scene, "anna", login, &["cp", "file", &plain(name)]);
    // A key in the URL may come from whoever wrote the URL.
    run_with(&scene, "anna", "annika", &["cp", "file", &server.url("zero")]).ends_with(7);
    run_with(&scene, "anna", "annika", &["ls", &plain("")]).ends_with(9);
    scene.run_as("anna", ["trust", "pin", server.address(), server.host_key()]).ends_with(0);
    write("annika", "one").ends_with(0);
    // Nobody of this name has that key: a visitor, who reads.
    write("berta", "two").ends_with(7);
    run_with(&scene, "anna", "berta", &["ls", &plain("")]).ends_with(0).is_silent();
    // Who has no key is a visitor, too.
    let visitor = scene.run(["cp", "file", &plain("three")]);
    visitor.ends_with(7);
    assert_eq!(scene.names("server").into_iter().filter(|name| !name.starts_with('.')).collect::<Vec<_>>(), ["one"]);
    // The file names another user for this server.
    configure(&scene, "anna", &format!("[hosts.lab]\naddress = \"{}\"\nuser = \"annika\"\n", server.address()));
    write("berta", "four").ends_with(0);
}

#[test]
fn who_has_no_name_in_the_environment_has_that_of_the_account() {
    let scene = Scene::new();
    let account = Command::new("id").arg("-un").output().unwrap().stdout;
    let server = scene.serve_for("anna", std::str::from_utf8(&account).unwrap().trim());
    scene.write("file", b"content");
    scene.run_as("anna", ["trust", "pin", server.address(), server.host_key()]).ends_with(0);
    let mut command: Command = scene.command_as("anna", ["cp", "file", &format!("xdfs://{}/data/f", server.address())]);
    command.env_remove("USER").env_remove("LOGNAME");
    Running::start(command).wait().ends_with(0);
}

#[test]
fn a_key_of_the_file_is_the_one_that_is_offered() {
    let scene = Scene::new();
    let server = scene.serve_for("anna", "anna");
    let own = scene.home("anna", "state/xdfs/id_ed25519");
    let entry = format!("[hosts.lab]\naddress = \"{}\"\nuser = \"anna\"\nexport = \"data\"\n", server.address());
    scene.write("file", b"content");
    // Somebody else has no key but the one that the file names.
    configure(&scene, "somebody", &format!("{entry}identity = \"{}\"\n", own.display()));
    scene.run(["cp", "file", "lab:one"]).ends_with(0);
    configure(&scene, "somebody", &format!("{entry}identity = \"missing\"\n"));
    scene.run(["cp", "file", "lab:two"]).ends_with(6).says(&["missing: there is no such key file"]);
    // Without a user it is named, too.
    let entry = entry.replace("user = \"anna\"\n", "");
    configure(&scene, "somebody", &format!("{entry}identity = \"missing\"\n"));
    scene.run(["ls", "lab:"]).ends_with(6).says(&["missing: there is no such key file"]);
}

#[test]
fn another_key_than_that_of_the_file_is_told_with_its_place() {
    let scene = Scene::new();
    let server = scene.serve_for("anna", "anna");
    let other = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
    let text = format!("[hosts.lab]\naddress = \"{}\"\nhost-key = \"{other}\"\n", server.address());
    configure(&scene, "anna", &text);
    for file in ["lab:/data", "bob@lab:/data"] {
        let refused = scene.run_as("anna", ["ls", file]);
        refused.ends_with(9).says(&["host-key of [hosts.lab] in ", "/.config/xdfs/config:3\n"]);
        refused.says(&[&format!("write host-key = \"{}\" there, below [hosts.lab]", server.host_key())]);
    }
    let typed = format!("xdfs://{}/data#{}", server.address(), &other.replace("47DEQ", "48DEQ"));
    scene.run_as("anna", ["ls", &typed]).ends_with(9).says(&["pinned by the URL", "at the end of the URL"]);
}

/// The keys of the table in docs/config.md.
#[test]
fn the_page_of_the_file_lists_the_keys_that_there_are() {
    let page = include_str!("../../../docs/config.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let documented: Vec<&str> = rows.map(|(key, _)| key).filter(|key| !key.contains(':')).collect();
    let scene = Scene::new();
    configure(&scene, "somebody", "[hosts.lab]\nnonsense = 1\n");
    let refused = scene.run(["ls", "xdfs://localhost/data"]);
    let (_, list) = refused.messages.split_once("expected one of ").expect("the error lists the keys");
    let (list, _) = list.split_once("\nhelp: ").expect("a remedy follows");
    let known: Vec<&str> = list.split(", ").map(|key| key.trim_matches('`')).collect();
    assert_eq!(documented, known);
    // The example of the page is a good file.
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    configure(&scene, "somebody", example);
    scene.run(["ls", "other:x"]).ends_with(2).says(&["which has far, lab"]);
}
