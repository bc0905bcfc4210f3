//! Appends: one step at the server, made once whatever becomes of the answer.

use super::{Core, lock};
use crate::file::changes::Seen;
use crate::file::unsynced::Change;
use bytes::Bytes;
use xdfs_proto::base::{Error, ErrorKind};
use xdfs_proto::wire::file::{FileAnswer, FileCall};
use xdfs_secure::random;

impl Core {
    /// Appends data that fits into one call; returns where it begins.
    pub(in crate::file) fn append(&self, data: &[u8]) -> Result<u64, Error> {
        self.settle()?;
        let request: [u8; 16] = random::array()?;
        let answered = match self.exchange(request, vec![FileCall::Append { data }]) {
            Err(error) if error.kind == ErrorKind::UnknownOutcome => match self.find_appended(data, error)? {
                Some(offset) => return self.appended(offset, data),
                None => self.exchange(random::array()?, vec![FileCall::Append { data }])?,
            },
            outcome => outcome?,
        };
        let offset = self.answer(&answered, "append to", |answer| match answer {
            FileAnswer::Appended { offset, .. } => Some(*offset),
            _ => None,
        })?;
        self.appended(offset, data)
    }

    fn appended(&self, offset: u64, data: &[u8]) -> Result<u64, Error> {
        self.changes().add();
        {
            let change = Change::Write { offset, data: Bytes::copy_from_slice(data) };
            self.unsynced(|unsynced| {
                let number = unsynced.add(change);
                unsynced.made(number);
            });
            let mut connection = lock(&self.connection);
            connection.end = connection.end.max(offset + data.len() as u64);
        }
        self.hold_to_bounds()?;
        Ok(offset)
    }

    /// Looks for an append whose answer was lost: where it is, or none if it was not made. The
    /// same bytes may be somebody else's, unless this handle keeps others out.
    fn find_appended(&self, data: &[u8], unknown: Error) -> Result<Option<u64>, Error> {
        let (end, locked) = {
            let connection = lock(&self.connection);
            (connection.end, connection.locks.all_is_exclusive())
        };
        let alone = locked || self.options.denies_writing();
        let length = self.length()?;
        if length == end {
            return Ok(None);
        }
        if length == end + data.len() as u64 && alone && self.options.call(b"").read {
            let mut found = vec![0; data.len()];
            if self.read_at(&mut found, end, &mut Seen::of(None))? == data.len() && found == data {
                return Ok(Some(end));
            }
        }
        Err(unknown)
    }
}
