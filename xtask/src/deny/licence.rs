//! Reads licence expressions (SPDX: `MIT OR (Apache-2.0 AND BSD-3-Clause)`) and decides whether we may use the package.

/// Does the expression leave a choice in which every licence is allowed?
pub(super) fn permits(expression: &str, allowed: &[String]) -> Result<bool, String> {
    // Old manifests write a stroke for OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed };
    let verdict = reader.either()?;
    if reader.words.is_empty() { Ok(verdict) } else { Err(format!("unexpected `{}`", reader.words[0])) }
}

struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl<'a> Reader<'a> {
    fn either(&mut self) -> Result<bool, String> {
        let mut verdict = self.all()?;
        while self.takes("OR") {
            verdict |= self.all()?;
        }
        Ok(verdict)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut verdict = self.one()?;
        while self.takes("AND") {
            verdict &= self.one()?;
        }
        Ok(verdict)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.takes("(") {
            let verdict = self.either()?;
            return if self.takes(")") { Ok(verdict) } else { Err("a parenthesis is not closed".to_owned()) };
        }
        let name = self.word()?;
        if matches!(name, "OR" | "AND" | "WITH" | ")") {
            return Err(format!("unexpected `{name}`"));
        }
        let whole = if self.takes("WITH") { format!("{name} WITH {}", self.word()?) } else { name.to_owned() };
        Ok(self.allowed.contains(&whole))
    }

    fn takes(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn word(&mut self) -> Result<&'a str, String> {
        let (first, rest) = self.words.split_first().ok_or("ends too early")?;
        self.words = rest;
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(expression: &str) -> Result<bool, String> {
        permits(expression, &["MIT".to_owned(), "ISC".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()])
    }

    #[test]
    fn one_good_choice_is_enough_and_every_part_must_be_good() {
        assert_eq!(read("MIT"), Ok(true));
        assert_eq!(read("GPL-3.0"), Ok(false));
        assert_eq!(read("GPL-3.0 OR MIT"), Ok(true));
        assert_eq!(read("GPL-3.0/MIT"), Ok(true));
        assert_eq!(read("GPL-3.0 AND MIT"), Ok(false));
        assert_eq!(read("ISC AND (GPL-3.0 OR MIT)"), Ok(true));
        assert_eq!(read("MIT OR GPL-3.0 AND LGPL-3.0"), Ok(true));
        assert_eq!(read("(MIT OR GPL-3.0) AND LGPL-3.0"), Ok(false));
    }

    #[test]
    fn an_exception_is_part_of_the_licence() {
        assert_eq!(read("Apache-2.0 WITH LLVM-exception"), Ok(true));
        assert_eq!(read("Apache-2.0"), Ok(false));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for expression in ["", "MIT OR", "(MIT", "MIT)", "MIT ISC", "OR MIT"] {
            assert!(read(expression).is_err(), "{expression}");
        }
    }
}
