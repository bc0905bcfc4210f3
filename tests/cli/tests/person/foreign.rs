//! Names and listings of a server that wants to fool whoever reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use xdfs_io::store::tree::NodeKind;
use xdfs_server::{
    Address, Config, DiskMode, Export, HostIdentity, KeyLimits, KeyPair, Policy, Server, ServerLimits, VisitorsOnly,
};
use xdfs_test_cli::{Scene, exit, pattern};

use super::evil::{EvilStore, Script, line};

/// A direction override, an isolate, a line separator, a space that is not seen, a tag, a C1 control.
const NASTY: &str = "a\u{202e}b\u{2066}c\u{2028}d\u{200b}e\u{e0041}f\u{9b}g";

#[test]
fn a_name_reaches_the_terminal_escaped_and_a_program_as_it_is() {
    let scene = Scene::new();
    scene.write(format!("server/directory/{NASTY}"), &pattern(100, 1));
    let server = scene.serve();
    let url = server.url("directory/a%E2%80%AEb%E2%81%A6c%E2%80%A8d%E2%80%8Be%F3%A0%81%81f%C2%9Bg");
    let directory = server.url("directory");
    scene.directory("target");
    let hidden = |text: &str| NASTY.chars().filter(|c| !c.is_ascii()).any(|character| text.contains(character));
    let rows: [&[&str]; 8] = [
        &["ls", "-l", &directory],
        &["stat", &url],
        &["du", &directory],
        &["sum", &url],
        &["cp", "-r", "--dry-run", &directory, "target"],
        &["mkdir", &url],
        &["cp", "-n", &url, "target/"],
        &["ls", &format!("{url}x")],
    ];
    for words in rows {
        let outcome = scene.run(words);
        assert!(!hidden(outcome.text()) && !hidden(&outcome.messages), "{words:?}: {outcome:?}");
    }
    for words in [["ls", &directory].as_slice(), &["ls", "-R", &directory]] {
        let (_, shown) = scene.terminal_as("somebody", words).wait();
        assert!(!hidden(&shown) && shown.contains("a\\u{202e}b\\u{2066}c"), "it is shown by its numbers: {shown}");
        // A program gets it as it is, as from ls.
        assert!(scene.run(words).text().contains(&format!("{NASTY}\n")), "{words:?}");
    }
    for words in [["ls", "--json", &directory], ["stat", "--json", &url]] {
        let outcome = scene.run(words);
        assert!(!hidden(outcome.text()), "{words:?}");
        assert_eq!(outcome.objects()[0]["name"], NASTY, "{words:?}");
    }
}

/// A server of whatever the script lists.
pub(super) fn lying(script: Script) -> (xdfs_server::ServerHandle, String) {
    let server = Server::bind(Config {
        listen: Address::Tcp(([127, 0, 0, 1], 0).into()),
        inherited: None,
        stack: None,
        transport: Default::default(),
        exports: vec![Export::open_to_all("data", Arc::new(EvilStore::new(script)), true)],
        policy: Policy::default(),
        limits: ServerLimits::default(),
        key_limits: KeyLimits::STANDARD,
        disk: DiskMode::default(),
        identity: Arc::new(HostIdentity::new(KeyPair::generate().expect("a key"))),
        directory: Arc::new(VisitorsOnly(true)),
        log: Arc::new(|_| 0),
    })
    .expect("a server");
    let (handle, url) = (server.handle(), format!("xdfs://{}/data#{}", server.address(), server.host_key()));
    std::thread::spawn(move || server.run());
    (handle, url)
}

#[test]
fn what_a_server_says_of_an_error_reaches_the_terminal_escaped_and_a_program_as_it_is() {
    let scene = Scene::new();
    let script = Script {
        listings: BTreeMap::from([(b"".to_vec(), vec![line(b"file", NodeKind::Regular)])]),
        error: NASTY.to_owned(),
        ..Script::default()
    };
    let (handle, url) = lying(script);
    let file = url.replace("/data#", "/data/file#");
    // The server replaces a control character before it sends it.
    let shown = "a\\u{202e}b\\u{2066}c\\u{2028}d\\u{200b}e\\u{e0041}f";
    for words in [["cp", "-r", &url, "copy"].as_slice(), &["cat", &file], &["cp", &file, "file"], &["sum", &file]] {
        let outcome = scene.run(words);
        assert_ne!(outcome.code, Some(0), "{words:?}");
        // A reply to calls has a code and no text.
        assert!(words.contains(&"-r") || outcome.messages.contains(shown), "{words:?}: {}", outcome.messages);
        let (_, screen) = scene.terminal_as("somebody", words).wait();
        for text in [&outcome.messages, &screen] {
            assert!(NASTY.chars().filter(|c| !c.is_ascii()).all(|hidden| !text.contains(hidden)), "{words:?}: {text}");
        }
    }
    let told = scene.run(["cp", "--json", &file, "file"]);
    assert!(told.objects().iter().any(|object| object.to_string().contains("a\u{202e}b\u{2066}c")), "{told:?}");
    handle.stop();
}

#[test]
fn a_tree_without_an_end_is_given_up_where_a_path_ends() {
    let scene = Scene::new();
    let script = Script { everywhere: vec![line(b"deeper", NodeKind::Directory)], ..Script::default() };
    let (handle, url) = lying(script);
    let inside = url.replace("/data#", "/data/x#");
    for words in [["du", &url].as_slice(), &["rm", "-r", "-f", &inside], &["ls", "-R", &url]] {
        let outcome = scene.run(words);
        outcome.ends_with(exit::REFUSED).says(&["1024"]);
        assert!(outcome.messages.len() < 2000, "{words:?}: {} bytes of messages", outcome.messages.len());
    }
    handle.stop();
}

#[test]
fn a_directory_whose_pages_never_end_is_given_up() {
    let scene = Scene::new();
    let (handle, url) = lying(Script { endless: true, ..Script::default() });
    let inside = url.replace("/data#", "/data/x#");
    for words in [["du", &url].as_slice(), &["rm", "-r", "-f", &inside], &["ls", &url]] {
        scene.run(words).ends_with(exit::REFUSED).says(&["says that more follows"]);
    }
    handle.stop();
}
