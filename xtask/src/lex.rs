//! As much of Rust's lexical rules as our checks need: where comments and literals are, and what the tokens are.
//!
//! It is no parser. It never changes the length of a text, so that positions stay positions of the file.

/// Replaces comments, string literals and character literals by blanks; line ends stay.
pub(crate) fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = skipped_to(bytes, at);
        if end == at {
            at += 1;
            continue;
        }
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    // Blanked spans begin and end at character borders, so what is left is still UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

/// Where the comment or literal that starts at `at` ends; `at` itself when none starts there.
fn skipped_to(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }
    if rest.starts_with(b"/*") {
        return block_comment(bytes, at);
    }
    match rest[0] {
        b'"' => quoted(bytes, at + 1, b'"'),
        b'\'' => character(bytes, at),
        b'r' if starts_word(bytes, at) => raw_string(bytes, at),
        _ => at,
    }
}

/// True at the first byte of a word, and behind the `b` or `c` prefix of a literal.
fn starts_word(bytes: &[u8], at: usize) -> bool {
    let before = |distance: usize| at.checked_sub(distance).map(|index| bytes[index]);
    match before(1) {
        Some(b'b' | b'c') => !before(2).is_some_and(is_word),
        Some(byte) => !is_word(byte),
        None => true,
    }
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

fn block_comment(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn quoted(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A character literal, or nothing where the quote starts a lifetime.
fn character(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => quoted(bytes, at + 1, b'\''),
        Some(first) => {
            let width = match first {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                0xf0.. => 4,
            };
            if bytes.get(at + 1 + width) == Some(&b'\'') { at + 2 + width } else { at }
        }
        None => at,
    }
}

fn raw_string(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return at; // a word, or a raw identifier
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let found = bytes[open + 1..].windows(close.len()).position(|window| window == close);
    found.map_or(bytes.len(), |distance| open + 1 + distance + close.len())
}

/// One token of blanked code: a word, a path separator `::`, or one sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// The token itself.
    pub(crate) text: &'a str,
    /// Where it starts, in bytes.
    pub(crate) at: usize,
}

/// The tokens of blanked code.
pub(crate) fn tokens(code: &str) -> Vec<Token<'_>> {
    let bytes = code.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        if is_word(bytes[at]) {
            while at < bytes.len() && is_word(bytes[at]) {
                at += 1;
            }
        } else if bytes[at..].starts_with(b"::") {
            at += 2;
        } else {
            at += 1;
            if bytes[start].is_ascii_whitespace() {
                continue;
            }
        }
        tokens.push(Token { text: &code[start..at], at: start });
    }
    tokens
}

/// The line, counted from 1, of a position.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
}

/// The index of the `}` that closes the `{` at token `open`; the last token where the text ends before.
pub(crate) fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    return index;
                }
            }
            _ => {}
        }
    }
    tokens.len().saturating_sub(1)
}

/// The tokens without the items under `#[cfg(test)]`: what goes into the product.
pub(crate) fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let marked = tokens[at..].iter().map(|token| token.text).take(MARK.len()).eq(MARK);
        if !marked {
            kept.push(tokens[at]);
            at += 1;
            continue;
        }
        let item = at + MARK.len();
        if is_field(&tokens[item..]) {
            at = field_end(tokens, item);
            continue;
        }
        // The item ends with its first semicolon, or with its first block.
        let end = item_end(tokens, item);
        at = 1 + if tokens[end].text == "{" { closing(tokens, end) } else { end };
    }
    kept
}

/// True for `name:`, as a type declares a field and a value sets it.
fn is_field(tokens: &[Token<'_>]) -> bool {
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
    let name = match (text(0), text(1)) {
        ("pub", "(") => 1 + tokens.iter().position(|token| token.text == ")").unwrap_or_default(),
        ("pub", _) => 1,
        _ => 0,
    };
    text(name + 1) == ":"
}

/// What follows a field: the token behind its comma, or the `}` of what it belongs to.
fn field_end(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text {
            "}" if depth == 0 => return index,
            "," if depth == 0 => return index + 1,
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    tokens.len()
}

/// The first `;` or `{` from `at` that stands in no parentheses or brackets; the last token where there is none.
pub(crate) fn item_end(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "{" | ";" if depth == 0 => return index,
            _ => {}
        }
    }
    tokens.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokens(&blank(text)).iter().map(|token| token.text.to_owned()).collect()
    }

    #[test]
    fn comments_and_literals_are_blanked_and_lengths_stay() {
        let text = "a /* x /* y */ z */ b // c\nd \"e \\\" f\" r#\"g \" h\"# 'i' '\\'' 'ä' br\"j\" k";
        assert_eq!(blank(text).len(), text.len());
        assert_eq!(blank(text).lines().count(), 2);
        assert_eq!(words(text), ["a", "b", "d", "b", "k"]);
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_no_literals() {
        assert_eq!(words("&'a str r#type '_ b"), ["&", "'", "a", "str", "r", "#", "type", "'", "_", "b"]);
    }

    #[test]
    fn an_unclosed_literal_ends_with_the_file() {
        assert_eq!(words("a \"b"), ["a"]);
        assert_eq!(words("a /* b"), ["a"]);
        assert_eq!(words("a r#\"b"), ["a"]);
    }

    #[test]
    fn items_for_tests_are_left_out_and_what_follows_is_kept() {
        let code = "fn a() {} #[cfg(test)] mod tests { fn b() { {} } } #[cfg(test)] mod c; fn d() {}";
        let tokens = tokens(code);
        let names: Vec<&str> = without_tests(&tokens).iter().map(|token| token.text).collect();
        assert!(names.contains(&"a") && names.contains(&"d"));
        assert!(!names.contains(&"b") && !names.contains(&"c"));
    }

    #[test]
    fn a_field_for_tests_ends_with_its_comma_or_with_what_it_belongs_to() {
        let kept = |code: &str| -> String { without_tests(&tokens(code)).iter().map(|token| token.text).collect() };
        assert_eq!(kept("struct A { #[cfg(test)] pub(super) b: C, d: E }"), "structA{d:E}");
        assert_eq!(kept("A { b, #[cfg(test)] c: d(e, f) } fn g() { h; }"), "A{b,}fng(){h;}");
        assert_eq!(kept("#[cfg(test)] pub fn a(b: C) {} fn d() {}"), "fnd(){}");
    }

    #[test]
    fn lines_are_counted_from_one() {
        assert_eq!(line_of("a\nb", 0), 1);
        assert_eq!(line_of("a\nb", 2), 2);
    }
}
