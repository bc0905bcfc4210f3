//! B01: paths made to escape, against an oracle that knows nothing of the code: what is a path is decided lexically,
//! what it leads to by a list of what the export holds. Canaries around the export must stay unread and unchanged.
//!
//! `XDFS_PATH_CASES=1000000` runs the long form.

use crate::bench::{Scratch, names_under};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use std::os::unix::fs::symlink;
use std::path::Path;
use xdfs_io::store::{Existing, LocalStore, SmallFile, StageRequest, Store};
use xdfs_proto::base::RelPath;
use xdfs_test_conformance::store::bench::{commit, request};

const DIRECTORIES: [&[u8]; 3] = [b"a", b"a/b", b"a/b/c"];
const FILES: [&[u8]; 3] = [b"f", b"a/f", b"a/b/c/f"];
/// Names of links; each leads to something that exists.
const LINKS: [(&str, &str); 6] =
    [("up", ".."), ("out", "../outside"), ("abs", "/"), ("here", "."), ("a/lf", "../f"), ("a/b/up", "../../..")];

/// A tree with an export in it and canaries around it.
struct World {
    scratch: Scratch,
    store: LocalStore,
}

impl World {
    fn new() -> Self {
        let scratch = Scratch::on_tmpfs();
        let top = scratch.path();
        let export = top.join("export");
        std::fs::create_dir_all(export.join("a/b/c")).unwrap();
        for name in FILES {
            std::fs::write(export.join(std::str::from_utf8(name).unwrap()), name).unwrap();
        }
        for (name, target) in LINKS {
            symlink(target, export.join(name)).unwrap();
        }
        for canary in ["canary", "outside/canary", "outside/f", "f", "x", "outside/x"] {
            std::fs::create_dir_all(top.join("outside")).unwrap();
            std::fs::write(top.join(canary), b"CANARY").unwrap();
        }
        let store = LocalStore::open_root(&export, true).unwrap();
        Self { scratch, store }
    }

    /// Names, sizes, content and times of everything outside of the export.
    fn outside(&self) -> Vec<(Vec<u8>, Vec<u8>, std::time::SystemTime)> {
        let top = self.scratch.path();
        let seen = |name: Vec<u8>| {
            let file = top.join(std::str::from_utf8(&name).unwrap());
            let content = std::fs::read(&file).unwrap_or_default();
            (name, content, std::fs::metadata(&file).unwrap().modified().unwrap())
        };
        names_under(top).into_iter().filter(|name| !name.starts_with(b"export")).map(seen).collect()
    }

    fn inside(&self) -> Vec<Vec<u8>> {
        names_under(&self.scratch.path().join("export"))
    }
}

/// Whether `bytes` are a relative path, by the words of the documentation and not by the parser's code.
fn is_relative_path(bytes: &[u8]) -> bool {
    if bytes.is_empty() {
        return true;
    }
    let text: Vec<String> = bytes.split(|&byte| byte == b'/').map(|part| format!("{}", part.escape_ascii())).collect();
    let lengths_fit =
        bytes.len() <= 32_768 && text.len() <= 1024 && bytes.split(|&byte| byte == b'/').all(|p| p.len() <= 255);
    lengths_fit && !text.iter().any(|part| part.is_empty() || part == "." || part == ".." || part.contains("\\x00"))
}

/// Components that attacks are made of, and a few honest ones.
fn component() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "c", "f", "x", "lf"]).prop_map(|text| text.as_bytes().to_vec()),
        2 => prop::sample::select(vec!["up", "out", "abs", "here", "canary", "export", "outside"])
            .prop_map(|text| text.as_bytes().to_vec()),
        2 => prop::sample::select(vec![&b""[..], b".", b"..", b"...", b"\0", b"a\0", b"..\0", b"~", b"%2e%2e", b"\\..\\", b"\xc0\xae"])
            .prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..8),
        1 => (250usize..260).prop_map(|length| vec![b'l'; length]),
    ]
}

fn any_path() -> impl Strategy<Value = Vec<u8>> {
    let slash = prop::sample::select(vec![&b"/"[..], b"/", b"/", b"/", b"//", b"/./", b"/../"]);
    let parts = prop_oneof![
        8 => prop::collection::vec((component(), slash.clone()), 0..6),
        1 => prop::collection::vec((component(), slash), 120..140),
    ];
    (prop::bool::weighted(0.1), parts, prop::bool::weighted(0.1)).prop_map(|(leading, parts, trailing)| {
        let mut bytes = if leading { b"/".to_vec() } else { Vec::new() };
        let count = parts.len();
        for (index, (component, slash)) in parts.into_iter().enumerate() {
            bytes.extend_from_slice(&component);
            if index + 1 < count || trailing {
                bytes.extend_from_slice(slash);
            }
        }
        bytes
    })
}

#[test]
fn no_path_leads_out_of_an_export_and_every_honest_one_works() {
    let cases = std::env::var("XDFS_PATH_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let world = World::new();
    let (outside, inside) = (world.outside(), world.inside());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut counts = [0u32; 4];
    let result = TestRunner::new(config).run(&any_path(), |bytes| {
        let parsed = RelPath::parse(&bytes);
        prop_assert_eq!(parsed.is_ok(), is_relative_path(&bytes), "{}", bytes.escape_ascii());
        let Ok(path) = parsed else { return Ok(()) };
        prop_assert_eq!(path.as_bytes(), &bytes[..]);
        check_read(&world, &path, &bytes)?;
        check_write(&world, &path, &bytes)?;
        check_small(&world, &path, &bytes)
    });
    result.unwrap();
    assert_eq!(world.outside(), outside, "a canary was touched");
    assert_eq!(world.inside(), inside, "something was left in the export");
    // The generator reaches what it is there for.
    let mut runner = TestRunner::deterministic();
    for _ in 0..4000 {
        let bytes = any_path().new_tree(&mut runner).unwrap().current();
        counts[usize::from(is_relative_path(&bytes))] += 1;
        counts[2] += u32::from(FILES.contains(&bytes.as_slice()));
        counts[3] += u32::from(bytes.starts_with(b"out/") || bytes.starts_with(b"up/"));
    }
    assert!(counts.iter().all(|&count| count >= 20), "{counts:?}");
}

fn check_read(world: &World, path: &RelPath, bytes: &[u8]) -> Result<(), TestCaseError> {
    match world.store.open(path) {
        Ok(source) => {
            let mut buf = [0; 64];
            let count = source.read_at(&mut buf, 0).unwrap();
            // A file of the export holds its own name.
            prop_assert!(FILES.contains(&bytes), "opened {}", bytes.escape_ascii());
            prop_assert_eq!(&buf[..count], bytes);
        }
        Err(error) => {
            prop_assert!(!FILES.contains(&bytes), "{} is an honest file: {error}", bytes.escape_ascii());
            prop_assert!(error.message.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{:?}", error.message);
        }
    }
    let known = bytes.is_empty()
        || FILES.contains(&bytes)
        || DIRECTORIES.contains(&bytes)
        || LINKS.iter().any(|(name, _)| name.as_bytes() == bytes);
    prop_assert_eq!(world.store.attributes(path).is_ok(), known, "{}", bytes.escape_ascii());
    Ok(())
}

fn check_write(world: &World, path: &RelPath, bytes: &[u8]) -> Result<(), TestCaseError> {
    let above = bytes.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |slash| &bytes[..slash]);
    let taken = bytes.is_empty()
        || FILES.contains(&bytes)
        || DIRECTORIES.contains(&bytes)
        || LINKS.iter().any(|(name, _)| name.as_bytes() == bytes);
    let allowed = !taken && (above.is_empty() || DIRECTORIES.contains(&above));
    let asked = StageRequest { target: path.clone(), ..request("x", Existing::Keep) };
    match world.store.stage(&asked) {
        Ok(stage) => {
            prop_assert!(allowed, "staged {}", bytes.escape_ascii());
            stage.commit(&commit(0)).unwrap();
            use std::os::unix::ffi::OsStrExt;
            let made = world.scratch.path().join("export").join(Path::new(std::ffi::OsStr::from_bytes(bytes)));
            prop_assert!(made.symlink_metadata().is_ok_and(|found| found.is_file()), "{}", bytes.escape_ascii());
            std::fs::remove_file(made).unwrap();
        }
        Err(error) => prop_assert!(!allowed, "{}: {error}", bytes.escape_ascii()),
    }
    Ok(())
}

/// A small file, with the directories that it needs: made where no file and no link is on the way, and nowhere else.
fn check_small(world: &World, path: &RelPath, bytes: &[u8]) -> Result<(), TestCaseError> {
    // What is removed behind it is named by an absolute path, which the kernel bounds.
    if bytes.len() > 3000 {
        return Ok(());
    }
    use std::os::unix::ffi::OsStrExt;
    let is_link = |name: &[u8]| LINKS.iter().any(|(link, _)| link.as_bytes() == name);
    let blocked = |end: usize| FILES.contains(&&bytes[..end]) || is_link(&bytes[..end]);
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
    let taken = bytes.is_empty() || DIRECTORIES.contains(&bytes) || blocked(bytes.len());
    let allowed = !taken && !ends.into_iter().any(blocked);
    let (target, content, base) = (path.clone(), b"small".as_slice(), None);
    let (mode, modified, existing) = (0o600, None, Existing::Keep);
    let file = SmallFile { target, content, mode, modified, existing, base, parents: true, holes: false };
    let placed = world.store.put_small(&[file], false).pop().expect("one file");
    prop_assert_eq!(placed.is_ok(), allowed, "{}: {:?}", bytes.escape_ascii(), placed);
    if allowed {
        let top = world.scratch.path().join("export");
        let made = top.join(Path::new(std::ffi::OsStr::from_bytes(bytes)));
        prop_assert_eq!(std::fs::read(&made).expect("it is there"), content);
        std::fs::remove_file(&made).expect("it is ours");
        let mut above = made.parent();
        while let Some(folder) = above.filter(|folder| *folder != top) {
            let name = folder.strip_prefix(&top).expect("it is below").as_os_str().as_bytes();
            if DIRECTORIES.contains(&name) {
                break;
            }
            std::fs::remove_dir(folder).expect("it was made");
            above = folder.parent();
        }
    }
    Ok(())
}
