//! Changes whose answer was lost with the server: what became of them is found by looking.
//!
//! A server that restarted knows nothing of what its predecessor did (P-74). A name that was to be
//! removed, moved or linked leads to an inode whose identity is known here, and that decides. Of what
//! was to be made no identity is known: it is ours if it last changed while the request was on its way,
//! by the clock of the server's file system.

use super::{Tree, WANTED, last, refused};
use crate::inodes::Identity;
use rustix::io::Errno;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use xdfs_client::file::{Changed, File, Flight, OpenOptions, Opened};
use xdfs_client::wire::{Answer, Call, FileType};
use xdfs_client::{Facts, Reply};

/// How often a change is made again that was not done. Each time a server was lost in the middle of it.
const TRIES: usize = 16;

/// A file system tells times that are up to one tick old: 10 ms, and more where the machine is busy.
const TICK: Duration = Duration::from_millis(100);

/// What became of a change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Fate {
    Done,
    NotDone,
    /// Somebody else changed the names meanwhile.
    Unknown,
}

/// A name that was to be removed led to `removed`, and leads to `now`.
fn of_removal(removed: Option<Identity>, now: Option<Identity>) -> Fate {
    match (removed, now) {
        (_, None) => Fate::Done,
        (None, Some(_)) => Fate::Unknown,
        (Some(removed), Some(now)) if removed == now => Fate::NotDone,
        // Another one was made since.
        (Some(_), Some(_)) => Fate::Done,
    }
}

/// `moved` was to move, and the two names lead to `from` and `to` now.
fn of_rename(moved: Option<Identity>, from: Option<Identity>, to: Option<Identity>) -> Fate {
    let Some(moved) = moved else { return Fate::Unknown };
    match (from == Some(moved), to == Some(moved)) {
        // Two names of one file: rename(2) leaves both.
        (_, true) => Fate::Done,
        (true, false) => Fate::NotDone,
        (false, false) => Fate::Unknown,
    }
}

/// A name was to be made for `file`, and leads to `now`.
fn of_link(file: Option<Identity>, now: Option<Identity>) -> Fate {
    // If it leads elsewhere the server says so when it is asked again.
    if file.is_some() && now == file { Fate::Done } else { Fate::NotDone }
}

/// Something was to be made while the clock of the server showed `flight`, and there is `now`: its kind
/// and when it was last changed.
fn of_creation(kind: FileType, flight: &RangeInclusive<u64>, now: Option<(FileType, u64)>) -> Fate {
    match now {
        Some((found, changed)) if found == kind && flight.contains(&changed) => Fate::Done,
        // Nothing, or what somebody else made.
        _ => Fate::NotDone,
    }
}

/// The time of a flight in nanoseconds of the server's clock, which showed `clock` between the moments
/// `from` and `to`.
fn on_its_clock(flight: Flight, clock: u64, (from, to): (Instant, Instant)) -> RangeInclusive<u64> {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let since_sent = to.saturating_duration_since(flight.sent).saturating_add(TICK);
    let since_lost = from.saturating_duration_since(flight.lost);
    let start = clock.saturating_sub(nanoseconds(since_sent));
    start..=clock.saturating_add(nanoseconds(TICK)).saturating_sub(nanoseconds(since_lost))
}

impl Tree {
    /// Makes calls once. If their answer is lost `look` finds out what became of them, and they are made
    /// again if nothing did. Nothing is returned if they were made and no answer came.
    pub(super) fn change_once(
        &self,
        calls: &[Call<'_>],
        look: impl Fn(Flight) -> Result<Fate, Errno>,
    ) -> Result<Option<Reply>, Errno> {
        for _ in 0..TRIES {
            let flight = match self.once(calls)? {
                Changed::Answered(reply) => return Ok(Some(reply)),
                Changed::Unknown(flight) => flight,
            };
            match look(flight)? {
                Fate::Done => return Ok(None),
                Fate::NotDone => {}
                Fate::Unknown => break,
            }
        }
        Err(Errno::IO)
    }

    /// The same for one call that tells nothing.
    pub(super) fn change_name_once(
        &self,
        call: Call<'_>,
        look: impl Fn(Flight) -> Result<Fate, Errno>,
    ) -> Result<(), Errno> {
        self.change_once(&[call], look)?.map_or(Ok(()), |reply| last(&reply).map(drop))
    }

    fn once(&self, calls: &[Call<'_>]) -> Result<Changed, Errno> {
        let batch = self.batch(calls).once().map_err(|error| refused(&error))?;
        self.remote.change(&batch).map_err(|error| refused(&error))
    }

    fn identity_at(&self, path: &[u8]) -> Result<Option<Identity>, Errno> {
        Ok(self.seen(path)?.and_then(|told| told.inode))
    }

    pub(super) fn seen(&self, path: &[u8]) -> Result<Option<Facts>, Errno> {
        match self.facts_of(path) {
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            told => told.map(Some),
        }
    }

    pub(super) fn fate_of_removal(&self, path: &[u8], removed: Option<Identity>) -> Result<Fate, Errno> {
        Ok(of_removal(removed, self.identity_at(path)?))
    }

    pub(super) fn fate_of_rename(&self, from: &[u8], to: &[u8], moved: Option<Identity>) -> Result<Fate, Errno> {
        Ok(of_rename(moved, self.identity_at(from)?, self.identity_at(to)?))
    }

    pub(super) fn fate_of_link(&self, path: &[u8], file: Option<Identity>) -> Result<Fate, Errno> {
        Ok(of_link(file, self.identity_at(path)?))
    }

    pub(super) fn fate_of_creation(&self, path: &[u8], kind: FileType, flight: Flight) -> Result<Fate, Errno> {
        let Some(found) = self.seen(path)? else { return Ok(Fate::NotDone) };
        let Some(changed) = found.change else { return Ok(Fate::Unknown) };
        let Some(flight) = self.flight_at(path, flight)? else { return Ok(Fate::Unknown) };
        Ok(of_creation(kind, &flight, Some((found.kind, changed))))
    }

    /// A flight by the clock that tells when the names beside `path` change; none if it cannot be read.
    fn flight_at(&self, path: &[u8], flight: Flight) -> Result<Option<RangeInclusive<u64>>, Errno> {
        let above = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        for _ in 0..TRIES {
            let probe = [&path[..above], self.hiding.next_name().as_slice()].concat();
            let remove = Call::RemoveDirectory { path: &probe };
            let make = Call::MakeDirectory { path: &probe, parents: false, mode: 0o700 };
            let from = Instant::now();
            let reply = self.look(&[make, Call::Stat { path: &probe, wanted: WANTED }, remove])?;
            let to = Instant::now();
            let outcomes = reply.read().map_err(|error| refused(&error))?.outcomes;
            if let Some(Ok(Answer::Attributes(told))) = outcomes.get(1) {
                return Ok(told.change.map(|clock| on_its_clock(flight, clock, (from, to))));
            }
            // A server that was lost in the middle left it; else nothing may be made here.
            if last(&self.look(&[remove])?).is_err() {
                break;
            }
        }
        Ok(None)
    }

    /// Makes a file that is not there yet, or cuts one.
    pub(super) fn make_file(&self, path: &[u8], options: OpenOptions, exclusive: bool) -> Result<File, Errno> {
        let (full, mut options) = (self.full(path), options.create_new(exclusive));
        for _ in 0..TRIES {
            let flight = match File::open_known(&self.remote, &full, &options).map_err(|error| refused(&error))? {
                Opened::File(file) => return Ok(file),
                Opened::Unknown(flight) => flight,
            };
            // To cut it once more changes nothing: this call has not returned yet.
            if !exclusive {
                continue;
            }
            match self.fate_of_creation(path, FileType::Regular, flight)? {
                Fate::Done => options = options.create_new(false),
                Fate::NotDone => {}
                Fate::Unknown => break,
            }
        }
        Err(Errno::IO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Option<Identity> = Some([1; 16]);
    const B: Option<Identity> = Some([2; 16]);

    #[test]
    fn what_a_name_leads_to_tells_whether_it_was_removed_moved_or_linked() {
        assert_eq!(of_removal(A, None), Fate::Done);
        assert_eq!(of_removal(None, None), Fate::Done);
        assert_eq!(of_removal(A, A), Fate::NotDone);
        assert_eq!(of_removal(A, B), Fate::Done);
        assert_eq!(of_removal(None, B), Fate::Unknown);

        assert_eq!(of_rename(A, None, A), Fate::Done);
        assert_eq!(of_rename(A, B, A), Fate::Done);
        assert_eq!(of_rename(A, A, A), Fate::Done);
        assert_eq!(of_rename(A, A, B), Fate::NotDone);
        assert_eq!(of_rename(A, A, None), Fate::NotDone);
        assert_eq!(of_rename(A, None, B), Fate::Unknown);
        assert_eq!(of_rename(None, None, B), Fate::Unknown);

        assert_eq!(of_link(A, A), Fate::Done);
        assert_eq!(of_link(A, None), Fate::NotDone);
        assert_eq!(of_link(A, B), Fate::NotDone);
        assert_eq!(of_link(None, None), Fate::NotDone);
    }

    #[test]
    fn what_was_made_is_ours_if_it_changed_last_while_the_request_was_on_its_way() {
        let flight = 100..=200;
        let directory = |changed| Some((FileType::Directory, changed));
        assert_eq!(of_creation(FileType::Directory, &flight, directory(150)), Fate::Done);
        // It was there before, or somebody made it since: the server refuses ours when it is asked again.
        assert_eq!(of_creation(FileType::Directory, &flight, directory(99)), Fate::NotDone);
        assert_eq!(of_creation(FileType::Directory, &flight, directory(201)), Fate::NotDone);
        assert_eq!(of_creation(FileType::Symlink, &flight, directory(150)), Fate::NotDone);
        assert_eq!(of_creation(FileType::Directory, &flight, None), Fate::NotDone);
    }

    #[test]
    fn a_flight_is_told_by_the_clock_of_the_server() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let flight = Flight { sent: start, lost: start + second };
        let (from, to) = (start + 9 * second, start + 10 * second);
        // Its clock showed 1000 s a moment between 9 and 10 seconds after the request was sent.
        let shown = on_its_clock(flight, 1_000_000_000_000, (from, to));
        assert_eq!(shown, 989_900_000_000..=992_100_000_000);
        assert_eq!(on_its_clock(flight, 5, (from, to)), 0..=0);
    }
}
