//! Pages and completions are fresh and complete, and say what other documents and the server say.

use std::collections::BTreeSet;
use std::path::Path;

use clap::CommandFactory;
use xdfs_server::config::Settings;

use super::*;
use crate::args::Cli;

fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn document(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap()
}

/// The page of a name.
fn page(name: &str) -> String {
    let pages = man::pages().unwrap();
    let (_, content) = pages.into_iter().find(|(path, _)| path.ends_with(name)).unwrap();
    String::from_utf8(content).unwrap().replace("\\-", "-")
}

#[test]
fn the_committed_man_pages_and_completions_are_fresh() {
    let fresh = |directory: &str, pages: Vec<Page>| {
        for (name, content) in pages {
            let committed = std::fs::read(repository(directory).join(&name)).unwrap_or_default();
            assert!(
                committed == content,
                "docs: {name} is not what this version generates; run 'xdfs generate man docs' and 'xdfs generate \
                 completions docs/completions'"
            );
        }
    };
    fresh("docs", man::pages().unwrap());
    fresh("docs/completions", completions::completions());
    let generated = man::pages().unwrap().len();
    let committed = ["docs/man1", "docs/man5"].map(|folder| std::fs::read_dir(repository(folder)).unwrap().count());
    assert_eq!(committed.iter().sum::<usize>(), generated, "a page of a command that is gone");
}

#[test]
fn each_command_has_a_page_with_its_options_and_what_is_around_it() {
    let root = Cli::command();
    for command in man::shown(&root) {
        let page = page(&format!("/xdfs-{}.1", command.get_name()));
        for section in ["NAME", "SYNOPSIS", "OPTIONS", "ENVIRONMENT", "FILES", "\"EXIT STATUS\"", "EXAMPLES"] {
            assert!(page.contains(&format!("\n.SH {section}\n")), "{section} of {}", command.get_name());
        }
        for inner in man::shown(command) {
            let title = format!("XDFS {} {}", command.get_name(), inner.get_name()).to_uppercase();
            assert!(page.contains(&title), "{title}");
        }
        let options = man::shown(command).flat_map(clap::Command::get_arguments).chain(command.get_arguments());
        for option in options.filter(|option| !option.is_hide_set()).filter_map(clap::Arg::get_long) {
            assert!(page.contains(&format!("--{option}")), "{option}");
        }
    }
    assert!(!page("/xdfs.1").contains("xdfs-generate"));
}

#[test]
fn the_completions_ask_the_program_for_names_and_offer_no_command_that_is_hidden() {
    for ((name, script), (calls, times)) in completions::completions().into_iter().zip([
        ("complete -F _xdfs_or_names ", 2),
        ("\n    _xdfs_arguments \"$@\"\n", 1),
        ("stat sum ls find mkdir mkfifo rm mv ln chmod touch cat lock mount du df; and ", 2),
    ]) {
        let script = String::from_utf8(script).unwrap();
        assert_eq!(script.matches(calls).count(), times, "{name}");
        assert!(script.contains(" complete ") && !script.contains("generate"), "{name}");
    }
    let [_, (_, zsh), _] = &completions::completions()[..] else { panic!("three shells") };
    let zsh = String::from_utf8_lossy(zsh);
    let at = |text: &str| zsh.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(at("\n_xdfs_arguments() {") < at("\n_xdfs() {") && at("\n_xdfs() {") < at("$funcstack"));
}

/// The rows of the tables of a document, without marks.
fn rows(document: &str) -> Vec<Vec<String>> {
    let rows = document.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").map(|cell| cell.replace('`', "")).collect()).collect()
}

#[test]
fn exit_codes_have_the_meaning_of_their_document() {
    let documented: Vec<(u8, String)> = rows(&document("docs/exit-codes.md"))
        .into_iter()
        .filter_map(|row| Some((row.first()?.parse().ok()?, row.get(2)?.clone())))
        .collect();
    let ours: Vec<(u8, String)> = text::EXIT_STATUS.iter().map(|(code, text)| (*code, (*text).to_owned())).collect();
    assert_eq!(ours, documented);
}

/// What the server does with a configuration.
fn settings(text: &str) -> Settings {
    Settings::parse(Path::new("c"), text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Defaults that stand for a value which is not written like that.
const IN_WORDS: [&str; 7] =
    ["as for --state", "none", "all", "no limit", "nothing", "all authenticated users", "required"];

#[test]
fn the_defaults_are_those_that_the_server_takes() {
    let export = "[exports.x]\ndirectory = \"memory:\"\n";
    let plain = settings(export);
    let mut compared = 0;
    for (key, default, _) in server_toml::KEYS.iter().filter(|(key, default, _)| {
        // Which the command itself fills in.
        !IN_WORDS.contains(default) && *key != "listen" && *key != "[limits] channels"
    }) {
        let is_word = !default.bytes().all(|byte| byte.is_ascii_digit()) && !["true", "false"].contains(default);
        let value = if is_word { format!("\"{default}\"") } else { (*default).to_owned() };
        let text = match key.split_once("] ") {
            None => format!("{key} = {value}\n{export}"),
            Some(("[exports.NAME", name)) => format!("{export}{name} = {value}\n"),
            Some((table, name)) => format!("{table}]\n{name} = {value}\n{export}"),
        };
        let set = settings(&text);
        assert_eq!(
            (set.limits, set.log, set.min_protection, set.confinement, &set.exports[0].access),
            (plain.limits, plain.log.clone(), plain.min_protection, plain.confinement, &plain.exports[0].access),
            "{key} = {default}"
        );
        compared += 1;
    }
    assert!(compared >= 25, "{compared}");
}

#[test]
fn the_page_of_the_server_has_no_key_that_there_is_not() {
    let page = document("docs/operations.md");
    let tables = page.split("\n| key | default | meaning |\n").skip(1);
    let mut documented = 0;
    for row in tables.flat_map(|table| rows(table.split("\n\n").next().unwrap_or_default())) {
        for name in row[0].split(", ") {
            let is_there = |(key, _, _): &&(&str, _, _)| *key == name || key.strip_prefix("[limits] ") == Some(name);
            assert!(server_toml::KEYS.iter().any(|row| is_there(&row)), "docs/operations.md: {name}");
            documented += 1;
        }
    }
    assert_eq!(documented, server_toml::KEYS.len());
}

#[test]
fn the_packaged_configuration_is_valid_with_all_that_it_suggests() {
    let packaged = document("packaging/server.toml");
    let suggested = |line: &str| line.strip_prefix("# ").filter(|line| line.contains(" = ")).map(str::to_owned);
    let all: Vec<String> = packaged.lines().map(|line| suggested(line).unwrap_or_else(|| line.to_owned())).collect();
    let all = settings(&all.join("\n"));
    assert_ne!((all.listen, &all.exports[0].access), (None, &settings(&packaged).exports[0].access));
}

/// The keys that the server knows in a table, as its error about an unknown one lists them.
fn known(table: &str) -> BTreeSet<String> {
    let text = match table {
        "" => "no-such-key = 1\n".to_owned(),
        table => format!("[{table}]\nno-such-key = 1\n"),
    };
    let error = Settings::parse(Path::new("c"), &text).unwrap_err().to_string();
    let (_, keys) = error.split_once("expected ").unwrap_or_else(|| panic!("{error}"));
    keys.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_keys_of_the_configuration_are_those_that_the_server_reads() {
    for table in ["", "log", "limits", "exports.NAME"] {
        let prefix = if table.is_empty() { String::new() } else { format!("[{table}] ") };
        let ours: BTreeSet<String> = server_toml::KEYS
            .iter()
            .filter_map(|(key, _, _)| key.strip_prefix(&prefix))
            .filter(|key| !key.starts_with('['))
            .map(str::to_owned)
            .collect();
        let tables = ["limits", "log", "exports"];
        let theirs = known(table).into_iter().filter(|key| !table.is_empty() || !tables.contains(&key.as_str()));
        assert_eq!(ours, theirs.collect(), "[{table}]: server_toml.rs and docs/operations.md name each key");
    }
}

#[test]
fn the_keys_of_the_configuration_have_the_defaults_of_their_document() {
    let document = rows(&document("docs/operations.md"));
    for (key, default, _) in server_toml::KEYS {
        let name = key.strip_prefix("[limits] ").unwrap_or(key);
        let row = document.iter().find(|row| row[0].split(", ").any(|documented| documented == name));
        let row = row.unwrap_or_else(|| panic!("docs/operations.md has no {name}"));
        assert!(row[1] == *default || row[1].starts_with("[see"), "{name}: {default}, {}", row[1]);
    }
}

#[test]
fn the_keys_of_the_clients_file_are_those_of_its_document() {
    let page = document("docs/config.md");
    let (_, keys) = page.split_once("\n## Keys of `[hosts.NAME]`\n").expect("the section");
    let keys = rows(keys.split("\n\n`identity`").next().expect("the table"));
    let plain = |text: &str| text.split(" ([xio.md]").next().unwrap_or_default().to_owned();
    assert_eq!(keys.len(), client_config::KEYS.len() + 1, "{keys:?}");
    for (row, (key, value, without)) in keys[1..].iter().zip(client_config::KEYS) {
        assert_eq!((row[0].as_str(), plain(&row[1]).as_str()), (*key, *value));
        assert!(*key == "user" || row[2] == *without, "{key}: {}", row[2]);
    }
}
