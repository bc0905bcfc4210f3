//! `xdfs generate`: the man page and the shell completions, made from the same definition as
//! `--help`.
//!
//! The results are committed below `docs/`; the tests compare them, so they stay up to date.

use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::{Cli, Generated};
use crate::exit::{Exit, Failure};
use crate::text::printable_path;

/// A file's name and its content.
type Page = (&'static str, Vec<u8>);

/// Writes the requested files into `directory`.
pub(crate) fn run(what: Generated, directory: &Path) -> Result<Exit, Failure> {
    let pages = match what {
        Generated::Man => man_page().map(|page| vec![page]),
        Generated::Completions => Ok(completions()),
    };
    let pages = pages.map_err(|error| failure(directory, &error))?;
    std::fs::create_dir_all(directory).map_err(|error| failure(directory, &error))?;
    for (name, content) in pages {
        let path = directory.join(name);
        std::fs::write(&path, content).map_err(|error| failure(&path, &error))?;
    }
    Ok(Exit::Done)
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::of_io(error), format!("{}: cannot be written: {error}", printable_path(path)))
}

/// One page for the whole command: each subcommand is a section with its options as a subsection.
fn man_page() -> io::Result<Page> {
    let mut root = Cli::command();
    root.build();
    let man = Man::new(root.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    for command in shown(&root) {
        page.extend(format!(".SH \"XDFS {}\"\n", command.get_name().to_uppercase()).bytes());
        page.extend(subcommand_sections(command.clone())?);
        for inner in shown(command) {
            let title = format!(".SH \"XDFS {} {}\"\n", command.get_name(), inner.get_name());
            page.extend(title.to_uppercase().bytes());
            page.extend(subcommand_sections(inner.clone())?);
        }
    }
    page.extend(closing_section(".SH EXAMPLES", &root).bytes());
    // The renderer leaves blanks at ends of lines.
    let text = String::from_utf8_lossy(&page);
    let trimmed: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    Ok(("xdfs.1", trimmed.into_bytes()))
}

/// The visible subcommands of a command.
fn shown(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn subcommand_sections(command: clap::Command) -> io::Result<Vec<u8>> {
    let closing = closing_section(".SS EXAMPLES AND NOTES", &command);
    let man = Man::new(command.disable_help_flag(true));
    let mut sections = Vec::new();
    man.render_synopsis_section(&mut sections)?;
    man.render_description_section(&mut sections)?;
    man.render_options_section(&mut sections)?;
    let text = String::from_utf8_lossy(&sections);
    let lines = text.lines().map(|line| match line.strip_prefix(".SH ") {
        Some(title) => format!(".SS {title}\n"),
        None => format!("{line}\n"),
    });
    Ok(lines.chain([closing]).collect::<String>().into_bytes())
}

/// The examples at the end of a command's help, line by line, unchanged.
fn closing_section(heading: &str, command: &clap::Command) -> String {
    let Some(help) = command.get_after_help() else { return String::new() };
    let mut section = format!("{heading}\n.nf\n");
    for line in help.to_string().lines() {
        // A dot or an apostrophe at the start of a line would be a request to the formatter.
        if line.starts_with(['.', '\'']) {
            section.push_str("\\&");
        }
        section.push_str(&line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq"));
        section.push('\n');
    }
    section + ".fi\n"
}

fn completions() -> Vec<Page> {
    [(Shell::Bash, "xdfs.bash"), (Shell::Zsh, "_xdfs"), (Shell::Fish, "xdfs.fish")]
        .into_iter()
        .map(|(shell, name)| {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "xdfs", &mut script);
            (name, script)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_man_page_and_completions_are_fresh() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let fresh = |directory: &Path, (name, content): Page| {
            let committed = std::fs::read(directory.join(name)).unwrap_or_default();
            assert!(
                committed == content,
                "docs: {name} is not what this version generates\nhelp: run 'xdfs generate man docs' and 'xdfs generate \
                 completions docs/completions'"
            );
        };
        fresh(&docs, man_page().unwrap());
        for page in completions() {
            fresh(&docs.join("completions"), page);
        }
    }

    #[test]
    fn the_man_page_shows_every_command_and_option_that_is_not_hidden() {
        let (_, page) = man_page().unwrap();
        let page = String::from_utf8(page).unwrap().replace("\\-", "-");
        let options_of = |command: &clap::Command| -> Vec<String> {
            let options = command.get_arguments().filter(|option| !option.is_hide_set());
            options.filter_map(clap::Arg::get_long).map(str::to_owned).collect()
        };
        let root = Cli::command();
        for command in shown(&root) {
            let name = command.get_name().to_uppercase();
            assert!(page.contains(&format!("XDFS {name}")));
            for inner in shown(command) {
                assert!(page.contains(&format!("XDFS {name} {}", inner.get_name().to_uppercase())));
            }
            for option in shown(command).flat_map(options_of).chain(options_of(command)) {
                assert!(page.contains(&format!("--{option}")), "{option}");
            }
        }
        assert!(!page.contains("XDFS GENERATE"));
    }
}
