//! Lists that have to wait for the end of a copy, in an unnamed temporary file: memory does not
//! grow with the tree.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use xdfs_proto::base::{Error, ErrorKind};

/// Pairs of byte strings in insertion order.
#[derive(Debug, Default)]
pub(super) struct TempList {
    file: Option<BufWriter<File>>,
    count: u64,
    end: u64,
}

fn failed(error: &io::Error) -> Error {
    let text = format!("cannot keep a list in the temporary directory: {error}; set TMPDIR to one with room");
    Error::new(ErrorKind::Storage, text)
}

impl TempList {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Appends a pair and returns its offset.
    pub(super) fn push(&mut self, one: &[u8], other: &[u8]) -> Result<u64, Error> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(BufWriter::new(tempfile::tempfile().map_err(|error| failed(&error))?)),
        };
        let at = self.end;
        for part in [one, other] {
            // Paths are shorter than 32 KiB.
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            file.write_all(&length.to_be_bytes())
                .and_then(|()| file.write_all(part))
                .map_err(|error| failed(&error))?;
            self.end += 4 + u64::from(length);
        }
        self.count += 1;
        Ok(at)
    }

    /// The pair at offset `at`.
    pub(super) fn at(&mut self, at: u64) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let read = |file: &mut BufWriter<File>| {
            file.flush()?;
            let file = file.get_mut();
            file.seek(SeekFrom::Start(at))?;
            let pair = read_pair(file);
            file.seek(SeekFrom::End(0))?;
            pair
        };
        let file = self.file.as_mut().ok_or_else(|| failed(&io::ErrorKind::NotFound.into()))?;
        read(file).map_err(|error| failed(&error))
    }

    /// All pairs from the first on; the list is empty afterwards.
    pub(super) fn drain(&mut self) -> Result<Drain, Error> {
        let count = std::mem::take(&mut self.count);
        self.end = 0;
        let Some(file) = self.file.take() else { return Ok(Drain { file: None, left: 0 }) };
        let rewind = |mut file: File| file.seek(SeekFrom::Start(0)).map(|_| file);
        let file = file.into_inner().map_err(io::IntoInnerError::into_error).and_then(rewind);
        Ok(Drain { file: Some(BufReader::new(file.map_err(|error| failed(&error))?)), left: count })
    }
}

fn read_pair(file: &mut impl Read) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut part = || {
        let mut length = [0; 4];
        file.read_exact(&mut length)?;
        let mut part = vec![0; u32::from_be_bytes(length) as usize];
        file.read_exact(&mut part)?;
        Ok::<_, io::Error>(part)
    };
    Ok((part()?, part()?))
}

/// The iterator of [`TempList::drain`].
#[derive(Debug, Default)]
pub(super) struct Drain {
    file: Option<BufReader<File>>,
    left: u64,
}

/// What is read back of a list.
pub(super) type DrainedPair = Result<(Vec<u8>, Vec<u8>), Error>;

impl Iterator for Drain {
    type Item = DrainedPair;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let pair = read_pair(self.file.as_mut()?);
        if pair.is_err() {
            self.left = 0;
        }
        Some(pair.map_err(|error| failed(&error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out_in_order_and_by_place() {
        let mut list = TempList::default();
        assert_eq!(list.drain().unwrap().count(), 0);
        let places: Vec<u64> =
            (0..1000u32).map(|number| list.push(&number.to_be_bytes(), &vec![7; number as usize]).unwrap()).collect();
        assert_eq!(list.at(places[700]).unwrap(), (700u32.to_be_bytes().to_vec(), vec![7; 700]));
        list.push(b"last", b"").unwrap();
        let all: Vec<_> = list.drain().unwrap().map(Result::unwrap).collect();
        assert_eq!(all.len(), 1001);
        assert_eq!(all[3], (3u32.to_be_bytes().to_vec(), vec![7; 3]));
        assert_eq!(all[1000], (b"last".to_vec(), Vec::new()));
        assert_eq!(list.count(), 0);
    }
}
