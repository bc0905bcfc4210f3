//! What the two threads of a blocking connection and its element agree on: a machine without input or
//! output. The element never waits; the threads wait for it to give them something to do. `C` is what the
//! driver's functions get, `E` an error of the driver.

/// What there is to read. Bytes themselves are in a buffer beside the machine.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Reading<E> {
    /// The thread is, or is about to be, in the driver's read (or its open).
    Waiting,
    /// These bytes of the buffer were not taken yet.
    Bytes { start: usize, end: usize },
    /// Nothing more follows. The error that it ended with, of the read or the open, until it was told.
    Over(Option<E>),
}

/// How far the connection is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Life<C, E> {
    /// The driver opens it.
    Opening,
    /// The driver failed to open it, and whoever reads is told why.
    NeverOpen,
    /// It was opened. `element` is there until the last thread closes it; `writing` is from the element to
    /// the driver, and stays to be asked.
    Opened { element: Option<C>, writing: Writing<E> },
}

/// What there is to write.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Writing<E> {
    /// Nothing: more can be taken.
    Free,
    /// The thread writes so many bytes of the buffer.
    Busy(usize),
    /// The thread tells the peer that no more follows.
    Finishing,
    /// The peer was told.
    Finished,
    /// The driver failed to write.
    Failed(E),
}

/// Both directions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Machine<C, E> {
    /// From the driver to the element.
    pub(super) reading: Reading<E>,
    /// The connection, and what goes from the element to the driver.
    pub(super) life: Life<C, E>,
    /// The element is gone: the threads end.
    pub(super) dropped: bool,
    /// Threads that are left; the last one closes the connection.
    pub(super) threads: u8,
}

impl<C: Copy, E> Machine<C, E> {
    /// One that the reading thread is to open.
    pub(super) fn new() -> Self {
        Self { reading: Reading::Waiting, life: Life::Opening, dropped: false, threads: 2 }
    }

    /// The open ended.
    pub(super) fn on_open(&mut self, opened: Result<C, E>) {
        (self.reading, self.life) = match opened {
            Ok(element) => (Reading::Waiting, Life::Opened { element: Some(element), writing: Writing::Free }),
            Err(error) => (Reading::Over(Some(error)), Life::NeverOpen),
        };
    }

    /// What the driver's functions get, while the connection is open.
    pub(super) fn element(&self) -> Option<C> {
        if let Life::Opened { element, .. } = self.life { element } else { None }
    }

    /// A read ended, with so many bytes at the buffer's beginning; none is the end.
    pub(super) fn on_read(&mut self, read: Result<usize, E>) {
        self.reading = match read {
            Ok(0) => Reading::Over(None),
            Ok(bytes) => Reading::Bytes { start: 0, end: bytes },
            Err(error) => Reading::Over(Some(error)),
        };
    }

    /// Why reading, or opening, ended, where it was with an error that was not told. It is by this.
    pub(super) fn take_read_error(&mut self) -> Option<E> {
        if let Reading::Over(error) = &mut self.reading { error.take() } else { None }
    }

    /// The element took so many bytes; true where the thread has to read again.
    pub(super) fn on_taken(&mut self, bytes: usize) -> bool {
        if let Reading::Bytes { start, end } = self.reading {
            let start = (start + bytes).min(end);
            self.reading = if start == end { Reading::Waiting } else { Reading::Bytes { start, end } };
        }
        self.has_to_read()
    }

    /// What the thread had to write or to finish is done, or failed.
    pub(super) fn on_written(&mut self, written: Result<(), E>) {
        let Life::Opened { writing, .. } = &mut self.life else { return }; // Nothing else is written to.
        *writing = match (&*writing, written) {
            (_, Err(error)) => Writing::Failed(error),
            (Writing::Finishing, Ok(())) => Writing::Finished,
            (_, Ok(())) => Writing::Free,
        };
    }

    /// Whether the reading thread has to call the driver.
    pub(super) fn has_to_read(&self) -> bool {
        matches!(self.reading, Reading::Waiting)
    }

    /// Whether the writing thread has to call the driver.
    pub(super) fn has_to_write(&self) -> bool {
        matches!(self.life, Life::Opened { writing: Writing::Busy(_) | Writing::Finishing, .. })
    }

    /// Whether the writing thread will never have to.
    pub(super) fn writes_no_more(&self) -> bool {
        matches!(self.life, Life::NeverOpen | Life::Opened { writing: Writing::Finished | Writing::Failed(_), .. })
    }

    /// A thread ends; true where it is the last, which closes what [`Machine::take_element`] has.
    pub(super) fn on_thread_end(&mut self) -> bool {
        self.threads -= 1;
        self.threads == 0
    }

    /// What is to be closed, if something was opened. It is open no more by this.
    pub(super) fn take_element(&mut self) -> Option<C> {
        if let Life::Opened { element, .. } = &mut self.life { element.take() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The machine with one error that stands for all.
    type Tried = Machine<(), ()>;

    /// All that can happen to it, of those that can happen now.
    fn next(machine: &Tried) -> Vec<Tried> {
        let mut all = Vec::new();
        let mut push = |change: &dyn Fn(&mut Tried)| {
            let mut after = machine.clone();
            change(&mut after);
            all.push(after);
        };
        if machine.life == Life::Opening {
            push(&|after| after.on_open(Ok(())));
            push(&|after| after.on_open(Err(())));
            return all;
        }
        if machine.has_to_read() {
            push(&|after| after.on_read(Ok(2)));
            push(&|after| after.on_read(Ok(0)));
            push(&|after| after.on_read(Err(())));
        }
        if let Reading::Bytes { .. } = machine.reading {
            push(&|after| _ = after.on_taken(1));
            push(&|after| _ = after.on_taken(2));
        }
        if let Life::Opened { element, writing: Writing::Free } = machine.life {
            push(&|after| after.life = Life::Opened { element, writing: Writing::Busy(1) });
            push(&|after| after.life = Life::Opened { element, writing: Writing::Finishing });
        }
        if machine.has_to_write() {
            push(&|after| after.on_written(Ok(())));
            push(&|after| after.on_written(Err(())));
        }
        if machine.reading == Reading::Over(Some(())) {
            push(&|after| _ = after.take_read_error());
        }
        all
    }

    #[test]
    fn in_every_order_somebody_can_go_on_or_everything_is_over() {
        let mut seen = HashSet::new();
        let mut open = vec![Tried::new()];
        while let Some(machine) = open.pop() {
            if seen.insert(machine.clone()) {
                let after = next(&machine);
                let over = machine.reading == Reading::Over(None) && machine.writes_no_more();
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
        let mut machine = Tried::new();
        assert!(!machine.on_thread_end());
        assert!(machine.on_thread_end());
    }
}
