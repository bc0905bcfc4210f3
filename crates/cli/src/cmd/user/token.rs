//! `xdfs user token`: a login with limits, for a program. Its text is shown once and not stored.

use xdfs_client::ErrorKind;
use xdfs_io::store::create_named;
use xdfs_proto::base::RelPath;
use xdfs_secure::identity::{KeyPair, write_token};
use xdfs_secure::policy::Scope;
use xdfs_server::users::AccountToken;

use super::list::opened;
use super::{edit, edit_nothing, open, tell_if_revoked};
use crate::args::UserTokenArgs;
use crate::exit::{Exit, Failure, HELP};
use crate::output::{complain, print};
use crate::text::printable_path;
use crate::url::{decode, is_export_name};
use crate::{calendar, state};

/// Makes a token and prints it.
pub(super) fn run(args: &UserTokenArgs) -> Result<Exit, Failure> {
    let scope = scope_of(args)?;
    // Before a file is made for a user who does not exist.
    edit_nothing(&args.state, &args.name)?;
    let pair = KeyPair::generate().map_err(|error| Failure::local(&error.into()))?;
    let text = write_token(&pair);
    if let Some(path) = &args.out {
        let content = xdfs_secure::Zeroizing::new(format!("{}\n", *text));
        create_named(path, content.as_bytes(), 0o600).map_err(|error| match error.kind {
            ErrorKind::AlreadyExists => {
                let message = format!("{}: it exists already\nhelp: name a new file", printable_path(path));
                Failure::new(Exit::Exists, message)
            }
            _ => Failure::local(&error),
        })?;
    }
    let token = AccountToken { key: pair.public(), scope: scope.clone() };
    let revoked = edit(&args.state, &args.name, |account| {
        account.tokens.push(token);
        Ok(account.revoked)
    })?;
    if args.out.is_none() {
        print(&format!("{}\n", *text))?;
    }
    let fingerprint = pair.public().fingerprint();
    complain(&format!("token {fingerprint} of {} {}", args.name, opened(&scope, calendar::now())));
    tell_if_revoked(&args.name, revoked, &args.state);
    tell_if_unknown(args, &fingerprint.to_string())?;
    Ok(Exit::Done)
}

/// A token for an export that no server offers opens nothing: perhaps its name was mistyped.
fn tell_if_unknown(args: &UserTokenArgs, fingerprint: &str) -> Result<(), Failure> {
    let Some(offered) = open(&args.state)?.recorded_exports().filter(|offered| !offered.contains(&args.export)) else {
        return Ok(());
    };
    let option = state::option(args.state.state.as_deref());
    complain(&format!(
        "the server that was started here last offers no export '{}'; it offers {}{HELP}if the name is wrong, take the token back: \
         xdfs user revoke {} --key {fingerprint}{option}",
        args.export,
        offered.join(", "),
        args.name
    ));
    Ok(())
}

fn scope_of(args: &UserTokenArgs) -> Result<Scope, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    if !is_export_name(&args.export) {
        return Err(usage(format!("--export {}: this is no export's name", args.export.escape_default())));
    }
    let shown = args.path.escape_default();
    let bytes =
        decode(args.path.trim_matches('/').as_bytes()).map_err(|fault| usage(format!("--path {shown}: {fault}")))?;
    let path = RelPath::parse(&bytes).map_err(|error| usage(format!("--path {shown}: {error}")))?;
    let until = args.expires.from(calendar::now());
    if until <= calendar::now() {
        return Err(usage("--expires: that day is over: the token would have run out when it is made".to_owned()));
    }
    Ok(Scope { export: args.export.clone(), path, write: args.write, until })
}
