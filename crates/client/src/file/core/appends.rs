//! Appends: made once, and found again where nobody knows whether they were made.

use super::super::unsynced::Change;
use super::{Connection, Core, Reply, lock, restarts};
use bytes::Bytes;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::file::{FileAnswer, FileCall};
use xdfs_secure::random;

/// What became of an append whose answer was lost.
enum Found {
    At(u64),
    Not,
    /// Nobody can tell.
    Unclear,
}

impl Core {
    /// Appends data that fits into one call; returns where it begins.
    pub(in crate::file) fn append(&self, data: &[u8]) -> Result<u64, Error> {
        self.settle()?;
        let offset = {
            // One at a time: where an append whose answer is lost would be is known as long as no other one is made.
            let _turn = lock(&self.appending);
            self.append_in_turn(data)?
        };
        self.hold_to_bounds()?;
        Ok(offset)
    }

    fn append_in_turn(&self, data: &[u8]) -> Result<u64, Error> {
        let (end, backoff) = (self.end_to_append_at()?, self.remote.backoff());
        loop {
            let unknown = match self.exchange(random::array()?, vec![FileCall::Append { data }]) {
                Ok(Reply { answered, generation }) => {
                    let offset = self.answer(&answered, "append to", |answer| match answer {
                        FileAnswer::Appended { offset, .. } => Some(*offset),
                        _ => None,
                    })?;
                    if self.note_append(offset, data, generation) {
                        return Ok(offset);
                    }
                    Error::new(ErrorKind::UnknownOutcome, "the server restarted after it had appended")
                }
                Err(error) if error.kind == ErrorKind::UnknownOutcome => error,
                Err(error) => return Err(error),
            };
            loop {
                let (_, _, generation) = self.current()?;
                match self.find_appended(data, end)? {
                    Found::At(offset) if self.note_append(offset, data, generation) => return Ok(offset),
                    Found::Not => break,
                    Found::Unclear if generation == self.current()?.2 => return Err(unknown),
                    // The server restarted while this end looked: what it had was made again without this append.
                    Found::At(_) | Found::Unclear => backoff.try_at_once(&unknown)?,
                }
            }
            // It is known not to be there.
            backoff.try_at_once(&restarts())?;
        }
    }

    /// An append was made in this generation; false if that is one of a server before the present one, which made again what it
    /// knew of: this append may be lost.
    fn note_append(&self, offset: u64, data: &[u8], generation: u64) -> bool {
        self.changes().add();
        let change = Change::Write { offset, data: Bytes::copy_from_slice(data) };
        let number = self.unsynced(|unsynced| unsynced.add(change.clone()));
        let made = self.note_made(number, &change, generation);
        if !made {
            self.unsynced(|unsynced| unsynced.remove(number));
        }
        made
    }

    /// Where the next append begins, as far as that is known. Under a lock it is, whatever others did before.
    fn end_to_append_at(&self) -> Result<u64, Error> {
        let is_needed = {
            let connection = lock(&self.connection);
            connection.end_is_old && self.is_alone(&connection)
        };
        if is_needed {
            let length = self.length()?;
            let mut connection = lock(&self.connection);
            (connection.end, connection.end_is_old) = (length, false);
        }
        Ok(self.known_end())
    }

    /// Nobody else can write to the file.
    fn is_alone(&self, connection: &Connection) -> bool {
        self.options.denies_writing() || connection.locks.all_is_exclusive()
    }

    /// The file ends where this end knows it to.
    pub(super) fn knows_end(&self, connection: &Connection) -> bool {
        self.is_alone(connection) && !connection.end_is_old
    }

    /// Looks for an append whose answer was lost, and which would begin at `end`. The same bytes may be somebody else's, unless
    /// this handle keeps others out.
    fn find_appended(&self, data: &[u8], end: u64) -> Result<Found, Error> {
        let alone = self.knows_end(&lock(&self.connection));
        let length = self.length()?;
        let found = if length == end {
            Found::Not
        } else if length == end + data.len() as u64 && alone && self.options.call(b"").read {
            let mut read = vec![0; data.len()];
            let is_there = self.read_at(&mut read, end)? == data.len() && read == data;
            if is_there { Found::At(end) } else { Found::Unclear }
        } else {
            Found::Unclear
        };
        // Another thread has written behind the end, or cut the file: this one's place is not known any more.
        Ok(if self.known_end() == end { found } else { Found::Unclear })
    }
}
