//! What a file may contain, and that every mistake in it is an error with its line (B24).

use super::*;
use crate::authorise::{Anonymous, Users};
use xdfs_secure::journal::JournalKey;

fn parse(text: &str) -> Result<Settings, String> {
    Settings::parse(Path::new("/etc/xdfs/server.toml"), text).map_err(|error| error.to_string())
}

const FULL: &str = r#"listen = "0.0.0.0:2799"
state = "/var/lib/xdfs"
min-protection = "integrity"
suites = ["aes-256-gcm"]
confinement = "required"

[limits]
sessions = 100
idle-seconds = 60
channels = 64

[log]
audit = "audit.jsonl"
audit-failure = "stop"
quiet = true

[exports.data]
directory = "/srv/data"
users = ["alice", "bob"]
min-protection = "private"

[exports.in]
directory = "incoming"
pipes = true
anonymous = "create"

[exports.pub]
directory = "memory:"
access = "ro"
anonymous = "ro"
"#;

#[test]
fn a_full_file_says_what_it_says() {
    let settings = parse(FULL).unwrap();
    assert_eq!(settings.listen, Some("0.0.0.0:2799".parse().unwrap()));
    assert_eq!(settings.state, Some("/var/lib/xdfs".into()));
    assert_eq!((settings.min_protection, settings.confinement), (Level::Integrity, Confinement::Required));
    assert_eq!((settings.suites, settings.channels), (vec!["aes-256-gcm".to_owned()], Some(64)));
    assert_eq!((settings.limits.sessions, settings.limits.idle.as_secs()), (100, 60));
    assert_eq!(settings.limits.guests, ServerLimits::default().guests);
    assert_eq!(
        settings.log,
        LogSettings { audit: Audit::File("/etc/xdfs/audit.jsonl".into()), audit_failure: OnFailure::Stop, quiet: true }
    );
    let [data, incoming, public] = &settings.exports[..] else { panic!("{:?}", settings.exports) };
    let users = Users::Only(["alice", "bob"].map(str::to_owned).into());
    assert_eq!((&data.access.users, data.access.floor, data.access.writable), (&users, Level::Private, true));
    assert_eq!(data.access.anonymous, Anonymous::Nothing);
    assert!(incoming.access.pipes && !data.access.pipes);
    assert_eq!(incoming.directory(), Some("/etc/xdfs/incoming".as_ref()));
    assert_eq!((&incoming.access.users, incoming.access.anonymous), (&Users::All, Anonymous::Create));
    assert_eq!((public.directory(), public.access.writable), (None, false));
}

#[test]
fn an_empty_file_is_the_shipped_settings() {
    let settings = parse("").unwrap();
    assert_eq!(settings.limits, ServerLimits::default());
    assert_eq!((settings.exports.len(), settings.listen), (0, None));
}

#[test]
fn the_file_that_is_packaged_is_a_good_one_as_it_stands_and_with_its_examples() {
    let packaged = include_str!("../../../../packaging/server.toml");
    let exports =
        |text: &str| -> Vec<String> { parse(text).unwrap().exports.into_iter().map(|export| export.name).collect() };
    assert_eq!(exports(packaged), ["data"]);
    // An example is a key with its value behind the sign of a comment.
    let examples = packaged.lines().map(|line| {
        let example = line.strip_prefix("# ");
        example.filter(|example| example.split_whitespace().nth(1) == Some("=")).unwrap_or(line)
    });
    let examples = examples.fold(String::new(), |text, line| text + line + "\n");
    assert!(examples.contains("\nlisten = ") && examples.contains("\nanonymous = "));
    assert_eq!(exports(&examples), ["data"]);
}

#[test]
fn every_mistake_is_an_error_that_names_its_line() {
    let export = "[exports.a]\ndirectory = \"/srv\"\n";
    let rows = [
        ("\nlisten = 5", 2, "string"),
        ("listne = \"1.2.3.4:5\"", 1, "listne"),
        ("\n\n[limits]\nsession = 5", 4, "session"),
        ("[limits]\nsessions = 0", 2, "from 1 to"),
        ("[limits]\nsessions = -1", 2, ""),
        ("[limits]\nsessions = 99999999999", 2, "from 1 to"),
        ("[limits]\nchannels = 4097", 2, "from 1 to 4096"),
        ("[limits]\nlogins-soft = 300", 2, "raise logins"),
        ("[limits]\nlogins = 10", 2, "raise logins"),
        ("listen = \"example.org:2799\"", 1, "no host names"),
        ("[exports.d]\ndirectory = \"/tmp\"\nkeep = [\"all\"]", 3, "modes, owner, acl, xattr, special"),
        ("min-protection = \"Private\"", 1, "clear, integrity, private"),
        ("suites = [\"aes-256-gcm\",\n \"rc4\"]", 2, "chacha20-poly1305"),
        ("suites = []", 1, "nobody can connect"),
        ("confinement = \"no\"", 1, "auto, required, off"),
        ("\ncertificate = \"site.crt\"", 2, "certificate-key"),
        ("metrics = \"0.0.0.0:9280\"", 1, "other machines"),
        ("certificate-key = \"site.key\"", 1, "needs certificate"),
        ("[exports.\"a/b\"]\ndirectory = \"/srv\"", 1, "name of an export"),
        ("[exports.\"..\"]\ndirectory = \"/srv\"", 1, "name of an export"),
        ("[exports.\"\"]\ndirectory = \"/srv\"", 1, "name of an export"),
        ("[exports.a]\naccess = \"ro\"", 1, "directory"),
        (&format!("{export}access = \"rx\""), 3, "ro, rw"),
        (&format!("{export}anonymous = \"yes\""), 3, "none, ro, create, rw"),
        (&format!("{export}access = \"ro\"\nanonymous = \"rw\""), 4, "read-only"),
        (&format!("{export}user = [\"alice\"]"), 3, "user"),
        (&format!("{export}{export}"), 3, "duplicate"),
        ("[exports.a]\ndirectory = \"\"", 2, "write a path"),
        ("[log]\naudit-failure = \"ignore\"", 2, "go-on, stop"),
        ("[limits]\naudit-bytes-per-second = 1", 2, "out of bounds"),
        ("[log]\naudit = \"a\"\nlevel = \"debug\"", 3, "level"),
        ("exports = 1\nlisten", 2, ""),
    ];
    for (text, line, word) in rows {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with(&format!("/etc/xdfs/server.toml:{line}: ")), "{text:?}: {error}");
        assert!(error.contains(word), "{text:?}: {error}");
    }
}

#[test]
fn users_and_directories_that_are_not_there_are_errors_with_their_line() {
    let settings = parse(FULL).unwrap();
    assert_eq!(settings.check_users(|_| true), Ok(()));
    let error = settings.check_users(|user| user != "bob").unwrap_err().to_string();
    assert!(error.starts_with("/etc/xdfs/server.toml:19: ") && error.contains("'bob'"), "{error}");
    let missing = parse("\n[exports.a]\ndirectory = \"/nonexistent/xdfs\"").unwrap();
    let error = missing.open_exports(&Arc::new(JournalKey::new(&[7; 32]))).unwrap_err().to_string();
    assert!(error.starts_with("/etc/xdfs/server.toml:3: ") && error.contains("make the directory"), "{error}");
    assert_eq!(
        parse("[exports.a]\ndirectory = \"/\"")
            .unwrap()
            .open_exports(&Arc::new(JournalKey::new(&[7; 32])))
            .unwrap()
            .len(),
        1
    );
}

/// The rights of an anonymous user, and of a user who is named nowhere: the sum over all exports.
fn openness(settings: &Settings) -> usize {
    let of_one = |export: &ExportSettings| {
        let visitors = export.access.anonymous as usize;
        let users = usize::from(export.access.users == Users::All);
        (visitors + users) * (1 + usize::from(export.access.writable))
    };
    settings.exports.iter().map(of_one).sum()
}

/// B24: a lost or doubled byte causes an error, or settings that give strangers no more than
/// before.
#[test]
fn a_damaged_file_never_opens_more_than_the_whole_one() {
    let whole = openness(&parse(FULL).unwrap());
    let mut accepted = 0;
    for at in 0..FULL.len() {
        let (before, after) = FULL.split_at(at);
        let mutants =
            [format!("{before}{}", &after[1..]), format!("{before}{}{after}", &after[..1]), before.to_owned()];
        // A cut between two exports leaves whole ones, a lost line break after a key is a syntax
        // error.
        for mutant in mutants {
            if let Ok(settings) = parse(&mutant) {
                accepted += 1;
                let lost_users = !mutant.contains("users = ") && mutant.contains("[exports.data]");
                let lost_ro = !mutant.contains("access = \"ro\"") && mutant.contains("[exports.pub]");
                // A truncated file is recognised only by its missing end: only cuts inside a table
                // are excused.
                assert!(openness(&settings) <= whole || lost_users || lost_ro, "{mutant}");
            }
        }
    }
    assert!(accepted > FULL.len() / 2, "{accepted}");
}
