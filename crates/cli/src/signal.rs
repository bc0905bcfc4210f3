//! Signals as flags: Ctrl-C and SIGTERM ask to stop, a second one ends the program at once, SIGUSR1 asks for a report.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::{flag, low_level};

use crate::exit::{Exit, Failure};

/// Set once somebody asked to stop; shared with whatever has to notice.
pub(crate) type StopFlag = Arc<AtomicBool>;

/// The flag that Ctrl-C and SIGTERM set. The second of them ends the program with the code of a cancelled one.
pub(crate) fn stop_flag() -> Result<StopFlag, Failure> {
    let stop = StopFlag::default();
    register(&stop).map_err(cannot_register)?;
    Ok(stop)
}

/// The flag alone: a second Ctrl-C ends nothing, so what has to be cleaned up is cleaned up.
pub(crate) fn stop_flag_for_cleanup() -> Result<StopFlag, Failure> {
    let stop = StopFlag::default();
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&stop)).map_err(cannot_register)?;
    }
    Ok(stop)
}

fn register(stop: &StopFlag) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag down and raises it, the second finds it up.
        flag::register_conditional_shutdown(signal, Exit::Cancelled as i32, Arc::clone(stop))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

fn cannot_register(error: io::Error) -> Failure {
    Failure::new(Exit::LocalStorage, format!("cannot handle signals: {error}"))
}

/// What a server's main thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// Stop: Ctrl-C.
    Interrupt,
    /// Stop: SIGTERM.
    Terminate,
    /// Write a report to the log: SIGUSR1.
    Report,
}

/// Waits for signals without looking again and again: each writes a byte into a socket that the main thread reads.
#[derive(Debug)]
pub(crate) struct Signals {
    wake: UnixStream,
    interrupt: StopFlag,
    terminate: StopFlag,
    report: StopFlag,
}

impl Signals {
    /// Takes over SIGINT, SIGTERM and SIGUSR1. Once the first two were seen, each of them ends the program at once.
    pub(crate) fn new() -> Result<Self, Failure> {
        Self::registered().map_err(cannot_register)
    }

    fn registered() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        let signals =
            Self { wake, interrupt: StopFlag::default(), terminate: StopFlag::default(), report: StopFlag::default() };
        for signal in [SIGINT, SIGTERM] {
            for flag in [&signals.interrupt, &signals.terminate] {
                flag::register_conditional_shutdown(signal, Exit::Cancelled as i32, Arc::clone(flag))?;
            }
        }
        flag::register(SIGINT, Arc::clone(&signals.interrupt))?;
        flag::register(SIGTERM, Arc::clone(&signals.terminate))?;
        flag::register(SIGUSR1, Arc::clone(&signals.report))?;
        for signal in [SIGINT, SIGTERM, SIGUSR1] {
            low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(signals)
    }

    /// The next thing that was asked.
    pub(crate) fn wait(&mut self) -> Asked {
        loop {
            if self.interrupt.load(Ordering::Acquire) {
                return Asked::Interrupt;
            }
            if self.terminate.load(Ordering::Acquire) {
                return Asked::Terminate;
            }
            if self.report.swap(false, Ordering::AcqRel) {
                return Asked::Report;
            }
            let mut bytes = [0; 16];
            // The flags tell what happened; an interrupted read looks at them again, and so does any other.
            let _ = self.wake.read(&mut bytes);
        }
    }
}
