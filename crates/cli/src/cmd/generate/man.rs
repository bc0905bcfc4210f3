//! The man pages: one for the program, one for each command, and one for each configuration file. Options and
//! examples are those of the help, so nothing is written twice.

use std::fmt::Write;
use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::Page;
use super::client_config;
use super::server_toml::KEYS;
use super::text;
use crate::args::Cli;

/// When what the pages say last changed; pages have a date.
const DATE: &str = "2026-11-24";

/// Every page, with the directory of its section.
pub(super) fn pages() -> io::Result<Vec<Page>> {
    let mut root = Cli::command();
    root.build();
    let mut pages = vec![program(&root)?, configuration(), client_configuration()];
    for command in shown(&root) {
        pages.push(of_command(command)?);
    }
    Ok(pages)
}

/// The visible subcommands of a command.
pub(super) fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn program(root: &Command) -> io::Result<Page> {
    let mut page = title("xdfs", 1) + &name("xdfs", &about(root));
    page += &rendered(root, |man, to| {
        man.render_synopsis_section(to)?;
        man.render_description_section(to)
    })?;
    page += ".SH COMMANDS\n";
    for command in shown(root) {
        let (name, about) = (command.get_name(), roff(&about(command)));
        page += &format!(".TP\n\\fBxdfs\\-{name}\\fR(1)\n{about}\n");
    }
    page += &surroundings(&[text::VARIABLES, text::LOGIN_VARIABLES], &[text::FILES, text::LOGIN_FILES]);
    page += &examples(".SH EXAMPLES", root);
    let commands: Vec<String> = shown(root).map(|command| format!("xdfs-{}", command.get_name())).collect();
    page +=
        &see_also(commands.iter().map(|name| (name.as_str(), 1)).chain([("xdfs-config", 5), ("xdfs-server.toml", 5)]));
    Ok(("man1/xdfs.1".to_owned(), page.into_bytes()))
}

fn of_command(command: &Command) -> io::Result<Page> {
    let name_of = format!("xdfs-{}", command.get_name());
    let mut page = title(&name_of, 1) + &name(&name_of, &about(command));
    page += &sections(command)?;
    for inner in shown(command) {
        page += &format!(".SH \"XDFS {} {}\"\n", command.get_name(), inner.get_name()).to_uppercase();
        // What is a section of a page of its own is a subsection here.
        page += &(sections(inner)? + &examples(".SH EXAMPLES", inner)).replace(".SH ", ".SS ");
    }
    let logs_in = command.get_arguments().any(|option| option.get_long() == Some("identity"));
    let serves = command.get_name() == "serve";
    let (mut variables, mut files) = (vec![text::VARIABLES], vec![text::FILES]);
    if logs_in {
        variables.push(text::LOGIN_VARIABLES);
        files.push(text::LOGIN_FILES);
    }
    if serves {
        variables.push(text::SERVER_VARIABLES);
        files.push(text::SERVER_FILES);
    }
    page += &surroundings(&variables, &files);
    page += &examples(".SH EXAMPLES", command);
    page += &see_also([("xdfs", 1)].into_iter().chain(serves.then_some(("xdfs-server.toml", 5))));
    Ok((format!("man1/{name_of}.1"), page.into_bytes()))
}

fn configuration() -> Page {
    let mut page = title("xdfs-server.toml", 5) + &name("xdfs-server.toml", "configuration of an xdfs server");
    page += ".SH SYNOPSIS\n.B xdfs serve \\-\\-config\n.I FILE\n.SH DESCRIPTION\n";
    page += &roff(
        "A TOML file. Options of the command line count before it, and --export adds to it. An unknown key, a value out \
         of its range and a name of what does not exist are errors with their line, and the server does not start; \
         'xdfs serve --check --config FILE' says so without starting it. SIGHUP makes a server read it again; a \
         mistake then changes nothing. The file must not be writable by others. Relative paths start at its directory.",
    );
    page += "\n.SH KEYS\n";
    for (key, default, meaning) in KEYS {
        page += &format!(".TP\n\\fB{}\\fR\n{}. Default: {}.\n", roff(key), roff(meaning), roff(default));
    }
    page += ".SH FILES\n.TP\n/etc/xdfs/server.toml\nThe file that the packaged service reads.\n.SH EXAMPLES\n.nf\n";
    for line in ["[log]", "audit = \"/var/log/xdfs/audit.jsonl\"", "", "[exports.data]", "directory = \"/srv/xdfs\""] {
        page += &format!("{}\n", roff(line));
    }
    page += ".fi\n";
    page += &see_also([("xdfs-serve", 1), ("xdfs-user", 1)].into_iter());
    ("man5/xdfs-server.toml.5".to_owned(), page.into_bytes())
}

fn client_configuration() -> Page {
    let mut page = title("xdfs-config", 5) + &name("xdfs-config", "short names for servers of xdfs");
    page += ".SH SYNOPSIS\n.I ~/.config/xdfs/config\n.SH DESCRIPTION\n";
    page += &roff(
        "A TOML file, in $XDG_CONFIG_HOME/xdfs/config where that is set. It gives servers short names and holds no \
         secrets: NAME:path is a path below the default export, NAME:/EXPORT/path one below another export, NAME:/ the server \
         itself, and USER@NAME:path the same as another user. Every command that connects reads it; what is typed counts \
         before what it says. The file must not be writable by others. An unknown key is an error with its line. NAME has \
         letters, digits, '.', '_' and '-', and is none of ssh, xdfs, zero, random and null.",
    );
    page += "\n.SH \"KEYS OF [hosts.NAME]\"\n";
    for (key, value, without) in client_config::KEYS {
        page += &format!(".TP\n\\fB{}\\fR\n{}. Default: {}.\n", roff(key), roff(value), roff(without));
    }
    page += ".SH EXAMPLES\n.nf\n";
    for line in client_config::EXAMPLE {
        page += &format!("{}\n", roff(line));
    }
    page += ".fi\n";
    page += &see_also([("xdfs", 1), ("xdfs-server.toml", 5)].into_iter());
    ("man5/xdfs-config.5".to_owned(), page.into_bytes())
}

fn title(name: &str, section: u8) -> String {
    let (name, version) = (roff(name), env!("CARGO_PKG_VERSION"));
    format!(".TH {name} {section} {DATE} \"xdfs {version}\" \"xdfs manual\"\n")
}

fn name(name: &str, about: &str) -> String {
    format!(".SH NAME\n{} \\- {}\n", roff(name), roff(about))
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// Synopsis, description and options.
fn sections(command: &Command) -> io::Result<String> {
    rendered(&command.clone().disable_help_flag(true), |man, to| {
        man.render_synopsis_section(to)?;
        man.render_description_section(to)?;
        man.render_options_section(to)
    })
}

fn rendered(command: &Command, render: impl Fn(&Man, &mut Vec<u8>) -> io::Result<()>) -> io::Result<String> {
    let mut page = Vec::new();
    render(&Man::new(command.clone()), &mut page)?;
    // The renderer leaves blanks at ends of lines, and breaks around empty lines, which formatters complain about.
    let lines: String = String::from_utf8_lossy(&page).lines().map(|line| format!("{}\n", line.trim_end())).collect();
    Ok(lines.replace(".br\n\n.br\n", ".sp\n"))
}

/// Variables, files and exit codes.
fn surroundings(variables: &[&[(&str, &str)]], files: &[&[(&str, &str)]]) -> String {
    let mut page = String::new();
    for (heading, entries) in [(".SH ENVIRONMENT", variables), (".SH FILES", files)] {
        page += &format!("{heading}\n");
        for (name, meaning) in entries.iter().copied().flatten() {
            page += &format!(".TP\n\\fB{}\\fR\n{}\n", roff(name), roff(meaning));
        }
    }
    page += ".SH \"EXIT STATUS\"\n";
    for (code, meaning) in text::EXIT_STATUS {
        page += &format!(".TP\n\\fB{code}\\fR\n{}\n", roff(meaning));
    }
    page
}

/// The examples at the end of a command's help, line by line, unchanged.
fn examples(heading: &str, command: &Command) -> String {
    let Some(help) = command.get_after_help() else { return String::new() };
    let mut section = format!("{heading}\n.nf\n");
    for line in help.to_string().lines() {
        section += &roff(line);
        section.push('\n');
    }
    section + ".fi\n"
}

fn see_also<'a>(pages: impl Iterator<Item = (&'a str, u8)>) -> String {
    let mut section = ".SH \"SEE ALSO\"\n".to_owned();
    let pages: Vec<String> = pages.map(|(name, section)| format!("\\fB{}\\fR({section})", roff(name))).collect();
    let _ = writeln!(section, "{}", pages.join(",\n"));
    section
}

/// A line of text as the formatter takes it.
fn roff(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    // A dot or an apostrophe at the start of a line would be a request to the formatter.
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}
