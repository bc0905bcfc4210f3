//! The line at the end of a copy, on a terminal and without one.

use xdfs_test_cli::{Scene, exit};

#[test]
fn a_copy_ends_with_what_was_done_on_a_terminal_and_on_request() {
    let scene = Scene::new();
    let server = scene.serve();
    for name in ["a", "b", "c"] {
        scene.write(format!("tree/{name}"), &[7; 1000]);
    }
    let url = server.url("copy");
    let (code, shown) = scene.terminal_as("somebody", ["sync", "--dry-run", "tree", &server.url("")]).wait();
    assert_eq!(code, Some(exit::DONE), "{shown}");
    assert!(shown.contains("would copy 3 files (3.00 kB)"), "{shown}");
    let (code, shown) = scene.terminal_as("somebody", ["sync", "tree", &url]).wait();
    assert_eq!(code, Some(exit::DONE), "{shown}");
    assert!(shown.contains("copied 3 files, 3.00 kB in "), "{shown}");
    // Without a terminal nothing is said unless it was asked for.
    scene.run(["sync", "tree", &url]).ends_with(exit::DONE).is_silent();
    for option in ["-v", "--stats", "--verbose"] {
        let said = scene.run(["sync", option, "tree", &url]);
        said.ends_with(exit::DONE).says(&["copied 0 files, 0 B in ", " 3 left as they were"]);
    }
    // The names are asked for, too.
    scene.write("tree/d", b"1");
    scene.write("server/copy/old", b"1");
    let named = scene.run(["sync", "-v", "--delete", "tree", &url]);
    named.ends_with(exit::DONE).says(&["\ncopied d\n", "deleted old\n"].map(|line| line.trim_start()));
    assert_eq!(named.messages.lines().count(), 3, "{}", named.messages);
    scene.write("tree/e", b"1");
    let counted = scene.run(["sync", "--stats", "tree", &url]);
    assert_eq!(counted.ends_with(exit::DONE).messages.lines().count(), 1, "{}", counted.messages);
    let (code, shown) = scene.terminal_as("somebody", ["cp", "-rv", "tree", &server.url("again")]).wait();
    assert_eq!(code, Some(exit::DONE), "{shown}");
    assert!(shown.contains("copied e") && shown.contains("copied 5 files"), "{shown}");
    scene.run(["sync", "-av", "--json", "tree", &server.url("third")]).ends_with(exit::DONE);
    let one = scene.run(["cp", "-v", "tree/a", &server.url("two")]);
    one.ends_with(exit::DONE).says(&[&format!("copied tree/a to {}\n", server.url("two"))]);
    let one = scene.run(["cp", "-v", "tree/a", &server.url("one")]);
    one.ends_with(exit::DONE).says(&["copied 1 file, 1.00 kB in "]);
    let quiet = scene.terminal_as("somebody", ["sync", "-q", "tree", &url]).wait();
    assert_eq!(quiet, (Some(exit::DONE), String::new()));
}
