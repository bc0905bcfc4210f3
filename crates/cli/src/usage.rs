//! Reads the command line, and reports errors in it in this program's own words.
//!
//! Help and version are not errors: they go to standard output and end with 0.

mod wording;

use std::ffi::OsString;
use std::io::Write;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use crate::args::Cli;
use crate::exit::{Exit, Failure};
use crate::text::printable;

use self::wording::Typed;

/// Commands of the design that do not exist yet, and the feature that each comes with.
const LATER: &[(&str, &[&str])] = &[("tuning", &["tune"])];

/// Commands that people look for here, and what does it.
const ELSEWHERE: &[(&str, &str)] = &[
    ("umount", "'umount DIR' or 'fusermount3 -u DIR' ends a mount"),
    ("unmount", "'umount DIR' or 'fusermount3 -u DIR' ends a mount"),
    ("copy", "'xdfs cp' copies"),
    ("rmdir", "'xdfs rm -r URL' removes a directory with all in it; no command removes only an empty one"),
    ("get", "'xdfs cp URL .' fetches a file"),
    ("put", "'xdfs cp FILE URL' sends a file"),
    ("scp", "'xdfs cp FILE ssh:HOST:path' copies as scp does"),
    ("rsync", "'xdfs sync DIR URL' sends what changed"),
];

/// Commands of a command by other names.
const SYNONYMS: &[(&str, &[&str], &str)] = &[
    ("xdfs user", &["del", "delete", "rm", "remove"], "revoke"),
    ("xdfs trust", &["del", "delete", "rm", "remove"], "forget"),
    ("xdfs trust", &["add"], "pin"),
    ("xdfs key", &["generate", "gen", "new", "add"], "create"),
];

/// A word with more mistakes than these is another word.
const TYPING_ERRORS_MAX: usize = 2;

/// Parses the command line; a failure if that is impossible, or if it requested help.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, Failure> {
    let words: Vec<OsString> = words.into_iter().collect();
    Cli::try_parse_from(&words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => print(&error, Exit::Done),
        // An empty command line prints the help, and is no success.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => print(&error, Exit::Usage),
        ErrorKind::InvalidSubcommand => unknown_command(&error, &words),
        _ => complain(&error, &words),
    })
}

fn print(error: &clap::Error, exit: Exit) -> Failure {
    // Requested output goes to standard output, the rest to standard error; a pipe gets no colours.
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    match printed {
        Ok(()) => Failure::new(exit, ""),
        Err(error) => Failure::from_output(&error),
    }
}

fn unknown_command(error: &clap::Error, words: &[OsString]) -> Failure {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return complain(error, words);
    };
    let Typed { command, path, .. } = Typed::of(Cli::command(), words);
    let present: Vec<&str> =
        command.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name).collect();
    let instead = ELSEWHERE.iter().find(|(other, _)| path == "xdfs" && other == name);
    if let Some((_, instead)) = instead {
        return Failure::new(Exit::Usage, format!("there is no command '{name}'")).help(instead);
    }
    let later = LATER.iter().find(|(_, names)| path == "xdfs" && names.contains(&name.as_str()));
    let reason = later.map_or(String::new(), |(with, _)| format!(" (it comes with {with})"));
    let shown = printable(name.as_bytes());
    let (typed, has) = match path.strip_prefix("xdfs ") {
        Some(above) => (format!("{above} {shown}"), format!("'{path}' has")),
        None => (shown, "it has".to_owned()),
    };
    let message = format!("there is no command '{typed}' in this version{reason}; {has} {}", present.join(", "));
    let failure = Failure::new(Exit::Usage, message);
    let synonym = SYNONYMS.iter().find(|(above, names, _)| path == *above && names.contains(&name.as_str()));
    if let Some((.., meant)) = synonym {
        return failure.help(format!("did you mean '{path} {meant}'? '{path} --help' explains them"));
    }
    let alike = present.iter().map(|present| (distance(name, present), present)).min();
    let alike = alike
        .filter(|(distance, _)| *distance <= if name.len() > 3 { TYPING_ERRORS_MAX } else { 1 })
        .map(|(_, alike)| alike);
    match alike.filter(|_| later.is_none()) {
        Some(alike) => failure.help(format!("did you mean '{path} {alike}'? '{path} --help' explains them")),
        None => failure.help(format!("'{path} --help' explains them")),
    }
}

/// How many letters were mistyped, left out, added or exchanged with the next one to write `typed` for
/// `meant`.
fn distance(typed: &str, meant: &str) -> usize {
    let (typed, meant) = (typed.as_bytes(), meant.as_bytes());
    if typed.len().abs_diff(meant.len()) > TYPING_ERRORS_MAX {
        return usize::MAX;
    }
    let (mut before, mut row) = (Vec::new(), (0..=meant.len()).collect::<Vec<_>>());
    for (line, letter) in typed.iter().enumerate() {
        let mut next = vec![line + 1];
        for (column, other) in meant.iter().enumerate() {
            let mut least = (row[column] + usize::from(letter != other)).min(row[column + 1] + 1).min(next[column] + 1);
            let is_exchanged = line > 0 && column > 0 && typed[line - 1] == *other && meant[column - 1] == *letter;
            if is_exchanged {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[meant.len()]
}

fn complain(error: &clap::Error, words: &[OsString]) -> Failure {
    match secret_as_argument(error) {
        Some(instead) => Failure::new(Exit::Usage, instead),
        None => Typed::of(Cli::command(), words).failure(error),
    }
}

/// The alternative to an option that would take a secret; the secret is not repeated.
fn secret_as_argument(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidArg) else { return None };
    match (error.kind(), name.as_str()) {
        (ErrorKind::UnknownArgument, "--token") => Some(
            "--token: a token is never an argument, since everybody on the machine could read it\nhelp: put it into a \
             file that nobody else may read and name that in XDFS_TOKEN_FILE",
        ),
        (ErrorKind::UnknownArgument, "--password") => Some(
            "--password: a password is never an argument, since everybody on the machine could read it\nhelp: it is asked \
             for on a terminal, and --password-file names a file with it",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign;

    #[test]
    fn a_secret_that_is_typed_as_an_argument_is_not_repeated() {
        for line in ["xdfs cp --token CANARY a xdfs://h/e/f", "xdfs stat --password=CANARY xdfs://h/e/f"] {
            let failure = failure(line);
            assert_eq!(failure.exit, Exit::Usage);
            assert!(
                failure.message.contains("never an argument") && !failure.message.contains("CANARY"),
                "{}",
                failure.message
            );
        }
    }

    #[test]
    fn an_option_of_another_program_is_answered_with_the_name_of_ours() {
        for (line, parts) in [
            ("xdfs cp -rz a b", &["-z: ", "does not compress"][..]),
            ("xdfs sync --compress a b", &["--compress: ", "does not compress"]),
            ("xdfs sync --partial a b", &["--partial: ", "resumes", "without an option"]),
            (
                "xdfs cp -rP a b c",
                &["--channels a: this is no whole number", "number of parallel channels", "xdfs://HOST:PORT"],
            ),
            ("xdfs sync --progress a b", &["shown on a terminal without an option"]),
            ("xdfs cp -e ssh a b", &["-e: ", "--ssh COMMAND"]),
            ("xdfs cp --delete a b", &["--delete: ", "xdfs sync"]),
            ("xdfs sync --delete-after a b", &["write --delete:"]),
            ("xdfs ls -i key a", &["-i: ", "--identity FILE"]),
            ("xdfs cp --port=22 a b", &["--port: ", "written in the URL"]),
            ("xdfs ls -P 22 xdfs://h/e", &["-P: 'xdfs ls' has no such option\nhelp: ", "xdfs://HOST:PORT/EXPORT/path"]),
            ("xdfs serve --port 2800", &["--port: 'xdfs serve'", "--listen '[::]:2800'"]),
            ("xdfs serve -p 2800", &["-p: 'xdfs serve'", "--listen '[::]:2800'"]),
            ("xdfs cp -o Port=22 a b", &["-o: ", "--ssh 'ssh -o NAME=VALUE'"]),
            ("xdfs cp -l 100 a b", &["-l: ", "--bwlimit RATE"]),
            (
                "xdfs chmod -R 755 xdfs://h/e/d",
                &["-R: 'xdfs chmod' has no such option\nhelp: ", "xdfs find URL -print0 |"],
            ),
            ("xdfs touch -R xdfs://h/e/d", &["-R: ", "xdfs find URL -print0 | xargs -0 xdfs touch"]),
            ("xdfs touch -r a xdfs://h/e/d", &["-r: ", "xdfs touch -d @$(stat -c %Y FILE) URL"]),
            ("xdfs ls -1 xdfs://h/e", &["-1: ", "a line of its own without an option"]),
            (
                "xdfs sync --port 2800 a b",
                &["--port: ", "help: a port is written in the URL, as in xdfs://HOST:PORT/EXPORT/path"],
            ),
            ("xdfs sync -H a b", &["-H: ", "help: -a keeps owners, hard links"]),
            ("xdfs cp -p a b", &["-p: ", "help: permissions and times are kept by -r"]),
            ("xdfs ls -lt xdfs://h/e", &["-t: ", "by name alone; --json"]),
            ("xdfs du -s xdfs://h/e", &["-s: ", "without an option"]),
            ("xdfs sync -i a b", &["-i: ", "-n prints what would be done, -v names each file"]),
            ("xdfs sync --no-perms a b", &["--no-perms: ", "help: permissions, times and links are kept by -r"]),
            ("xdfs sync --no-perm a b", &["--no-perm: ", "help: 'xdfs sync --help' lists the options there are"]),
            ("xdfs cp --no-clober a b", &["did you mean --no-clobber?"]),
            (
                "xdfs lock xdfs://h/e/l make -j",
                &["'make': ", "help: write '--' before the command: xdfs lock URL -- make"],
            ),
            ("xdfs cp -H a b", &["-H: ", "-a keeps owners"]),
        ] {
            let failure = failure(line);
            assert_eq!(failure.exit, Exit::Usage, "{line}");
            for part in parts {
                assert!(failure.message.contains(part), "{line}: {part}: {}", failure.message);
            }
        }
    }

    #[test]
    fn no_tip_takes_an_option_for_a_file() {
        for line in ["xdfs cp --frobnicate a b", "xdfs ls --frobnicate a", "xdfs sync -Z a b"] {
            let failure = failure(line);
            assert!(!failure.message.contains("as a value"), "{line}: {}", failure.message);
            assert!(failure.message.contains("has no such option\nhelp: "), "{line}: {}", failure.message);
        }
    }

    /// The options of rsync 3.2, but for those of its daemon and of batches.
    const RSYNC: &str = "-v --verbose --info --stats -q --quiet -c --checksum -a --archive -r --recursive -R --relative \
        --no-implied-dirs -b --backup --backup-dir --suffix -u --update --inplace --append --append-verify -d --dirs \
        --mkpath -l --links -L --copy-links --copy-unsafe-links --safe-links --munge-links -k --copy-dirlinks -K \
        --keep-dirlinks -H --hard-links -p --perms -E --executability --chmod -A --acls -X --xattrs -o --owner -g --group \
        --devices --specials -D -t --times --atimes --omit-dir-times -O --super --fake-super -S --sparse --preallocate -n \
        --dry-run -W --whole-file -x --one-file-system -B --block-size -e --rsh --rsync-path --existing \
        --ignore-non-existing --ignore-existing --remove-source-files --del --delete --delete-before --delete-during \
        --delete-delay --delete-after --delete-excluded --ignore-errors --force --max-delete --max-size --min-size \
        --partial --partial-dir --delay-updates -m --prune-empty-dirs --numeric-ids --usermap --groupmap --chown --timeout \
        --contimeout -I --ignore-times --size-only --modify-window -T --temp-dir -y --fuzzy --compare-dest --copy-dest \
        --link-dest -z --compress --compress-choice --compress-level --skip-compress -C --cvs-exclude -f --filter --exclude \
        --exclude-from --include --include-from --files-from -0 --from0 -s --protect-args --port -8 --8-bit-output \
        --human-readable --progress -P -i --itemize-changes --out-format --log-file --list-only --bwlimit -4 --ipv4 -6 \
        --ipv6 --iconv";

    const CP: &str = "-a --archive --attributes-only -b --backup -d -f --force -i --interactive -H -l --link -L --dereference \
        -n --no-clobber -P --no-dereference -p --preserve --parents -R -r --recursive --reflink --remove-destination \
        --sparse -s --symbolic-link -S --suffix -t --target-directory -T --no-target-directory -u --update -v --verbose -x \
        --one-file-system -Z";

    const SCP: &str = "-3 -4 -6 -A -B -C -c -F -i -J -l -O -o -P -p -q -r -S -T -v";

    #[test]
    fn every_option_of_the_usual_programs_is_ours_or_has_an_answer() {
        let root = Cli::command();
        for (command, options) in [("sync", RSYNC), ("cp", CP), ("cp", SCP)] {
            let ours = root.find_subcommand(command).expect("it is there");
            let is_ours = |name: &str| {
                ours.get_arguments().any(|argument| {
                    argument.get_short().is_some_and(|letter| name == format!("-{letter}"))
                        || argument.get_long().is_some_and(|long| name == format!("--{long}"))
                })
            };
            let unanswered: Vec<_> = options
                .split_ascii_whitespace()
                .filter(|name| !is_ours(name) && foreign::answer(command, name).is_none())
                .collect();
            assert!(unanswered.is_empty(), "{command}: {unanswered:?}");
        }
    }

    #[test]
    fn no_answer_is_about_an_option_that_there_is() {
        let root = Cli::command();
        for command in ["cp", "sync"] {
            for argument in root.find_subcommand(command).expect("it is there").get_arguments() {
                let short = argument.get_short().map(|letter| format!("-{letter}"));
                let long = argument.get_long().map(|name| format!("--{name}"));
                for name in short.into_iter().chain(long) {
                    assert_eq!(foreign::answer(command, &name), None, "{command} {name}");
                }
            }
        }
    }

    #[test]
    fn every_mistake_is_told_as_a_cause_and_a_remedy() {
        let cp = "\nhelp: for example xdfs cp image.bin xdfs://localhost/data/\nhelp: 'xdfs cp --help' explains it";
        let sync =
            "\nhelp: for example xdfs sync photos xdfs://anna@host/data/photos\nhelp: 'xdfs sync --help' explains it";
        for (line, message) in [
            ("xdfs cp", format!("'xdfs cp': SOURCE and TARGET are missing{cp}")),
            ("xdfs cp x", format!("'xdfs cp': TARGET is missing{cp}")),
            ("xdfs sync x", format!("'xdfs sync': TARGET is missing{sync}")),
            ("xdfs sync a b c", format!("'c': 'xdfs sync' takes only SOURCE and TARGET{sync}")),
            (
                "xdfs sync --max-delete 5 a xdfs://h/e",
                "--max-delete: it means nothing without --delete\nhelp: add --delete, or leave --max-delete out".to_owned(),
            ),
            (
                "xdfs cp --progress photos a b",
                "--progress photos: WHAT is none, total or channels\nhelp: progress is shown on a terminal without an \
                 option; --progress none turns it off"
                    .to_owned(),
            ),
            ("xdfs cp --block", "--block: SIZE is missing after it\nhelp: 'xdfs cp --help' explains it".to_owned()),
            (
                "xdfs cp --recursiv a b",
                "--recursiv: 'xdfs cp' has no such option\nhelp: did you mean --recursive? 'xdfs cp --help' explains it"
                    .to_owned(),
            ),
            ("xdfs key show --host --all", "--host and --all cannot be used together\nhelp: leave ".to_owned()),
            ("xdfs cp --retry 1 --retry 2 a b", "--retry: it is given more than once\nhelp: give it once".to_owned()),
            ("xdfs find", "'xdfs find': URL is missing\nhelp: for example xdfs find xdfs://".to_owned()),
            ("xdfs user add", "'xdfs user add': NAME is missing\nhelp: ".to_owned()),
            ("xdfs serve /srv/data", "'/srv/data': 'xdfs serve' takes only options\nhelp: for example xdfs ".to_owned()),
            ("xdfs serve", "'xdfs serve': --export NAME=DIR[:ro|:rw] is missing\nhelp: for example xdfs ".to_owned()),
        ] {
            let told = failure(line).message;
            assert!(told.starts_with(&message), "{line}: {told}");
            assert!(!told.contains("Usage:") && !told.contains("For more information"), "{line}: {told}");
        }
    }

    fn failure(line: &str) -> Failure {
        parse(line.split_whitespace().map(OsString::from)).expect_err(line)
    }

    #[test]
    fn the_definition_of_the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The commands among the examples of a help; the text after two blanks describes them.
    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| line.starts_with("xdfs "));
        let mut all: Vec<String> = lines.filter_map(|line| line.split("  ").next()).map(str::to_owned).collect();
        all.extend(command.get_subcommands().flat_map(examples));
        all
    }

    #[test]
    fn every_example_of_a_help_is_a_command_that_can_be_typed() {
        let examples = examples(&Cli::command());
        assert!(examples.len() > 40, "{}", examples.len());
        for line in examples {
            // A shell pipe starts another command.
            let words = line.split(" | ").next().unwrap_or_default().split_whitespace();
            let words = words.map(|word| OsString::from(word.trim_matches('\'')));
            // Unrequested help is an error here, too.
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn an_unknown_command_is_told_which_ones_exist() {
        for (line, part) in [
            (
                "xdfs frobnicate",
                "no command 'frobnicate' in this version; it has serve, cp, sync, stat, sum, ls, find, mkdir, mkfifo, rm, mv, ln, \
                 chmod, touch, cat, lock, mount, du, df, demo, user, key, trust",
            ),
            (
                "xdfs tune xdfs://h/e",
                "no command 'tune' in this version (it comes with tuning); it has serve, cp, sync",
            ),
            (
                "xdfs user remove anna",
                "no command 'user remove' in this version; 'xdfs user' has add, key, password, token, list, revoke, restore\n\
                 help: did you mean 'xdfs user revoke'? 'xdfs user --help' explains them",
            ),
            ("xdfs trust add", "no command 'trust add' in this version; 'xdfs trust' has list, pin, forget\nhelp: "),
            ("xdfs key generate", "no command 'key generate' in this version; 'xdfs key' has create, show, trust,"),
            ("xdfs user mount", "no command 'user mount' in this version; 'xdfs user' has"),
        ] {
            let failure = failure(line);
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.message.contains(part), "{line}: {}", failure.message);
        }
    }

    #[test]
    fn a_mistyped_command_is_answered_with_the_one_that_is_like_it() {
        for (line, like) in [
            ("xdfs cpp a b", "did you mean 'xdfs cp'? 'xdfs --help'"),
            ("xdfs sycn a b", "did you mean 'xdfs sync'?"),
            ("xdfs user del anna", "did you mean 'xdfs user revoke'?"),
            ("xdfs user rm anna", "did you mean 'xdfs user revoke'?"),
            ("xdfs trust delete h", "did you mean 'xdfs trust forget'?"),
            (
                "xdfs rmdir xdfs://h/e/d",
                "'xdfs rm -r URL' removes a directory with all in it; no command removes only an empty one",
            ),
            ("xdfs user ad anna", "did you mean 'xdfs user add'?"),
            ("xdfs key creat", "did you mean 'xdfs key create'?"),
        ] {
            let message = failure(line).message;
            assert!(message.contains(&format!("\nhelp: {like}")), "{line}: {message}");
        }
        for line in ["xdfs frobnicate", "xdfs umount x", "xdfs tune x"] {
            assert!(!failure(line).message.contains("did you mean"), "{line}");
        }
    }

    #[test]
    fn no_command_of_a_later_version_exists_already() {
        let root = Cli::command();
        for name in LATER.iter().flat_map(|(_, names)| *names) {
            assert!(
                root.get_subcommands().all(|command| command.get_name() != *name),
                "{name} exists: take it off the list"
            );
        }
    }

    #[test]
    fn a_bad_value_names_the_option_and_the_reason() {
        for (line, option, reason) in [
            ("xdfs cp -b 1X a b", "--block", "no unit 'X'"),
            ("xdfs cp --offset -1 a b", "-1", ""),
            ("xdfs cp --length 1.5G a b", "--length", "whole number"),
            ("xdfs cp -P 0 a b", "--channels", "1..=4096"),
            ("xdfs cp -P 4097 a b", "--channels", "1..=4096"),
            ("xdfs cp --protection secret a b", "--protection", "private, integrity or clear"),
            ("xdfs cp a", "TARGET", ""),
            ("xdfs serve", "--export", ""),
            ("xdfs cp --frob a b", "--frob", ""),
        ] {
            let failure = failure(line);
            assert_eq!(failure.exit, Exit::Usage, "{line}");
            assert!(
                failure.message.contains(option) && failure.message.contains(reason),
                "{line}: {}",
                failure.message
            );
            assert!(!failure.message.starts_with("error"), "{line}");
        }
    }
}
