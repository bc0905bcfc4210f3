//! The end of a mount: bounded, whatever the server does, and with a word about what it did not get.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use xdfs_mount::Tree;

use crate::exit::Exit;
use crate::output::complain;
use crate::text::printable;

/// Files that are named.
const NAMED_MAX: usize = 10;

/// When the process ends at the latest.
#[derive(Debug, Default)]
pub(super) struct Ending {
    state: Mutex<State>,
    changed: Condvar,
}

/// How long the process lives.
#[derive(Debug, Default)]
enum Limit {
    /// As long as the mount.
    #[default]
    None,
    /// Until then at the latest.
    Until(Instant),
    /// Everything is done.
    Over,
}

#[derive(Debug, Default)]
struct State {
    limit: Limit,
    /// What was said of what the server did not get.
    reported: Option<Exit>,
}

impl Ending {
    /// Ends the process when the time is over that [`Ending::limit`] sets.
    pub(super) fn start(tree: &Arc<Tree>, directory: &Path) -> std::io::Result<Arc<Self>> {
        let ending = Arc::new(Self::default());
        let (own, tree, directory) = (Arc::clone(&ending), Arc::downgrade(tree), directory.to_owned());
        let thread = std::thread::Builder::new().name("xdfs-ending".to_owned());
        thread.spawn(move || {
            if own.wait() {
                let reported = own.lock().reported;
                // The tree is there until something was said of it.
                let exit = reported.or_else(|| Some(own.report(&*tree.upgrade()?, &directory)));
                std::process::exit(exit.unwrap_or(Exit::Done) as i32);
            }
        })?;
        Ok(ending)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It ends in this time, if it does not sooner.
    pub(super) fn limit(&self, time: Duration) {
        let mut state = self.lock();
        let until = Instant::now() + time;
        state.limit = match state.limit {
            Limit::None => Limit::Until(until),
            Limit::Until(earlier) => Limit::Until(earlier.min(until)),
            Limit::Over => Limit::Over,
        };
        drop(state);
        self.changed.notify_all();
    }

    /// Everything is done.
    pub(super) fn over(&self) {
        self.lock().limit = Limit::Over;
        self.changed.notify_all();
    }

    /// Says of which files the server does not have all that was written, and ends with that if the time is over later.
    pub(super) fn report(&self, tree: &Tree, directory: &Path) -> Exit {
        let exit = report(tree, directory);
        *self.lock().reported.insert(exit)
    }

    /// True when the time is over, false if everything is done before.
    fn wait(&self) -> bool {
        let mut state = self.lock();
        loop {
            state = match state.limit {
                Limit::None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Limit::Until(until) => match until.saturating_duration_since(Instant::now()) {
                    Duration::ZERO => return true,
                    left => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                },
                Limit::Over => return false,
            };
        }
    }
}

fn report(tree: &Tree, directory: &Path) -> Exit {
    let unwritten = tree.unwritten();
    match said(&unwritten, directory) {
        None => Exit::Done,
        Some(message) => {
            complain(&message);
            Exit::ConnectionLost
        }
    }
}

fn said(files: &[Vec<u8>], directory: &Path) -> Option<String> {
    let mut names: Vec<String> = files.iter().take(NAMED_MAX).map(|path| printable(path)).collect();
    if files.len() > NAMED_MAX {
        names.push(format!("and {} more", files.len() - NAMED_MAX));
    }
    let text =
        format!("{}: the server does not have all that was written to: {}", directory.display(), names.join(", "));
    (!files.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_limits_holds_and_what_is_over_has_none() {
        let ending = Ending::default();
        ending.limit(Duration::ZERO);
        ending.limit(Duration::from_secs(3600));
        assert!(ending.wait());
        ending.over();
        assert!(!ending.wait());
    }

    #[test]
    fn files_are_named_and_many_are_counted() {
        let (names, directory) = (|count: usize| vec![b"a\nb".to_vec(); count], Path::new("/mnt"));
        assert_eq!(said(&[], directory), None);
        let one = said(&names(1), directory).unwrap();
        assert!(one.starts_with("/mnt: ") && one.ends_with("written to: a\\nb"), "{one}");
        assert!(said(&names(NAMED_MAX + 2), directory).unwrap().ends_with(", and 2 more"));
    }
}
