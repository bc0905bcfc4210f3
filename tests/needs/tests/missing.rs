//! A test that lacks something fails, or is left out aloud.

use std::process::{Command, Output};

use xdfs_test_needs::{MAY_LEAVE_OUT, leave_out, program};

/// Tells the test below that it is the inner run.
const INNER: &str = "XDFS_TEST_LACKS_SOMETHING";

fn lacking(may_leave_out: Option<&str>, build_machine: bool) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "a_test_that_lacks_something_fails_or_is_left_out_aloud"]).env(INNER, "1");
    match may_leave_out {
        Some(value) => command.env(MAY_LEAVE_OUT, value),
        None => command.env_remove(MAY_LEAVE_OUT),
    };
    match build_machine {
        true => command.env("CI", "true"),
        false => command.env_remove("CI"),
    };
    command.output().expect("it starts")
}

#[test]
fn a_test_that_lacks_something_fails_or_is_left_out_aloud() {
    if std::env::var_os(INNER).is_some() {
        if !program("a-program-that-nobody-has", "none") {
            leave_out("the same again, which is said once");
        }
        return;
    }
    for refused in [None, Some(""), Some("0")] {
        assert!(!lacking(refused, false).status.success(), "{refused:?}");
    }
    assert!(!lacking(Some("1"), true).status.success(), "a build machine leaves out nothing");
    let left_out = lacking(Some("1"), false);
    let text = String::from_utf8_lossy(&left_out.stdout);
    assert!(left_out.status.success(), "{text}");
    let told: Vec<_> = text.lines().filter(|line| line.starts_with("left out: ")).collect();
    assert!(matches!(told[..], [one] if one.contains("a-program-that-nobody-has (package none)")), "{text}");
}
