//! B22: a session whose bytes end too early, at any border of a TLS record or of one of ours and in the middle of one, by an
//! orderly end or a reset, ends with an error. Nothing half is ever taken for whole, by neither side.

use super::support::middle::{Act, Middle, Seen, Way, borders};
use super::support::relay::Cut;
use super::support::serving::Serving;
use super::support::{BLOCK, PATIENCE, finish, pattern};
use xdfs_client::{ConnectOptions, Error, GetOptions, Level, Payload, PutOptions, Session, Target};
use xdfs_proto::wire::Event;
use xdfs_server::LogEvent;

/// One session with one transfer, from connect to close.
fn whole_session(
    serving: &Serving,
    middle: &Middle,
    (upload, level): (bool, Level),
    content: &[u8],
) -> Result<(), Error> {
    let options = ConnectOptions { address: middle.address.clone(), level, deadline: PATIENCE, ..serving.options(1) };
    let session = Session::connect(&options)?;
    if upload {
        let payload = Payload::bytes(content.to_vec()).unwrap();
        finish(&session.put(payload, "data/up", &PutOptions::default())?)?;
        // The server has said that it is there, so it is, whatever becomes of the session.
        assert_eq!(serving.directory.read("up"), content);
    } else {
        let (target, got) = Target::memory();
        finish(&session.get("data/down", target, &GetOptions::default())?)?;
        assert_eq!(got.take().unwrap(), content);
    }
    session.close()
}

/// Whether this way carried its last record: EOFT, whole.
fn is_whole(seen: &Seen, way: Way) -> bool {
    let bytes = &seen.bytes[way as usize];
    let (tls, records) = borders(bytes);
    let starts: Vec<usize> = tls.last().into_iter().chain(&records).copied().collect();
    match starts[..] {
        [.., start, end] if records.last() == Some(&bytes.len()) && end == bytes.len() => {
            bytes[start] == Event::EndOfTransfer as u8
        }
        _ => false,
    }
}

/// Whether the client was told all that makes its transfer one: COMMITTED, or FINISH, whole.
fn is_told(seen: &Seen, upload: bool) -> bool {
    let bytes = &seen.bytes[Way::Down as usize];
    let (tls, records) = borders(bytes);
    let starts = tls.last().into_iter().chain(&records);
    let wanted = if upload { Event::Committed } else { Event::Finish };
    starts.zip(&records).any(|(start, end)| bytes[*start] == wanted as u8 && *end <= bytes.len())
}

fn cut_everywhere(upload: bool, level: Level) {
    let serving = Serving::start();
    let content = pattern(2 * BLOCK + 100, 9);
    serving.directory.write("down", &content);
    let middle = Middle::before(&serving.address);
    whole_session(&serving, &middle, (upload, level), &content).unwrap();
    // Its end is in the log before the log is looked at for another's.
    assert_eq!(serving.session_ended(), None);
    let good = middle.seen(0);
    assert!(is_whole(&good, Way::Up) && is_whole(&good, Way::Down));
    for way in [Way::Up, Way::Down] {
        let (tls, records) = borders(&good.bytes[way as usize]);
        assert!(tls.len() >= 4 && records.len() >= 4, "{way:?}: {tls:?} {records:?}");
        let starts = [vec![0], tls, records].concat();
        let inside = starts.windows(2).map(|pair| usize::midpoint(pair[0], pair[1]));
        let mut places: Vec<usize> = starts.iter().copied().chain(inside).collect();
        places.retain(|at| *at < good.bytes[way as usize].len());
        for (at, how) in places.iter().flat_map(|at| [(*at, Cut::Fin), (*at, Cut::Rst)]) {
            let _ = std::fs::remove_file(serving.directory.file("up"));
            serving.forget();
            let line = middle.connections();
            middle.act(Act::End { way, at, how });
            let result = whole_session(&serving, &middle, (upload, level), &content);
            let seen = middle.seen(line);
            // How many records a side says is not the same each time: what went past the place is no truncation.
            let went = seen.bytes[way as usize].len();
            let cut = format!("{way:?} cut at byte {at} of {went} by {how:?}: {result:?}");
            // A client to which everything was said may go without the server's last word (P-46).
            assert!(result.is_err() || is_told(&seen, upload), "{cut}");
            let ended = serving.heard(&cut, |event| match event {
                LogEvent::SessionEnded { error, .. } => Some(error.is_none()),
                LogEvent::GuestRefused { .. } => Some(false),
                _ => None,
            });
            serving.wait_for_status("everything is gone", |state| state == [0, 0, 0]);
            // The last that the client sent may have come after its end.
            let seen = middle.seen(line);
            assert!(!ended || is_whole(&seen, Way::Up), "the server took it for an end: {cut}");
            if upload && serving.directory.file("up").exists() {
                assert_eq!(serving.directory.read("up"), content, "{cut}");
            }
        }
    }
}

macro_rules! levels {
    ($($name:ident: $upload:literal, $level:ident;)+) => {
        $(#[test]
        fn $name() {
            cut_everywhere($upload, Level::$level);
        })+
    };
}

levels! {
    b22_a_private_upload_that_is_cut_at_any_border_is_an_error_at_both_ends: true, Private;
    b22_a_private_download_that_is_cut_at_any_border_is_an_error_at_both_ends: false, Private;
    b22_an_upload_at_integrity_that_is_cut_at_any_border_is_an_error_at_both_ends: true, Integrity;
    b22_a_download_at_integrity_that_is_cut_at_any_border_is_an_error_at_both_ends: false, Integrity;
    b22_a_clear_upload_that_is_cut_at_any_border_is_an_error_at_both_ends: true, Clear;
    b22_a_clear_download_that_is_cut_at_any_border_is_an_error_at_both_ends: false, Clear;
}
