//! The plan of `xdfs find`: its tests, read as find(1) reads them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use xdfs_client::wire::FileType;

use super::names::Count;
use super::{NamesPlan, PlanError, Reference, Search, Test, Verb, parse_url, show};
use crate::args::{FindArgs, is_test};
use crate::url::looks_like_url;

/// What there is.
const TESTS: &str =
    "there are -name, -iname, -path, -type, -size, -mtime, -newer, -empty, -maxdepth, -mindepth, -print0 and '!'";

/// Tests of find(1) that are not read here, and what does it.
const INSTEAD: &[(&[&[u8]], &str)] = &[
    (
        &[b"-o", b"-or", b"("],
        "all tests must hold: for either of two run 'xdfs find' twice, or take a pattern such as '*.[ch]'",
    ),
    (
        &[b"-mmin", b"-amin", b"-cmin", b"-atime", b"-ctime"],
        "-mtime counts days since a change, and -newer FILE compares with a file: touch -d '10 minutes ago' FILE",
    ),
    (&[b"-regex", b"-iregex"], "-name and -path take patterns with '*', '?' and '[a-z]'"),
    (&[b"--json"], "'xdfs ls -R --json URL' tells all names below URL"),
    (&[b"-ls", b"-printf"], "'xdfs ls -lR URL' lists with sizes and times"),
];

/// Resolves the words of `find`.
pub(super) fn resolve(args: FindArgs) -> Result<NamesPlan, PlanError> {
    let end = args.words.iter().position(is_test).unwrap_or(args.words.len());
    let (places, words) = args.words.split_at(end);
    if let Some(option) = words.first().filter(|word| places.is_empty() && word.as_bytes().starts_with(b"--")) {
        return Err(PlanError::Find(not_there(option)));
    }
    if places.is_empty() {
        return Err(PlanError::Find(
            "no URL is named before the tests\nhelp: write xdfs find URL [TEST]...".to_owned(),
        ));
    }
    let urls = places.iter().map(|text| parse_url(text)).collect::<Result<_, _>>()?;
    let verb = Verb::Find(search(words)?);
    Ok(NamesPlan { verb, urls, json: false, login: args.login.into() })
}

fn search(words: &[OsString]) -> Result<Search, PlanError> {
    let mut search = Search::default();
    let (mut words, mut negated) = (words.iter(), false);
    while let Some(word) = words.next() {
        let name = show(word);
        let mut value = || words.next().ok_or_else(|| PlanError::Find(format!("{name}: a value is missing after it")));
        let test = match word.as_bytes() {
            b"!" | b"-not" => {
                negated = !negated;
                continue;
            }
            b"-a" | b"-and" | b"-print" => continue,
            b"-print0" => {
                search.print0 = true;
                continue;
            }
            b"-maxdepth" => {
                search.depth_max = Some(number(&name, value()?)?);
                continue;
            }
            b"-mindepth" => {
                search.depth_min = number(&name, value()?)?;
                continue;
            }
            b"-name" => Test::Name { pattern: value()?.as_bytes().to_vec(), any_case: false },
            b"-iname" => Test::Name { pattern: value()?.as_bytes().to_ascii_lowercase(), any_case: true },
            b"-path" | b"-wholename" => Test::Path(value()?.as_bytes().to_vec()),
            b"-type" => Test::Type(types(value()?)?),
            b"-size" => size(value()?)?,
            b"-mtime" => Test::Age(count(&name, value()?.as_bytes())?),
            b"-newer" => Test::Newer(reference(value()?)?),
            b"-empty" => Test::Empty,
            b"-exec" | b"-delete" | b"-ok" => {
                let text = "find only prints here\nhelp: write -print0 | xargs -0 xdfs rm, or another command";
                return Err(PlanError::Find(format!("{name}: {text}")));
            }
            _ => return Err(PlanError::Find(not_there(word))),
        };
        search.tests.push((negated, test));
        negated = false;
    }
    if negated { Err(PlanError::Find("!: a test is missing after it".to_owned())) } else { Ok(search) }
}

/// What to say of a test or option that find does not have.
fn not_there(word: &OsStr) -> String {
    let what =
        if word.as_bytes().starts_with(b"--") { "'xdfs find' has no such option" } else { "there is no such test" };
    let instead = INSTEAD.iter().find(|(names, _)| names.contains(&word.as_bytes())).map_or(TESTS, |(_, text)| text);
    format!("{}: {what}\nhelp: {instead}", show(word))
}

fn number(name: &str, text: &OsStr) -> Result<usize, PlanError> {
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| PlanError::Find(format!("{name} {}: write a number", show(text))))
}

fn count(name: &str, text: &[u8]) -> Result<Count, PlanError> {
    let (make, digits): (fn(u64) -> Count, &[u8]) = match text {
        [b'+', digits @ ..] => (Count::More, digits),
        [b'-', digits @ ..] => (Count::Less, digits),
        digits => (Count::Exactly, digits),
    };
    let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse().ok());
    let wrong = || PlanError::Find(format!("{name} {}: write N, +N or -N", text.escape_ascii()));
    number.map(make).ok_or_else(wrong)
}

fn size(text: &OsStr) -> Result<Test, PlanError> {
    let bytes = text.as_bytes();
    let (digits, unit) = match bytes.split_last() {
        Some((b'c', digits)) => (digits, 1),
        Some((b'w', digits)) => (digits, 2),
        Some((b'b', digits)) => (digits, 512),
        Some((b'k', digits)) => (digits, 1 << 10),
        Some((b'M', digits)) => (digits, 1 << 20),
        Some((b'G', digits)) => (digits, 1 << 30),
        _ => (bytes, 512),
    };
    Ok(Test::Size(count("-size", digits)?, unit))
}

fn types(text: &OsStr) -> Result<Vec<FileType>, PlanError> {
    let types = text.as_bytes().split(|&byte| byte == b',').map(|letter| match letter {
        b"f" => Ok(FileType::Regular),
        b"d" => Ok(FileType::Directory),
        b"l" => Ok(FileType::Symlink),
        b"p" => Ok(FileType::Fifo),
        b"s" => Ok(FileType::Socket),
        b"c" => Ok(FileType::CharacterDevice),
        b"b" => Ok(FileType::BlockDevice),
        _ => Err(PlanError::Find(format!("-type {}: write letters of f, d, l, p, s, c, b with commas", show(text)))),
    });
    types.collect()
}

fn reference(text: &OsStr) -> Result<Reference, PlanError> {
    match looks_like_url(text) {
        true => parse_url(text).map(Reference::Remote),
        false => Ok(Reference::Local(PathBuf::from(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Search, PlanError> {
        search(&text.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn tests_are_read_as_find_reads_them() {
        let name = |pattern: &str, any_case| Test::Name { pattern: pattern.into(), any_case };
        for (text, expected) in [
            ("-name *.txt", vec![(false, name("*.txt", false))]),
            ("! -iname A*", vec![(true, name("a*", true))]),
            ("-type f,d", vec![(false, Test::Type(vec![FileType::Regular, FileType::Directory]))]),
            ("-size +2k", vec![(false, Test::Size(Count::More(2), 1024))]),
            ("-size 3", vec![(false, Test::Size(Count::Exactly(3), 512))]),
            ("-mtime -7 -empty", vec![(false, Test::Age(Count::Less(7))), (false, Test::Empty)]),
            ("-newer x", vec![(false, Test::Newer(Reference::Local("x".into())))]),
        ] {
            assert_eq!(read(text).unwrap().tests, expected, "{text}");
        }
        let depths = read("-mindepth 1 -maxdepth 2 -print0").unwrap();
        assert_eq!((depths.depth_min, depths.depth_max, depths.print0), (1, Some(2), true));
    }

    #[test]
    fn what_is_no_test_is_refused_by_name() {
        for (text, part) in [
            ("-nam x", "-nam: there is no such test"),
            ("-name", "a value is missing"),
            ("-size 3x", "-size 3x: write N"),
            ("-size ++3", "write N"),
            ("-type z", "-type z"),
            ("-maxdepth -1", "write a number"),
            ("! ", "a test is missing"),
            ("-delete", "xargs -0 xdfs rm"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
