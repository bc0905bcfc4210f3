//! docs/json.md against the program: every object that a command prints has the documented fields.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use xdfs_test_cli::{Relay, Scene, exit, pattern};

/// Events that need an old part file, and the suite that shows them.
const SHOWN_ELSEWHERE: [&str; 1] = ["recovered"];

/// The fields of an event: those that are always there, and all.
#[derive(Default)]
struct Fields {
    always: BTreeSet<String>,
    all: BTreeSet<String>,
}

/// The rows of the page's tables. A field is in back quotes; in italics it may be left out. What
/// stands in parentheses explains it.
fn documented() -> BTreeMap<String, Fields> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let mut events = BTreeMap::new();
    let tables = page.split("\n## Kinds of error").next().expect("the beginning");
    for line in tables.lines() {
        let Some((event, rest)) = line.strip_prefix("| `").and_then(|line| line.split_once("` | ")) else { continue };
        let (mut fields, mut depth, mut plain) = (Fields::default(), 0, String::new());
        for character in rest.chars() {
            depth += i32::from(character == '(') - i32::from(character == ')');
            if depth == 0 && character != ')' {
                plain.push(character);
            }
        }
        for field in plain.trim_end_matches(" |").split(',') {
            let field = field.trim();
            let name = field.trim_matches('*').trim_matches('`').to_owned();
            if !field.starts_with('*') {
                fields.always.insert(name.clone());
            }
            fields.all.insert(name);
        }
        events.insert(event.to_owned(), fields);
    }
    events
}

/// The commands with `--json`, from the completions of fish, which are those of the program.
fn with_json() -> BTreeSet<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/completions/xdfs.fish");
    let script = std::fs::read_to_string(script).expect("the script is there");
    let lines = script.lines().filter(|line| line.contains(" -l json "));
    let commands = lines.filter_map(|line| {
        let (command, rest) = line.split_once("__fish_xdfs_using_subcommand ")?.1.split_once(['"', ';'])?;
        let inner = rest.split_once("__fish_seen_subcommand_from ").and_then(|(_, inner)| inner.split_once('"'));
        Some(inner.map_or(command.to_owned(), |(inner, _)| format!("{command} {inner}")))
    });
    commands.collect()
}

/// The names of events in the source of the command.
fn in_source(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).expect("a directory of the source") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            in_source(&path, found);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("source is text");
        for mark in ["tag = \"event\", rename = \"", "did(plan, \""] {
            let names = text.split(mark).skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn each_event_of_the_program_has_a_row_and_each_row_its_event() {
    let mut found = BTreeSet::new();
    in_source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/cli/src"), &mut found);
    let rows: BTreeSet<String> = documented().into_keys().collect();
    assert_eq!(found, rows);
}

fn check(page: &BTreeMap<String, Fields>, seen: &mut BTreeSet<String>, objects: &[Value]) {
    for object in objects {
        let object = object.as_object().expect("an object");
        let event = object["event"].as_str().expect("a name");
        let fields = page.get(event).unwrap_or_else(|| panic!("docs/json.md has no event '{event}'"));
        let keys: BTreeSet<String> = object.keys().filter(|key| *key != "event").cloned().collect();
        assert!(keys.is_superset(&fields.always), "{event} lacks {:?}", fields.always.difference(&keys));
        assert!(keys.is_subset(&fields.all), "{event}: {:?} are not documented", keys.difference(&fields.all));
        seen.insert(event.to_owned());
    }
}

/// Bytes of a copy that takes some seconds.
const LARGE: usize = 12 << 20;

#[test]
fn every_object_has_the_fields_of_its_row_and_every_row_is_met() {
    let scene = Scene::new();
    scene.write("here", b"content");
    scene.write("tree/file", b"content");
    scene.write("server/there", b"content");
    let pem = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key").serialize_pem();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(scene.write("key.pem", pem.as_bytes()), mode).expect("our own");
    let server = scene.serve_with(&["--pipes"]);
    let (page, mut seen) = (documented(), BTreeSet::new());
    let (there, new, target) = (server.url("there"), server.url("new"), server.url("d/x"));
    let rows: [&[&str]; 23] = [
        &["cp", "--json", "--dry-run", "here", &new],
        &["cp", "--json", "here", &new],
        &["cp", "--json", "-n", "here", &new],
        &["sync", "--json", "tree", &server.url("copy")],
        &["cp", "--json", &server.url("gone"), "x"],
        &["ls", "--json", &server.url("")],
        &["stat", "--json", &there],
        &["du", "--json", &server.url("")],
        &["df", "--json", &server.url("")],
        &["sum", "--json", &there],
        &["mkdir", "--json", &server.url("d")],
        &["mkfifo", "--json", &server.url("pipe")],
        &["mv", "--json", &there, &target],
        &["ln", "--json", "-s", "x", &server.url("link")],
        &["chmod", "--json", "600", &target],
        &["touch", "--json", &target],
        &["rm", "--json", &target],
        &["key", "create", "--json"],
        &["key", "show", "--json"],
        &["key", "import", "--json", "--state", "other", "key.pem"],
        &["user", "add", "anna"],
        &["user", "list", "--json"],
        &["trust", "list", "--json"],
    ];
    check(&page, &mut seen, std::slice::from_ref(server.ready()));
    let shown = rows.iter().filter(|words| words.contains(&"--json")).map(|words| match words {
        [group @ ("key" | "user" | "trust"), inner, ..] => format!("{group} {inner}"),
        words => words[0].to_owned(),
    });
    let shown: BTreeSet<String> = shown.chain(["serve".to_owned()]).collect();
    assert_eq!(shown, with_json(), "each command with --json is run here");
    for words in rows {
        let outcome = scene.run(words);
        assert!(words.contains(&"user") || !outcome.objects().is_empty(), "{words:?}: {outcome:?}");
        if words.contains(&"--json") {
            check(&page, &mut seen, &outcome.objects());
        }
    }
    // Six seconds on the way, less those in which it has not begun.
    scene.write("large", &pattern(LARGE, 1));
    let relay = Relay::paced(&server, 2 << 20);
    let large = scene.run(["cp", "--json", "-P", "1", "large", &relay.url("large")]);
    large.ends_with(exit::DONE);
    let objects = large.all_objects();
    check(&page, &mut seen, &objects);
    let progress: Vec<_> = objects.iter().filter(|object| object["event"] == "progress").collect();
    let bytes: Vec<u64> = progress.iter().filter_map(|object| object["bytes"].as_u64()).collect();
    let whole = bytes.is_sorted() && bytes.iter().all(|bytes| *bytes <= LARGE as u64);
    assert!(bytes.len() >= 2 && whole, "a line each second: {bytes:?}");
    let seconds: Vec<f64> = progress.iter().filter_map(|object| object["seconds"].as_f64()).collect();
    let early = seconds.windows(2).find(|pair| pair[1] - pair[0] < 0.9);
    assert!(early.is_none() && seconds.len() == bytes.len(), "not more often than each second: {seconds:?}");
    assert_eq!(objects.last().expect("the result")["event"], "transfer");
    let silent = scene.run(["cp", "--json", "--progress", "none", "-P", "1", "large", &relay.url("again")]);
    assert_eq!(silent.ends_with(exit::DONE).all_objects().len(), 1);
    let missing: Vec<_> = page.keys().filter(|event| !seen.contains(*event)).collect();
    assert_eq!(missing, SHOWN_ELSEWHERE, "a row of docs/json.md that no command of this test prints");
}
