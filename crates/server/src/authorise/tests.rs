//! Every right against every operation (B23), the borders of paths and names (B02), and a second opinion.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;
use xdfs_secure::policy::Scope;
use xdfs_xio::store::MemoryExport;

const NOW: u64 = 1_700_000_000;

fn who(user: &str, method: Method) -> Principal {
    Principal { user: user.into(), method, key: None, scope: None }
}

fn bearer(export: &str, path: &str, write: bool, until: u64) -> Principal {
    let path = RelPath::parse(path.as_bytes()).unwrap();
    Principal { scope: Some(Scope { export: export.into(), path, write, until }), ..who("alice", Method::Token) }
}

fn authority(access: Access) -> Authority {
    Authority::new(vec![Export::new("data", Arc::new(MemoryExport), access)])
}

fn only(users: &[&str]) -> Users {
    Users::Only(users.iter().map(|user| (*user).to_owned()).collect())
}

const READ: Want = Want::Read;
const CREATE: Want = Want::Write { keep: true };
const REPLACE: Want = Want::Write { keep: false };

/// What becomes of the operation: an error's kind, or what happens to an existing file.
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
        |writable, users, anonymous| Access { writable, users, anonymous, floor: Level::Clear, keep: Keep::default() };
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
    let authority = Authority::new(exports.to_vec());
    let alice = who("alice", Method::Key);
    let found = |name: &[u8]| authority.authorise(&alice, name, READ, NOW).map(|found| found.export().to_owned());
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
    assert_eq!(authorized.path().to_bytes(), b"x/y");
    assert_eq!(authorized.floor(), Level::Private);
}

#[test]
fn a_reload_binds_what_starts_later() {
    let present = Present::new(authority(Access::default()));
    let alice = who("alice", Method::Key);
    let before = present.now();
    present.replace(authority(Access { users: only(&["bob"]), ..Access::default() }));
    assert!(before.authorise(&alice, b"data/x", READ, NOW).is_ok());
    assert!(present.now().authorise(&alice, b"data/x", READ, NOW).is_err());
}

/// The same judgement in other words: on text, where the authority works on components.
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
        let below = String::from_utf8(scope.path.to_bytes()).unwrap();
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
        floor: Level::Clear,
        keep: Keep::default(),
    })
}

fn cases() -> ProptestConfig {
    ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() }
}

/// Looks at 20,000 cases in which the authority, with this mistake, and the second opinion might differ.
fn compare_opinions(bugs: Bugs) -> Result<(), String> {
    let wants = prop::sample::select(vec![READ, CREATE, REPLACE]);
    let compared = TestRunner::new(cases()).run(&(any_access(), any_principal(), any_path(), wants), |case| {
        let (access, who, path, want) = case;
        let name = if path.is_empty() { "data".to_owned() } else { format!("data/{path}") };
        let authority = Authority { bugs, ..authority(access.clone()) };
        let judged = authority.authorise(&who, name.as_bytes(), want, NOW);
        prop_assert_eq!(judged.is_ok(), second_opinion(&access, &who, &path, want), "{:?}", judged);
        if let Ok(authorized) = judged {
            let may_replace = who.method != Method::Anonymous || access.anonymous == Anonymous::Write;
            prop_assert!(authorized.existing() == Existing::Keep || (want == REPLACE && may_replace));
        }
        Ok(())
    });
    compared.map_err(|error| error.to_string())
}

#[test]
fn the_authority_and_a_second_opinion_agree() {
    assert_eq!(compare_opinions(Bugs::default()), Ok(()));
}

#[test]
fn a_border_that_is_compared_as_text_is_caught() {
    assert!(compare_opinions(Bugs::seeded(Bug::ScopeIsText)).is_err());
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn whatever_bytes_name_an_export_only_its_own_name_opens_it(name in proptest::collection::vec(any::<u8>(), 0..12)) {
        let authority = authority(Access::default());
        if let Ok(authorized) = authority.authorise(&who("a", Method::Key), &name, READ, NOW) {
            let expected = [&b"data/"[..], &authorized.path().to_bytes()].concat();
            prop_assert!(name == b"data" || name == expected);
        }
    }
}
