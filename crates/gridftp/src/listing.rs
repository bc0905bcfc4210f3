//! Facts of names: the lines of MLSD and MLST (RFC 3659, section 7).

use crate::reply::Reply;
use crate::text::printable;

/// Longest line of a listing, in bytes.
pub const LINE_BYTES_MAX: usize = 8 * 1024;

/// Most lines of a listing.
pub const ENTRIES_MAX: u32 = 1_000_000;

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// The listed directory itself, or its parent.
    Itself,
    /// A link, a device, or what the server did not say.
    Other,
}

/// A name with its facts.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// The name: one component from MLSD, a path from MLST.
    pub name: Vec<u8>,
    /// What it stands for.
    pub kind: Kind,
    /// Its length, if the server said it.
    pub size: Option<u64>,
    /// Its time in UTC, `YYYYMMDDHHMMSS`, if the server said it.
    pub modified: Option<[u8; 14]>,
    /// Its permission bits, if the server said them.
    pub mode: Option<u32>,
}

/// Why a line is no entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum ListingError {
    /// No facts.
    #[error("the server's listing has a line without facts and a name: '{0}'")]
    Line(String),
    /// A name that leads elsewhere.
    #[error("the server's listing has the name '{0}', which leads out of its directory")]
    Name(String),
    /// A fact that cannot be.
    #[error("the server's listing has a fact that cannot be: '{0}'")]
    Fact(String),
    /// A line without an end.
    #[error("the server's listing has a line longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// More lines than anybody reads.
    #[error("the server's listing has more than {ENTRIES_MAX} lines")]
    TooMany,
}

/// The entry in a line of MLSD, without its line end.
///
/// # Errors
/// If it is none, or its name is no name of this directory.
pub fn of_mlsd(line: &[u8]) -> Result<Entry, ListingError> {
    let entry = read(line)?;
    let name = &entry.name;
    let is_itself = entry.kind == Kind::Itself;
    let dots = matches!(name.as_slice(), b"." | b"..");
    if !is_itself && (dots || name.contains(&b'/')) || name.contains(&0) {
        return Err(ListingError::Name(printable(name)));
    }
    Ok(entry)
}

/// The entry in a reply to MLST.
///
/// # Errors
/// If it has none.
pub fn of_mlst(reply: &Reply) -> Result<Entry, ListingError> {
    let line = reply.lines.get(1).ok_or_else(|| ListingError::Line(reply.shown()))?;
    read(line.strip_prefix(b" ").unwrap_or(line))
}

fn read(line: &[u8]) -> Result<Entry, ListingError> {
    let unreadable = || ListingError::Line(printable(line));
    let space = line.iter().position(|&byte| byte == b' ').ok_or_else(unreadable)?;
    let (facts, name) = (&line[..space], &line[space + 1..]);
    if name.is_empty() {
        return Err(unreadable());
    }
    let mut entry = Entry::unknown(name);
    let mut is_link = false;
    for fact in facts.split(|&byte| byte == b';').filter(|fact| !fact.is_empty()) {
        let equals = fact.iter().position(|&byte| byte == b'=').ok_or_else(unreadable)?;
        let (key, value) = (fact[..equals].to_ascii_lowercase(), &fact[equals + 1..]);
        let wrong = || ListingError::Fact(printable(fact));
        match key.as_slice() {
            b"type" => {
                entry.kind = match value.to_ascii_lowercase().as_slice() {
                    b"file" => Kind::File,
                    b"dir" => Kind::Directory,
                    b"cdir" | b"pdir" => Kind::Itself,
                    _ => Kind::Other,
                }
            }
            b"size" => entry.size = Some(number(value).ok_or_else(wrong)?),
            // A fraction of a second may follow.
            b"modify" => {
                let digits = value.get(..14).and_then(|digits| <[u8; 14]>::try_from(digits).ok());
                entry.modified = Some(digits.filter(|digits| digits.iter().all(u8::is_ascii_digit)).ok_or_else(wrong)?);
            }
            b"unix.mode" => {
                let digits = str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                let mode = digits.and_then(|text| u32::from_str_radix(text, 8).ok());
                entry.mode = Some(mode.filter(|mode| *mode <= 0o7777).ok_or_else(wrong)?);
            }
            b"unix.slink" => is_link = true,
            _ => {}
        }
    }
    // A link to a directory may lead up: a walk that followed it would not end.
    if is_link && entry.kind == Kind::Directory {
        entry.kind = Kind::Other;
    }
    Ok(entry)
}

impl Entry {
    /// A name of which nothing is known.
    pub fn unknown(name: &[u8]) -> Self {
        Self { name: name.to_vec(), kind: Kind::Other, size: None, modified: None, mode: None }
    }
}

/// The name in a line of NLST, without its line end: some servers write the path of the directory in
/// front. `None` for the directory itself and its parent.
///
/// # Errors
/// If it is no name of this directory.
pub fn of_nlst<'a>(line: &'a [u8], directory: &[u8]) -> Result<Option<&'a [u8]>, ListingError> {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    let below = line.strip_prefix(directory).and_then(|rest| rest.strip_prefix(b"/"));
    let name = below.or_else(|| line.strip_prefix(b"./")).unwrap_or(line);
    if matches!(name, b"" | b"." | b"..") {
        return Ok(None);
    }
    if name.contains(&b'/') || name.contains(&0) {
        return Err(ListingError::Name(printable(line)));
    }
    Ok(Some(name))
}

/// The time in a reply to MDTM.
///
/// # Errors
/// If it has none.
pub fn of_mdtm(reply: &Reply) -> Result<[u8; 14], ListingError> {
    let line = reply.lines.first().map_or(&b""[..], |line| line.trim_ascii());
    let digits = line.get(..14).and_then(|digits| <[u8; 14]>::try_from(digits).ok());
    let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_digit));
    digits.ok_or_else(|| ListingError::Fact(printable(line)))
}

/// The path in a reply to PWD: between quotes, of which one in the path is written twice.
pub fn of_pwd(reply: &Reply) -> Option<Vec<u8>> {
    let line = reply.lines.first()?.trim_ascii().strip_prefix(b"\"")?;
    let mut path = Vec::new();
    let mut rest = line.iter().copied();
    while let Some(byte) = rest.next() {
        if byte == b'"' && rest.next() != Some(b'"') {
            return Some(path).filter(|path| path.starts_with(b"/") && !path.contains(&0));
        }
        path.push(byte);
    }
    None
}

/// A number of decimal digits alone.
pub fn number(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

/// Cuts the bytes of a listing into lines, whatever the pieces in which they arrive.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
}

impl Lines {
    /// Takes bytes, and gives each whole line without its end to `each`.
    ///
    /// # Errors
    /// If a line is too long, or `each` refuses it.
    pub fn take<E: From<ListingError>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            if part.len() > LINE_BYTES_MAX - self.line.len() {
                return Err(ListingError::TooLong.into());
            }
            self.line.extend_from_slice(part);
            if let Some(line) = self.line.strip_suffix(b"\n") {
                each(line.strip_suffix(b"\r").unwrap_or(line))?;
                self.line.clear();
            }
        }
        Ok(())
    }

    /// Whether the listing ended with a line's end.
    pub fn is_whole(&self) -> bool {
        self.line.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_real_servers_are_read() {
        let line = b"Type=file;Modify=20261123145618;Size=3000000;Perm=r;UNIX.mode=0644; with space ";
        let entry = of_mlsd(line).unwrap();
        assert_eq!((entry.kind, entry.size, entry.modified), (Kind::File, Some(3_000_000), Some(*b"20261123145618")));
        assert_eq!(entry.name, b"with space ");
        assert_eq!(entry.mode, Some(0o644));
        let up = of_mlsd(b"Type=dir;UNIX.slink=/; up").unwrap();
        assert_eq!(up.kind, Kind::Other, "a walk that followed it would not end");
        assert_eq!(of_mlsd(b"type=cdir; .").unwrap().kind, Kind::Itself);
        assert_eq!(of_mlsd(b"type=OS.unix=slink:/x;modify=20260101000000.123; l").unwrap().kind, Kind::Other);
        let reply =
            Reply { code: 250, lines: [&b"status"[..], b" Type=dir; /a/b", b"End."].map(<[u8]>::to_vec).to_vec() };
        assert_eq!(of_mlst(&reply).unwrap().name, b"/a/b");
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for name in ["..", ".", "a/b", "/etc/passwd", "../x", "a\0b"] {
            let line = format!("Type=file; {name}");
            assert!(matches!(of_mlsd(line.as_bytes()), Err(ListingError::Name(_))), "{name}");
        }
    }

    #[test]
    fn a_plain_list_has_names_of_its_directory_alone() {
        for (line, name) in
            [("a", Some("a")), ("/d/a b", Some("a b")), ("./a", Some("a")), (".", None), ("/d/..", None), ("", None)]
        {
            assert_eq!(of_nlst(line.as_bytes(), b"/d"), Ok(name.map(str::as_bytes)), "{line}");
        }
        assert_eq!(of_nlst(b"/a", b"/"), Ok(Some(&b"a"[..])));
        for line in ["/e/a", "../a", "a/b", "/d/a/b", "a\0"] {
            assert!(matches!(of_nlst(line.as_bytes(), b"/d"), Err(ListingError::Name(_))), "{line}");
        }
    }

    #[test]
    fn times_and_working_directories_are_read() {
        let reply = |text: &str| Reply { code: 213, lines: vec![text.as_bytes().to_vec()] };
        assert_eq!(of_mdtm(&reply("20261123173008.5")), Ok(*b"20261123173008"));
        assert!(of_mdtm(&reply("2026112317300")).is_err() && of_mdtm(&reply("2026112317300x")).is_err());
        assert_eq!(of_pwd(&reply("\"/\" is the current directory")), Some(b"/".to_vec()));
        assert_eq!(of_pwd(&reply("\"/a\"\"b\" is current directory.")), Some(b"/a\"b".to_vec()));
        for text in ["", "/a", "\"a\"", "\"/a", "\"\""] {
            assert_eq!(of_pwd(&reply(text)), None, "{text}");
        }
    }

    #[test]
    fn a_line_that_is_no_entry_is_refused() {
        for line in ["", "x", "Type=file;", "Type=file; ", "Type; x", "-rw-r--r-- 1 root x"] {
            assert!(matches!(of_mlsd(line.as_bytes()), Err(ListingError::Line(_))), "{line}");
        }
        for line in [
            "UNIX.mode=9; x",
            "Size=-1; x",
            "Size=; x",
            "Size=18446744073709551616; x",
            "Modify=2026; x",
            "Modify=2026112314561x; x",
        ] {
            assert!(matches!(of_mlsd(line.as_bytes()), Err(ListingError::Fact(_))), "{line}");
        }
    }

    #[test]
    fn lines_have_a_bound_and_come_in_any_pieces() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in [&b"ab"[..], b"c\r", b"\nd\ne"] {
            lines
                .take(piece, |line| {
                    seen.push(line.to_vec());
                    Ok::<(), ListingError>(())
                })
                .unwrap();
        }
        assert_eq!(seen, [b"abc".to_vec(), b"d".to_vec()]);
        assert!(!lines.is_whole());
        assert_eq!(lines.take(&[b'x'; LINE_BYTES_MAX], |_| Ok(())), Err(ListingError::TooLong));
    }
}
