//! What a row of the tables says: where the fault is, and which ordinary test has to fail with it.

/// A fault that the copy of the sources makes where it is selected.
pub(super) struct Fault {
    /// What `XDFS_BUG` calls it.
    pub(super) name: &'static str,
    /// What is done wrong.
    pub(super) what: &'static str,
    /// What of the sources is changed for it.
    pub(super) edits: &'static [Edit],
    /// The tests that have to fail, each of them.
    pub(super) runs: &'static [Run],
}

/// A place in the sources.
pub(super) struct Edit {
    /// Relative to the root of the repository.
    pub(super) file: &'static str,
    /// What is there, once in the file.
    pub(super) right: &'static str,
    /// What takes its place. The word `BUG` in it stands for the question whether the fault is selected; where it is
    /// not, the code has to do what it did.
    pub(super) wrong: &'static str,
}

/// One run of a test that passes, and fails with the fault.
pub(super) struct Run {
    pub(super) program: &'static Program,
    /// The value of the program's variable for the amount.
    pub(super) amount: &'static str,
    /// What its output tells then: the property that is broken, so that it is the right one that finds the fault.
    pub(super) says: &'static str,
}

/// A program of tests, and what of it is run.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Program {
    /// Name of the package.
    pub(super) package: &'static str,
    /// Name of the file below `tests`; none for the unit tests.
    pub(super) test: Option<&'static str>,
    /// The beginning of the test's name.
    pub(super) filter: &'static str,
    /// The variable that says how much of it runs, or which part; none if there is none.
    pub(super) amount: Option<&'static str>,
    /// The variable that says which property is looked for; none if there is none.
    pub(super) property: Option<&'static str>,
}

pub(super) const fn edit(file: &'static str, right: &'static str, wrong: &'static str) -> Edit {
    Edit { file, right, wrong }
}

pub(super) const fn run(program: &'static Program, amount: &'static str, says: &'static str) -> Run {
    Run { program, amount, says }
}

impl Fault {
    /// Whether it is in the protocol's own crate alone.
    pub(super) fn is_in_proto(&self) -> bool {
        self.edits.iter().all(|edit| edit.file.starts_with(PROTO))
    }
}

/// The protocol's own crate, from which all others take the question whether a fault is selected.
pub(super) const PROTO: &str = "crates/proto/";
