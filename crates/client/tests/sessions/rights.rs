//! Rights of users, visitors and tokens from end to end: what an export demands, what a reload changes, and logins that
//! do not hold any more.

use super::support::relay::{Cut, Relay};
use super::support::serving::{Serving, Setup};
use super::support::{BLOCK, PATIENCE, Scratch, download_to, finish, pattern, pipe_payload};
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use xdfs_client::file::{Extent, File, OpenOptions, RangeLock, Remote};
use xdfs_client::wire::Wanted;
use xdfs_client::{ConnectOptions, ErrorKind, GetOptions, Level, Offer, Payload, PutOptions, Session, Target};
use xdfs_io::store::{Attributes, Capability, LocalStore, OpenFile, OpenRequest, Source, Stage, StageRequest, Store};
use xdfs_proto::base::RelPath;
use xdfs_secure::identity::KeyPair;
use xdfs_secure::identity::openssh::NamedKey;
use xdfs_secure::login::Password;
use xdfs_secure::policy::Scope;
use xdfs_server::users::{Account, AccountToken, Accounts, LiveAccounts, StateFolder};
use xdfs_server::{Access, Anonymous, Export, LogEvent, Policy, ServerLimits, Users};

/// From a change to the end of the sessions that it ends.
const AT_ONCE: Duration = Duration::from_secs(2);

fn key_of(seed: u8) -> KeyPair {
    KeyPair::from_seed(&[seed; 32]).unwrap()
}

/// Users alice and bob with a key each, and a token of alice for reading below `data/open`.
struct Site {
    _folder: Scratch,
    state: StateFolder,
    accounts: Arc<LiveAccounts>,
    serving: Serving,
}

impl Site {
    fn new() -> Self {
        let folder = Scratch::new();
        let state = StateFolder::create(&folder.path().join("state")).unwrap();
        let account = |seed| Account {
            keys: vec![NamedKey { key: key_of(seed).public(), comment: String::new() }],
            ..Account::default()
        };
        let mut alice = account(1);
        let until = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3600;
        let path = RelPath::parse(b"open").unwrap();
        let scope = Scope { export: "data".into(), path, write: false, until };
        alice.tokens.push(AccountToken { key: key_of(3).public(), scope });
        state
            .edit(|accounts| {
                accounts.add("alice", alice)?;
                accounts.add("bob", account(2))
            })
            .unwrap();
        let accounts = Arc::new(state.live(true).unwrap());
        let directory: Arc<LiveAccounts> = Arc::clone(&accounts);
        let serving = Serving::with(Setup { directory, ..Setup::default() });
        Self { _folder: folder, state, accounts, serving }
    }

    /// Changes the users, and does what a server's command does then.
    /// Returns since when the change is there to be seen.
    fn edit<T>(&self, change: impl FnOnce(&mut Accounts) -> Result<T, xdfs_client::Error>) -> Instant {
        self.state.edit(change).unwrap();
        let since = Instant::now();
        // A channel that is just being accepted may have been the first to find the change: its server then ended the sessions.
        match self.accounts.refresh().unwrap() {
            Some(change) => self.serving.handle.revoke(move |principal| change.ends(principal)),
            None => assert!(self.accounts.has_changed(), "the file has changed"),
        }
        since
    }

    fn options(&self, user: &str, offer: Offer) -> ConnectOptions {
        ConnectOptions { user: user.into(), offers: vec![offer], ..self.serving.options(2) }
    }

    fn login(&self, user: &str, seed: u8) -> Result<Session, xdfs_client::Error> {
        Session::connect(&self.options(user, Offer::Key(Arc::new(key_of(seed)))))
    }

    /// The directory under the name `data`, for whom `access` says.
    fn offer(&self, access: Access) {
        let store = LocalStore::open_root(self.serving.directory.path(), access.writable).unwrap();
        let export = Export::new("data", Arc::new(store), access);
        self.serving.handle.reload(vec![export], ServerLimits::roomy(), Policy::default());
    }
}

fn put(session: &Session, name: &str) -> Result<xdfs_client::Report, xdfs_client::Error> {
    let payload = Payload::bytes(b"content".to_vec()).unwrap();
    finish(&session.put(payload, name, &PutOptions::default())?)
}

fn get(session: &Session, name: &str) -> Result<xdfs_client::Report, xdfs_client::Error> {
    let here = Scratch::new();
    finish(&session.get(name, download_to(&here.file("copy")), &GetOptions::default())?)
}

fn kind<T>(result: Result<T, xdfs_client::Error>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

#[test]
fn an_export_is_for_its_users_and_for_nobody_else() {
    let site = Site::new();
    let users = Users::Only(["alice".to_owned()].into());
    site.offer(Access { writable: true, users, anonymous: Anonymous::Nothing, ..Access::default() });
    let (alice, bob) = (site.login("alice", 1).unwrap(), site.login("bob", 2).unwrap());
    let visitor = site.serving.connect(1);
    assert!(put(&alice, "data/a").is_ok());
    for session in [&bob, &visitor] {
        assert_eq!(kind(put(session, "data/b")), Some(ErrorKind::NotFound));
        assert_eq!(kind(get(session, "data/a")), Some(ErrorKind::NotFound));
    }
    assert_eq!(site.serving.directory.names(), ["a"]);
    assert_eq!(kind(site.login("alice", 2)), Some(ErrorKind::LoginRefused), "somebody else's key");
    assert_eq!(kind(site.login("carol", 1)), Some(ErrorKind::LoginRefused), "nobody of that name");
}

#[test]
fn visitors_who_may_create_never_replace_and_a_reload_is_felt_by_open_sessions() {
    let site = Site::new();
    let access = Access { writable: true, anonymous: Anonymous::Create, ..Access::default() };
    site.offer(access.clone());
    let visitor = site.serving.connect(2);
    assert!(put(&visitor, "data/new").is_ok());
    assert_eq!(kind(put(&visitor, "data/new")), Some(ErrorKind::AlreadyExists));
    site.offer(Access { anonymous: Anonymous::Read, ..access.clone() });
    assert_eq!(kind(put(&visitor, "data/newer")), Some(ErrorKind::Refused));
    assert!(get(&visitor, "data/new").is_ok());
    site.offer(Access { anonymous: Anonymous::Nothing, ..access });
    assert_eq!(kind(get(&visitor, "data/new")), Some(ErrorKind::NotFound));
}

#[test]
fn a_token_opens_its_path_for_reading_and_nothing_else() {
    let site = Site::new();
    std::fs::create_dir(site.serving.directory.file("open")).unwrap();
    site.serving.directory.write("open/file", b"content");
    site.serving.directory.write("openly", b"content");
    let options = site.options("", Offer::Token(Arc::new(key_of(3))));
    let bearer = Session::connect(&options).unwrap();
    assert!(get(&bearer, "data/open/file").is_ok());
    for name in ["data/openly", "fixed/open/file", "memory/zero", "nowhere/open/file"] {
        assert_eq!(kind(get(&bearer, name)), Some(ErrorKind::Refused), "{name}");
    }
    assert_eq!(kind(put(&bearer, "data/open/new")), Some(ErrorKind::Refused));
}

#[test]
fn the_level_of_a_transfer_is_the_highest_that_anybody_demands() {
    let levels = [Level::Clear, Level::Integrity, Level::Private];
    for server in levels {
        let policy = Policy { floor: server, ..Policy::default() };
        let serving = Serving::with(Setup { policy: policy.clone(), ..Setup::default() });
        for export in levels {
            let store = LocalStore::open_root(serving.directory.path(), true).unwrap();
            let access = Access { writable: true, anonymous: Anonymous::Write, floor: export, ..Access::default() };
            let offered = vec![Export::new("data", Arc::new(store), access)];
            serving.handle.reload(offered, ServerLimits::roomy(), policy.clone());
            for client in levels {
                let session = Session::connect(&ConnectOptions { level: client, ..serving.options(2) }).unwrap();
                let expected = server.max(export).max(client);
                assert_eq!(put(&session, "data/x").unwrap().level, expected, "{server:?} {export:?} {client:?} up");
                assert_eq!(get(&session, "data/x").unwrap().level, expected, "{server:?} {export:?} {client:?} down");
            }
        }
    }
}

#[test]
fn a_protection_that_a_reload_demands_of_all_is_felt_by_open_sessions() {
    let serving = Serving::start();
    let session = Session::connect(&ConnectOptions { level: Level::Clear, ..serving.options(2) }).unwrap();
    for floor in [Level::Clear, Level::Integrity, Level::Private, Level::Clear] {
        let store = LocalStore::open_root(serving.directory.path(), true).unwrap();
        let offered = vec![Export::open_to_all("data", Arc::new(store), true)];
        serving.handle.reload(offered, ServerLimits::roomy(), Policy { floor, ..Policy::default() });
        assert_eq!(put(&session, "data/x").unwrap().level, floor, "up");
        assert_eq!(get(&session, "data/x").unwrap().level, floor, "down");
    }
}

#[test]
fn a_login_that_is_taken_away_ends_its_sessions_with_the_reason_and_no_others() {
    let site = Site::new();
    let (alice, bob) = (site.login("alice", 1).unwrap(), site.login("bob", 2).unwrap());
    // One session moves data, one of the same user is idle.
    let idle = site.login("alice", 1).unwrap();
    let (payload, mut writer) = pipe_payload(None);
    let transfer = alice.put(payload, "data/endless", &PutOptions::default()).unwrap();
    writer.write_all(&pattern(4 * BLOCK, 1)).unwrap();

    let fingerprint = key_of(1).public().fingerprint();
    let revoked = site.edit(|accounts| Ok(accounts.named("alice")?.remove(&fingerprint)));
    let writes = std::thread::spawn(move || while writer.write_all(&[7; BLOCK]).is_ok() {});
    let error = finish(&transfer).unwrap_err();
    assert!(revoked.elapsed() < AT_ONCE, "{:?}", revoked.elapsed());
    assert!(error.message.contains("was revoked"), "{error}");
    writes.join().unwrap();
    let mut ended = 0;
    let until = Instant::now() + PATIENCE;
    while ended < 2 && Instant::now() < until {
        let of_alice = |event: &LogEvent| matches!(event, LogEvent::SessionEnded { user, .. } if user == "alice");
        ended = site.serving.count(of_alice);
        std::thread::yield_now();
    }
    assert_eq!(ended, 2);
    let told = put(&idle, "data/after").unwrap_err();
    assert!(told.message.contains("was revoked"), "the idle session is told, too: {told}");
    assert_eq!(kind(site.login("alice", 1)), Some(ErrorKind::LoginRefused));
    assert!(put(&bob, "data/bobs").is_ok(), "nobody else is touched");
    site.serving.directory.wait_for_names(&["bobs"]);
}

/// The reason must come through a connection that is full: nothing resets it before the client has read that far.
#[test]
fn a_login_that_is_taken_away_while_data_flows_is_told_so_in_both_directions() {
    for (channels, level) in [(1, Level::Clear), (1, Level::Private), (4, Level::Clear), (4, Level::Private)] {
        for upload in [true, false] {
            let site = Site::new();
            let options = ConnectOptions { level, channels, ..site.options("alice", Offer::Key(Arc::new(key_of(1)))) };
            let session = Session::connect(&options).unwrap();
            let endless = GetOptions { length: Some(1 << 40), ..GetOptions::default() };
            let transfer = match upload {
                true => session.put(
                    Payload::source(Source::zero(None), 0, Some(1 << 40)).unwrap(),
                    "memory/null",
                    &PutOptions::default(),
                ),
                false => session.get("memory/zero", Target::null(), &endless),
            };
            let transfer = transfer.unwrap();
            let until = Instant::now() + PATIENCE;
            while transfer.moved() < 64 * BLOCK as u64 && Instant::now() < until {
                std::thread::yield_now();
            }
            site.edit(|accounts| accounts.named("alice").map(|alice| alice.revoked = true));
            let error = finish(&transfer).unwrap_err();
            let told = error.message.contains("was revoked") && error.kind == ErrorKind::Refused;
            assert!(told, "{channels} channels, {level:?}, upload {upload}: {error}");
        }
    }
}

/// B23: what she had open goes with her login, and nobody waits for her to come back; also if her link is down then.
#[test]
fn a_user_who_is_revoked_with_a_locked_file_open_keeps_nothing_and_delays_nobody() {
    for cut in [false, true] {
        let site = Site::new();
        site.serving.directory.write("f", b"content");
        let relay = Relay::to(&site.serving.address);
        let remote = |user: &str, seed| {
            let options = site.options(user, Offer::Key(Arc::new(key_of(seed))));
            Remote::with_patience(ConnectOptions { address: relay.address.clone(), ..options }, PATIENCE)
        };
        let (alice, bob) = (remote("alice", 1), remote("bob", 2));
        let both = OpenOptions::new().read(true).write(true);
        let hers = File::open(&alice, "data/f", &both).unwrap();
        let links = relay.connections();
        hers.lock(true, PATIENCE).unwrap();
        let his = File::open(&bob, "data/f", &both).unwrap();
        assert_eq!(kind(his.try_lock(false)), Some(ErrorKind::Locked));

        let revoked = site.edit(|accounts| accounts.named("alice").map(|alice| alice.revoked = true));
        if cut {
            (0..links).for_each(|link| relay.cut(link, Cut::Rst));
        }
        // Until the server has heard of it; what she writes changes nothing.
        let tries = std::iter::repeat_with(|| hers.write_at(b"c", 0)).take_while(|_| revoked.elapsed() < AT_ONCE);
        let error = tries.filter_map(Result::err).next().unwrap();
        let told = error.kind == ErrorKind::Refused && error.message.contains("was revoked");
        assert!(told || error.kind == ErrorKind::LoginRefused, "{error}");
        his.lock(true, AT_ONCE).unwrap();
        let looks_soon = |_| {
            let asked = Instant::now();
            assert_eq!(bob.run(|session| session.look("data/f", Wanted::SIZE)).unwrap().size, Some(7));
            asked.elapsed() < Duration::from_secs(1)
        };
        assert!((0..3).any(looks_soon), "a stat takes too long");
        assert_eq!(kind(File::open(&remote("alice", 1), "data/f", &both)), Some(ErrorKind::LoginRefused));
        // What she still has open writes nothing, however often she tries.
        hers.write_at(b"X", 0).unwrap_err();
        hers.sync_all().unwrap_err();
        // What failed was told already; the handle may be gone with its session.
        let _ = hers.close();
        assert_eq!(site.serving.directory.read("f"), b"content");
    }
}

/// B23: whoever may not use a file any more keeps nobody else from it, though the session goes on and has other rights left.
#[test]
fn what_shuts_others_out_ends_when_a_reload_takes_the_right_to_and_nothing_else_does() {
    let site = Site::new();
    let access = |anonymous| Access { writable: true, anonymous, ..Access::default() };
    let both = OpenOptions::new().read(true).write(true);
    let alice = Remote::with_patience(site.options("alice", Offer::Key(Arc::new(key_of(1)))), PATIENCE);
    for left in [Anonymous::Nothing, Anonymous::Read, Anonymous::Create] {
        site.offer(access(Anonymous::Write));
        let visitor = Remote::with_patience(site.serving.options(2), PATIENCE);
        let open = |remote: &Arc<Remote>, name: &str, options: &OpenOptions| {
            site.serving.directory.write(name, b"content");
            File::open(remote, format!("data/{name}"), options).unwrap()
        };
        let (whole, ranges, plain) =
            (open(&visitor, "whole", &both), open(&visitor, "ranges", &both), open(&visitor, "plain", &both));
        let range = RangeLock { range: Extent::new(0, 4).unwrap(), exclusive: true };
        whole.try_lock(false).unwrap();
        ranges.try_lock_range(1, range).unwrap();
        let denied = open(&visitor, "denied", &both.deny(true, true));
        let hers = open(&alice, "hers", &both);
        hers.try_lock(true).unwrap();
        assert_eq!(kind(File::open(&alice, "data/denied", &both)), Some(ErrorKind::Locked));

        site.offer(access(left));
        File::open(&alice, "data/whole", &both).unwrap().lock(true, PATIENCE).unwrap();
        File::open(&alice, "data/ranges", &both).unwrap().lock_range(1, range, PATIENCE).unwrap();
        let until = Instant::now() + PATIENCE;
        while kind(File::open(&alice, "data/denied", &both)) == Some(ErrorKind::Locked) {
            assert!(Instant::now() < until, "{left:?}: it is denied for ever");
            std::thread::yield_now();
        }
        for file in [&whole, &ranges, &denied] {
            assert_eq!(kind(file.read_at(&mut [0; 7], 0)), Some(ErrorKind::Stale), "{left:?}");
        }
        let read = plain.read_at(&mut [0; 7], 0);
        assert_eq!(kind(read), (left == Anonymous::Nothing).then_some(ErrorKind::NotFound), "{left:?}");
        hers.write_at(b"H", 0).unwrap();
        let hers_too = File::open(&alice, "data/hers", &both).unwrap();
        assert_eq!(kind(hers_too.try_lock(false)), Some(ErrorKind::Locked), "{left:?}: she may still");
    }
}

/// A directory whose files are opened when the test says so.
#[derive(Debug)]
struct Gated {
    inner: LocalStore,
    /// Tells that somebody opens a file.
    reached: SyncSender<()>,
    /// Lets him go on.
    opened: Mutex<Receiver<()>>,
}

impl Store for Gated {
    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    fn attributes(&self, path: &RelPath) -> Result<Attributes, xdfs_client::Error> {
        self.inner.attributes(path)
    }

    fn open(&self, path: &RelPath) -> Result<Source, xdfs_client::Error> {
        self.inner.open(path)
    }

    fn stage(&self, request: &StageRequest) -> Result<Stage, xdfs_client::Error> {
        self.inner.stage(request)
    }

    fn open_file(&self, path: &RelPath, request: &OpenRequest) -> Result<(OpenFile, bool), xdfs_client::Error> {
        self.reached.send(()).unwrap();
        self.opened.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        self.inner.open_file(path, request)
    }
}

/// The batch was judged before the reload, and shuts others out behind it.
#[test]
fn what_was_on_its_way_when_a_reload_took_the_right_shuts_nobody_out_either() {
    let site = Site::new();
    site.serving.directory.write("f", b"content");
    let ((reached, arrives), (open, opened)) = (sync_channel(2), sync_channel(2));
    let inner = LocalStore::open_root(site.serving.directory.path(), true).unwrap();
    let store: Arc<dyn Store> = Arc::new(Gated { inner, reached, opened: Mutex::new(opened) });
    let offer = |anonymous| {
        let access = Access { writable: true, anonymous, ..Access::default() };
        let gated = Export::new("gated", Arc::clone(&store), access);
        site.serving.handle.reload(vec![gated], ServerLimits::roomy(), Policy::default());
    };
    offer(Anonymous::Write);
    let both = OpenOptions::new().read(true).write(true);
    let visitor = Remote::with_patience(site.serving.options(2), PATIENCE);
    let alone = std::thread::spawn(move || File::open(&visitor, "gated/f", &both.deny(true, true)));
    arrives.recv_timeout(PATIENCE).unwrap();
    offer(Anonymous::Nothing);
    // Whoever looks at the reload looks now, and finds nothing.
    site.serving.wait_for_status("the reload", |_| true);
    open.send(()).unwrap();
    let alone = alone.join().unwrap().unwrap();
    let alice = Remote::with_patience(site.options("alice", Offer::Key(Arc::new(key_of(1)))), PATIENCE);
    open.send(()).unwrap();
    let hers = File::open(&alice, "gated/f", &both);
    assert_eq!(kind(hers), None, "she is not shut out");
    assert_eq!(kind(alone.read_at(&mut [0; 7], 0)), Some(ErrorKind::Stale));
}

#[test]
fn a_user_who_is_added_logs_in_at_once() {
    let site = Site::new();
    assert_eq!(kind(site.login("carol", 9)), Some(ErrorKind::LoginRefused));
    let account =
        Account { keys: vec![NamedKey { key: key_of(9).public(), comment: String::new() }], ..Account::default() };
    site.edit(|accounts| accounts.add("carol", account));
    assert!(site.login("carol", 9).is_ok());
}

#[test]
fn wrong_passwords_make_their_address_wait_and_open_sessions_do_not_notice() {
    let site = Site::new();
    let alice = site.login("alice", 1).unwrap();
    let guess = || {
        let guess = Offer::Password(Arc::new(Password::new("a guess".to_owned().into())));
        Session::connect(&site.options("alice", guess)).unwrap_err().message
    };
    // At once: with time an address is forgiven, and a busy machine takes some for each.
    std::thread::scope(|scope| (0..8).for_each(|_| _ = scope.spawn(guess)));
    let last = guess();
    assert!(last.contains("too many wrong passwords came from this address; try again in "), "{last}");
    assert!(put(&alice, "data/a").is_ok());
}

#[test]
fn a_failed_transfer_tells_what_it_had_moved() {
    let serving = Serving::start();
    let session = serving.connect(2);
    let (payload, mut writer) = pipe_payload(None);
    let transfer = session.put(payload, "data/part", &PutOptions::default()).unwrap();
    writer.write_all(&pattern(8 * BLOCK, 1)).unwrap();
    let until = Instant::now() + PATIENCE;
    while transfer.moved() < 4 * BLOCK as u64 && Instant::now() < until {
        std::thread::yield_now();
    }
    transfer.cancel();
    assert!(finish(&transfer).is_err());
    let bytes = serving.heard("the failed transfer", |event| match event {
        LogEvent::Transfer { error: Some(_), bytes, .. } => Some(*bytes),
        _ => None,
    });
    assert!(bytes >= BLOCK as u64, "{bytes}");
}
