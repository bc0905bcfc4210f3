//! Every right against every operation (B23), the edge cases of paths and names (B02), and an
//! independent check.

use super::*;
use crate::calls::Execution;
use crate::watches::Watches;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;
use xdfs_engine::blocking::Slice;
use xdfs_io::store::MemoryExport;
use xdfs_proto::base::{SessionId, Timestamp};
use xdfs_proto::wire::path::{Batch, Call, Code, FileType, NewTime, Owner, Put, Reply, Wanted, Watched, XattrRule};
use xdfs_secure::policy::Scope;

const NOW: u64 = 1_700_000_000;

fn who(user: &str, method: Method) -> Principal {
    Principal { user: user.into(), method, key: None, scope: None }
}

fn bearer(export: &str, path: &str, write: bool, until: u64) -> Principal {
    let path = RelPath::parse(path.as_bytes()).unwrap();
    Principal { scope: Some(Scope { export: export.into(), path, write, until }), ..who("alice", Method::Token) }
}

fn authority(access: Access) -> Authority {
    Authority::new(vec![Export::new("data", Arc::new(MemoryExport), access)], Level::Clear)
}

fn only(users: &[&str]) -> Users {
    Users::Only(users.iter().map(|user| (*user).to_owned()).collect())
}

const READ: Want = Want::Read;
const CREATE: Want = Want::Write { keep: true };
const REPLACE: Want = Want::Write { keep: false };

/// The outcome of the operation: an error's kind, or how an existing file is treated.
fn outcome(access: &Access, who: &Principal, want: Want) -> Result<Existing, ErrorKind> {
    let judged = authority(access.clone()).authorise(who, b"data/a/b", want, NOW);
    judged.map(|authorized| authorized.existing()).map_err(|error| error.kind)
}

#[test]
fn every_right_meets_every_operation_as_the_table_says() {
    use ErrorKind::{NotFound, ReadOnly, Refused};
    let key = who("alice", Method::Key);
    let password = who("alice", Method::Password);
    let other = who("mallory", Method::Key);
    let visitor = who("anonymous@192.0.2.1", Method::Anonymous);
    let token = bearer("data", "", true, NOW + 1);
    let reading_token = bearer("data", "", false, NOW + 1);
    let named = || only(&["alice"]);
    let access =
        |writable, users, anonymous| Access { writable, users, anonymous, floor: Level::Clear, ..Access::default() };
    type Row<'a> = (Access, &'a Principal, [Result<Existing, ErrorKind>; 3]);
    let (keep, replace) = (Ok(Existing::Keep), Ok(Existing::Replace));
    let rows: Vec<Row<'_>> = vec![
        (access(true, Users::All, Anonymous::Nothing), &key, [keep, keep, replace]),
        (access(true, Users::All, Anonymous::Nothing), &password, [keep, keep, replace]),
        (access(true, Users::All, Anonymous::Nothing), &token, [keep, keep, replace]),
        (access(true, Users::All, Anonymous::Nothing), &reading_token, [keep, Err(Refused), Err(Refused)]),
        (access(true, Users::All, Anonymous::Nothing), &visitor, [Err(NotFound); 3]),
        (access(true, Users::All, Anonymous::Read), &visitor, [keep, Err(Refused), Err(Refused)]),
        (access(true, Users::All, Anonymous::Create), &visitor, [keep, keep, keep]),
        (access(true, Users::All, Anonymous::Write), &visitor, [keep, keep, replace]),
        (access(false, Users::All, Anonymous::Write), &visitor, [keep, Err(ReadOnly), Err(ReadOnly)]),
        (access(false, Users::All, Anonymous::Nothing), &key, [keep, Err(ReadOnly), Err(ReadOnly)]),
        (access(false, Users::All, Anonymous::Nothing), &token, [keep, Err(ReadOnly), Err(ReadOnly)]),
        (access(true, named(), Anonymous::Nothing), &key, [keep, keep, replace]),
        (access(true, named(), Anonymous::Nothing), &token, [keep, keep, replace]),
        (access(true, named(), Anonymous::Nothing), &other, [Err(NotFound); 3]),
        (access(true, named(), Anonymous::Write), &other, [Err(NotFound); 3]),
        (access(true, only(&[]), Anonymous::Nothing), &key, [Err(NotFound); 3]),
        (access(true, only(&["alic", "alice2", "Alice", ""]), Anonymous::Nothing), &key, [Err(NotFound); 3]),
    ];
    for (row, (access, who, expected)) in rows.iter().enumerate() {
        let got = [READ, CREATE, REPLACE].map(|want| outcome(access, who, want));
        assert_eq!(&got, expected, "row {row}: {access:?} for {who:?}");
    }
}

#[test]
fn a_visitor_whose_name_is_a_users_name_is_still_a_visitor() {
    let access = Access { writable: true, users: only(&["alice"]), ..Access::default() };
    assert_eq!(outcome(&access, &who("alice", Method::Anonymous), READ), Err(ErrorKind::NotFound));
}

#[test]
fn an_export_for_others_looks_like_one_that_is_not_there() {
    let access = Access { users: only(&["bob"]), ..Access::default() };
    for who in [who("alice", Method::Key), who("anonymous@::1", Method::Anonymous)] {
        let text = |name: &[u8]| authority(access.clone()).authorise(&who, name, READ, NOW).unwrap_err().message;
        assert_eq!(text(b"data/x").replace("data", "?"), text(b"absent/x").replace("absent", "?"));
    }
}

#[test]
fn names_that_differ_by_a_border_are_different_names() {
    let exports = ["a", "ab", "a b"].map(|name| Export::open_to_all(name, Arc::new(MemoryExport), true));
    let authority = Authority::new(exports.to_vec(), Level::Clear);
    let alice = who("alice", Method::Key);
    let found = |name: &[u8]| authority.authorise(&alice, name, READ, NOW).map(|found| found.export_name().to_owned());
    let expected: [(&[u8], &str); 4] = [(b"a", "a"), (b"a/b", "a"), (b"ab", "ab"), (b"a b/c", "a b")];
    for (name, export) in expected {
        assert_eq!(found(name).as_deref(), Ok(export));
    }
    for absent in [&b"A"[..], b"abc", b"a\x00", b"a ", b" a", b"a%62", b"\xc3\xa1"] {
        assert!(found(absent).is_err(), "{}", absent.escape_ascii());
    }
    for malformed in [&b""[..], b"/", b"/a", b"a/", b"a//b", b"a/./b", b"a/../ab", b"..", ".".as_bytes(), b"a/b/"] {
        assert_eq!(found(malformed).unwrap_err().kind, ErrorKind::InvalidPath, "{}", malformed.escape_ascii());
    }
}

#[test]
fn a_token_opens_its_path_and_what_is_below_component_by_component() {
    let authority = authority(Access { writable: true, ..Access::default() });
    let opens = |token: &Principal, name: &str| authority.authorise(token, name.as_bytes(), REPLACE, NOW).is_ok();
    let token = bearer("data", "a/b", true, NOW + 1);
    for inside in ["data/a/b", "data/a/b/c", "data/a/b/c/d"] {
        assert!(opens(&token, inside), "{inside}");
    }
    for outside in ["data", "data/a", "data/ab", "data/a/bc", "data/a/B", "data/b/a/b", "data/a/c/b", "data/aa/b"] {
        assert!(!opens(&token, outside), "{outside}");
    }
    assert!(!opens(&bearer("dat", "", true, NOW + 1), "data/a"), "another export");
    assert!(!opens(&bearer("data", "a/b", true, NOW), "data/a/b"), "it has run out");
    let boundless = Principal { scope: None, ..token };
    assert!(!opens(&boundless, "data/a/b"), "a token without limits");
}

#[test]
fn a_scope_binds_whoever_has_one_and_never_gives_a_right() {
    let scoped = Principal { method: Method::Key, ..bearer("data", "a", false, NOW + 1) };
    let access = Access { writable: true, ..Access::default() };
    assert_eq!(outcome(&access, &scoped, READ), Ok(Existing::Keep));
    assert_eq!(outcome(&access, &scoped, REPLACE), Err(ErrorKind::Refused));
    let writing = bearer("data", "", true, NOW + 1);
    assert_eq!(outcome(&Access::default(), &writing, REPLACE), Err(ErrorKind::ReadOnly));
    let of_others = Access { writable: true, users: only(&["bob"]), ..Access::default() };
    assert_eq!(outcome(&of_others, &writing, READ), Err(ErrorKind::NotFound));
}

#[test]
fn what_was_judged_is_what_is_opened_and_the_floor_goes_with_it() {
    let authority = authority(Access { floor: Level::Private, ..Access::default() });
    let authorized = authority.authorise(&who("alice", Method::Key), b"data/x/y", READ, NOW).unwrap();
    assert_eq!(authorized.path().as_bytes(), b"x/y");
    assert_eq!(authorized.floor(), Level::Private);
}

#[test]
fn a_reload_binds_what_starts_later() {
    let present = CurrentAuthority::new(authority(Access::default()));
    let alice = who("alice", Method::Key);
    let before = present.now();
    present.replace(authority(Access { users: only(&["bob"]), ..Access::default() }));
    assert!(before.authorise(&alice, b"data/x", READ, NOW).is_ok());
    assert!(present.now().authorise(&alice, b"data/x", READ, NOW).is_err());
}

/// The same check written differently: on text, where the authority works on components.
fn second_opinion(access: &Access, who: &Principal, path: &str, want: Want) -> bool {
    let logged_in = who.method != Method::Anonymous;
    let listed = match &access.users {
        Users::All => logged_in,
        Users::Only(users) => logged_in && users.contains(&who.user),
    };
    let visitor = if logged_in { Anonymous::Nothing } else { access.anonymous };
    let may_read = listed || visitor >= Anonymous::Read;
    let may_write = access.writable && (listed || visitor >= Anonymous::Create);
    let in_scope = who.scope.as_ref().is_none_or(|scope| {
        let below = String::from_utf8(scope.path.as_bytes().to_vec()).unwrap();
        let covered = below.is_empty() || format!("{path}/").starts_with(&format!("{below}/"));
        scope.export == "data" && covered && NOW < scope.until && (scope.write || want == Want::Read)
    });
    let bounded = who.method != Method::Token || who.scope.is_some();
    in_scope && bounded && if want == Want::Read { may_read } else { may_read && may_write }
}

fn any_path() -> impl Strategy<Value = String> {
    proptest::collection::vec("[ab]{1,2}", 0..4).prop_map(|parts| parts.join("/"))
}

fn any_principal() -> impl Strategy<Value = Principal> {
    let method = prop::sample::select(vec![Method::Key, Method::Password, Method::Token, Method::Anonymous]);
    let scope = (prop::sample::select(vec!["data", "dat", "other"]), any_path(), any::<bool>(), -1_i64..2);
    let scope = proptest::option::weighted(0.6, scope);
    (prop::sample::select(vec!["a", "b", "ab"]), method, scope).prop_map(|(user, method, scope)| Principal {
        scope: scope.map(|(export, path, write, left)| Scope {
            export: export.into(),
            path: RelPath::parse(path.as_bytes()).unwrap(),
            write,
            until: NOW.saturating_add_signed(left),
        }),
        ..who(user, method)
    })
}

fn any_access() -> impl Strategy<Value = Access> {
    let users = proptest::option::of(proptest::collection::btree_set("[ab]{1,2}", 0..3));
    let anonymous =
        prop::sample::select(vec![Anonymous::Nothing, Anonymous::Read, Anonymous::Create, Anonymous::Write]);
    (any::<bool>(), users, anonymous).prop_map(|(writable, users, anonymous)| Access {
        writable,
        users: users.map_or(Users::All, |users: BTreeSet<String>| Users::Only(users)),
        anonymous,
        ..Access::default()
    })
}

fn cases() -> ProptestConfig {
    ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() }
}

/// In 20,000 cases in which they might differ.
#[test]
fn the_authority_and_a_second_opinion_agree() {
    let wants = prop::sample::select(vec![READ, CREATE, REPLACE]);
    let compared = TestRunner::new(cases()).run(&(any_access(), any_principal(), any_path(), wants), |case| {
        let (access, who, path, want) = case;
        let name = if path.is_empty() { "data".to_owned() } else { format!("data/{path}") };
        let authority = authority(access.clone());
        let judged = authority.authorise(&who, name.as_bytes(), want, NOW);
        prop_assert_eq!(
            judged.is_ok(),
            second_opinion(&access, &who, &path, want),
            "the rights are others: {:?}",
            judged
        );
        if let Ok(authorized) = judged {
            let may_replace = who.method != Method::Anonymous || access.anonymous == Anonymous::Write;
            prop_assert!(authorized.existing() == Existing::Keep || (want == REPLACE && may_replace));
        }
        Ok(())
    });
    assert_eq!(compared.map_err(|error| error.to_string()), Ok(()));
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn whatever_bytes_name_an_export_only_its_own_name_opens_it(name in proptest::collection::vec(any::<u8>(), 0..12)) {
        let authority = authority(Access::default());
        if let Ok(authorized) = authority.authorise(&who("a", Method::Key), &name, READ, NOW) {
            let expected = [&b"data/"[..], authorized.path().as_bytes()].concat();
            prop_assert!(name == b"data" || name == expected);
        }
    }
}

/// Error kinds of one call of every kind, below `data/a`, in the order of their numbers; none for
/// permitted calls.
fn calls(access: &Access, who: &Principal) -> Vec<(Code, Option<ErrorKind>)> {
    let path = b"b".as_slice();
    let times = Some(NewTime::Now);
    let put = Put {
        path,
        keep_existing: false,
        parents: false,
        mode: 0o644,
        modified: None,
        holes: false,
        hash: None,
        content: b"",
    };
    let all = vec![
        Call::Stat { path, wanted: Wanted::ALL },
        Call::List { path, wanted: Wanted::ALL, cursor: b"" },
        Call::MakeDirectory { path, parents: false, mode: 0o755 },
        Call::RemoveDirectory { path },
        Call::Unlink { path },
        Call::Rename { path, to: b"c", keep_existing: true },
        Call::Link { path, to: b"c" },
        Call::Symlink { path, target: b"c" },
        Call::ReadLink { path },
        Call::SetMode { path, mode: 0o600 },
        Call::SetTimes { path, modified: times, accessed: times },
        Call::Truncate { path, length: 0 },
        Call::SetOwner { path, user: Some(Owner::Number(1)), group: None },
        Call::MakeNode { path, kind: FileType::Fifo, mode: 0o600, device: (0, 0) },
        Call::XattrValue { path, name: b"user.a" },
        Call::SetXattr { path, name: b"user.a", rule: XattrRule::Any, value: b"" },
        Call::XattrNames { path },
        Call::RemoveXattr { path, name: b"user.a" },
        Call::FileSystem { path },
        Call::Hash { path, offset: 0, length: None },
        Call::Put(put),
        Call::Get { path, wanted: Wanted::ALL, most: 9 },
        Call::Watch { path, watched: Watched::Name, watch: 1 },
        Call::Opens { path },
        Call::StageTree { path, client: [6; 16] },
        Call::PublishTree { path, client: [6; 16] },
    ];
    let codes: Vec<u64> = all.iter().map(Call::code).collect();
    let batch = Batch { room: 60_000, base: b"data/a", calls: all, ..Batch::default() };
    // Nothing exists: a permitted call finds that, or that a store of zeros has no directories.
    let let_through = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::Unsupported);
    let session = Arc::new(who.clone());
    let base = match authority(access.clone()).base(&session, batch.base, NOW) {
        Ok(base) => base,
        Err(error) => {
            let hidden = |code: &u64| (Code::from_number(*code).unwrap(), Some(error.kind));
            return codes.iter().map(hidden).collect();
        }
    };
    let files = Arc::new(crate::files::OpenFiles::new(16).unwrap());
    let of_all = Watches::new(CurrentAuthority::new(authority(access.clone())), Box::new(|_| true));
    let watches = Arc::new(of_all.of_session(SessionId([1; 16]), &session));
    let mut execution =
        Execution::new(&batch, base, Timestamp::new(0, 0), Arc::default(), (files, watches), Vec::new()).unwrap();
    while execution.advance(&batch, &Slice::start()).unwrap().is_pending() {}
    let done = execution.finish(&batch);
    let reply = Reply::decode(&done.reply, &codes).unwrap();
    let told = reply.outcomes.iter().map(|outcome| outcome.as_ref().err().map(|failure| failure.kind));
    let judged = codes
        .iter()
        .zip(told)
        .map(|(code, kind)| (Code::from_number(*code).unwrap(), kind.filter(|kind| !let_through(*kind))));
    judged.collect()
}

/// B23: every call against every right. What was not granted is refused, and the error kind shows
/// whether there is an export at all.
#[test]
fn every_right_meets_every_call_as_the_table_says() {
    use ErrorKind::{NotFound, ReadOnly, Refused};
    let adds = [Code::MakeDirectory, Code::Put, Code::StageTree, Code::PublishTree];
    let granted_by_name = [Code::SetOwner, Code::MakeNode, Code::SetXattr, Code::RemoveXattr];
    let access = |writable, users, anonymous, keep| {
        let floor = Level::Clear;
        Access { writable, users, anonymous, floor, keep, pipes: false }
    };
    let (none, all) =
        (Preserve::default(), Preserve { modes: true, owner: true, acl: true, xattr: true, special: true });
    let named = || only(&["alice"]);
    let key = who("alice", Method::Key);
    let other = who("mallory", Method::Key);
    let visitor = who("anonymous@192.0.2.1", Method::Anonymous);
    let (writing, reading) = (bearer("data", "a", true, NOW + 1), bearer("data", "", false, NOW + 1));
    let (beside, late) = (bearer("data", "b", true, NOW + 1), bearer("data", "", true, NOW));
    // The expected results of reading, adding, changing and of what an export grants by name.
    type Row<'a> = (Access, &'a Principal, [Option<ErrorKind>; 4]);
    let rows: Vec<Row<'_>> = vec![
        (access(true, named(), Anonymous::Nothing, none), &key, [None, None, None, Some(Refused)]),
        (access(true, named(), Anonymous::Nothing, all), &key, [None; 4]),
        (access(true, named(), Anonymous::Nothing, all), &other, [Some(NotFound); 4]),
        (access(true, named(), Anonymous::Nothing, all), &visitor, [Some(NotFound); 4]),
        (access(false, named(), Anonymous::Nothing, all), &key, [None, Some(ReadOnly), Some(ReadOnly), Some(ReadOnly)]),
        (access(true, Users::All, Anonymous::Nothing, all), &writing, [None; 4]),
        (
            access(true, Users::All, Anonymous::Nothing, all),
            &reading,
            [None, Some(Refused), Some(Refused), Some(Refused)],
        ),
        (access(true, Users::All, Anonymous::Nothing, all), &beside, [Some(Refused); 4]),
        (access(true, Users::All, Anonymous::Nothing, all), &late, [Some(Refused); 4]),
        (access(true, Users::All, Anonymous::Read, all), &visitor, [None, Some(Refused), Some(Refused), Some(Refused)]),
        (access(true, Users::All, Anonymous::Create, all), &visitor, [None, None, Some(Refused), Some(Refused)]),
        (access(true, Users::All, Anonymous::Write, none), &visitor, [None, None, None, Some(Refused)]),
    ];
    for (access, who, [reads, adding, changes, by_name]) in rows {
        for (code, found) in calls(&access, who) {
            let expected = match code {
                code if !code.changes() => reads,
                code if adds.contains(&code) => adding,
                code if granted_by_name.contains(&code) => by_name,
                _ => changes,
            };
            assert_eq!(found, expected, "{} by {who:?} with {access:?}", code.name());
        }
    }
}

/// Named pipes are opened and made where an export grants them, with the right to read or to change;
/// that it takes special files lets nobody open one.
#[test]
fn pipes_are_opened_where_they_are_granted_with_the_rights_of_files() {
    use ErrorKind::{NotFound, ReadOnly, Refused};
    let all = Preserve { modes: true, owner: true, acl: true, xattr: true, special: true };
    let access = |writable, anonymous, pipes| Access {
        writable,
        users: only(&["alice"]),
        anonymous,
        keep: if pipes { Preserve::default() } else { all },
        pipes,
        ..Access::default()
    };
    let (key, other) = (who("alice", Method::Key), who("mallory", Method::Key));
    let visitor = who("anonymous@192.0.2.1", Method::Anonymous);
    let reader = Principal { user: "alice".into(), ..bearer("data", "a", false, NOW + 1) };
    let (nothing, reads) = (Anonymous::Nothing, Anonymous::Read);
    // Reading, writing.
    type Row<'a> = (Access, &'a Principal, [Option<ErrorKind>; 2]);
    let rows: [Row<'_>; 8] = [
        (access(true, nothing, true), &key, [None, None]),
        (access(true, nothing, false), &key, [Some(Refused), Some(Refused)]),
        (access(false, nothing, true), &key, [None, Some(ReadOnly)]),
        (access(true, nothing, true), &other, [Some(NotFound), Some(NotFound)]),
        (access(true, nothing, true), &visitor, [Some(NotFound), Some(NotFound)]),
        (access(true, reads, true), &visitor, [None, Some(Refused)]),
        (access(true, Anonymous::Create, true), &visitor, [None, Some(Refused)]),
        (access(true, nothing, true), &reader, [None, Some(Refused)]),
    ];
    for (access, who, expected) in rows {
        let found = [false, true].map(|write| outcome(&access, who, Want::Pipe { write }).err());
        assert_eq!(found, expected, "by {who:?} with {access:?}");
    }
    let makes = |access: &Access| calls(access, &key).into_iter().find(|(code, _)| *code == Code::MakeNode).unwrap().1;
    assert_eq!(makes(&access(true, nothing, true)), None);
    assert_eq!(makes(&Access { keep: Preserve::default(), ..access(true, nothing, false) }), Some(Refused));
}

#[test]
fn a_path_of_a_call_leads_nowhere_but_below_its_base_and_its_token() {
    let authority = authority(Access { writable: true, ..Access::default() });
    let key = Arc::new(who("alice", Method::Key));
    let base = authority.base(&key, b"data/a", NOW).unwrap();
    assert_eq!(base.authorise(b"", READ).unwrap().path().as_bytes(), b"a");
    assert_eq!(base.authorise(b"b/c", READ).unwrap().path().as_bytes(), b"a/b/c");
    for path in [&b".."[..], b"../b", b"b/../c", b"/b", b"b/", b"b//c", b".", b"b\0"] {
        let refused = base.authorise(path, READ).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::InvalidPath, "{}", path.escape_ascii());
    }
    let token = Arc::new(bearer("data", "a/b", true, NOW + 1));
    let base = authority.base(&token, b"data/a", NOW).unwrap();
    assert!(base.authorise(b"b/c", Want::Change).is_ok() && base.authorise(b"b", READ).is_ok());
    for path in [&b"bc"[..], b"c", b""] {
        assert_eq!(base.authorise(path, READ).unwrap_err().kind, ErrorKind::Refused, "{}", path.escape_ascii());
    }
    let other = Arc::new(bearer("other", "", true, NOW + 1));
    assert_eq!(authority.base(&other, b"data", NOW).unwrap_err().kind, ErrorKind::Refused);
    assert_eq!(authority.shown(&key, NOW).unwrap(), [("data", Rights::ALL)]);
    assert_eq!(authority.shown(&token, NOW).unwrap(), [("data", Rights::ALL)]);
    assert_eq!(authority.shown(&bearer("data", "", false, NOW + 1), NOW).unwrap(), [("data", Rights::READ)]);
    assert!(authority.shown(&bearer("data", "", true, NOW), NOW).unwrap().is_empty());
    assert!(authority.shown(&who("anonymous@::1", Method::Anonymous), NOW).unwrap().is_empty());
}
