//! Bars on terminals of every width.

use std::process::Command;
use std::time::{Duration, Instant};

use xdfs_test_cli::{Relay, Scene, Server, Terminal, pattern, xdfs_binary};

/// What was drawn, line by line, without the marks for the terminal.
fn drawn(screen: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut characters = screen.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => {
                characters.next_if_eq(&'[');
                while characters.next().is_some_and(|parameter| !parameter.is_ascii_alphabetic()) {}
                plain.push('\n');
            }
            '\r' => plain.push('\n'),
            other => plain.push(other),
        }
    }
    plain.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

/// What is drawn while this is copied, on terminals of every width. The line of a file that is done may be longer: it stays.
fn bars_fit(scene: &Scene, server: &Server, words: &[&str], is_done: impl Fn(&str) -> bool) {
    for columns in [20, 30, 50, 80, 200] {
        let relay = Relay::paced(server, 3 << 20);
        let mut command = Command::new("sh");
        let line = format!("stty cols {columns} rows 24; exec \"$0\" cp -P 1 \"$@\"");
        command.args(["-c", &line]).arg(xdfs_binary()).args(words).arg(relay.url(&format!("copy{columns}")));
        command.current_dir(scene.path(""));
        scene.dress("somebody", &mut command);
        let (code, screen) = Terminal::start(&command).wait();
        assert_eq!(code, Some(0), "{screen}");
        let lines = drawn(&screen);
        let bars: Vec<_> = lines.iter().filter(|line| !is_done(line)).collect();
        assert!(bars.iter().any(|line| line.contains('%')), "{columns} columns: {screen:?}");
        for line in bars {
            assert!(line.chars().count() <= columns, "{columns} columns: {line:?}");
            assert!(!line.contains("GB/s") && !line.contains("TB/s"), "{line:?}");
        }
        if columns >= 50 {
            // On a busy machine it is below that of the relay.
            assert!(lines.iter().any(|line| line.contains("MB/s") || line.contains("kB/s")), "{screen:?}");
        }
    }
}

#[test]
fn a_bar_fits_into_its_line_and_shows_no_rate_before_there_is_one() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("a-file-with-a-long-name.bin", &pattern(6 << 20, 1));
    bars_fit(&scene, &server, &["a-file-with-a-long-name.bin"], |line| line.contains("channel"));
}

#[test]
fn the_bar_of_a_tree_fits_into_its_line_too() {
    let scene = Scene::new();
    let server = scene.serve();
    for number in 0..12 {
        scene.write(format!("tree/a-directory-with-a-long-name/file-{number}"), &pattern(512 << 10, number));
    }
    // What the relay has not passed yet is in the buffers of the kernel.
    bars_fit(&scene, &server, &["-r", "--bwlimit", "1500K", "tree"], |line| line.starts_with("xdfs: copied "));
}

#[test]
fn a_transfer_that_stands_still_says_for_how_long() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", &pattern(8 << 20, 1));
    let relay = Relay::holding(&server, 1, 2 << 20);
    let began = Instant::now();
    let terminal = scene.terminal_as("somebody", ["cp", "-P", "1", "source", &relay.url("copy")]);
    relay.wait_until_held();
    terminal.expect("no answer for ");
    terminal.expect(" s source");
    let most = began.elapsed().as_secs();
    relay.release();
    let (code, screen) = terminal.wait();
    assert_eq!(code, Some(0), "{screen}");
    let first =
        screen.split("no answer for ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|s| s.parse().ok());
    assert!(first.is_some_and(|seconds: u64| (5..=most).contains(&seconds)), "{first:?} s of {most} s");
}

#[test]
fn a_bar_keeps_its_place_when_a_connection_is_lost_and_made_again() {
    let scene = Scene::new();
    let server = scene.serve();
    scene.write("source", &pattern(12 << 20, 1));
    let relay = Relay::paced(&server, 3 << 20);
    let terminal = scene.terminal_as("somebody", ["cp", "-P", "1", "source", &relay.url("copy")]);
    let began = Instant::now();
    while relay.passed() < 6 << 20 {
        assert!(began.elapsed() < Duration::from_secs(60), "{} bytes", relay.passed());
        std::thread::yield_now();
    }
    relay.cut(0);
    let (code, screen) = terminal.wait();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("; trying again"), "{screen}");
    let percent = |line: String| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.iter().find_map(|word| word.strip_suffix('%').and_then(|number| number.parse::<u32>().ok()))
    };
    let drawn: Vec<u32> = drawn(&screen).into_iter().filter_map(percent).collect();
    assert!(drawn.iter().any(|percent| (20..80).contains(percent)), "{drawn:?}");
    assert!(drawn.is_sorted(), "{drawn:?}");
}

#[test]
fn a_tree_shows_how_much_of_it_is_done_both_ways() {
    let scene = Scene::new();
    let server = scene.serve();
    for number in 0..40 {
        scene.write(format!("tree/d{}/f{number}", number % 4), &pattern(150_000, 1));
    }
    // Four seconds, so that a busy machine finds the time to draw what is left.
    let slowly = ["cp", "-r", "-P", "1", "--bwlimit", "1500K"];
    let copy = |ends: [&str; 2]| scene.terminal_as("somebody", slowly.into_iter().chain(ends)).wait();
    let (code, screen) = copy(["tree", &server.url("copy")]);
    assert_eq!(code, Some(0), "{screen}");
    let (code, other) = copy([&server.url("copy"), "back"]);
    assert_eq!(code, Some(0), "{other}");
    for screen in [&screen, &other] {
        let lines = drawn(screen);
        let counted = |line: &&String| line.contains("/40 files ") && line.contains('%') && line.contains(" left");
        assert!(lines.iter().any(|line| counted(&line)), "{screen:?}");
        for line in lines.iter().filter(|line| line.contains(" files ") && !line.contains("copied")) {
            assert!(line.chars().count() <= 80, "{line:?}");
        }
    }
    // What is the same is neither to do nor done.
    scene.write("tree/d0/more", &pattern(6_000_000, 2));
    let again = ["sync", "-P", "1", "--bwlimit", "3M", "--json", "tree", &server.url("copy")];
    let lines = scene.run(again).ends_with(0).all_objects();
    // One more is done for a moment, at the end.
    let all_but_it = lines.iter().find(|line| line["event"] == "progress" && line["names_done"] == 40);
    let line = all_but_it.unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!((&line["names_total"], &line["size"]), (&41.into(), &6_000_000.into()), "{line}");
}
