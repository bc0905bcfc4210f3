//! NOTICE: names that a client watches have changed.

use super::codec::{Reader, WireError, Writer};
use crate::limits;
use alloc::vec::Vec;

/// Longest name of a directory's entry.
const NAME_BYTES_MAX: usize = 255;

/// What has changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Changes(u8);

impl Changes {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Bytes or the length.
    pub const CONTENT: Self = Self(1);
    /// Attributes.
    pub const ATTRIBUTES: Self = Self(2);
    /// The name appeared, went away, or belongs to another file.
    pub const NAME: Self = Self(4);
    /// More than is told: anything that the watch is about may have changed.
    pub const LOOK_AGAIN: Self = Self(8);
    /// The watch is over.
    pub const OVER: Self = Self(16);

    const ALL: u8 = 31;

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of these are among them.
    pub const fn has(self, these: Self) -> bool {
        self.0 & these.0 == these.0
    }

    /// Whether it says more than any name of the watch could.
    pub const fn is_about_all(self) -> bool {
        self.0 & (Self::LOOK_AGAIN.0 | Self::OVER.0) != 0
    }
}

/// A change that one watch is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Notice {
    /// The client's number of the watch; 0 for all of them.
    pub watch: u64,
    /// What changed.
    pub changes: Changes,
    /// The name in the watched directory; empty for what is watched itself.
    pub name: Vec<u8>,
}

impl Notice {
    /// About every watch of the session anything may have changed.
    pub const fn of_all() -> Self {
        Self { watch: 0, changes: Changes::LOOK_AGAIN, name: Vec::new() }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let watch = reader.integer()?;
        // At most 31: fits.
        let changes = Changes(reader.flags(Changes::ALL.into(), "changes")? as u8);
        let name = reader.bytes(NAME_BYTES_MAX, "name")?;
        let strange = name.contains(&b'/') || name.contains(&0) || name == b"." || name == b"..";
        if strange || (changes.is_about_all() && !name.is_empty()) {
            return Err(WireError::Invalid("name"));
        }
        if changes == Changes::NONE || (watch == 0 && changes != Changes::LOOK_AGAIN) {
            return Err(WireError::Invalid("changes"));
        }
        Ok(Self { watch, changes, name: name.to_vec() })
    }
}

/// The list on the wire.
pub(super) fn write(writer: &mut Writer, notices: &[Notice]) {
    writer.integer(notices.len() as u64);
    for Notice { watch, changes, name } in notices {
        writer.integer(*watch).integer(changes.0.into()).bytes(name);
    }
}

/// At least one.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<Notice>, WireError> {
    let count = reader.integer_up_to(limits::NOTICES_MAX as u64, "notices")?;
    if count == 0 {
        return Err(WireError::Invalid("notices"));
    }
    (0..count).map(|_| Notice::read(reader)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn read_back(notices: &[Notice]) -> Result<Vec<Notice>, WireError> {
        let mut writer = Writer::new();
        write(&mut writer, notices);
        read(&mut Reader::new(&writer.finish()))
    }

    fn notice(watch: u64, changes: u8, name: &[u8]) -> Notice {
        Notice { watch, changes: Changes(changes), name: name.to_vec() }
    }

    #[test]
    fn the_longest_list_fits_a_message_and_none_is_longer() {
        let one = notice((1 << 62) - 1, 7, &[b'n'; 255]);
        let most = vec![one.clone(); limits::NOTICES_MAX];
        let mut writer = Writer::new();
        write(&mut writer, &most);
        assert!(writer.finish().len() <= limits::CONTROL_BYTES_MAX);
        assert_eq!(read_back(&most), Ok(most));
        assert!(read_back(&[]).is_err() && read_back(&vec![one; limits::NOTICES_MAX + 1]).is_err());
    }

    #[test]
    fn a_notice_that_contradicts_itself_is_malformed() {
        for changes in 0..64 {
            for (watch, name) in [(1, &b"n"[..]), (1, b""), (0, b""), (0, b"n")] {
                let about_all = changes & 24 != 0;
                let valid = (1..32).contains(&changes)
                    && (name.is_empty() || !about_all)
                    && (watch != 0 || (changes, name) == (8, b""));
                let read = read_back(&[notice(watch, changes, name)]);
                assert_eq!(read.is_ok(), valid, "{watch} {changes} {name:?}: {read:?}");
            }
        }
        for name in [&b"a/b"[..], b"..", b".", b"a\0", &[b'n'; 256]] {
            assert!(read_back(&[notice(1, 1, name)]).is_err(), "{name:?}");
        }
    }
}
