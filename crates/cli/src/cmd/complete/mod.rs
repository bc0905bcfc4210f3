//! `xdfs complete`: the names on servers that go on where a command line ends, for the scripts in
//! docs/completions.
//!
//! Nobody is asked and nothing is said: who presses TAB has not decided anything yet. What cannot be
//! listed soon, or not without a question, has no names. All names that fit are told or none: a shell
//! inserts what they have in common.

mod bash;
mod names;
mod place;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use clap::CommandFactory;

use self::bash::Line;
use crate::args::{AskingShell, Cli, CompleteArgs};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::plan::LoginPlan;
use crate::state;

/// Longest time for names: who presses TAB waits.
const DEADLINE: Duration = Duration::from_secs(2);

/// The program that connects to a host of ssh, which does not wait longer either.
const SSH: &str = "ssh -o ConnectTimeout=2";

/// Runs the command.
pub(crate) fn run(args: &CompleteArgs) -> Result<Exit, Failure> {
    be_silent();
    let (tell, told) = sync_channel(1);
    let words: Vec<Vec<u8>> = args.words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let shell = args.shell;
    let listing = move || {
        // Nobody waits for it after the deadline.
        let tell = |candidates| drop(tell.send(candidates));
        let _ = complete_line(shell, &words, &tell);
    };
    if std::thread::Builder::new().name("xdfs-complete".to_owned()).spawn(listing).is_err() {
        return Ok(Exit::Done);
    }
    let end: &[u8] = if shell == AskingShell::Bash { b"\n" } else { b"\0" };
    let started = Instant::now();
    let candidates = told.recv_timeout(DEADLINE).unwrap_or_default();
    let text: Vec<u8> = candidates.into_iter().flat_map(|candidate| [&candidate[..], end].concat()).collect();
    // A shell that does not read has no use for them.
    let mut output = std::io::stdout();
    let _ = output.write_all(&text).and_then(|()| output.flush());
    // The session is closed meanwhile, so that the server does not log a lost one.
    let _ = told.recv_timeout(DEADLINE.saturating_sub(started.elapsed()));
    Ok(Exit::Done)
}

/// Messages of this process and of ssh would appear within the line that is being typed.
fn be_silent() {
    if let Ok(nothing) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stderr(&nothing);
    }
}

/// Receives names, once.
type Tell<'a> = &'a dyn Fn(Vec<Vec<u8>>);

/// Tells what may stand in place of the last word, or for bash of the text that it replaces.
fn complete_line(shell: AskingShell, words: &[Vec<u8>], tell: Tell<'_>) -> Option<()> {
    match (shell, words) {
        (AskingShell::Bash, [line, replaced]) => {
            let Line { words, last } = Line::read(line)?;
            let in_line =
                |names: Vec<Vec<u8>>| tell(names.iter().filter_map(|name| last.candidate(name, replaced)).collect());
            complete(&words, &last.value, &in_line)
        }
        (AskingShell::Bash, _) => None,
        (_, [before @ .., last]) => {
            // It takes what follows a tab for a description, and a line break for the end of a name.
            let cut = |name: &Vec<u8>| shell == AskingShell::Fish && name.iter().any(|byte| b"\t\n".contains(byte));
            let whole = |names: Vec<Vec<u8>>| tell(names.into_iter().filter(|name| !cut(name)).collect());
            complete(before, last, &whole)
        }
        (_, []) => None,
    }
}

/// Tells the words that `last`, behind the words of a command, may become.
fn complete(words: &[Vec<u8>], last: &[u8], tell: Tell<'_>) -> Option<()> {
    let command = std::str::from_utf8(words.get(1)?).ok()?;
    let definition = Cli::command();
    let logs_in =
        definition.find_subcommand(command)?.get_arguments().any(|option| option.get_long() == Some("identity"));
    if !logs_in || last.starts_with(b"-") {
        return None;
    }
    let login = LoginPlan { unattended: true, config: Config::read().ok()?, ..login(words) };
    names::fitting(last, login, tell)
}

/// What the words before say about the login.
fn login(words: &[Vec<u8>]) -> LoginPlan {
    let path = |option| value_of(option, words).map(path_of);
    let text = |option| value_of(option, words).and_then(|value| String::from_utf8(value).ok());
    let ssh = text("--ssh").or_else(|| std::env::var("XDFS_SSH").ok()).or_else(|| Some(SSH.to_owned()));
    LoginPlan {
        identity: path("--identity"),
        password_file: path("--password-file"),
        ca: path("--ca"),
        state: path("--state"),
        ssh,
        remote_command: text("--remote-command"),
        ..LoginPlan::default()
    }
}

/// The last value of an option.
fn value_of(option: &str, words: &[Vec<u8>]) -> Option<Vec<u8>> {
    let joined = format!("{option}=");
    words.iter().enumerate().rev().find_map(|(at, word)| {
        let next = (word == option.as_bytes()).then(|| words.get(at + 1).cloned()).flatten();
        next.or_else(|| word.strip_prefix(joined.as_bytes()).map(<[u8]>::to_vec))
    })
}

/// A path as the shell would give it to the command.
fn path_of(typed: Vec<u8>) -> PathBuf {
    match (typed.strip_prefix(b"~/"), state::home()) {
        (Some(below), Some(home)) => home.join(OsString::from_vec(below.to_vec())),
        _ => OsString::from_vec(typed).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn the_login_is_that_of_the_line() {
        let login = login(&words("xdfs cp --identity key --state=/s --identity=other --ssh x"));
        assert_eq!((login.identity, login.state), (Some("other".into()), Some("/s".into())));
        assert_eq!((login.ssh.as_deref(), login.ca), (Some("x"), None));
    }

    #[test]
    fn only_commands_that_connect_have_names_of_servers() {
        for line in ["xdfs", "xdfs user", "xdfs serve", "xdfs nonsense", "xdfs key"] {
            assert_eq!(complete(&words(line), b"xdfs://h/e/x", &|_| panic!("{line}")), None, "{line}");
        }
        assert_eq!(complete(&words("xdfs cp"), b"--identity", &|_| panic!("an option")), None);
    }
}
