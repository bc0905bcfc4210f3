//! B21: whoever rewrites what is negotiated, on the way or at the other end, gets an explicit error and never less than any
//! of the floors.

use super::raw::{head, open, wishes};
use super::support::middle::{Act, Middle, Way, borders};
use super::support::serving::{Serving, Setup};
use super::support::{PATIENCE, finish};
use std::time::Duration;
use xdfs_client::{ConnectOptions, Error, GetOptions, Level, Payload, PutOptions, Session, Target};
use xdfs_proto::wire::Event;
use xdfs_server::{LogEvent, Policy, ServerLimits};

const LEVELS: [Level; 3] = [Level::Clear, Level::Integrity, Level::Private];

#[test]
fn b21_every_transfer_has_the_highest_of_the_three_floors() {
    for server in LEVELS {
        let policy = Policy { floor: server, ..Policy::default() };
        let serving = Serving::with(Setup { policy, ..Setup::default() });
        serving.directory.write("file", &[5; 5000]);
        for client in LEVELS {
            for (export, name) in [(Level::Clear, "data"), (Level::Integrity, "integrity"), (Level::Private, "private")]
            {
                let cell = format!("client {client:?}, server {server:?}, export {export:?}");
                let expected = client.max(server).max(export);
                let session = Session::connect(&ConnectOptions { level: client, ..serving.options(2) }).unwrap();
                assert_eq!(session.facts().level, client.max(server), "{cell}");
                let (target, got) = Target::memory();
                let get = session.get(format!("{name}/file"), target, &GetOptions::default()).unwrap();
                assert_eq!((finish(&get).unwrap().level, got.take().unwrap()), (expected, vec![5; 5000]), "{cell}");
                let payload = Payload::bytes(vec![6; 6000]).unwrap();
                let put = session.put(payload, format!("{name}/up"), &PutOptions::default()).unwrap();
                assert_eq!(finish(&put).unwrap().level, expected, "{cell}");
                session.close().unwrap();
                // The server's log says the same: it is what an administrator has to go by.
                let told = serving.count(
                    |event| matches!(event, LogEvent::Transfer { level, error: None, .. } if *level == expected.name()),
                );
                assert_eq!(told, 2, "{cell}: {:#?}", serving.events());
                serving.forget();
            }
        }
    }
}

#[test]
fn b21_a_block_below_what_was_granted_ends_the_session_in_every_cell() {
    for server in LEVELS {
        let policy = Policy { floor: server, ..Policy::default() };
        let serving = Serving::with(Setup { policy, ..Setup::default() });
        for (asked, sent) in LEVELS.into_iter().flat_map(|asked| LEVELS.map(|sent| (asked, sent))) {
            for (export, name) in [(Level::Clear, "data"), (Level::Integrity, "integrity"), (Level::Private, "private")]
            {
                let cell = format!("asked {asked:?}, server {server:?}, export {export:?}, sent at {sent:?}");
                serving.forget();
                let (session, mut channel) = open(&serving, wishes(1)).unwrap();
                channel.upload_at(1, &format!("{name}/file"), Some(100), asked);
                channel.record(head(Event::Upload, sent, 1), &[1; 100], |_| {});
                channel.whole(1, 100);
                let error = if sent < asked.max(server).max(export) {
                    let error = serving.heard(&cell, |event| match event {
                        LogEvent::SessionEnded { session: id, error, .. } if *id == session.id => Some(error.clone()),
                        _ => None,
                    });
                    Some(error.unwrap_or_default())
                } else {
                    channel.committed();
                    std::fs::remove_file(serving.directory.file("file")).unwrap();
                    None
                };
                assert!(error.is_none_or(|error| error.contains("below what was granted")), "{cell}");
                serving.directory.wait_for_names(&[]);
            }
        }
    }
}

/// A session with one small download in its opening.
fn fetch(serving: &Serving, middle: &Middle) -> Result<Vec<u8>, Error> {
    let options = ConnectOptions {
        address: middle.address.clone(),
        level: Level::Private,
        deadline: Duration::from_secs(2),
        stall: Some(Duration::from_secs(2)),
        ..serving.options(1)
    };
    let (target, got) = Target::memory();
    let (session, transfer) = Session::connect_and_get(&options, "data/file", target, &GetOptions::default())?;
    transfer.wait_for(PATIENCE).expect("an outcome")?;
    drop(session);
    Ok(got.take().expect("the bytes"))
}

#[test]
fn b21_no_byte_of_an_opening_can_be_altered_without_an_error() {
    let limits = ServerLimits { opening: Duration::from_secs(2), ..ServerLimits::roomy() };
    let serving = Serving::with(Setup { limits, ..Setup::default() });
    serving.directory.write("file", &[5; 1000]);
    let middle = Middle::before(&serving.address);
    assert_eq!(fetch(&serving, &middle).unwrap(), [5; 1000]);
    let good = middle.seen(0);
    let mut places = Vec::new();
    for way in [Way::Up, Way::Down] {
        let (tls, _) = borders(&good.bytes[way as usize]);
        let end = *tls.last().unwrap();
        // (What TLS covers by no key are type and version in its records' heads. One bit each is left that means the same:
        // 0x0301 for 0x0303 with a hello, and 22 for 23 in front of the first sealed record.)
        // Every byte of the preface and of the heads of TLS records, where nothing is sealed, and what stands at both ends
        // of each record; of the rest, which TLS holds together, a sample.
        let marked =
            |at: usize| at < 8 || tls.iter().any(|border| (border.saturating_sub(3)..border + 8).contains(&at));
        places.extend((0..end).filter(|at| marked(*at) || at % 41 == 0).map(|at| (way, at)));
    }
    assert!(places.len() > 100, "{}", places.len());
    // Several at a time: where a length grew, both ends wait for their deadlines.
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let middle = Middle::before(&serving.address);
                loop {
                    let Some((way, at)) = places.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) else {
                        return;
                    };
                    let line = middle.connections();
                    middle.act(Act::Flip { way: *way, at: *at, mask: 1 << (at % 8) });
                    let result = fetch(&serving, &middle);
                    let went = middle.seen(line).bytes[*way as usize].len();
                    assert!(went > *at, "{way:?}: byte {at} was never sent");
                    assert!(
                        result.is_err(),
                        "{way:?}: byte {at} was altered and nobody saw it: {:?}",
                        borders(&middle.seen(line).bytes[*way as usize])
                    );
                }
            });
        }
    });
    // Nobody is worse off afterwards.
    middle.act(Act::Watch);
    assert_eq!(fetch(&serving, &middle).unwrap(), [5; 1000]);
}
