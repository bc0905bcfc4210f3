//! What the two threads of a blocking connection and its element agree on: a machine without input or
//! output. The element never waits; the threads wait for it to give them something to do.

/// What there is to read. Bytes themselves are in a buffer beside the machine.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Reading {
    /// The thread is, or is about to be, in the driver's read (or its open).
    Waiting,
    /// These bytes of the buffer were not taken yet.
    Bytes { start: usize, end: usize },
    /// Nothing more follows; an error stands beside the machine until it was told.
    Over,
}

/// What there is to write.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Writing {
    /// The connection is not open yet.
    Closed,
    /// Nothing: more can be taken.
    Free,
    /// The thread writes so many bytes of the buffer.
    Busy(usize),
    /// The thread tells the peer that no more follows.
    Finishing,
    /// The peer was told.
    Finished,
    /// The driver failed, in its write or its open.
    Failed,
}

/// Both directions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Machine {
    pub(super) reading: Reading,
    pub(super) writing: Writing,
    /// The element is gone: the threads end.
    pub(super) dropped: bool,
    /// Threads that are left; the last one closes the connection.
    pub(super) threads: u8,
}

impl Machine {
    /// One that the reading thread is to open.
    pub(super) fn new() -> Self {
        Self { reading: Reading::Waiting, writing: Writing::Closed, dropped: false, threads: 2 }
    }

    /// The open ended.
    pub(super) fn on_open(&mut self, opened: bool) {
        (self.reading, self.writing) =
            if opened { (Reading::Waiting, Writing::Free) } else { (Reading::Over, Writing::Failed) };
    }

    /// A read ended, with so many bytes at the buffer's beginning; none is the end or an error.
    pub(super) fn on_read(&mut self, bytes: usize) {
        self.reading = if bytes == 0 { Reading::Over } else { Reading::Bytes { start: 0, end: bytes } };
    }

    /// The element took so many bytes; true where the thread has to read again.
    pub(super) fn on_taken(&mut self, bytes: usize) -> bool {
        if let Reading::Bytes { start, end } = self.reading {
            let start = (start + bytes).min(end);
            self.reading = if start == end { Reading::Waiting } else { Reading::Bytes { start, end } };
        }
        self.reading == Reading::Waiting
    }

    /// What the thread had to write or to finish is done, or failed.
    pub(super) fn on_written(&mut self, succeeded: bool) {
        self.writing = match (&self.writing, succeeded) {
            (_, false) => Writing::Failed,
            (Writing::Finishing, true) => Writing::Finished,
            (_, true) => Writing::Free,
        };
    }

    /// Whether the reading thread has to call the driver.
    pub(super) fn has_to_read(&self) -> bool {
        self.reading == Reading::Waiting
    }

    /// Whether the writing thread has to call the driver.
    pub(super) fn has_to_write(&self) -> bool {
        matches!(self.writing, Writing::Busy(_) | Writing::Finishing)
    }

    /// Whether the writing thread will never have to.
    pub(super) fn writes_no_more(&self) -> bool {
        matches!(self.writing, Writing::Finished | Writing::Failed)
    }

    /// A thread ends; true where it is the last.
    pub(super) fn on_thread_end(&mut self) -> bool {
        self.threads -= 1;
        self.threads == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// All that can happen to it, of those that can happen now.
    fn next(machine: &Machine) -> Vec<Machine> {
        let mut all = Vec::new();
        let mut push = |change: &dyn Fn(&mut Machine)| {
            let mut after = machine.clone();
            change(&mut after);
            all.push(after);
        };
        if machine.writing == Writing::Closed {
            push(&|after| after.on_open(true));
            push(&|after| after.on_open(false));
            return all;
        }
        if machine.has_to_read() {
            push(&|after| after.on_read(2));
            push(&|after| after.on_read(0));
        }
        if let Reading::Bytes { .. } = machine.reading {
            push(&|after| _ = after.on_taken(1));
            push(&|after| _ = after.on_taken(2));
        }
        if machine.writing == Writing::Free {
            push(&|after| after.writing = Writing::Busy(1));
            push(&|after| after.writing = Writing::Finishing);
        }
        if machine.has_to_write() {
            push(&|after| after.on_written(true));
            push(&|after| after.on_written(false));
        }
        all
    }

    #[test]
    fn in_every_order_somebody_can_go_on_or_everything_is_over() {
        let mut seen = HashSet::new();
        let mut open = vec![Machine::new()];
        while let Some(machine) = open.pop() {
            if seen.insert(machine.clone()) {
                let after = next(&machine);
                let over = machine.reading == Reading::Over && machine.writes_no_more();
                assert_eq!(after.is_empty(), over, "{machine:?}");
                if let Reading::Bytes { start, end } = machine.reading {
                    assert!(start < end, "{machine:?}: bytes that are none");
                }
                open.extend(after);
            }
        }
        assert!(seen.len() > 15, "{} states", seen.len());
    }

    #[test]
    fn the_last_thread_closes_the_connection() {
        let mut machine = Machine::new();
        assert!(!machine.on_thread_end());
        assert!(machine.on_thread_end());
    }
}
