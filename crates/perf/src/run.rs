//! A run: opens the streams, starts the threads that move bytes, reports while they do, and ends
//! them.

use crate::Exit;
use crate::board::{Board, Woken};
use crate::datagrams::Findings;
use crate::ends;
use crate::options::{Plan, Side};
use crate::progress::{self, Line};
use crate::report::{Event, Figures, Style};
use crate::stream::{Direction, Shared};
use crate::tally::{Budget, Counter, Moved};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use xdfs_xio::{ErrorKind, Handle};

/// How long the other end may take to stop sending when this one has.
const GRACE: Duration = Duration::from_secs(1);
/// How often what still waits is cancelled: one may have begun after the last time.
const CANCEL_EVERY: Duration = Duration::from_millis(50);

/// Why a run did not come to its end.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<xdfs_xio::Error> for Failure {
    fn from(error: xdfs_xio::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// Does what the plan says.
pub(crate) fn run(plan: &Plan) -> Result<Exit, Failure> {
    let board = Arc::new(Board::default());
    watch_signals(&board)?;
    match &plan.side {
        Side::Client { contact } => {
            if plan.reports.style == Style::Full {
                tell(&format!("{}\n", crate::report::RULE))?;
            }
            transfer(plan, &board, ends::connect(plan, &board, contact)?)
        }
        Side::Server { contact, again } => serve(plan, &board, contact, *again),
    }
}

fn serve(plan: &Plan, board: &Board, contact: &str, again: bool) -> Result<Exit, Failure> {
    let server = ends::listen(plan, board, contact)?;
    let (contact, stack) = (server.contact()?, plan.stack.name());
    report(plan, &Event::Listening { contact: &contact, stack: &stack })?;
    loop {
        let handles = match ends::accept(plan, &server) {
            Err(error) if error.kind() == ErrorKind::Closed && board.is_interrupted() => return Ok(Exit::Cancelled),
            handles => handles.map_err(Failure::from),
        };
        let outcome = handles.and_then(|handles| transfer(plan, board, handles));
        match outcome {
            _ if !again => return outcome,
            Ok(Exit::Cancelled) => return outcome,
            Ok(_) => {}
            // One client's failure is not the next one's.
            Err(failure) => eprintln!("xioperf: {failure}"),
        }
    }
}

/// Ctrl-C and SIGTERM end a run as its time does; the second one ends the process at once.
fn watch_signals(board: &Arc<Board>) -> io::Result<()> {
    let second = Arc::new(AtomicBool::new(false));
    let (mut wake, waker) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, Exit::Cancelled as i32, second.clone())?;
        flag::register(signal, second.clone())?;
        low_level::pipe::register(signal, waker.try_clone()?)?;
    }
    let board = board.clone();
    let watch = move || {
        let read = wake.read_exact(&mut [0]);
        if read.is_ok() && !board.interrupt() {
            // Nothing has moved, and nothing is to be put in order.
            std::process::exit(Exit::Cancelled as i32);
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).map(drop)
}

/// Moves bytes over open streams until the run is over.
fn transfer(plan: &Plan, board: &Board, handles: Vec<Handle>) -> Result<Exit, Failure> {
    board.begin();
    let shared = Shared {
        plan,
        board,
        counters: handles.iter().map(|_| Counter::default()).collect(),
        handles,
        budget: plan.limits.bytes.map(Budget::new),
        findings: Mutex::new(Findings::default()),
        file: ends::file(plan)?,
    };
    report(plan, &Event::Connected { stack: &plan.stack.name(), streams: plan.streams })?;
    if !(plan.datagrams && plan.receives) {
        board.start();
    }
    let ended = shared.move_bytes()?;
    let interrupted = board.is_interrupted();
    let why = match ended {
        _ if interrupted => "interrupted",
        Woken::Late => "time",
        _ => "end",
    };
    if ended == Woken::Late {
        eprintln!("Time exceeded.  Terminating.");
    }
    let failure = board.take_failure();
    let elapsed = board.started().zip(board.ended()).map_or(Duration::ZERO, |(start, end)| end.duration_since(start));
    let figures = shared.figures_of(shared.moved(), elapsed);
    report(plan, &Event::End { figures: &figures, why: if failure.is_some() { "failed" } else { why } })?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    for handle in &shared.handles {
        shared.close(handle)?;
    }
    shared.file.iter().try_for_each(Handle::close)?;
    Ok(if interrupted { Exit::Cancelled } else { Exit::Success })
}

impl Shared<'_> {
    /// Starts a thread for each direction of each stream, watches them, and ends them.
    fn move_bytes(&self) -> Result<Woken, Failure> {
        let plan = self.plan;
        let sending = plan.sends.then_some(Direction::Sending);
        let receiving = plan.receives.then_some(Direction::Receiving);
        let mut threads = 0;
        std::thread::scope(|scope| {
            for at in 0..plan.streams {
                for direction in [sending, receiving].into_iter().flatten() {
                    match std::thread::Builder::new().spawn_scoped(scope, move || self.work(at, direction)) {
                        Ok(_) => threads += 1,
                        Err(error) => {
                            self.stop(threads, Duration::ZERO);
                            return Err(Failure(format!("no thread for stream {}: {error}", at + 1)));
                        }
                    }
                }
            }
            // The scope waits for its threads also where this one panics: they are ended first.
            let ended = catch_unwind(AssertUnwindSafe(|| self.watch(threads)));
            let grace = if plan.sends && plan.receives { GRACE } else { Duration::ZERO };
            self.stop(threads, grace);
            ended.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Reports at each interval until the threads are done, one has failed, or the time is up.
    fn watch(&self, threads: usize) -> Result<Woken, Failure> {
        let plan = self.plan;
        self.board.wait_started();
        let Some(started) = self.board.started() else { return Ok(self.board.wait_done(threads, None)) };
        let line = Line::new(plan.reports.interval.is_none() && plan.reports.style == Style::Full);
        let every = plan.reports.interval.or(line.is_shown().then_some(progress::EVERY));
        let end = plan.limits.time.and_then(|time| started.checked_add(time));
        let mut before = (started, self.moved());
        loop {
            let tick = every.and_then(|every| before.0.checked_add(every));
            let woken = self.board.wait_done(threads, [tick, end].into_iter().flatten().min());
            let now = Instant::now();
            if woken != Woken::Late || end.is_some_and(|end| end <= now) {
                line.clear();
                return Ok(woken);
            }
            let moved = self.moved();
            if line.is_shown() {
                line.show(&self.figures_of(moved.clone(), now - started), plan.reports.units);
            } else {
                let since = moved.iter().zip(&before.1).map(|(now, before)| now.since(*before)).collect();
                let figures = self.figures_of(since, now - before.0);
                report(plan, &Event::Interval { figures: &figures, end: now - started })?;
            }
            before = (now, moved);
        }
    }

    /// Ends the threads: no more is sent, and after `grace` nothing is waited for.
    fn stop(&self, threads: usize, grace: Duration) {
        self.board.stop();
        let cancel_reads_at = Instant::now() + grace;
        loop {
            for handle in &self.handles {
                handle.cancel_writes();
                if cancel_reads_at <= Instant::now() {
                    handle.cancel_reads();
                }
            }
            if self.board.wait_all_done(threads, Instant::now() + CANCEL_EVERY) == Woken::Done {
                return;
            }
        }
    }

    fn figures_of(&self, streams: Vec<Moved>, elapsed: Duration) -> Figures {
        let (sends, receives) = (self.plan.sends, self.plan.receives);
        let findings = *self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        let findings = (self.plan.datagrams && receives).then_some(findings);
        Figures { elapsed, streams, sends, receives, findings }
    }

    fn moved(&self) -> Vec<Moved> {
        self.counters.iter().map(Counter::moved).collect()
    }
}

fn report(plan: &Plan, event: &Event<'_>) -> Result<(), Failure> {
    tell(&event.text(plan.reports.style, plan.reports.units))
}

/// To standard output, at once.
fn tell(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

    use super::*;
    use std::sync::mpsc::sync_channel;
    use xdfs_xio::{Options, Server, Stack};

    const PATIENCE: Duration = Duration::from_secs(30);

    /// One handle, and what keeps it waiting.
    fn waiting() -> (Handle, (Server, Handle)) {
        let stack = Stack::new().push("tcp", "").unwrap();
        let server = Server::listen(&stack, "127.0.0.1:0").unwrap();
        let silent = Handle::open(&stack, &server.contact().unwrap(), &Options::default()).unwrap();
        let handle = server.accept(Some(PATIENCE)).unwrap().open(&Options::default()).unwrap();
        (handle, (server, silent))
    }

    #[test]
    fn a_thread_that_panics_ends_the_run_as_a_failure() {
        for roles in [&["-s"][..], &["-s", "-S", "-R"]] {
            let words = ["xioperf", "-P", "2", "--json"].iter().chain(roles);
            let plan = Plan::of(words.map(Into::into)).unwrap();
            let (handle, _peer) = waiting();
            let (tell, told) = sync_channel(1);
            // The second of two streams has no handle, so that its threads panic; the first has a peer that is silent.
            std::thread::spawn(move || {
                let ended = transfer(&plan, &Board::default(), vec![handle]);
                tell.send(ended.map_err(|failure| failure.to_string())).unwrap();
            });
            let ended = told.recv_timeout(PATIENCE).expect("it does not wait for a thread that is gone");
            assert!(ended.as_ref().is_err_and(|text| text.contains("stream 2")), "{roles:?}: {ended:?}");
        }
    }
}
