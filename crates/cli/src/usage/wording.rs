//! Mistakes in a command line, in the form of every other error: the cause, which names the word that
//! is wrong or missing, and a remedy that can be pasted.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::{Exit, Failure};
use crate::foreign;
use crate::text::printable;

/// Options that mean nothing without another one: that one, and the option. The parser tells only what
/// is missing.
const NEEDED: &[(&str, &str)] = &[
    ("--delete", "--max-delete"),
    ("--archive", "--numeric-ids"),
    ("--certificate-key", "--certificate"),
    ("--certificate", "--certificate-key"),
    ("--stdio", "--ports"),
];

/// The command that was typed, with its path, such as `xdfs user add`.
pub(super) struct Typed {
    pub(super) command: clap::Command,
    pub(super) path: String,
    /// The examples of its help, and of those above it.
    examples: String,
}

impl Typed {
    /// Of these words: a command with subcommands accepts nothing else but its help.
    pub(super) fn of(root: clap::Command, words: &[OsString]) -> Self {
        let mut typed = Self { examples: examples(&root), command: root, path: "xdfs".to_owned() };
        for word in words.iter().skip(1) {
            match typed.command.find_subcommand(word) {
                Some(inner) => {
                    let path = format!("{} {}", typed.path, inner.get_name());
                    let examples = format!("{}\n{}", examples(inner), typed.examples);
                    typed = Self { command: inner.clone(), path, examples };
                }
                None => break,
            }
        }
        typed
    }

    /// The failure for a mistake that the parser found.
    pub(super) fn failure(&self, error: &clap::Error) -> Failure {
        let invalid = strings(error, ContextKind::InvalidArg);
        let first = invalid.first().map_or("", String::as_str);
        match error.kind() {
            ErrorKind::MissingRequiredArgument => self.missing(&invalid),
            ErrorKind::UnknownArgument => self.unknown(error, first),
            ErrorKind::InvalidValue | ErrorKind::ValueValidation => self.value(error, first),
            ErrorKind::ArgumentConflict => self.conflict(first, &strings(error, ContextKind::PriorArg)),
            _ => {
                let text = error.render().to_string();
                let text = text.strip_prefix("error: ").unwrap_or(&text);
                self.refused(text.lines().next().unwrap_or_default()).help(self.explained())
            }
        }
    }

    fn missing(&self, names: &[String]) -> Failure {
        let names: Vec<String> = names.iter().map(|name| plain(name)).collect();
        let needed = NEEDED.iter().find(|(needed, option)| names.contains(&(*needed).to_owned()) && self.has(option));
        if let (Some((needed, option)), [_]) = (needed, &names[..]) {
            return self
                .refused(format!("{option}: it means nothing without {needed}"))
                .help(format!("add {needed}, or leave {option} out"));
        }
        // Where the last of several names is the target, the parser misses a source.
        let positional: Vec<String> = self.positionals().collect();
        let of_positional = names.iter().filter(|name| !name.starts_with('-')).count();
        let (last, options) = (
            positional.iter().skip(positional.len().saturating_sub(of_positional)),
            names.iter().filter(|name| name.starts_with('-')),
        );
        let all: Vec<&str> = options.chain(last).map(String::as_str).collect();
        let verb = if all.len() == 1 { "is" } else { "are" };
        self.refused(format!("'{}': {} {verb} missing", self.path, listed(&all, "and"))).help(self.example())
    }

    fn unknown(&self, error: &clap::Error, word: &str) -> Failure {
        let shown = printable(word.as_bytes());
        if !word.starts_with('-') {
            let takes: Vec<String> = self.positionals().collect();
            let takes: Vec<&str> = takes.iter().map(String::as_str).collect();
            let takes = match &takes[..] {
                [] => "options".to_owned(),
                names => listed(names, "and"),
            };
            let failure = self.refused(format!("'{shown}': '{}' takes only {takes}", self.path));
            // The second word of a public key that was typed without quotes.
            if word.starts_with("AAAA") && ["trust pin", "key trust"].contains(&self.name()) {
                return failure.help(format!("a key has two words: put it in quotes, 'ssh-ed25519 {shown}'"));
            }
            if word.starts_with("AAAA") {
                return failure.help(format!(
                    "this is a public key itself; give it at standard input: echo 'ssh-ed25519 {shown}' | {} NAME --key -",
                    self.path
                ));
            }
            if self.name() == "lock" {
                return failure.help(format!("write '--' before the command: xdfs lock URL -- {shown}"));
            }
            return failure.help(self.example());
        }
        let failure = self.refused(format!("{shown}: '{}' has no such option", self.path));
        if let Some(instead) = foreign::answer(self.name(), word) {
            return failure.help(instead);
        }
        if word.trim_start_matches('-').starts_with(|first: char| first.is_ascii_digit()) {
            return failure
                .help("a value that begins with '-' is written behind '=', and a file of that name as ./-NAME");
        }
        match strings(error, ContextKind::SuggestedArg).iter().find(|like| is_like(word, like)) {
            Some(like) => failure.help(format!("did you mean {like}? {}", self.explained())),
            None => failure.help(format!("'{} --help' lists the options there are", self.path)),
        }
    }

    fn value(&self, error: &clap::Error, argument: &str) -> Failure {
        let value = strings(error, ContextKind::InvalidValue).pop().unwrap_or_default();
        let (option, form) = argument.split_once(' ').unwrap_or(("", argument));
        let form = plain(form);
        if value.is_empty() {
            return self.refused(format!("{option}: {form} is missing after it")).help(self.explained());
        }
        if let Some(instead) = foreign::answer(self.name(), &value).filter(|_| option.is_empty()) {
            let shown = printable(value.as_bytes());
            return self.refused(format!("{shown}: '{}' has no such option", self.path)).help(instead);
        }
        let subject = format!("{option} {}", printable(value.as_bytes()));
        let valid = strings(error, ContextKind::ValidValue);
        let valid: Vec<&str> = valid.iter().map(String::as_str).collect();
        let reason = match error.source() {
            Some(source) if source.is::<std::num::ParseIntError>() => "this is no whole number".to_owned(),
            Some(source) => source.to_string(),
            None => format!("{form} is {}", listed(&valid, "or")),
        };
        let failure = self.refused(format!("{}: {reason}", subject.trim_start()));
        match foreign::value_answer(option) {
            Some(answer) => failure.help(answer),
            None if reason.contains(crate::exit::HELP) => failure,
            None => failure.help(self.explained()),
        }
    }

    fn conflict(&self, option: &str, others: &[String]) -> Failure {
        let name = |argument: &str| plain(argument.split(' ').next().unwrap_or_default());
        let option = name(option);
        let others: Vec<String> = others.iter().map(|other| name(other)).filter(|other| *other != option).collect();
        if others.is_empty() {
            return self.refused(format!("{option}: it is given more than once")).help("give it once");
        }
        let mut all = vec![option.as_str()];
        all.extend(others.iter().map(String::as_str));
        self.refused(format!("{} cannot be used together", listed(&all, "and"))).help("leave all but one of them out")
    }

    fn refused(&self, cause: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, cause)
    }

    /// Its name without that of the program.
    fn name(&self) -> &str {
        self.path.strip_prefix("xdfs ").unwrap_or_default()
    }

    fn has(&self, option: &str) -> bool {
        self.command.get_arguments().any(|argument| argument.get_long() == option.strip_prefix("--"))
    }

    fn positionals(&self) -> impl Iterator<Item = String> {
        self.command.get_positionals().map(|argument| plain(&argument.to_string()))
    }

    /// A command that can be typed: the first of those in its help.
    fn example(&self) -> String {
        let start = format!("  {} ", self.path);
        let found = self.examples.lines().find(|line| line.starts_with(&start)).map(|line| line.trim().to_owned());
        match found.and_then(|line| line.split("  ").next().map(str::to_owned)) {
            Some(line) => format!("for example {line}\nhelp: {}", self.explained()),
            None => self.explained(),
        }
    }

    fn explained(&self) -> String {
        format!("'{} --help' explains it", self.path)
    }
}

/// Whether an option may be a mistyped other one: what begins with '--no-' is always like the next one
/// that does.
fn is_like(word: &str, like: &str) -> bool {
    match (word.strip_prefix("--no-"), like.strip_prefix("--no-")) {
        (Some(word), Some(like)) => super::distance(word, like) <= super::TYPING_ERRORS_MAX,
        _ => true,
    }
}

fn examples(command: &clap::Command) -> String {
    command.get_after_help().map(ToString::to_string).unwrap_or_default()
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[&str], last: &str) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [all @ .., end] => format!("{} {last} {end}", all.join(", ")),
    }
}

/// The name of an argument without the marks of the parser: `--export NAME=DIR` for `--export <NAME=DIR>`.
fn plain(argument: &str) -> String {
    let name = argument.trim_end_matches("...").replace(['<', '>'], "");
    name.strip_suffix(" [TEST]").unwrap_or(&name).to_owned()
}

fn strings(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}
