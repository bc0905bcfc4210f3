//! What was typed about trees: behind `xdfs sync`, and behind `xdfs cp -r`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use super::MovingArgs;
use crate::exit::exit_codes;

const EXAMPLES: &str = concat!(
    "\
SOURCE and TARGET are directories, one of them xdfs://[user@]host[:port]/EXPORT/
path. TARGET is made where it is missing. A file that has the size and the
modification time of its source is left alone; the others are sent whole.

TARGET itself becomes like SOURCE, whatever slashes there are: 'sync photos
URL/backup' makes no URL/backup/photos, as rsync would. A TARGET that ends in '/'
behind a SOURCE that does not could mean either, and is refused with --delete.

Patterns are those of .gitignore: '*' and '?' stay within a name, '**' crosses
directories, a '/' at the start or within means from the top of SOURCE, one at
the end a directory. What rsync finds at any depth by 'build/out' is
'**/build/out', and what it leaves out by 'cache/***' is 'cache/'. The first
pattern that fits decides, in the order of the command line; what fits none is
taken. In a FILE of patterns, blank lines and those that begin with '#' or ';'
are skipped, and '+ ' or '- ' before a pattern turns one
line into --include or --exclude.

Examples:
  xdfs sync photos xdfs://anna@host/data/photos
  xdfs sync --delete -n photos xdfs://anna@host/data/photos
      what would be sent and removed
  xdfs sync --exclude '*.tmp' --exclude /cache/ xdfs://anna@host/data/work work
  xdfs sync --checksum xdfs://anna@host/data/photos photos
      compare contents, not times
  xdfs sync --exclude-from not-these.txt photos xdfs://anna@host/data/photos

",
    exit_codes!(),
);

/// Makes TARGET like SOURCE: sends what is missing or changed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SyncArgs {
    /// The directory to take from
    #[arg(value_name = "SOURCE")]
    pub(crate) source: OsString,

    /// The directory to make like it
    #[arg(value_name = "TARGET")]
    pub(crate) target: OsString,

    /// Change nothing; print what would be done
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    /// Compare files of the same size by content, not by modification time; both sides read them
    #[arg(short, long)]
    pub(crate) checksum: bool,

    /// Remove from TARGET what SOURCE does not have, when everything else went well. What is excluded stays. At the top of an
    /// export, and in your home directory, it needs --max-delete
    #[arg(long)]
    pub(crate) delete: bool,

    /// Remove nothing where more than N names would go; a directory counts once, with all in it
    #[arg(long, value_name = "N", requires = "delete")]
    pub(crate) max_delete: Option<u64>,

    /// Keep all that the server's export grants: owners, all mode bits, hard links, access control lists and extended
    /// attributes, special files; and holes, whose zeros cross the network but take no room
    #[arg(short, long)]
    pub(crate) archive: bool,

    #[command(flatten)]
    pub(crate) tree: TreeArgs,

    #[command(flatten)]
    pub(crate) moving: MovingArgs,
}

/// Which names of a tree are taken.
#[derive(Args, Debug)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    pub(crate) patterns: Patterns,

    /// A tree that is new at the target appears there whole or not at all. Until then it is beside it, under a name that begins
    /// with a dot; the same command goes on with it
    #[arg(long, help_heading = "Trees")]
    pub(crate) atomic: bool,

    /// With -a, keep owners and groups by number, not by name
    #[arg(long, requires = "archive", help_heading = "Trees")]
    pub(crate) numeric_ids: bool,

    /// Of a tree, take only the names in FILE: one a line, below the top; '-' reads standard input
    #[arg(long, value_name = "FILE", help_heading = "Trees")]
    pub(crate) files_from: Option<PathBuf>,

    /// Write the names that failed to FILE, for --files-from
    #[arg(long, value_name = "FILE", help_heading = "Trees")]
    pub(crate) failures: Option<PathBuf>,
}

/// One pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    /// What fits is taken; else it is left out.
    pub(crate) include: bool,
    /// As it was typed.
    pub(crate) text: String,
}

/// What was typed to take some names of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Selection {
    /// One pattern.
    Pattern(Pattern),
    /// A file with a pattern on each line; `-` is standard input.
    File { include: bool, path: PathBuf },
}

/// Patterns in the order in which they were typed, which clap's derived form does not keep between two options.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Patterns(pub(crate) Vec<Selection>);

const TYPED: [(&str, bool, &str); 2] = [
    ("include", true, "Of a tree, take what fits PATTERN, whatever a later --exclude says"),
    ("exclude", false, "Of a tree, leave out what fits PATTERN ('xdfs sync --help' explains patterns)"),
];
const IN_FILES: [(&str, bool, &str); 2] = [
    ("include-from", true, "Read patterns for --include from FILE; '-' reads standard input"),
    ("exclude-from", false, "Read patterns for --exclude from FILE; '-' reads standard input"),
];

impl Args for Patterns {
    fn augment_args(command: Command) -> Command {
        let arg = |(name, _, help): (&'static str, bool, &'static str)| {
            Arg::new(name).long(name).action(ArgAction::Append).help(help).help_heading("Trees")
        };
        let typed = TYPED.map(|form| arg(form).value_name("PATTERN").value_parser(value_parser!(String)));
        let in_files = IN_FILES.map(|form| arg(form).value_name("FILE").value_parser(value_parser!(PathBuf)));
        command.args(typed).args(in_files)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Patterns {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all = Vec::new();
        for (name, include, _) in TYPED {
            let texts = matches.get_many::<String>(name).into_iter().flatten();
            let patterns = texts.map(|text| Selection::Pattern(Pattern { include, text: text.clone() }));
            all.extend(matches.indices_of(name).into_iter().flatten().zip(patterns));
        }
        for (name, include, _) in IN_FILES {
            let paths = matches.get_many::<PathBuf>(name).into_iter().flatten();
            let files = paths.map(|path| Selection::File { include, path: path.clone() });
            all.extend(matches.indices_of(name).into_iter().flatten().zip(files));
        }
        all.sort_by_key(|(place, _)| *place);
        Ok(Self(all.into_iter().map(|(_, selection)| selection).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
