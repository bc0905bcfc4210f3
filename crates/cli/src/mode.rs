//! Permission bits as chmod(1) reads them: `640`, or changes such as `u+x,go-w` and `a+rX`.

/// What becomes of the bits of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ModeChange {
    /// These bits, whatever there was.
    Set(u32),
    /// One change after the other.
    Change(Vec<Clause>),
}

/// One change: whose bits, how, and which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clause {
    /// All bits of those it is about, with the special ones.
    who: u32,
    how: How,
    bits: Bits,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    Add,
    Remove,
    Replace,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bits {
    /// These, for all three classes; the second value adds execution where somebody has it already, or
    /// for a directory.
    Named(u32, bool),
    /// Those that user (6), group (3) or others (0) have.
    CopyOf(u32),
}

const USER: u32 = 0o4700;
const GROUP: u32 = 0o2070;
const OTHERS: u32 = 0o1007;

/// Reads either form.
pub(crate) fn parse(text: &str) -> Result<ModeChange, String> {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return octal(text).map(ModeChange::Set);
    }
    let wrong = || "write permission bits in octal (640) or changes of them (u+x, go-w, a+rX)".to_owned();
    let mut clauses = Vec::new();
    for part in text.split(',') {
        let start = part.find(['+', '-', '=']).ok_or_else(wrong)?;
        let who = whose(&part[..start]).ok_or_else(wrong)?;
        let mut rest = &part[start..];
        while let Some(first) = rest.chars().next() {
            let how = match first {
                '+' => How::Add,
                '-' => How::Remove,
                '=' => How::Replace,
                _ => return Err(wrong()),
            };
            let end = rest[1..].find(['+', '-', '=']).map_or(rest.len(), |end| end + 1);
            let bits = bits_of(&rest[1..end]).ok_or_else(wrong)?;
            clauses.push(Clause { who, how, bits });
            rest = &rest[end..];
        }
    }
    Ok(ModeChange::Change(clauses))
}

/// Permission bits in octal.
pub(crate) fn octal(text: &str) -> Result<u32, String> {
    let digits = text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| digits && *mode <= 0o7777);
    mode.ok_or_else(|| "write permission bits in octal, such as 640 or 0755".to_owned())
}

fn whose(text: &str) -> Option<u32> {
    if text.is_empty() {
        return Some(USER | GROUP | OTHERS);
    }
    text.chars().try_fold(0, |who, class| {
        Some(
            who | match class {
                'u' => USER,
                'g' => GROUP,
                'o' => OTHERS,
                'a' => USER | GROUP | OTHERS,
                _ => return None,
            },
        )
    })
}

fn bits_of(text: &str) -> Option<Bits> {
    match text {
        "u" => return Some(Bits::CopyOf(6)),
        "g" => return Some(Bits::CopyOf(3)),
        "o" => return Some(Bits::CopyOf(0)),
        _ => {}
    }
    let (mut bits, mut conditional) = (0, false);
    for letter in text.chars() {
        match letter {
            'r' => bits |= 0o444,
            'w' => bits |= 0o222,
            'x' => bits |= 0o111,
            's' => bits |= 0o6000,
            't' => bits |= 0o1000,
            'X' => conditional = true,
            _ => return None,
        }
    }
    Some(Bits::Named(bits, conditional))
}

impl ModeChange {
    /// The bits of a file that has `mode`.
    pub(crate) fn apply(&self, mode: u32, directory: bool) -> u32 {
        match self {
            Self::Set(mode) => *mode,
            Self::Change(clauses) => clauses.iter().fold(mode & 0o7777, |mode, clause| clause.apply(mode, directory)),
        }
    }
}

impl Clause {
    fn apply(self, mode: u32, directory: bool) -> u32 {
        let bits = match self.bits {
            Bits::Named(bits, conditional) => {
                bits | if conditional && (directory || mode & 0o111 != 0) { 0o111 } else { 0 }
            }
            Bits::CopyOf(shift) => {
                let of = mode >> shift & 7;
                of << 6 | of << 3 | of
            }
        };
        let chosen = bits & self.who;
        match self.how {
            How::Add => mode | chosen,
            How::Remove => mode & !chosen,
            // As chmod(1): the bits of a directory that say whose its entries are stay.
            How::Replace => {
                let kept = if directory { 0o6000 } else { 0 };
                mode & !(self.who & !kept) | chosen
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_those_of_chmod() {
        for (text, before, after) in [
            ("640", 0o777, 0o640),
            ("u+x", 0o644, 0o744),
            ("+x", 0o644, 0o755),
            ("go-w", 0o666, 0o644),
            ("a=r", 0o751, 0o444),
            ("u=rwx,go=", 0o644, 0o700),
            ("g=u", 0o640, 0o660),
            ("o=g-w", 0o664, 0o664),
            ("a+X", 0o644, 0o644),
            ("a+X", 0o744, 0o755),
            ("u+s", 0o755, 0o4755),
            ("g+s", 0o755, 0o2755),
            ("+t", 0o755, 0o1755),
            ("u+x-r", 0o644, 0o344),
            ("o+s", 0o755, 0o755),
        ] {
            assert_eq!(parse(text).unwrap().apply(before, false), after, "{text} of {before:o}");
        }
        assert_eq!(parse("a+X").unwrap().apply(0o644, true), 0o755);
        assert_eq!(parse("g=rx").unwrap().apply(0o2700, true), 0o2750);
        for text in ["", "u", "x", "u+y", "z+x", "u+x,", "999", "77777", "6x", "ug"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
