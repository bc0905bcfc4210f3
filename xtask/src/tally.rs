//! Counts test results from what the test programs print.

use std::time::Duration;

/// How many tests passed, failed and were left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed.
    pub(crate) failed: u64,
    /// Tests that were not run, or returned at once since they lacked what they need.
    pub(crate) left_out: u64,
    /// Those that failed, since what they printed may be thousands of lines above the last one.
    pub(crate) failures: Vec<TestFailure>,
    /// How long each program of tests ran.
    pub(crate) took: Vec<(String, Duration)>,
    /// Whether the lines that come are those of the last failure.
    in_failure: bool,
    /// Those of the program that runs, which counts them as passed.
    pending: u64,
}

/// A test that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TestFailure {
    /// Its name within its program.
    pub(crate) name: String,
    /// The first lines of why it failed, or of what it printed where it does not say why.
    pub(crate) excerpt: Vec<String>,
}

/// Lines of a failure that are repeated at the end.
const EXCERPT_LINES: usize = 6;

/// Bytes of one of these lines that are repeated.
const EXCERPT_WIDTH: usize = 400;

impl Tally {
    /// What so many tests came to.
    #[cfg(test)]
    pub(crate) fn of(passed: u64, failed: u64, left_out: u64) -> Self {
        Self { passed, failed, left_out, ..Self::default() }
    }

    /// Takes one line of output; only those count that sum up a test program, or say that a test was left out.
    pub(crate) fn read(&mut self, line: &str) {
        if line.starts_with("left out: ") {
            self.left_out += 1;
            self.pending += 1;
            return;
        }
        // `---- module::a_test stdout ----` stands above what a failed test printed.
        if let Some(name) = line.trim_end().strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.failures.push(TestFailure { name: name.to_owned(), excerpt: Vec::new() });
            self.in_failure = true;
            return;
        }
        self.read_excerpt(line.trim_end());
        self.read_pytest(line.trim_end());
        // `test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`
        let Some(summary) = line.trim_start().strip_prefix("test result: ") else {
            return;
        };
        for part in summary.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(count), Some(what)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(count) = count.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => self.passed += count.saturating_sub(std::mem::take(&mut self.pending)),
                "failed" => self.failed += count,
                "ignored" => self.left_out += count,
                _ => {}
            }
        }
    }
}

impl Tally {
    /// What the program before left open is not of the next one.
    pub(crate) fn begin_program(&mut self) {
        (self.pending, self.in_failure) = (0, false);
    }

    /// Counts a failure that no line of output tells.
    pub(crate) fn note_failure(&mut self, name: &str, why: &str) {
        self.failed += 1;
        self.failures.push(TestFailure { name: name.to_owned(), excerpt: vec![why.to_owned()] });
    }

    /// Lines of pytest: `FAILED tests/a.py::test - why`, and in the end `2 failed, 7 passed, 1 skipped in 0.90s`.
    fn read_pytest(&mut self, line: &str) {
        if let Some((name, why)) = line.strip_prefix("FAILED ").and_then(|rest| rest.split_once(" - ")) {
            let excerpt = vec![why.chars().take(EXCERPT_WIDTH).collect()];
            self.failures.push(TestFailure { name: name.to_owned(), excerpt });
            return;
        }
        let Some((counts, took)) = line.rsplit_once(" in ") else { return };
        let counts: Vec<_> = counts.split(", ").map(|part| part.split_once(' ')).collect();
        let is_summary = took.split_once('s').is_some_and(|(seconds, _)| seconds.parse::<f64>().is_ok())
            && counts.iter().all(|part| part.is_some_and(|(count, _)| count.parse::<u64>().is_ok()));
        for (count, what) in counts.into_iter().flatten().filter(|_| is_summary) {
            let count = count.parse::<u64>().unwrap_or(0);
            match what {
                "passed" => self.passed += count,
                "failed" | "error" | "errors" => self.failed += count,
                "skipped" | "deselected" => self.left_out += count,
                _ => {}
            }
        }
    }

    fn read_excerpt(&mut self, line: &str) {
        // The list of names that ends a program's failures.
        self.in_failure &= line != "failures:";
        let Some(failure) = self.failures.last_mut().filter(|_| self.in_failure && !line.is_empty()) else { return };
        let is_why = |line: &str| line.contains("' panicked at ") || line.contains(") panicked at ");
        if is_why(line) && !failure.excerpt.iter().any(|line| is_why(line)) {
            failure.excerpt.clear();
        }
        if failure.excerpt.len() < EXCERPT_LINES {
            failure.excerpt.push(line.chars().take(EXCERPT_WIDTH).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_programs_are_added() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 4 passed; 3 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.25s\n",
            "all 9 passed; 9 failed",
        ] {
            tally.read(line);
        }
        assert_eq!(tally, Tally::of(6, 4, 1));
    }

    #[test]
    fn results_of_pytest_are_added() {
        let mut tally = Tally::default();
        for line in [
            "..F.s                      [100%]\n",
            "FAILED tests/a.py::test_b[1] - OSError: [Errno 5] why\n",
            "1 failed, 7 passed, 1 skipped, 6 warnings in 95.14s (0:01:35)\n",
            "3 errors in 0.32s\n",
            "2 passed in a row\n",
            "nothing in 2s\n",
        ] {
            tally.read(line);
        }
        assert_eq!((tally.passed, tally.failed, tally.left_out), (7, 4, 1));
        assert_eq!(tally.failures[0].name, "tests/a.py::test_b[1]");
        assert_eq!(tally.failures[0].excerpt, ["OSError: [Errno 5] why"]);
    }

    #[test]
    fn failed_tests_are_named_with_why_they_failed() {
        let mut tally = Tally::default();
        for line in [
            "test module::a_test ... FAILED\n",
            "failures:\n",
            "---- module::a_test stdout ----\n",
            "\n",
            "what it did before\n",
            "thread 'module::a_test' panicked at file.rs:1:2:\n",
            "---- no test",
            "---- another stdout ----\n",
            "1\n2\n",
            "failures:\n",
            "    module::a_test\n",
        ] {
            tally.read(line);
        }
        let [first, second] = &tally.failures[..] else { panic!("{:?}", tally.failures) };
        assert_eq!(first.name, "module::a_test");
        assert_eq!(first.excerpt, ["thread 'module::a_test' panicked at file.rs:1:2:", "---- no test"]);
        assert_eq!((second.name.as_str(), second.excerpt.len()), ("another", 1));
    }

    #[test]
    fn a_test_that_says_it_was_left_out_has_not_passed() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test a ... ",
            "left out: a needs root: nobody else gives files away\n",
            "ok",
            "a test may say that something is left out: that counts for nothing",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
        ] {
            tally.read(line);
        }
        assert_eq!(tally, Tally::of(4, 0, 2));
    }
}
