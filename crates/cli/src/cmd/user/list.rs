//! `xdfs user list`: who may log in, and how.

use serde::Serialize;
use xdfs_client::Error;
use xdfs_secure::policy::Scope;
use xdfs_server::users::{Account, AccountToken, Accounts, StateFolder};

use crate::args::UserListArgs;
use crate::exit::{Exit, Failure, HELP};
use crate::output::{JsonLines, complain, print};
use crate::text::{printable, printable_path};
use crate::{calendar, state};

/// A user, as `--json` shows it.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename = "user")]
struct UserLine<'a> {
    name: &'a str,
    revoked: bool,
    password: bool,
    keys: Vec<KeyOf>,
    tokens: Vec<TokenOf>,
}

#[derive(Serialize, Debug)]
struct KeyOf {
    fingerprint: String,
    comment: String,
}

#[derive(Serialize, Debug)]
struct TokenOf {
    fingerprint: String,
    export: String,
    path: String,
    write: bool,
    expires: u64,
    expired: bool,
}

/// Shows all users.
pub(super) fn run(args: &UserListArgs) -> Result<Exit, Failure> {
    let folder = state::folder(args.state.state.as_deref())?;
    let failed = |error: Error| Failure::local(&error);
    let (accounts, missing) = match StateFolder::open(&folder).map_err(failed)? {
        Some(state) => (state.accounts().map_err(failed)?, String::new()),
        None => (Accounts::default(), format!("there is no folder {}: ", printable_path(&folder))),
    };
    let now = calendar::now();
    for (name, account) in accounts.iter() {
        if args.json {
            JsonLines.write(&line_of(name, account, now))?;
        } else {
            print(&describe(name, account, now))?;
        }
    }
    if accounts.iter().next().is_none() {
        let typed = args.state.state.as_deref();
        let service = state::of_service(typed, "user list").map(|text| format!("{HELP}{text}")).unwrap_or_default();
        complain(&format!(
            "{missing}nobody may log in yet{service}{HELP}add somebody with 'xdfs user add NAME --key FILE.pub{}'",
            state::option(typed)
        ));
    }
    Ok(Exit::Done)
}

fn line_of<'a>(name: &'a str, account: &Account, now: u64) -> UserLine<'a> {
    let keys = account
        .keys
        .iter()
        .map(|named| KeyOf { fingerprint: named.key.fingerprint().to_string(), comment: named.comment.clone() });
    let tokens = account.tokens.iter().map(|token| TokenOf {
        fingerprint: token.key.fingerprint().to_string(),
        export: token.scope.export.clone(),
        path: printable(token.scope.path.as_bytes()),
        write: token.scope.write,
        expires: token.scope.until,
        expired: now >= token.scope.until,
    });
    let password = account.password.is_some();
    UserLine { name, revoked: account.revoked, password, keys: keys.collect(), tokens: tokens.collect() }
}

fn describe(name: &str, account: &Account, now: u64) -> String {
    let mut text = name.to_owned();
    if account.revoked {
        text.push_str(" (revoked)");
    }
    text.push('\n');
    for named in &account.keys {
        let comment = printable(named.comment.as_bytes());
        text.push_str(format!("  key       {}  {comment}", named.key.fingerprint()).trim_end());
        text.push('\n');
    }
    if account.password.is_some() {
        text.push_str("  password\n");
    }
    for AccountToken { key, scope } in &account.tokens {
        text.push_str(&format!("  token     {}  {}\n", key.fingerprint(), opened(scope, now)));
    }
    text
}

/// What a token gives access to, and until when.
pub(super) fn opened(scope: &Scope, now: u64) -> String {
    let verb = if scope.write { "reads and writes" } else { "reads" };
    let path = if scope.path.is_root() { String::new() } else { format!("/{}", printable(scope.path.as_bytes())) };
    let ends = if now >= scope.until { "ran out" } else { "until" };
    format!("{verb} {}{path}, {ends} {} UTC", scope.export, calendar::shown_unsigned(scope.until))
}

#[cfg(test)]
mod tests {
    use xdfs_proto::base::RelPath;
    use xdfs_secure::identity::openssh::NamedKey;
    use xdfs_secure::policy::PublicKey;

    use super::*;

    #[test]
    fn a_user_is_described_with_what_logs_them_in() {
        let key = PublicKey([1; 32]);
        let scope =
            Scope { export: "data".to_owned(), path: RelPath::parse(b"a/b").unwrap(), write: true, until: 86_400 };
        let account = Account {
            revoked: true,
            keys: vec![NamedKey { key, comment: "anna\u{1b}[2J".to_owned() }],
            tokens: vec![AccountToken { key, scope }],
            ..Account::default()
        };
        let fingerprint = key.fingerprint();
        let text = describe("anna", &account, 0);
        assert_eq!(
            text,
            format!(
                "anna (revoked)\n  key       {fingerprint}  anna\\u{{1b}}[2J\n  token     {fingerprint}  reads and \
                 writes data/a/b, until 1970-01-02 00:00:00 UTC\n"
            )
        );
        assert!(describe("anna", &account, 86_400).contains("ran out 1970-01-02"));
        let line = serde_json::to_value(line_of("anna", &account, 86_400)).unwrap();
        assert_eq!((&line["event"], &line["tokens"][0]["expired"]), (&"user".into(), &true.into()));
    }
}
