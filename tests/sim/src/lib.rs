//! Simulation of whole sessions: both ends are the real machines of `xdfs-proto`, the records between them are real bytes,
//! sealed and opened by `xdfs-secure`; the wire, the disks, the clock and the application are simulated, and one number
//! decides everything.
//!
//! It must not read a clock, sleep, or depend on the order of a hash table: a seed that failed fails again.
//!
//! | file | what it is |
//! |---|---|
//! | `transition.rs`, `plan.rs` | what can happen, with probabilities; what happens in one run |
//! | `simulation.rs`, `application.rs` | the run, and the application above the machines |
//! | `restart.rs` | an end that is killed, and the session behind it |
//! | `world/`, `port.rs` | the driver of one machine, and one of its channels |
//! | `network.rs`, `disk.rs`, `content.rs` | the wire, storage, and what the files contain |
//! | `schedule.rs`, `random.rs`, `trace.rs` | the virtual clock, the seed, what happened |
//! | `oracle.rs` | what must be true |
//! | `tally.rs` | many runs, counted |
//! | `leases/` | leases on one file, which need no session machine |

pub mod application;
pub mod calls;
pub mod content;
pub mod disk;
pub mod leases;
pub mod network;
pub mod oracle;
pub mod plan;
pub mod port;
pub mod random;
mod restart;
pub mod schedule;
pub mod simulation;
pub mod tally;
pub mod trace;
pub mod transition;
pub mod world;

pub use simulation::{Report, run};
pub use transition::{Fault, Options};
