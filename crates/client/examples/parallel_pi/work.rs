//! The two sides of a computation on several machines that meet in two FIFOs of a server (DFSM-18): one
//! coordinator, and as many workers as there are.
//!
//! Ranges go through one pipe, sums come back through the other. Each record is far shorter than 4096
//! bytes, so the pipe keeps it together; every worker takes whole records, since all have one length.

use std::io::{self, Read, Write};
use std::sync::Arc;
use xdfs_client::file::{Pipe, PipeSide, Remote};

/// First and last step of a range.
const TASK_BYTES: usize = 16;

/// Computes pi as the integral of 4 / (1 + x^2) from 0 to 1, in `tasks` ranges, by whoever works on
/// them. The pipes `tasks` and `results` are in the directory `place`.
pub fn coordinate(server: &Arc<Remote>, place: &str, tasks: u64, steps: u64) -> io::Result<f64> {
    let mut out = Pipe::open(server, format!("{place}/tasks"), PipeSide::Write).map_err(io::Error::other)?;
    let mut back = Pipe::open(server, format!("{place}/results"), PipeSide::Read).map_err(io::Error::other)?;
    // Written beside what is read: with many tasks both pipes would be full, and everybody would wait.
    let asks = std::thread::spawn(move || {
        for task in 0..tasks {
            let mut record = [0; TASK_BYTES];
            record[..8].copy_from_slice(&(steps * task / tasks).to_be_bytes());
            record[8..].copy_from_slice(&(steps * (task + 1) / tasks).to_be_bytes());
            out.write_all(&record)?;
        }
        // The workers find the end, and close the other pipe.
        out.close().map_err(io::Error::other)
    });
    let (mut sum, mut answers, mut record) = (0.0, 0, [0; 8]);
    while answers < tasks {
        back.read_exact(&mut record)?;
        sum += f64::from_be_bytes(record);
        answers += 1;
    }
    asks.join().map_err(|_| io::Error::other("the tasks were not sent"))??;
    back.close().map_err(io::Error::other)?;
    Ok(sum / steps as f64)
}

/// One who computes. It finds the end of the tasks if it was there before they ended.
pub struct Worker {
    tasks: Pipe,
    results: Pipe,
}

/// Opens the pipes in the directory `place`.
pub fn join(server: &Arc<Remote>, place: &str) -> io::Result<Worker> {
    let open = |name: &str, side| Pipe::open(server, format!("{place}/{name}"), side).map_err(io::Error::other);
    Ok(Worker { tasks: open("tasks", PipeSide::Read)?, results: open("results", PipeSide::Write)? })
}

/// Works on ranges until there are no more; returns how many it did.
pub fn work(worker: Worker, steps: u64) -> io::Result<u64> {
    let Worker { mut tasks, mut results } = worker;
    let (mut done, mut record) = (0, [0; TASK_BYTES]);
    while let Some((from, to)) = next(&mut tasks, &mut record)? {
        let height = |step: u64| {
            let x = (step as f64 + 0.5) / steps as f64;
            4.0 / (1.0 + x * x)
        };
        let sum: f64 = (from..to).map(height).sum();
        results.write_all(&sum.to_be_bytes())?;
        // Others wait for it.
        results.flush()?;
        done += 1;
    }
    tasks.close().map_err(io::Error::other)?;
    if done > 0 {
        // Nobody reads any more if others did everything; then there is nobody to wait for.
        results.close().map_err(io::Error::other)?;
    }
    Ok(done)
}

/// The next range. One call takes a whole record: asked for in parts, it would be shared with others.
fn next(tasks: &mut Pipe, record: &mut [u8; TASK_BYTES]) -> io::Result<Option<(u64, u64)>> {
    match tasks.read(record)? {
        0 => return Ok(None),
        TASK_BYTES => {}
        _ => return Err(io::Error::other("somebody else writes into the pipe")),
    }
    let number = |part: &[u8]| part.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok(Some((number(&record[..8]), number(&record[8..]))))
}
