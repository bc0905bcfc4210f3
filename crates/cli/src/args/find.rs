//! What was typed behind `xdfs find`. Its tests have one hyphen, as those of find(1), so they are read
//! by `plan`.

use std::ffi::OsString;

use clap::Args;

use super::LoginArgs;

const EXAMPLES: &str = "\
Tests, all of which must hold ('!' before a test turns it round):
  -name PATTERN   its last name fits; -iname in any case of ASCII letters
  -path PATTERN   EXPORT/path fits; '*' stands for slashes too
  -type LETTERS   f file, d directory, l symbolic link, p pipe, s socket,
                  c and b device; several with commas
  -size N[cwbkMG] so many units, rounded up (b: 512 bytes, if none is named)
  -mtime N        modified so many days ago
  -newer FILE     modified later than FILE, here or on a server
  -empty          a file or directory with nothing in it
N is exact, +N more, -N less.

  -maxdepth N     not more than N levels below URL; -mindepth N at least N
  -print0         a NUL behind each name instead of a line break

What is found is printed as URLs that other commands take. Options of login
come before URL.

Examples:
  xdfs find xdfs://localhost/data -name '*.tmp' -mtime +7
  xdfs find xdfs://localhost/data/run7 -type f -size +100M
  xdfs find xdfs://localhost/data -type d -empty -print0 | xargs -0 xdfs rm -r";

/// Finds names on servers by tests, as find(1) does.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FindArgs {
    #[command(flatten)]
    pub(crate) login: LoginArgs,

    /// Where to look, and what must hold of a name
    #[arg(required = true, num_args = 1.., value_name = "URL [TEST]", allow_hyphen_values = true, trailing_var_arg = true)]
    pub(crate) words: Vec<OsString>,
}

/// The words that are names of files: those before the first test, and the one behind -newer.
pub(crate) fn find_names(words: &mut [OsString]) -> Vec<&mut OsString> {
    let (mut tests, mut newer, mut names) = (false, false, Vec::new());
    for word in words {
        tests |= is_test(word);
        if !tests || newer {
            newer = false;
            names.push(word);
        } else {
            newer = *word == "-newer";
        }
    }
    names
}

/// Whether a word begins a test.
pub(crate) fn is_test(word: &OsString) -> bool {
    matches!(word.as_encoded_bytes(), [b'-', ..] | [b'!' | b'(' | b')'])
}
