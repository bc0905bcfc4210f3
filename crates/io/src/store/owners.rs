//! Names of users and groups from /etc/passwd and /etc/group, and their numbers.
//!
//! Read once, on first use: a server does that before it restricts its own access to the file
//! system. Must not: query a directory service; users known only there are identified by number.

use super::resolve::folder::{Secrecy, read_named};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

/// The files with users and with groups.
pub const FILES: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// Maximum size of either file: tens of thousands of lines. A larger file is treated as missing.
const BYTES_MAX: usize = 4 << 20;
/// Maximum length of a name that is passed on; the protocol allows no longer ones.
const NAME_BYTES_MAX: usize = 128;

/// Names and numbers of the users and groups of this machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Owners {
    /// Users.
    pub users: Names,
    /// Groups.
    pub groups: Names,
}

/// Names and numbers of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Names {
    numbers: BTreeMap<Vec<u8>, u32>,
    names: BTreeMap<u32, Vec<u8>>,
}

/// The owners of this machine, as of the first call.
pub fn known() -> &'static Owners {
    static KNOWN: OnceLock<Owners> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let [users, groups] = FILES.map(|path| {
            // Without the file, or if anybody may write to it, there are no names: numbers are
            // used.
            let text = read_named(Path::new(path), BYTES_MAX, Secrecy::Public).ok().flatten();
            Names::read(&text.unwrap_or_default())
        });
        Owners { users, groups }
    })
}

impl Names {
    /// The number of a name.
    pub fn number(&self, name: &[u8]) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The name of a number; empty where it has none.
    pub fn name(&self, number: u32) -> &[u8] {
        self.names.get(&number).map_or(&[], Vec::as_slice)
    }

    /// Parses lines `name:password:number:...`. Of several with the same name or number the first
    /// counts, as in the C library.
    fn read(text: &[u8]) -> Self {
        let mut read = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            let mut fields = line.split(|byte| *byte == b':');
            let (name, number) = (fields.next().unwrap_or_default(), fields.nth(1).unwrap_or_default());
            let number = std::str::from_utf8(number).ok().and_then(|number| number.parse::<u32>().ok());
            // A line that begins with '+' or '-' refers to a directory service.
            let odd = name.is_empty() || name.len() > NAME_BYTES_MAX || b"+-#".contains(&name[0]);
            // The highest number means "unchanged" to the kernel.
            if let Some(number) = number.filter(|number| !odd && *number != u32::MAX) {
                read.numbers.entry(name.to_vec()).or_insert(number);
                read.names.entry(number).or_insert_with(|| name.to_vec());
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_come_from_the_first_line_that_has_them() {
        let text = b"root:x:0:0:root:/root:/bin/sh\ntoor:*:0:0::/:\nanna:x:1000:100:\nanna:x:1001:100:\n\
                     +::::::\n-nobody:x:7:\n#old:x:8:\n:x:9:\nmany:x:4294967295:\nless:x:-1:\nword:x:ten:\nshort\nend:x:5";
        let names = Names::read(text);
        let number = |name: &str| names.number(name.as_bytes());
        assert_eq!([number("root"), number("toor"), number("anna"), number("end")], [0, 0, 1000, 5].map(Some));
        assert_eq!(
            [names.name(0), names.name(1000), names.name(1001), names.name(5)],
            [&b"root"[..], b"anna", b"anna", b"end"]
        );
        for absent in ["", "-nobody", "#old", "many", "less", "word", "short", "nobody"] {
            assert_eq!(number(absent), None, "{absent}");
        }
        assert_eq!(names.name(7), b"");
        assert_eq!(Names::read(&[&[b'a'; 129][..], b":x:1:"].concat()), Names::default());
    }

    #[test]
    fn this_machine_has_a_root() {
        assert_eq!(known().users.number(b"root"), Some(0));
        assert_eq!(known().users.name(0), b"root");
    }
}
