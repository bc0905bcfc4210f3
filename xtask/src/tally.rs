//! Counts test results from what the test programs print.

/// How many tests passed, failed and were left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed.
    pub(crate) failed: u64,
    /// Tests that were not run.
    pub(crate) ignored: u64,
}

impl Tally {
    /// Takes one line of output; only those that sum up a test program count.
    pub(crate) fn read(&mut self, line: &str) {
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
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
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
        assert_eq!(tally, Tally { passed: 6, failed: 4, ignored: 1 });
    }
}
