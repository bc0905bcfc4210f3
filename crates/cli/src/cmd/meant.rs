//! What was probably meant by a URL that names nothing.

use xdfs_client::wire::Wanted;
use xdfs_proto::base::RelPath;

use super::remote::{Sessions, wire_name};
use crate::text::shell_word;
use crate::url::{FROM_HOME, FROM_ROOT, Url, Via, encode_component};

/// How to write what was meant by a URL that names nothing; the server is asked whether it has it.
pub(super) fn meant(url: &Url, sessions: &mut Sessions) -> Option<String> {
    if let Some(text) = of_home(url) {
        return Some(text);
    }
    let literal = literal(url)?;
    let (session, _) = sessions.with(&literal).ok()?;
    session.look(wire_name(&literal), Wanted::NOTHING).ok()?;
    let name = literal.path.name().unwrap_or_default().escape_ascii().to_string();
    Some(format!(
        "there is '{name}' there; in a URL %XX stands for one byte, and a '%' in a name is written %25: {}",
        shell_word(&literal.to_string())
    ))
}

/// A `~` that no shell has replaced.
fn of_home(url: &Url) -> Option<String> {
    let mut components = url.path.components();
    let first = components.next().filter(|_| url.via == Via::Ssh)?;
    let user = std::str::from_utf8(first.strip_prefix(b"~")?).ok()?;
    let rest: Vec<&[u8]> = components.collect();
    let path = RelPath::parse(&rest.join(&b'/')).unwrap_or_default();
    match (url.export.as_str(), user) {
        (FROM_ROOT, "") => {
            let home = Url { export: FROM_HOME.to_owned(), path, pattern: None, ..url.clone() };
            let home = if home.port == 0 { shell_word(&home.to_string()) } else { "ssh:HOST:path".to_owned() };
            Some(format!("a path in your home directory there is written without a slash: {home}"))
        }
        (_, user) if !user.is_empty() => Some(format!(
            "'~{user}' is not looked up there; write the whole path, as in ssh://{}/home/{user}/",
            url.host
        )),
        _ => None,
    }
}

/// The URL of the name that was typed, if every %XX of it stood for itself.
fn literal(url: &Url) -> Option<Url> {
    // Behind a colon nothing is decoded.
    let is_decoded = url.via == Via::Port || url.via == Via::Ssh && url.export == FROM_ROOT;
    let mut path = RelPath::default();
    for component in url.path.components() {
        path.push(encode_component(component).as_bytes()).ok()?;
    }
    (is_decoded && url.pattern.is_none() && path != url.path).then(|| Url { path, ..url.clone() })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(OsStr::new(text)).unwrap()
    }

    #[test]
    fn a_tilde_that_no_shell_replaces_is_answered_with_the_form_that_works() {
        for (typed, words) in [
            ("ssh://h/~/x", Some("ssh:h:x")),
            ("ssh://anna@h/~", Some("ssh:anna@h:")),
            ("ssh:h:~bert/x", Some("ssh://h/home/bert/")),
            ("ssh://h/~bert/x", Some("ssh://h/home/bert/")),
            ("ssh:h:./~/x", None),
            ("ssh://h/x/~", None),
            ("xdfs://h/data/~/x", None),
        ] {
            let told = of_home(&url(typed));
            assert_eq!(told.is_some(), words.is_some(), "{typed}: {told:?}");
            assert!(words.is_none_or(|words| told.is_some_and(|told| told.contains(words))), "{typed}");
        }
    }

    #[test]
    fn a_name_may_have_been_typed_with_what_was_decoded() {
        assert_eq!(literal(&url("xdfs://h/e/a%20b/c")), Some(url("xdfs://h/e/a%2520b/c")));
        assert_eq!(literal(&url("ssh://h/a%20b")), Some(url("ssh://h/a%2520b")));
        for plain in ["xdfs://h/e/a", "ssh:h:a%20b", "ssh:h:a b"] {
            assert_eq!(literal(&url(plain)), None, "{plain}");
        }
    }
}
