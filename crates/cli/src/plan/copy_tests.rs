//! Command lines of `cp`: what they mean, and which are refused, by name.

use clap::Parser;

use super::*;
use crate::args::{Cli, Command};

fn plan(line: &str) -> Result<CopyPlan, PlanError> {
    let words = ["xdfs", "cp"].into_iter().chain(line.split_whitespace());
    match Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).command {
        Command::Cp(args) => resolve(*args),
        other => panic!("{other:?}"),
    }
}

fn copies(line: &str) -> Copies {
    plan(line).unwrap_or_else(|error| panic!("{line}: {error}")).copies
}

fn url(text: &str) -> Url {
    Url::parse(OsStr::new(text)).unwrap()
}

fn refusal(line: &str) -> String {
    plan(line).expect_err(line).to_string()
}

#[test]
fn the_side_with_urls_decides_the_direction() {
    assert_eq!(
        copies("a b xdfs://[::1]/e/d/"),
        Copies::Upload {
            sources: vec![Local::File("a".into()), Local::File("b".into())],
            target: url("xdfs://[::1]/e/d/")
        }
    );
    assert_eq!(
        copies("xdfs://127.0.0.1/e/a xdfs://localhost:5/f/b ."),
        Copies::Download {
            sources: vec![url("xdfs://127.0.0.1/e/a"), url("xdfs://localhost:5/f/b")],
            target: LocalTarget::Path(".".into())
        }
    );
}

#[test]
fn standard_input_output_zeros_and_null_are_endpoints() {
    let target = url("xdfs://localhost/e/x");
    assert_eq!(
        copies("- xdfs://localhost/e/x"),
        Copies::Upload { sources: vec![Local::Stdin], target: target.clone() }
    );
    assert_eq!(
        copies("zero:10GB xdfs://localhost/e/x"),
        Copies::Upload { sources: vec![Local::Zero(10_000_000_000)], target: target.clone() }
    );
    assert_eq!(
        copies("xdfs://localhost/e/x -"),
        Copies::Download { sources: vec![target.clone()], target: LocalTarget::Stdout }
    );
    assert_eq!(
        copies("xdfs://localhost/e/x null:"),
        Copies::Download { sources: vec![target], target: LocalTarget::Null }
    );
    assert_eq!(
        copies("./- ./zero:5 ./xdfs://x xdfs://localhost/e/d/"),
        Copies::Upload {
            sources: vec![Local::File("./-".into()), Local::File("./zero:5".into()), Local::File("./xdfs://x".into())],
            target: url("xdfs://localhost/e/d/")
        }
    );
}

#[test]
fn options_that_are_left_out_have_the_documented_values() {
    let plan = plan("a xdfs://localhost/e/x").unwrap();
    assert_eq!(
        plan.options,
        Options {
            holes: false,
            channels: CHANNELS_DEFAULT,
            window: None,
            block: None,
            bandwidth: None,
            congestion: None,
            level: Level::Private,
            check: Check::Hash,
            offset: 0,
            length: None,
            keep_existing: false,
            dry_run: false,
            durability: WhenDone::Durable,
            resume: true,
            retry: std::time::Duration::from_secs(60),
        }
    );
    assert_eq!(
        plan.format,
        Format {
            json: false,
            quiet: false,
            summary: false,
            names: false,
            progress: Progress::Total,
            longest_pause: Duration::ZERO
        }
    );
}

#[test]
fn options_reach_the_plan() {
    let line = "-n -P 1000 -w 2MiB -b 256KiB --congestion bbr --protection clear --offset 1K --length 2K \
                --verify none --durability written --no-resume --retry 5 --json -q --progress channels a xdfs://localhost/e/x";
    let plan = plan(line).unwrap();
    assert_eq!(
        plan.options,
        Options {
            holes: false,
            channels: 1000,
            window: Some(2 << 20),
            block: Some(256 << 10),
            bandwidth: None,
            congestion: Some("bbr".to_owned()),
            level: Level::Clear,
            check: Check::None,
            offset: 1000,
            length: Some(2000),
            keep_existing: true,
            dry_run: false,
            durability: WhenDone::Written,
            resume: false,
            retry: std::time::Duration::from_secs(5),
        }
    );
    assert_eq!(
        plan.format,
        Format {
            json: true,
            quiet: true,
            summary: false,
            names: false,
            progress: Progress::Channels,
            longest_pause: Duration::ZERO
        }
    );
}

#[test]
fn what_checks_a_copy_follows_from_level_and_option() {
    let check = |options: &str| plan(&format!("{options} a xdfs://localhost/e/x")).map(|plan| plan.options.check);
    assert_eq!(check(""), Ok(Check::Hash));
    assert_eq!(check("--verify hash"), Ok(Check::Hash));
    assert_eq!(check("--protection clear --verify reread"), Ok(Check::Reread));
    assert_eq!(check("--verify wire"), Ok(Check::Wire));
    assert_eq!(check("--verify none"), Ok(Check::None));
    assert_eq!(check("--protection clear"), Ok(Check::Hash));
    assert_eq!(check("--protection clear --verify none"), Ok(Check::None));
    assert_eq!(check("--protection clear --verify wire"), Err(PlanError::WireAtClear));
}

#[test]
fn an_ftp_server_and_any_other_are_copied_between() {
    for line in [
        "ftp://h/a ftp://h/b xdfs://localhost/e/d",
        "xdfs://localhost/e/a ftps://h/d/",
        "ftp://h/a gsiftp://h/b",
        "ftp://h/a xdfs://localhost/e/b ftp://h/c",
        "-r ftp://h/a gsiftp://h/b",
        "-r ftp://h/a xdfs://localhost/e/b",
        "-r xdfs://localhost/e/b ftp://h/a",
    ] {
        assert!(matches!(plan(line).unwrap().copies, Copies::Between { .. }), "{line}");
    }
    for line in ["xdfs://localhost/e/a xdfs://localhost/e/b", "-r xdfs://localhost/e/a xdfs://localhost/e/b"] {
        assert!(matches!(plan(line), Err(PlanError::TwoServers { .. })), "{line}");
    }
    assert!(matches!(plan("a ftp://h/a xdfs://localhost/e/d"), Err(PlanError::Mixed { .. })));
}

#[test]
fn two_servers_are_refused_by_the_names_that_were_typed() {
    let told = refusal("xdfs://localhost/e/x xdfs://localhost/e/y");
    assert!(told.starts_with("cannot copy xdfs://localhost/e/x to xdfs://localhost/e/y"), "{told}");
    let steps = "help: xdfs cp xdfs://localhost/e/x ./x && xdfs cp ./x xdfs://localhost/e/y\n";
    assert!(told.contains(steps), "{told}");
    let pinned = "xdfs://10.0.0.1/e/d/#SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
    let told = refusal(&format!("-r {pinned} xdfs://localhost/e/y"));
    let steps = format!("help: xdfs cp -r '{pinned}' ./d && xdfs cp -r ./d xdfs://localhost/e/y\n");
    assert!(told.contains(&steps), "{told}");
}

#[test]
fn several_files_are_copied_between_two_servers_through_a_directory() {
    let told = refusal("xdfs://localhost/e/*.jpg xdfs://localhost/e/y");
    let steps =
        "help: mkdir copy && xdfs cp 'xdfs://localhost/e/*.jpg' copy/ && xdfs cp -r copy/. xdfs://localhost/e/y\n";
    assert!(told.contains(steps), "{told}");
    let told = refusal("-r xdfs://localhost/e/a xdfs://localhost/e/b xdfs://localhost/e/y");
    let steps = "help: mkdir copy && xdfs cp -r xdfs://localhost/e/a xdfs://localhost/e/b copy/ && xdfs cp -r copy/. xdfs://localhost/e/y\n";
    assert!(told.contains(steps), "{told}");
    let told = refusal("xdfs://localhost/e/*.jpg xdfs://localhost/e/x*");
    assert!(told.ends_with("this machine\nhelp: run the copy on one of the servers"), "{told}");
}

#[test]
fn who_logs_in_and_what_is_pinned_is_kept_for_later() {
    let url = "xdfs://anna@10.0.0.1/e/x#SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
    let plan = plan(&format!("--identity key --password-file secret --state s a {url}")).unwrap();
    let Copies::Upload { target, .. } = plan.copies else { panic!("an upload") };
    assert_eq!((target.user.as_deref(), target.to_string().as_str()), (Some("anna"), url));
    let login = LoginPlan {
        identity: Some("key".into()),
        password_file: Some("secret".into()),
        state: Some("s".into()),
        ..LoginPlan::default()
    };
    assert_eq!(plan.login, login);
    assert_eq!(plan.options.level, Level::Private);
}

#[test]
fn impossible_combinations_are_refused() {
    let show = |text: &str| text.to_owned();
    for (line, error) in [
        ("a b", PlanError::NothingRemote { target: show("b") }),
        ("- -", PlanError::NothingRemote { target: show("-") }),
        ("a xdfs://localhost/e/x .", PlanError::Mixed { source_name: show("a") }),
        ("xdfs://localhost/e/x xdfs://localhost/e/y -", PlanError::ManyIntoOne { target: show("-") }),
        ("null: xdfs://localhost/e/x", PlanError::WrongSide { what: show("null:"), side: "target" }),
        ("xdfs://localhost/e/x zero:5", PlanError::WrongSide { what: show("zero:5"), side: "source" }),
        ("xdfs://localhost/e/x random:5", PlanError::WrongSide { what: show("random:5"), side: "source" }),
        ("xdfs://localhost/e/d/ .", PlanError::SourceIsDirectory(show("xdfs://localhost/e/d/"))),
        ("xdfs://localhost/e .", PlanError::SourceIsDirectory(show("xdfs://localhost/e"))),
        ("-b 1M a xdfs://localhost/e/x", PlanError::Block(1_000_000)),
        ("-b 32KiB a xdfs://localhost/e/x", PlanError::Block(32 << 10)),
        ("-b 8MiB a xdfs://localhost/e/x", PlanError::Block(8 << 20)),
        ("-b 0 a xdfs://localhost/e/x", PlanError::Block(0)),
        ("-w 1K a xdfs://localhost/e/x", PlanError::Window(1000)),
        ("-w 2GiB a xdfs://localhost/e/x", PlanError::Window(2 << 30)),
        ("--congestion a/b a xdfs://localhost/e/x", PlanError::Congestion(show("a/b"))),
        ("--congestion sixteen_letters_ a xdfs://localhost/e/x", PlanError::Congestion(show("sixteen_letters_"))),
        ("--offset 9223372036854775807 --length 1 a xdfs://localhost/e/x", PlanError::Range),
        ("--offset 1 - xdfs://localhost/e/x", PlanError::OffsetOfStream(show("-"))),
        ("--json xdfs://localhost/e/x -", PlanError::JsonIntoTarget),
    ] {
        assert_eq!(plan(line).map(|plan| plan.copies), Err(error), "{line}");
    }
    assert!(matches!(plan("zero:x xdfs://localhost/e/x"), Err(PlanError::Size { .. })));
    assert!(matches!(plan("random: xdfs://localhost/e/x"), Err(PlanError::Size { .. })));
    assert!(matches!(plan("http://localhost/e/x ."), Err(PlanError::Url { .. })));
}

#[test]
fn a_source_without_a_name_needs_a_target_with_one() {
    for line in
        ["- xdfs://localhost/e/d/", "- xdfs://localhost/e", "a - xdfs://localhost/e/d", "zero:5 xdfs://localhost/e/"]
    {
        assert!(matches!(plan(line), Err(PlanError::Nameless { .. })), "{line}");
    }
    assert!(refusal("- xdfs://localhost/e/d/").contains("xdfs://localhost/e/d/input.bin"));
}

#[test]
fn an_empty_argument_is_refused() {
    for words in [["xdfs", "cp", "", "xdfs://localhost/e/x"], ["xdfs", "cp", "a", ""]] {
        let Command::Cp(args) = Cli::try_parse_from(words).unwrap().command else { panic!("not cp") };
        assert_eq!(resolve(*args).map(|plan| plan.copies), Err(PlanError::Empty));
    }
}

#[test]
fn of_a_directory_on_a_server_that_ends_in_a_dot_the_content_is_meant_where_trees_are_copied() {
    let key = format!("#SHA256:{}", "A".repeat(43));
    for (text, contents) in [("", false), ("/", false), ("/.", true)] {
        let planned = plan(&format!("-r xdfs://h/e/x{text}{key} .")).expect("it can be planned");
        let Copies::Download { sources, .. } = planned.copies else { panic!("a download") };
        assert_eq!((sources[0].contents, sources[0].path.as_bytes()), (contents, &b"x"[..]), "{text}");
    }
    assert!(plan("xdfs://h/e/x/. .").is_err());
}
