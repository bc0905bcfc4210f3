//! Signing policies: which names an authority may sign, as sites keep it beside its certificate.

use super::names::normal;

/// What a policy says of a name: whether it may be signed, or nothing of this authority.
pub(super) fn permits(policy: &str, authority: &str, subject: &str) -> Option<bool> {
    let (authority, subject) = (normal(authority), normal(subject));
    let mut found = None;
    let mut is_own = false;
    let mut may_sign = false;
    for line in policy.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let (keyword, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (kind, value) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest, ""));
        match keyword {
            "access_id_CA" => {
                is_own = kind == "X509" && normal(unquoted(value.trim())) == authority;
                may_sign = false;
                found = found.or(is_own.then_some(false));
            }
            "pos_rights" if is_own => may_sign = kind == "globus" && value.trim() == "CA:sign",
            "cond_subjects" if is_own && may_sign && kind == "globus" => {
                let matches = patterns(value.trim()).iter().any(|pattern| is_like(pattern, &subject));
                found = Some(found == Some(true) || matches);
            }
            _ => {}
        }
    }
    found
}

/// What quotes of either kind hold.
fn unquoted(text: &str) -> &str {
    for quote in ['\'', '"'] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|text| text.split(quote).next()) {
            return inner;
        }
    }
    text
}

/// The patterns of a condition: one, or several in quotes within quotes.
fn patterns(text: &str) -> Vec<String> {
    let Some(outer) = text.chars().next().filter(|letter| matches!(letter, '\'' | '"')) else {
        return vec![normal(text)];
    };
    let inner = text[1..].rsplit_once(outer).map_or(&text[1..], |(inner, _)| inner).trim();
    let quote = if outer == '\'' { '"' } else { '\'' };
    if !inner.starts_with(quote) {
        return vec![normal(inner)];
    }
    inner.split(quote).skip(1).step_by(2).map(normal).collect()
}

/// Whether a name is like a pattern, in which `*` stands for any text and `?` for one character.
fn is_like(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut next) = (0, 0);
    // Where the last star stands, and what it covers so far.
    let mut star: Option<(usize, usize)> = None;
    while next < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, next));
                at += 1;
            }
            Some(&letter) if letter == '?' || letter == name[next] => (at, next) = (at + 1, next + 1),
            _ => {
                let Some((back, covered)) = star else { return false };
                star = Some((back, covered + 1));
                (at, next) = (back + 1, covered + 1);
            }
        }
    }
    pattern[at..].iter().all(|&letter| letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "# comment\naccess_id_CA X509 '/O=Grid/CN=CA'\npos_rights globus CA:sign\n\
                          cond_subjects globus '\"/O=Grid/OU=a/*\" \"/O=Grid/CN=host/?\"'\n\
                          access_id_CA X509 \"/O=Other/CN=CA\"\npos_rights globus CA:sign\ncond_subjects globus '/O=*x/E=a'\n\
                          access_id_CA X509 '/O=No/CN=CA'\ncond_subjects globus '\"*\"'\n";

    #[test]
    fn a_policy_permits_what_its_patterns_cover_and_nothing_else() {
        for (authority, subject, permitted) in [
            ("/O=Grid/CN=CA", "/O=Grid/OU=a/CN=x", Some(true)),
            ("/O=Grid/CN=CA", "/O=Grid/CN=host/y", Some(true)),
            ("/O=Grid/CN=CA", "/O=Grid/CN=host/yy", Some(false)),
            ("/O=Grid/CN=CA", "/O=Grid/OU=b/CN=x", Some(false)),
            ("/O=Grid/CN=CA", "/O=Other/OU=a/CN=x", Some(false)),
            ("/O=Other/CN=CA", "/O=1x2x/emailAddress=a", Some(true)),
            ("/O=Other/CN=CA", "/O=1x2/emailAddress=a", Some(false)),
            // Without the right to sign the patterns do not count.
            ("/O=No/CN=CA", "/O=No/CN=x", Some(false)),
            ("/O=Unknown/CN=CA", "/O=Grid/OU=a/CN=x", None),
        ] {
            assert_eq!(permits(POLICY, authority, subject), permitted, "{authority} {subject}");
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic() {
        for text in ["access_id_CA", "access_id_CA X509 '", "cond_subjects globus \"", "'", "\"'\"'", "pos_rights\n\n"]
        {
            let policy =
                format!("access_id_CA X509 '/A'\npos_rights globus CA:sign\n{text}\ncond_subjects globus {text}");
            let _ = permits(&policy, "/A", "/B");
        }
    }
}
