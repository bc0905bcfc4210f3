//! The file `.netrc` of ftp(1), curl and wget: `machine NAME login NAME password WORD`, in words and
//! lines as one likes.

use std::iter::Peekable;
use std::str::Chars;

/// What it has for a host.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) user: String,
    pub(super) password: Option<String>,
}

/// The first entry for a host, and for this user if there is one. `default` counts only for a user
/// that was named: a host of which nobody wrote is logged in to as anybody.
pub(super) fn find(text: &str, host: &str, user: Option<&str>) -> Option<Entry> {
    let mut words = Words { rest: text.chars().peekable() };
    let (mut applies, mut login, mut password) = (false, None, None);
    loop {
        let word = words.next();
        let ends = matches!(word.as_deref(), None | Some("machine" | "default" | "macdef"));
        if ends {
            if applies {
                let login: Option<String> = login.take();
                let fits = user.is_none_or(|user| login.as_deref().is_none_or(|login| login == user));
                let named = login.or_else(|| user.map(str::to_owned)).filter(|_| fits);
                if let Some(user) = named {
                    return Some(Entry { user, password });
                }
            }
            (applies, login, password) = (false, None, None);
        }
        match word?.as_str() {
            "machine" => applies = words.next()?.eq_ignore_ascii_case(host),
            "default" => applies = user.is_some(),
            // Up to an empty line.
            "macdef" => words.skip_macro(),
            "login" => login = words.next(),
            "password" => password = words.next(),
            "account" => drop(words.next()),
            _ => {}
        }
    }
}

/// Words between white space; in quotes they may have some, and a backslash takes the next character
/// as it is.
struct Words<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Words<'_> {
    fn skip_macro(&mut self) {
        let mut before = ' ';
        for next in self.rest.by_ref() {
            if before == '\n' && next == '\n' {
                return;
            }
            before = next;
        }
    }
}

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            while self.rest.next_if(|next| next.is_whitespace()).is_some() {}
            if *self.rest.peek()? != '#' {
                break;
            }
            // A comment to the end of its line.
            while self.rest.next_if(|next| *next != '\n').is_some() {}
        }
        let is_quoted = self.rest.next_if_eq(&'"').is_some();
        let mut word = String::new();
        while let Some(next) = self.rest.next() {
            match next {
                '\\' => word.extend(self.rest.next()),
                '"' if is_quoted => break,
                next if !is_quoted && next.is_whitespace() => break,
                next => word.push(next),
            }
        }
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# mine
machine a.example login anna password 's#1
machine b.example
    login \"an na\"
    password \"with \\\"space\\\"\"
macdef init
machine c.example login wrong password wrong

machine a.example login bob password two
default login anybody password shared
";

    fn found(host: &str, user: Option<&str>) -> Option<(String, Option<String>)> {
        find(FILE, host, user).map(|entry| (entry.user, entry.password))
    }

    fn pair(user: &str, password: &str) -> Option<(String, Option<String>)> {
        Some((user.to_owned(), Some(password.to_owned())))
    }

    #[test]
    fn a_host_has_its_own_entry_and_a_user_their_own() {
        assert_eq!(found("a.example", None), pair("anna", "'s#1"));
        assert_eq!(found("A.example", Some("bob")), pair("bob", "two"));
        assert_eq!(found("b.example", None), pair("an na", "with \"space\""));
        assert_eq!(found("a.example", Some("carl")), None, "nobody else's password is sent");
        assert_eq!(found("c.example", None), None, "what a macro says is no entry");
        assert_eq!(found("d.example", None), None);
        assert_eq!(found("d.example", Some("anybody")), pair("anybody", "shared"));
    }

    #[test]
    fn an_entry_without_its_words_is_none() {
        for text in ["", "machine", "machine h", "machine h password x", "login a password b", "machine h login"] {
            assert!(find(text, "h", None).is_none(), "{text}");
        }
        assert!(find("machine h password x", "h", Some("u")).is_some_and(|entry| entry.user == "u"));
        assert!(find("machine h login a", "h", None).is_some_and(|entry| entry.password.is_none()));
    }
}
