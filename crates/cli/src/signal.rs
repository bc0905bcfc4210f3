//! Signals as flags: Ctrl-C, SIGTERM and a lost terminal (SIGHUP) request a stop, a second one ends
//! the program at once, SIGUSR1 requests a report.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub(crate) use signal_hook::consts::SIGINT;
use signal_hook::consts::{SIGHUP, SIGTERM, SIGUSR1};
use signal_hook::{SigId, flag, low_level};

use xdfs_io::host::ignores;

use crate::exit::{Exit, Failure};

/// Set once a stop is requested; shared with everything that has to notice.
pub(crate) type StopFlag = Arc<AtomicBool>;

/// Signals that stop a command: Ctrl-C, SIGTERM, and SIGHUP unless it is ignored from the start
/// (nohup).
fn stop_signals() -> impl Iterator<Item = i32> {
    let hangup = (!ignores(SIGHUP.unsigned_abs())).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hangup)
}

/// The flags of the command that runs, if it has taken over these signals: a prompt looks at them,
/// since a signal that came before it does not come again.
static TAKEN_OVER: Mutex<Vec<StopFlag>> = Mutex::new(Vec::new());

/// Set while these signals end a command that has not taken them over, once it has had a prompt.
static ENDED_BY_SIGNALS: OnceLock<StopFlag> = OnceLock::new();

/// A flag for a command that takes over these signals.
fn taken_over() -> StopFlag {
    let stop = StopFlag::default();
    TAKEN_OVER.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&stop));
    if let Some(ended) = ENDED_BY_SIGNALS.get() {
        ended.store(false, Ordering::Release);
    }
    stop
}

/// The flag that these signals set. The second of them ends the program with the code of a
/// cancelled one.
pub(crate) fn stop_flag() -> Result<StopFlag, Failure> {
    let stop = taken_over();
    register(&stop, stop_signals()).map_err(cannot_register)?;
    Ok(stop)
}

/// Only the flag: a second Ctrl-C does not end the program, so that cleanup completes.
pub(crate) fn stop_flag_for_cleanup() -> Result<StopFlag, Failure> {
    let stop = taken_over();
    for signal in stop_signals() {
        flag::register(signal, Arc::clone(&stop)).map_err(cannot_register)?;
    }
    Ok(stop)
}

/// The signals that stop a command, each with a flag of its own: for a command that passes them on.
pub(crate) fn stop_flags() -> Result<Vec<(i32, StopFlag)>, Failure> {
    let flagged = |signal| {
        let flag = taken_over();
        flag::register(signal, Arc::clone(&flag)).map_err(cannot_register)?;
        Ok((signal, flag))
    };
    stop_signals().map(flagged).collect()
}

/// A socket that becomes readable once a stop is requested.
pub(crate) fn wake_on_stop() -> io::Result<UnixStream> {
    let (wake, waker) = UnixStream::pair()?;
    taken_over();
    for signal in stop_signals() {
        low_level::pipe::register(signal, waker.try_clone()?)?;
    }
    Ok(wake)
}

/// The same while somebody is asked for an answer: the terminal is to be as it was before the program
/// ends. Afterwards the signals do again what they did before.
#[derive(Debug)]
pub(crate) struct PromptSignals {
    wake: UnixStream,
    registered: Vec<SigId>,
}

impl PromptSignals {
    pub(crate) fn new() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        // An earlier question left them to end the program at once.
        if let Some(ended) = ENDED_BY_SIGNALS.get() {
            ended.store(false, Ordering::Release);
        }
        let mut signals = Self { wake, registered: Vec::new() };
        for signal in stop_signals() {
            signals.registered.push(low_level::pipe::register(signal, waker.try_clone()?)?);
        }
        let flags = TAKEN_OVER.lock().unwrap_or_else(PoisonError::into_inner);
        if flags.iter().any(|flag| flag.load(Ordering::Acquire)) {
            (&waker).write_all(&[0])?;
        }
        Ok(signals)
    }

    /// Becomes readable once a stop is requested.
    pub(crate) fn wake(&self) -> &UnixStream {
        &self.wake
    }
}

impl Drop for PromptSignals {
    fn drop(&mut self) {
        let flags = TAKEN_OVER.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut fresh, is_default) = (false, flags.is_empty());
        let ended = ENDED_BY_SIGNALS.get_or_init(|| {
            fresh = true;
            StopFlag::default()
        });
        for signal in stop_signals().filter(|_| fresh) {
            // Where a signal has no action left it is ignored: it gets that of a cancelled command.
            let _ = flag::register_conditional_shutdown(signal, Exit::Cancelled as i32, Arc::clone(ended));
        }
        ended.store(is_default, Ordering::Release);
        for id in self.registered.drain(..) {
            low_level::unregister(id);
        }
    }
}

fn register(stop: &StopFlag, signals: impl Iterator<Item = i32>) -> io::Result<()> {
    for signal in signals {
        // In this order: the first signal finds the flag cleared and sets it, the second finds it
        // set.
        flag::register_conditional_shutdown(signal, Exit::Cancelled as i32, Arc::clone(stop))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    Ok(())
}

fn cannot_register(error: io::Error) -> Failure {
    Failure::new(Exit::Local, format!("cannot handle signals: {error}"))
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
    /// Read the configuration again: SIGHUP.
    Reload,
    /// Stop at once: the audit log cannot be written.
    LogFailed,
    /// Nothing: the work has ended.
    Ended,
}

/// Waits for signals without polling: each writes a byte into a socket that the main thread reads.
#[derive(Debug)]
pub(crate) struct Signals {
    wake: UnixStream,
    waker: UnixStream,
    asked: [(Asked, StopFlag); 6],
}

/// Notifies the waiting thread that the work has ended, when it is dropped: also by a panic.
#[derive(Debug)]
pub(crate) struct CompletionGuard(Notifier);

/// Notifies the waiting thread of one event.
#[derive(Debug)]
pub(crate) struct Notifier {
    waker: UnixStream,
    flag: StopFlag,
}

impl Notifier {
    /// Notifies it once.
    pub(crate) fn raise(&self) {
        if !self.flag.swap(true, Ordering::AcqRel) {
            // The other end lives as long as the waiting thread.
            let _ = (&self.waker).write_all(&[0]);
        }
    }
}

impl Signals {
    /// Takes over SIGINT, SIGTERM and SIGUSR1. After one of the first two, the next of them ends
    /// the program at once.
    pub(crate) fn new() -> Result<Self, Failure> {
        Self::registered().map_err(cannot_register)
    }

    fn registered() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        let flag = StopFlag::default;
        // In the order in which they are reported.
        let asked = [Asked::Ended, Asked::Interrupt, Asked::Terminate, Asked::Report, Asked::Reload, Asked::LogFailed];
        let asked = asked.map(|asked| (asked, flag()));
        // A server handles SIGHUP differently.
        register(&StopFlag::default(), [SIGINT, SIGTERM].into_iter())?;
        for (signal, (_, flag)) in [SIGINT, SIGTERM, SIGUSR1].into_iter().zip(&asked[1..]) {
            flag::register(signal, Arc::clone(flag))?;
            low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        Ok(Self { wake, waker, asked })
    }

    /// Takes over SIGHUP too, which otherwise ends a program at once when its terminal is lost; not
    /// if it is ignored from the start (nohup) and there is nothing to `read_again`.
    pub(crate) fn hangup(&self, read_again: bool) -> Result<(), Failure> {
        if !read_again && ignores(SIGHUP.unsigned_abs()) {
            return Ok(());
        }
        let registered = flag::register(SIGHUP, Arc::clone(&self.asked[4].1))
            .and_then(|_| low_level::pipe::register(SIGHUP, self.waker.try_clone()?));
        registered.map(drop).map_err(cannot_register)
    }

    /// A guard for the thread that does the work.
    pub(crate) fn teller(&self) -> Result<CompletionGuard, Failure> {
        self.alarm(0).map(CompletionGuard)
    }

    /// Notifiers that ask for what SIGHUP and SIGTERM ask for.
    pub(crate) fn reload_and_end(&self) -> Result<(Notifier, Notifier), Failure> {
        Ok((self.alarm(4)?, self.alarm(2)?))
    }

    /// A notifier for failures to write the audit log.
    pub(crate) fn log_alarm(&self) -> Result<Notifier, Failure> {
        self.alarm(5)
    }

    fn alarm(&self, index: usize) -> Result<Notifier, Failure> {
        let waker = self.waker.try_clone().map_err(cannot_register)?;
        Ok(Notifier { waker, flag: Arc::clone(&self.asked[index].1) })
    }

    /// The next request.
    pub(crate) fn wait(&mut self) -> Asked {
        loop {
            if let Some((asked, _)) = self.asked.iter().find(|(_, flag)| flag.swap(false, Ordering::AcqRel)) {
                return *asked;
            }
            let mut bytes = [0; 16];
            // The flags tell what happened; an interrupted read checks them again, as does any
            // other.
            let _ = self.wake.read(&mut bytes);
        }
    }
}

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        self.0.raise();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_told_once_and_the_end_too() {
        let mut signals = Signals::new().unwrap();
        low_level::raise(SIGUSR1).unwrap();
        assert_eq!(signals.wait(), Asked::Report);
        let teller = signals.teller().unwrap();
        let telling = std::thread::spawn(move || drop(teller));
        assert_eq!(signals.wait(), Asked::Ended);
        telling.join().unwrap();
    }
}
