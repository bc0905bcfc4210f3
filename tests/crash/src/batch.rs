//! The group of [`crate::small`] in a batch for the real server, which is under strace meanwhile: killed at a call, or told that it
//! failed.

use crate::scenario::{Tracer, has_ended};
use crate::small::{OWN_CALLS, Point, Points, Room, Way, group};
use crate::trace::{CALLS, Strike};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use xdfs_client::wire::Call;
use xdfs_client::{Address, Batch, ConnectOptions, Error, ErrorKind, Level, Offer, Pinned, Session};
use xdfs_test_cli::Server;

/// Calls by which a batch is put; the first few of each.
const STRUCK: &[&str] = &[
    "pwrite64",
    "fsync",
    "syncfs",
    "sync_file_range",
    "linkat",
    "renameat",
    "mkdirat",
    "openat",
    "openat2",
    "fchmod",
    "utimensat",
    "newfstatat",
];

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs at the same time.
const WORKERS: usize = 4;

const WAY: Way = Way { durability: "durable", naming: "unnamed", synced: "each" };

/// Strikes at the first `most` calls of each kind.
pub fn sweep(strike: Strike, most: usize) -> Points {
    let rows = CALLS.iter().chain(OWN_CALLS).filter(|(call, _)| STRUCK.contains(call));
    let point = |(call, errors): &(&'static str, &[&'static str]), index: usize| {
        let injection = if strike == Strike::Kill { "signal=SIGKILL" } else { errors[index % errors.len()] };
        Point { way: WAY, call, index, injection }
    };
    let mut open: Vec<Point> = rows.flat_map(|row| (1..=most).rev().map(move |index| point(row, index))).collect();
    open.reverse();
    let work = Mutex::new((open, Points::default()));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).0.pop();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(point) = take() {
                    let Some(completed) = run(&point) else { continue };
                    let points = &mut work.lock().unwrap_or_else(PoisonError::into_inner).1;
                    *points.struck.entry(point.call).or_default() += 1;
                    points.completed += usize::from(completed);
                }
            });
        }
    });
    work.into_inner().unwrap_or_else(PoisonError::into_inner).1
}

/// None where there is no such call, else whether everything was put.
fn run(point: &Point) -> Option<bool> {
    let room = Room::new();
    let server = serve(&room);
    let session = connect(&server);
    let log = room.scene.path("strace.log");
    let what = format!("inject={}:{}:when={}", point.call, point.injection, point.index);
    let mut command = Command::new("strace");
    command.args(["-f", "-e", &format!("trace={}", point.call), "-e", &what, "-o"]).arg(&log);
    let tracer = Tracer::attach(command, server.process());
    let told = put(&session);
    let kills = point.injection == "signal=SIGKILL";
    tracer.detach(kills);
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let killed = has_ended(server.process(), kills && told.is_err());
    let told = match told {
        Ok(_) if !killed && !log.contains("(INJECTED)") => return None,
        Ok(told) => told,
        Err(error) => {
            assert!(killed, "{point:?}: {error}");
            Vec::new()
        }
    };
    let words: Vec<&str> = told.iter().map(String::as_str).collect();
    room.judge(point, killed, &words);
    let completed = point.completed(&words);
    drop((session, server));
    let server = serve(&room);
    let told = put(&connect(&server)).expect("nothing goes wrong now");
    room.judge_told_again(point, &told.iter().map(String::as_str).collect::<Vec<_>>());
    Some(completed)
}

fn serve(room: &Room) -> Server {
    let words = ["--quiet", "--export", "data=data", "--allow-anonymous", "rw"];
    Server::start(room.scene.command(["serve", "--json", "--listen", "127.0.0.1:0"]), &words)
}

fn connect(server: &Server) -> Session {
    let address = Address::Tcp(server.address().parse().expect("an address"));
    let host_key = server.host_key().parse().expect("a fingerprint");
    let options = ConnectOptions {
        host_check: Arc::new(Pinned(host_key)),
        offers: vec![Offer::Anonymous],
        channels: 1,
        level: Level::Private,
        deadline: PATIENCE,
        ..ConnectOptions::to(address)
    };
    Session::connect(&options).expect("a session")
}

/// What was told of each file: how safe it is, or the kind of its error.
fn put(session: &Session) -> Result<Vec<String>, Error> {
    let files = group();
    let mut batch = Batch::new("data").durable();
    files.iter().for_each(|file| batch.push(&Call::Put(file.as_put())));
    let late = || Error::new(ErrorKind::TimedOut, "no answer came");
    let reply = session.call(&batch)?.wait_for(PATIENCE).ok_or_else(late)??;
    let reply = reply.read()?;
    let safety = reply.safety.name().to_owned();
    let told = reply.outcomes.iter();
    Ok(told
        .map(|told| told.as_ref().map_or_else(|failure| format!("{:?}", failure.kind), |_| safety.clone()))
        .collect())
}
