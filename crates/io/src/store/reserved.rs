//! Names that no path may contain, in every spelling that some file system treats as the same name.
//!
//! File systems differ in what they treat as the same: upper and lower case, characters that they
//! ignore or that stand for others (Unicode's compatibility decompositions), dots and spaces at the
//! end, streams after a colon, short aliases. Here all of these count as the same, on every file
//! system: a name that is refused without need is rare, and one that leads into a staging directory
//! would expose the data of other users. Must not: touch the file system.

/// The reserved name. With the suffix `-UID` it is used where another user's directory has this
/// name.
pub(super) const STAGING: &[u8] = b".xdfs-staging";

/// Maximum number of letters of the name that characters unknown to `ascii_of` may stand for.
const MISSING_MAX: usize = 5;

/// Whether `component` is a name that no path may contain: `.xdfs-staging`, optionally with a
/// user's number, or any name that a file system may treat as the same.
pub fn is_reserved(component: &[u8]) -> bool {
    // A separator for SMB servers.
    component.split(|byte| *byte == b'\\').any(|part| {
        // Fast path: every path is checked here.
        if part.is_ascii() && !matches!(part.first(), Some(b'.' | b'x' | b'X')) {
            return false;
        }
        let folded = folded(part);
        let name = without_tail(&folded);
        is_name(name) || is_alias(name) || !part.is_ascii() && may_fold(part)
    })
}

fn is_name(name: &[u8]) -> bool {
    match name.strip_prefix(STAGING) {
        Some([]) => true,
        Some([b'-', digits @ ..]) => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// The short names on FAT and NTFS: `XDFS-S~1`, or `XD4F2A~1` when many names have the same prefix.
fn is_alias(name: &[u8]) -> bool {
    let Some(tilde) = name.iter().rposition(|byte| *byte == b'~') else { return false };
    let (stem, digits) = (name.get(..tilde).unwrap_or_default(), name.get(tilde + 1..).unwrap_or_default());
    let hashed = stem.strip_prefix(b"xd").is_some_and(|hash| hash.len() == 4 && hash.iter().all(u8::is_ascii_hexdigit));
    let begins = stem.len() >= 4 && b"xdfs-s".starts_with(stem);
    (hashed || begins) && (1..=4).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// Removes what FAT and SMB servers ignore at the end, and the name of a stream.
fn without_tail(folded: &[u8]) -> &[u8] {
    let end = folded.iter().position(|byte| *byte == b':').unwrap_or(folded.len());
    let name = folded.get(..end).unwrap_or_default();
    let kept = name.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |last| last + 1);
    name.get(..kept).unwrap_or_default()
}

/// Whether characters unknown to `ascii_of` stand for so few letters of the name that a file system
/// may treat them as these.
fn may_fold(component: &[u8]) -> bool {
    let folded: Vec<u8> = component.iter().filter(|byte| byte.is_ascii()).map(u8::to_ascii_lowercase).collect();
    let mut rest = without_tail(&folded);
    // A user's number may follow.
    while let [before @ .., b'0'..=b'9' | b'-'] = rest {
        rest = before;
    }
    let mut letters = STAGING.iter();
    rest.len() + MISSING_MAX >= STAGING.len() && rest.iter().all(|byte| letters.any(|letter| letter == byte))
}

/// Maps characters to the lower-case ASCII letters they stand for; other characters beyond ASCII
/// are dropped.
fn folded(component: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(component.len());
    for chunk in component.utf8_chunks() {
        for character in chunk.valid().chars() {
            folded.extend(ascii_of(character).bytes().map(|byte| byte.to_ascii_lowercase()));
        }
    }
    folded
}

/// The letters of the reserved name, and digits, for which this character stands.
fn ascii_of(character: char) -> Ascii {
    let code = u32::from(character);
    let letter = |first: u32| Ascii::One(b'a' + ((code - first) % 26) as u8);
    match code {
        0..=0x7f => Ascii::One(code as u8),
        // Full-width forms.
        0xff01..=0xff5e => Ascii::One((code - 0xfee0) as u8),
        // Mathematical, circled and squared letters and digits.
        0x1d400..=0x1d6a3 => letter(0x1d400),
        0x1d7ce..=0x1d7ff | 0x1fbf0..=0x1fbf9 => Ascii::One(b'0'),
        0x24b6..=0x24cf => letter(0x24b6),
        0x24d0..=0x24e9 => letter(0x24d0),
        0x1f130..=0x1f149 => letter(0x1f130),
        0xb2 | 0xb3 | 0xb9 | 0x2070 | 0x2074..=0x2079 | 0x2080..=0x2089 | 0x2460..=0x2473 | 0x24ea => Ascii::One(b'0'),
        // Ligatures.
        0xfb05 | 0xfb06 => Ascii::Two(*b"st"),
        0x33cc => Ascii::Two(*b"in"),
        0x2024 | 0xfe52 => Ascii::One(b'.'),
        0xfe63 => Ascii::One(b'-'),
        _ => letter_of(character),
    }
}

/// Single letters that stand alone in Unicode: superscripts and subscripts, signs, Roman numerals,
/// the long s.
fn letter_of(character: char) -> Ascii {
    match character {
        'ª' | 'ᵃ' | 'ᴬ' | 'ₐ' => Ascii::One(b'a'),
        'ᵈ' | 'ᴰ' | 'ⅅ' | 'ⅆ' | 'Ⅾ' | 'ⅾ' => Ascii::One(b'd'),
        'ᶠ' | 'ℱ' | 'ꟳ' => Ascii::One(b'f'),
        'ᵍ' | 'ᴳ' | 'ℊ' => Ascii::One(b'g'),
        'ⁱ' | 'ᴵ' | 'ᵢ' | 'ℐ' | 'ℑ' | 'ℹ' | 'ⅈ' | 'Ⅰ' | 'ⅰ' | 'İ' | 'ı' => Ascii::One(b'i'),
        'ⁿ' | 'ᴺ' | 'ₙ' | 'ℕ' => Ascii::One(b'n'),
        'ſ' | 'ˢ' | 'ₛ' | '꟱' => Ascii::One(b's'),
        'ᵗ' | 'ᵀ' | 'ₜ' => Ascii::One(b't'),
        'ˣ' | 'ₓ' | 'Ⅹ' | 'ⅹ' => Ascii::One(b'x'),
        _ => Ascii::None,
    }
}

/// At most two letters.
#[derive(Clone, Copy)]
enum Ascii {
    None,
    One(u8),
    Two([u8; 2]),
}

impl Ascii {
    fn bytes(self) -> impl Iterator<Item = u8> {
        let [first, second] = match self {
            Self::None => [None, None],
            Self::One(one) => [Some(one), None],
            Self::Two([one, two]) => [Some(one), Some(two)],
        };
        first.into_iter().chain(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_reserved_in_every_spelling_that_a_file_system_may_fold_to_it() {
        for name in
            [".xdfs-staging", ".xdfs-staging-0", ".XDFS-Staging", ".xdf\u{17f}-staging", ".xdfs-\u{200b}staging-12"]
                .into_iter()
                .chain([".xdfs-\u{fb06}aging", ".xdfs-\u{fb05}aging-1000", ".xdfs-\u{ff53}taging"])
        {
            assert!(is_reserved(name.as_bytes()), "{name}");
        }
        for name in [
            "xdfs-staging",
            ".xdfs-stagin",
            ".xdfs-staging-",
            ".xdfs-staging-x",
            ".xdfs-staging0",
            ".x",
            "",
            ".xdfs-\u{e9}",
        ] {
            assert!(!is_reserved(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn what_other_systems_leave_out_or_read_as_letters_makes_no_other_name() {
        let wide =
            |text: &str| -> String { text.bytes().filter_map(|b| char::from_u32(u32::from(b) + 0xfee0)).collect() };
        let bold = |text: &str| -> String {
            let bold = |b: u8| char::from_u32(0x1d41a + u32::from(b - b'a'));
            text.bytes().filter_map(|b| if b.is_ascii_lowercase() { bold(b) } else { Some(char::from(b)) }).collect()
        };
        for name in [
            wide(".xdfs-staging"),
            wide(".XDFS-STAGING-0"),
            bold(".xdfs-staging"),
            "\u{2024}xdfs\u{fe63}staging".into(),
            ".\u{24e7}\u{24d3}\u{24d5}\u{24e2}-\u{24e2}\u{24e3}\u{24d0}\u{24d6}\u{24d8}\u{24dd}\u{24d6}".into(),
            ".xdfs-stag\u{33cc}g-\u{2460}".into(),
            // FAT, and SMB servers.
            ".xdfs-staging.".into(),
            ".xdfs-staging. . ".into(),
            ".xdfs-staging-0.".into(),
            ".xdfs-staging::$INDEX_ALLOCATION".into(),
            ".xdfs-staging-12:stream".into(),
            "d\\.xdfs-staging".into(),
            ".xdfs-staging\\x.part".into(),
            "XDFS-S~1".into(),
            "xdfs-~12".into(),
            "xd4f2a~1".into(),
        ] {
            assert!(is_reserved(name.as_bytes()), "{name}");
        }
        for name in [
            ".xdfs-staging.d",
            ".xdfs-staging ~",
            "x~1",
            "xd~1",
            "xdata~1",
            "xdfs~",
            "a:.xdfs",
            "...",
            " ",
            ":",
            "\\",
            "\u{440}\u{443}\u{441}",
            "\u{ff41}",
            "1\u{e9}2",
            "~1",
            "xdfs-s~x",
            "\u{4e2d}.txt",
        ] {
            assert!(!is_reserved(name.as_bytes()), "{name}");
        }
        // Bytes that are not valid text.
        assert!(is_reserved(b".xdfs-\xffstaging") && !is_reserved(b"\xff\xfe"));
    }
}
