//! The completions of the shells: options and commands as clap writes them, and around them calls of
//! `xdfs complete` for names on servers.

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::Page;
use super::man::shown;
use crate::args::Cli;

/// A script for each shell. The marks in the generated ones are tested.
pub(super) fn completions() -> Vec<Page> {
    let bash = before(&written(Shell::Bash), "if [[ \"${BASH_VERSINFO[0]}\"", include_str!("names.bash"))
        .replace("complete -F _xdfs ", "complete -F _xdfs_or_names ");
    let zsh = written(Shell::Zsh).replace("\n_xdfs() {", "\n_xdfs_arguments() {");
    let zsh = before(&zsh, "if [ \"$funcstack[1]\"", include_str!("names.zsh"));
    let fish = format!("{}\n{}\n{}", written(Shell::Fish), include_str!("names.fish"), registration());
    [("xdfs.bash", bash), ("_xdfs", zsh), ("xdfs.fish", fish)]
        .map(|(name, script)| (name.to_owned(), script.into_bytes()))
        .into()
}

/// What clap makes of the commands that people use.
fn written(shell: Shell) -> String {
    let root = Cli::command();
    let mut public = Command::new("xdfs").version(env!("CARGO_PKG_VERSION")).subcommands(shown(&root).cloned());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut public, "xdfs", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The script with `part` in front of what begins with `mark`.
fn before(script: &str, mark: &str, part: &str) -> String {
    let (start, end) = script.split_at(script.rfind(mark).unwrap_or(script.len()));
    format!("{start}\n{part}\n{end}")
}

/// In fish, completions belong to commands: those that log in to a server.
fn registration() -> String {
    let root = Cli::command();
    let logs_in = |command: &&Command| command.get_arguments().any(|option| option.get_long() == Some("identity"));
    let names: Vec<&str> = shown(&root).filter(logs_in).map(Command::get_name).collect();
    let condition = format!("__fish_xdfs_using_subcommand {}", names.join(" "));
    // What is on a server is no file here.
    format!(
        "complete -c xdfs -n \"{condition}; and not __fish_xdfs_is_remote\" -a \"(__fish_xdfs_names)\"\n\
         complete -c xdfs -n \"{condition}; and __fish_xdfs_is_remote\" -f -a \"(__fish_xdfs_names)\"\n"
    )
}
