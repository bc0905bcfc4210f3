//! Trees that appear as a whole, call by call: whose they are, where their paths lead, and what becomes of them.

use super::support::people::{People, by_key, by_token};
use super::support::serving::{Serving, Setup};
use super::support::{Scratch, finish};
use std::sync::Arc;
use xdfs_client::wire::Wanted;
use xdfs_client::{ConnectOptions, ErrorKind, Offer, Payload, PutOptions, Session};
use xdfs_io::store::{KeptLimits, LocalStore};
use xdfs_proto::base::RelPath;
use xdfs_secure::journal::JournalKey;
use xdfs_secure::policy::{Directory, PasswordVerifier, PublicKey, Scope, TokenRecord};
use xdfs_server::config::with_journals;
use xdfs_server::{Access, Export, Policy, ServerLimits, Users};

/// Ada and bob, and a token of hers for `trees/open`.
struct Known(People);

impl Directory for Known {
    fn has_key(&self, user: &str, public: &PublicKey) -> bool {
        self.0.has_key(user, public)
    }

    fn password(&self, _user: &str) -> Option<PasswordVerifier> {
        None
    }

    fn token(&self, public: &PublicKey) -> Option<TokenRecord> {
        let scope =
            Scope { export: "trees".into(), path: RelPath::parse(b"open").unwrap(), write: true, until: u64::MAX };
        self.0.token(public).map(|known| TokenRecord { scope, ..known })
    }

    fn anonymous(&self) -> bool {
        true
    }
}

/// A server for them with the export `trees`, which has a key for its journals.
struct Site {
    trees: Scratch,
    serving: Serving,
}

impl Site {
    fn new() -> Self {
        Self::with(ServerLimits::roomy())
    }

    fn with(limits: ServerLimits) -> Self {
        let trees = Scratch::new();
        let more = vec![export(&trees, &limits)];
        let serving =
            Serving::with(Setup { directory: Arc::new(Known(People(true))), more, limits, ..Setup::default() });
        std::fs::create_dir(trees.file("open")).unwrap();
        Self { trees, serving }
    }

    fn login(&self, user: &str, offer: Offer) -> Session {
        let options = ConnectOptions { user: user.into(), offers: vec![offer], ..self.serving.options(2) };
        Session::connect(&options).unwrap()
    }

    fn ada(&self) -> Session {
        self.login("ada", by_key(1))
    }
}

fn export(trees: &Scratch, limits: &ServerLimits) -> Export {
    let store = LocalStore::open_root(trees.path(), true).unwrap();
    let key = Arc::new(JournalKey::new(&[5; 32]));
    let access = Access { writable: true, users: Users::All, ..Access::default() };
    Export::new("trees", Arc::new(with_journals(store, "trees", &key, limits)), access)
}

fn put(session: &Session, name: &str) -> Result<xdfs_client::Report, xdfs_client::Error> {
    let payload = Payload::bytes(b"content".to_vec()).unwrap();
    finish(&session.put(payload, name, &PutOptions::default())?)
}

fn kind<T>(result: Result<T, xdfs_client::Error>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

fn wire(place: &RelPath) -> String {
    format!("trees/{}", String::from_utf8(place.as_bytes().to_vec()).unwrap())
}

/// Names in the staging directory of the export's top.
fn staged(site: &Site) -> Vec<String> {
    let names = std::fs::read_dir(site.trees.file(".xdfs-staging")).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

const MINE: [u8; 16] = [0xc1; 16];

#[test]
fn a_tree_gets_its_name_with_all_that_is_in_it() {
    let site = Site::new();
    let ada = site.ada();
    let place = wire(&ada.stage_tree("trees/new", MINE).unwrap());
    assert_eq!(kind(ada.look(&place, Wanted::MODE)), Some(ErrorKind::NotFound));
    ada.make_directory(&place, 0o750, false).unwrap();
    ada.make_directory(format!("{place}/d"), 0o700, false).unwrap();
    assert!(put(&ada, &format!("{place}/d/file")).is_ok());
    assert_eq!(wire(&ada.stage_tree("trees/new", MINE).unwrap()), place, "the same key, the same place");
    assert_eq!(kind(ada.look("trees/new", Wanted::MODE)), Some(ErrorKind::NotFound));
    ada.publish_tree("trees/new", MINE, true).unwrap();
    assert_eq!(std::fs::read(site.trees.file("new/d/file")).unwrap(), b"content");
    assert_eq!(kind(ada.look(&place, Wanted::MODE)), Some(ErrorKind::NotFound));
    assert_eq!(kind(ada.publish_tree("trees/new", MINE, true)), Some(ErrorKind::NotFound));
    assert_eq!(site.trees.names(), ["new", "open"]);
    assert_eq!(kind(ada.stage_tree("trees/new", MINE)), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(ada.stage_tree("trees/absent/new", MINE)), Some(ErrorKind::NotFound));
}

#[test]
fn nobody_else_gets_to_a_tree_whose_id_is_known() {
    let site = Site::new();
    let (ada, bob) = (site.ada(), site.login("bob", by_key(3)));
    let place = ada.stage_tree("trees/new", MINE).unwrap();
    ada.make_directory(wire(&place), 0o777, false).unwrap();
    let theirs = bob.stage_tree("trees/new", MINE).unwrap();
    assert_ne!(theirs, place, "another user's place is another one");
    let path = wire(&place);
    for session in [&bob, &site.login("ada", by_token(2))] {
        let reading = kind(session.look(&path, Wanted::MODE));
        assert!(matches!(reading, Some(ErrorKind::NotFound | ErrorKind::Refused)), "{reading:?}");
        for changing in [
            kind(session.make_directory(format!("{path}/d"), 0o777, true)),
            kind(put(session, &format!("{path}/planted"))),
            kind(session.rename("trees", &path.as_bytes()["trees/".len()..], "got", true)),
        ] {
            assert!(matches!(changing, Some(ErrorKind::InvalidPath | ErrorKind::Refused)), "{changing:?}");
        }
    }
    // Bob knows everything: he names his own tree, which is not there.
    assert_eq!(kind(bob.publish_tree("trees/new", MINE, false)), Some(ErrorKind::NotFound));
    ada.publish_tree("trees/new", MINE, false).unwrap();
    assert!(std::fs::read_dir(site.trees.file("new")).unwrap().next().is_none());
}

#[test]
fn the_paths_of_a_tree_lead_into_it_and_nowhere_else() {
    let site = Site::new();
    let ada = site.ada();
    let place = wire(&ada.stage_tree("trees/new", MINE).unwrap());
    ada.make_directory(&place, 0o755, false).unwrap();
    let holder = staged(&site).pop().unwrap();
    for name in [
        format!("{place}/.xdfs-staging"),
        format!("{place}/.xdfs-staging/tree-{}", &holder[..32]),
        format!("{place}/../{holder}"),
        format!("trees/.xdfs-staging/{holder}/t/x"),
        format!("trees/.xdfs-staging/{holder}"),
        format!("trees/open/.xdfs-staging/tree-{}", &holder[..32]),
    ] {
        let told = kind(ada.make_directory(&name, 0o755, false));
        assert_eq!(told, Some(ErrorKind::InvalidPath), "{name}");
        let told = kind(ada.look(&name, Wanted::MODE));
        assert!(matches!(told, Some(ErrorKind::NotFound | ErrorKind::InvalidPath)), "{name}: {told:?}");
    }
    // A tree on its way holds no other one, and its name cannot be taken by a rename from outside.
    assert_eq!(kind(ada.stage_tree(format!("{place}/inner"), MINE)), Some(ErrorKind::InvalidPath));
    let other = site.ada();
    assert!(other.look(&place, Wanted::MODE).is_ok(), "another session of the user while the first one lives");
    ada.close().unwrap();
    site.serving.wait_for_status("one session is over", |[sessions, ..]| sessions == 1);
    assert_eq!(kind(other.look(&place, Wanted::MODE)), Some(ErrorKind::NotFound), "nobody's session asked for it");
    for page in other.list("trees", Wanted::NOTHING).unwrap() {
        let page = page.unwrap();
        assert!(page.entries().unwrap().all(|entry| entry.name == b"open"));
    }
}

#[test]
fn a_token_stages_where_it_leads_and_nowhere_else() {
    let site = Site::new();
    let token = site.login("ada", by_token(2));
    assert_eq!(kind(token.stage_tree("trees/new", MINE)), Some(ErrorKind::Refused));
    assert_eq!(kind(token.stage_tree("data/new", MINE)), Some(ErrorKind::Refused));
    let place = wire(&token.stage_tree("trees/open/new", MINE).unwrap());
    token.make_directory(&place, 0o755, false).unwrap();
    assert!(put(&token, &format!("{place}/file")).is_ok());
    token.publish_tree("trees/open/new", MINE, true).unwrap();
    assert_eq!(std::fs::read(site.trees.file("open/new/file")).unwrap(), b"content");
}

#[test]
fn what_has_the_name_meanwhile_stays_and_so_does_the_tree() {
    let site = Site::new();
    let ada = site.ada();
    let place = wire(&ada.stage_tree("trees/new", MINE).unwrap());
    ada.make_directory(&place, 0o755, false).unwrap();
    // Empty: a rename that replaces would take its place.
    std::fs::create_dir(site.trees.file("new")).unwrap();
    assert_eq!(kind(ada.publish_tree("trees/new", MINE, false)), Some(ErrorKind::AlreadyExists));
    assert!(put(&ada, &format!("{place}/file")).is_ok());
    std::fs::remove_dir(site.trees.file("new")).unwrap();
    ada.publish_tree("trees/new", MINE, false).unwrap();
    assert!(site.trees.file("new/file").is_file());
}

#[test]
fn a_reload_leaves_a_tree_where_it_is_and_takes_rights_away() {
    let site = Site::new();
    let ada = site.ada();
    let place = wire(&ada.stage_tree("trees/new", MINE).unwrap());
    ada.make_directory(&place, 0o755, false).unwrap();
    let limits = ServerLimits::roomy();
    let again = export(&site.trees, &limits);
    let reading = Access { writable: false, users: Users::All, ..Access::default() };
    site.serving.handle.reload(vec![again.clone()], limits, Policy::default());
    assert!(put(&ada, &format!("{place}/file")).is_ok());
    let store = LocalStore::open_root(site.trees.path(), false).unwrap();
    let less = Export::new("trees", Arc::new(store), reading);
    site.serving.handle.reload(vec![less], limits, Policy::default());
    assert_eq!(kind(put(&ada, &format!("{place}/more"))), Some(ErrorKind::ReadOnly));
    assert_eq!(kind(ada.publish_tree("trees/new", MINE, false)), Some(ErrorKind::ReadOnly));
    site.serving.handle.reload(vec![again], limits, Policy::default());
    ada.publish_tree("trees/new", MINE, false).unwrap();
}

#[test]
fn of_one_user_so_many_unfinished_trees_are_kept() {
    let site = Site::with(ServerLimits { kept: KeptLimits { parts: 3, bytes: 1 << 40 }, ..ServerLimits::roomy() });
    for number in 0..5_u8 {
        let ada = site.ada();
        let place = wire(&ada.stage_tree(format!("trees/new{number}"), [number; 16]).unwrap());
        ada.make_directory(&place, 0o755, false).unwrap();
        ada.make_directory(format!("{place}/d"), 0o500, false).unwrap();
        ada.close().unwrap();
        site.serving.wait_for_status("the session is over", |[sessions, ..]| sessions == 0);
    }
    assert_eq!(staged(&site).len(), 3);
    let bob = site.login("bob", by_key(3));
    bob.stage_tree("trees/new", MINE).unwrap();
    assert_eq!(staged(&site).len(), 4, "another user's are counted by themselves");
}

#[test]
fn the_bearer_of_a_token_gets_to_no_tree_of_its_user_and_removes_none() {
    let site = Site::with(ServerLimits { kept: KeptLimits { parts: 3, bytes: 1 << 40 }, ..ServerLimits::roomy() });
    let ada = site.ada();
    let place = wire(&ada.stage_tree("trees/open/big", MINE).unwrap());
    ada.make_directory(&place, 0o755, false).unwrap();
    ada.close().unwrap();
    site.serving.wait_for_status("the session is over", |[sessions, ..]| sessions == 0);
    for number in 0..5_u8 {
        let token = site.login("ada", by_token(2));
        let other = wire(&token.stage_tree(format!("trees/open/new{number}"), [number; 16]).unwrap());
        token.make_directory(&other, 0o755, false).unwrap();
        token.close().unwrap();
        site.serving.wait_for_status("the session is over", |[sessions, ..]| sessions == 0);
    }
    let token = site.login("ada", by_token(2));
    assert_ne!(wire(&token.stage_tree("trees/open/big", MINE).unwrap()), place);
    let ada = site.ada();
    assert_eq!(wire(&ada.stage_tree("trees/open/big", MINE).unwrap()), place, "she goes on with hers");
    assert!(ada.look(&place, Wanted::MODE).is_ok());
    let planted = kind(token.make_directory(format!("{place}/planted"), 0o755, false));
    assert_eq!(planted, Some(ErrorKind::Refused));
    ada.publish_tree("trees/open/big", MINE, false).unwrap();
}

#[test]
fn a_user_has_a_bounded_number_of_trees_in_all_sessions() {
    // An eighth of the descriptors that the server keeps for open files.
    const MOST: u8 = 128;
    let site = Site::new();
    let mut sessions = vec![site.ada()];
    let refused = (0..=MOST).find_map(|number| {
        if number.is_multiple_of(50) {
            sessions.push(site.ada());
        }
        let staged = sessions.last().unwrap().stage_tree(format!("trees/new{number}"), [number; 16]);
        staged.err().map(|error| (number, error.kind))
    });
    assert_eq!(refused, Some((MOST, ErrorKind::LimitExceeded)));
    let (last, number) = (sessions.last().unwrap(), MOST - 1);
    last.stage_tree(format!("trees/new{number}"), [number; 16]).expect("it has this one already");
    let bob = site.login("bob", by_key(3));
    bob.stage_tree("trees/new", MINE).unwrap();
    site.login("ada", by_token(2)).stage_tree("trees/open/new", MINE).unwrap();
    for session in sessions.drain(..) {
        session.close().unwrap();
    }
    site.serving.wait_for_status("her sessions are over", |[sessions, ..]| sessions <= 1);
    site.ada().stage_tree("trees/new", MINE).unwrap();
}

/// As servers before these calls, which know neither of them.
#[test]
fn an_export_without_such_trees_says_that_it_has_none() {
    let site = Site::new();
    let visitor = site.serving.connect(1);
    for target in ["data/new", "memory/new"] {
        assert_eq!(kind(visitor.stage_tree(target, MINE)), Some(ErrorKind::Unsupported), "{target}");
        assert_eq!(kind(visitor.publish_tree(target, MINE, false)), Some(ErrorKind::Unsupported), "{target}");
    }
}
