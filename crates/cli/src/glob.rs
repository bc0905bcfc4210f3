//! Patterns of names as shells and find(1) know them: `*`, `?`, `[a-z]`, `[!a-z]`, and a backslash
//! before what is meant literally.

/// Whether `name` fits `pattern`. Takes time of at most the product of both lengths.
pub(crate) fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // Where to go on if what follows the last '*' does not fit: behind it, with one more byte taken.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, in_name));
            at += 1;
            continue;
        }
        match one(&pattern[at..], name[in_name]) {
            Some(length) => (at, in_name) = (at + length, in_name + 1),
            None => match star {
                Some((behind, taken)) => {
                    star = Some((behind, taken + 1));
                    (at, in_name) = (behind, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// The length of the part of the pattern that fits one byte; `None` if it does not.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => match set(pattern) {
            Some((length, negated, members)) => (contains(members, byte) != negated).then_some(length),
            None => (byte == b'[').then_some(1),
        },
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        literal => (literal == byte).then_some(1),
    }
}

/// Length, whether it is negated, and the members of a set; `None` if it does not end.
fn set(pattern: &[u8]) -> Option<(usize, bool, &[u8])> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let start = 1 + usize::from(negated);
    // A bracket that comes first is a member.
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|byte| *byte == b']')?;
    Some((end + 1, negated, &pattern[start..end]))
}

fn contains(mut members: &[u8], byte: u8) -> bool {
    while let Some((&first, rest)) = members.split_first() {
        match rest {
            [b'-', last, rest @ ..] => {
                if (first..=*last).contains(&byte) {
                    return true;
                }
                members = rest;
            }
            _ if first == byte => return true,
            _ => members = rest,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*.txt", "a.txt", true),
            ("*.txt", "a.txt.gz", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("?", "", false),
            ("?", "x", true),
            ("[a-c]1", "b1", true),
            ("[a-c]1", "d1", false),
            ("[!a-c]", "d", true),
            ("[^a-c]", "a", false),
            ("[]x]", "]", true),
            ("[a-]", "-", true),
            ("[", "[", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("a", "ab", false),
            ("", "", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        let pattern = "a*".repeat(100) + "b";
        assert!(!fits(pattern.as_bytes(), "a".repeat(20_000).as_bytes()));
    }
}
