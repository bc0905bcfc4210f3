//! What docs/coming-from.md promises to people who know other programs: each command line of its second column works.

use std::path::Path;

use xdfs_test_cli::{Scene, pattern};

/// The first `code` of the second column of each row.
fn command_lines(page: &str) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let second = rows.filter_map(|row| row.split(" | ").nth(1));
    second.filter_map(|cell| cell.split('`').nth(1)).collect()
}

/// The words of a command line; quotes hold nothing but patterns.
fn words(line: &str) -> Vec<String> {
    line.split(' ').skip(1).map(|word| word.trim_matches('\'').to_owned()).collect()
}

#[test]
fn each_command_line_that_is_shown_to_people_of_other_programs_works() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let lines = command_lines(&page);
    assert!(lines.len() > 20, "{lines:?}");
    for line in lines {
        assert!(line.starts_with("xdfs "), "{line}");
        // Each in a fresh place, where all that the page names is there.
        let scene = Scene::new();
        for side in ["", "server/"] {
            scene.write(format!("{side}big.dat"), &pattern(100_000, 1));
            scene.write(format!("{side}photos/one.jpg"), &pattern(1_000, 2));
        }
        scene.write("photos/two.tmp", b"two");
        scene.write("not-these", b"*.tmp");
        scene.write("server/old.dat", b"old");
        if line.starts_with("xdfs mv") {
            scene.directory("server/new");
        }
        let server = scene.serve();
        let words = words(line).into_iter().map(|word| match word.strip_prefix("xdfs://host/data/") {
            Some(path) => server.url(path),
            None => word,
        });
        let outcome = scene.run(words);
        assert_eq!(outcome.code, Some(0), "{line}: {}", outcome.messages);
    }
}
