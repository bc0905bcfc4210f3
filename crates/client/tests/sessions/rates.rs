//! Limits of bandwidth that the server sets: they hold over all sessions of a user and both ways, and what waits for them
//! is not taken for a stalled connection.

use super::support::serving::{Serving, Setup};
use super::support::{Scratch, assert_same, download_to, finish, pattern, upload_of};
use std::time::{Duration, Instant};
use xdfs_client::wire::Wanted;
use xdfs_client::{ConnectOptions, GetOptions, Level, PutOptions, Session};
use xdfs_server::ServerLimits;

fn limited(bandwidth_per_user: u64) -> Serving {
    Serving::with(Setup { limits: ServerLimits { bandwidth_per_user, ..Setup::default().limits }, ..Setup::default() })
}

#[test]
fn the_sessions_of_a_user_share_one_rate_evenly_in_both_directions() {
    const RATE: usize = 1 << 20;
    let serving = limited(RATE as u64);
    let here = Scratch::new();
    let bytes = pattern(RATE, 3);
    let source = here.write("source", &bytes);
    std::fs::write(serving.directory.path().join("down"), &bytes).unwrap();
    let options = |level| ConnectOptions { level, ..serving.options(8) };
    let [up, down] = [Level::Clear, Level::Private].map(|level| Session::connect(&options(level)).unwrap());
    let began = Instant::now();
    let seconds = std::thread::scope(|scope| {
        let put = scope.spawn(|| {
            finish(&up.put(upload_of(&source), "data/up", &PutOptions::default()).unwrap()).unwrap();
            began.elapsed().as_secs_f64()
        });
        let back = here.file("back");
        finish(&down.get("data/down", download_to(&back), &GetOptions::default()).unwrap()).unwrap();
        [put.join().unwrap(), began.elapsed().as_secs_f64()]
    });
    assert_same(&serving.directory.read("up"), &bytes);
    assert_same(&here.read("back"), &bytes);
    // Each has half of the rate until the other has ended. With less than that it would take 4 s; a busy machine's disk has taken
    // more than one of them, and the tests of the command see the rate to five percent.
    assert!(seconds.iter().all(|seconds| (1.7..3.9).contains(seconds)), "{seconds:?} s of 2 s");
}

#[test]
fn a_slow_rate_is_no_stall_and_a_listing_overtakes_it() {
    let serving = limited(8 << 10);
    let here = Scratch::new();
    let bytes = pattern(32 << 10, 4);
    std::fs::write(serving.directory.path().join("down"), &bytes).unwrap();
    // The bytes of a turn leave long before that; the whole block does not.
    let stall = Some(Duration::from_secs(2));
    let session = Session::connect(&ConnectOptions { stall, ..serving.options(8) }).unwrap();
    let other = serving.connect(1);
    let back = here.file("back");
    let began = Instant::now();
    let get = session.get("data/down", download_to(&back), &GetOptions::default()).unwrap();
    other.look("data", Wanted::SIZE).unwrap();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(finish(&get).unwrap().channel_bytes.len(), 1, "more channels would each be slower");
    assert!(began.elapsed() > Duration::from_millis(3600), "{:?} of 4 s", began.elapsed());
    assert_same(&here.read("back"), &bytes);
}
