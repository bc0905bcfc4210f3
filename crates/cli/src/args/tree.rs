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

Patterns are those of .gitignore: '*' and '?' stay within a name, '**' crosses
directories, a '/' at the start means the top of SOURCE, one at the end a
directory. The first pattern that fits decides, in the order of the command
line; what fits none is taken.

Examples:
  xdfs sync photos xdfs://anna@host/data/photos
  xdfs sync --delete -n photos xdfs://anna@host/data/photos
      what would be sent and removed
  xdfs sync --exclude '*.tmp' --exclude /cache/ xdfs://anna@host/data/work work
  xdfs sync --checksum xdfs://anna@host/data/photos photos
      compare contents, not times

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

    /// Remove from TARGET what SOURCE does not have, when everything else went well. What is excluded stays
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

/// Patterns in the order in which they were typed, which clap's derived form does not keep between two options.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Patterns(pub(crate) Vec<Pattern>);

const FORMS: [(&str, bool, &str); 2] = [
    ("include", true, "Of a tree, take what fits PATTERN, whatever a later --exclude says"),
    ("exclude", false, "Of a tree, leave out what fits PATTERN ('xdfs sync --help' explains patterns)"),
];

impl Args for Patterns {
    fn augment_args(command: Command) -> Command {
        let arg = |(name, _, help): (&'static str, bool, &'static str)| {
            let arg = Arg::new(name).long(name).value_name("PATTERN").action(ArgAction::Append);
            arg.value_parser(value_parser!(String)).help(help).help_heading("Trees")
        };
        command.args(FORMS.map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Patterns {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut all = Vec::new();
        for (name, include, _) in FORMS {
            let texts = matches.get_many::<String>(name).into_iter().flatten();
            let places = matches.indices_of(name).into_iter().flatten();
            all.extend(places.zip(texts).map(|(place, text)| (place, Pattern { include, text: text.clone() })));
        }
        all.sort_by_key(|(place, _)| *place);
        Ok(Self(all.into_iter().map(|(_, pattern)| pattern).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
