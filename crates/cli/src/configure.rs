//! Puts what the configuration file says into what was typed: `NAME:path` becomes a URL, and options
//! that were left out get the values of the server's entry.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::args::{Cli, Command, FindArgs, LoginArgs, MovingArgs, find_names as names_of};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::plan::PlanError;
use crate::stack;
use crate::text::{printable, printable_path, shell_word};
use crate::url::{Url, UrlError, Via, looks_like_url};

/// What was typed as names of files, for errors about it.
#[derive(Debug)]
pub(crate) struct Applied {
    words: Vec<OsString>,
    config: Config,
}

/// Applies the configuration file to a command that connects; others do not read it.
pub(crate) fn apply(typed: &mut Cli) -> Result<Applied, Failure> {
    let Some(Parts { mut words, moving, login }) = parts(&mut typed.command) else {
        return Ok(Applied { words: Vec::new(), config: Config::default() });
    };
    let config = Config::read()?;
    let mut first = None;
    for word in &mut words {
        let expanded = config.expand(word).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        **word = expanded.unwrap_or_else(|| word.clone());
        if first.is_none() && looks_like_url(word) {
            first = Url::parse_listed(word).ok().and_then(|url| config.find(&url));
        }
    }
    let words: Vec<OsString> = words.into_iter().map(|word| word.clone()).collect();
    let login = match moving {
        Some(moving) => {
            moving.channels = moving.channels.or(first.and_then(|host| host.channels));
            moving.protection = moving.protection.or(first.and_then(|host| host.protection));
            // FTP servers are copied to and from without a limit, and with one not at all.
            let is_ftp = |word: &OsString| Url::parse_listed(word).is_ok_and(|url| url.is_ftp());
            if !words.iter().any(is_ftp) {
                moving.bwlimit = moving.bwlimit.take().or(first.and_then(|host| host.bandwidth.clone()));
            }
            Some(&mut moving.login)
        }
        None => login,
    };
    if let Some(login) = login {
        login.config = config.clone();
        check_stack(login.stack.as_deref(), &words)?;
        check_ssh(login, &words)?;
    }
    Ok(Applied { words, config })
}

/// Refuses a stack that is none, and one for what has its own way to the server.
fn check_stack(stack: Option<&str>, words: &[OsString]) -> Result<(), Failure> {
    let Some(text) = stack else { return Ok(()) };
    stack::named("--stack", text)?;
    let other = |word: &&OsString| Url::parse_listed(word).is_ok_and(|url| url.via != Via::Port);
    match words.iter().filter(|word| looks_like_url(word)).find(other) {
        None => Ok(()),
        Some(word) => {
            let message = format!("--stack: {} makes its own connection", printable(word.as_encoded_bytes()));
            Err(Failure::new(Exit::Usage, message).help("leave --stack out, or name a server by xdfs://"))
        }
    }
}

/// Refuses what only servers of xdfs and FTP are shown, where ssh alone logs in.
fn check_ssh(login: &LoginArgs, words: &[OsString]) -> Result<(), Failure> {
    let urls = || words.iter().filter_map(|word| Url::parse_listed(word).ok());
    let Some(url) = urls().next().filter(|_| urls().all(|url| url.via == Via::Ssh)) else { return Ok(()) };
    let named = |path: &Option<PathBuf>| path.as_ref().map(|path| shell_word(&printable_path(path)));
    let (option, remedy) = if let Some(file) = named(&login.identity) {
        let quoted = if file.starts_with('\'') { "FILE".to_owned() } else { file };
        ("--identity", format!("name the key to ssh: --ssh 'ssh -i {quoted}'"))
    } else if login.password_file.is_some() {
        (
            "--password-file",
            "ssh asks for a password itself; without a question it takes a key: --ssh 'ssh -i FILE'".into(),
        )
    } else if login.ca.is_some() {
        ("--ca", "ssh knows the keys of its hosts itself: leave the option out".to_owned())
    } else {
        return Ok(());
    };
    let message = format!("{option}: to {url} ssh logs in, which does not read this");
    Err(Failure::new(Exit::Usage, message).help(remedy))
}

impl Applied {
    /// The failure for an error of the command line: where a word was perhaps meant as `NAME:path`,
    /// that is said.
    pub(crate) fn explain(&self, error: PlanError) -> Failure {
        let word = match &error {
            PlanError::NothingRemote { .. } => self.words.iter().find(|word| self.config.hint(word).is_some()).cloned(),
            PlanError::Url { url, fault: UrlError::Scheme } => Some(OsString::from(url)),
            _ => None,
        };
        match word.and_then(|word| Some((printable(word.as_encoded_bytes()), self.config.hint(&word)?))) {
            Some((word, hint)) => Failure::new(Exit::Usage, format!("{word}: {hint}")),
            None => error.into(),
        }
    }
}

/// The parts of a command that the file has something to say about.
struct Parts<'a> {
    words: Vec<&'a mut OsString>,
    /// The options of a copy, with those of the login.
    moving: Option<&'a mut MovingArgs>,
    /// Those of the login alone.
    login: Option<&'a mut LoginArgs>,
}

impl<'a> Parts<'a> {
    fn moving(words: Vec<&'a mut OsString>, moving: &'a mut MovingArgs) -> Option<Self> {
        Some(Self { words, moving: Some(moving), login: None })
    }

    fn of(words: Vec<&'a mut OsString>, login: &'a mut LoginArgs) -> Option<Self> {
        Some(Self { words, moving: None, login: Some(login) })
    }
}

fn parts(command: &mut Command) -> Option<Parts<'_>> {
    match command {
        Command::Cp(args) => {
            Parts::moving(args.sources.iter_mut().chain([&mut args.target]).collect(), &mut args.moving)
        }
        Command::Sync(args) => Parts::moving(vec![&mut args.source, &mut args.target], &mut args.moving),
        Command::Stat(args) => Parts::of(args.urls.iter_mut().collect(), &mut args.names.login),
        Command::Sum(args) => Parts::of(args.files.iter_mut().collect(), &mut args.login),
        Command::Ls(args) => Parts::of(args.urls.iter_mut().collect(), &mut args.names.login),
        Command::Find(args) => {
            let FindArgs { login, words } = args;
            Parts::of(names_of(words), login)
        }
        Command::Mkdir(args) => Parts::of(args.urls.iter_mut().collect(), &mut args.names.login),
        Command::Mkfifo(args) => Parts::of(args.urls.iter_mut().collect(), &mut args.names.login),
        Command::Rm(args) => Parts::of(args.urls.iter_mut().collect(), &mut args.names.login),
        Command::Mv(args) => Parts::of(vec![&mut args.source, &mut args.target], &mut args.names.login),
        // The text of a symbolic link is no name of a server.
        Command::Ln(args) => {
            let target = (!args.symbolic).then_some(&mut args.target);
            Parts::of(target.into_iter().chain([&mut args.url]).collect(), &mut args.names.login)
        }
        Command::Chmod(args) => Parts::of(args.urls.iter_mut().collect(), &mut args.names.login),
        Command::Touch(args) => Parts::of(args.urls.iter_mut().collect(), &mut args.names.login),
        Command::Cat(args) => Parts::of(args.urls.iter_mut().collect(), &mut args.login),
        Command::Lock(args) => Parts::of(vec![&mut args.url], &mut args.login),
        Command::Mount(args) => Parts::of(vec![&mut args.url], &mut args.login),
        Command::Du(args) => Parts::of(args.urls.iter_mut().collect(), &mut args.names.login),
        Command::Df(args) => Parts::of(args.urls.iter_mut().collect(), &mut args.names.login),
        Command::Serve(_)
        | Command::Demo(_)
        | Command::User(_)
        | Command::Key(_)
        | Command::Trust(_)
        | Command::Generate(_)
        | Command::Complete(_) => None,
    }
}
