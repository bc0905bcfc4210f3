//! Model checking of the real protocol machines: every order in which things can happen in a small session.
//!
//! The state that is searched ([`world::World`]) holds the [`xdfs_proto::session::Session`] values that the product runs,
//! one per pipeline and side, and around them the least that a driver has: channels as queues of records per direction,
//! storage as a list of calls that have not returned, the messages between pipelines. An [`action::Action`] is one step:
//! a record arrives, the transport has taken one, a call returns well or badly, a channel breaks at one end, an end
//! cancels. After each step every output is taken, as in every driver.
//!
//! Beside the machines an [`oracle::Oracle`] keeps what really happened: which blocks are written, whether the target has
//! its name, what each end told its application, how many records each end took of each channel. The properties compare
//! the two; they are listed in [`search`].
//!
//! # What is left out
//!
//! - **Time** stands still. A stall is a break that its end notices late: between the last record and the break any
//!   number of other things happen. The delay of acknowledgements ends when nothing else can happen; patience with an
//!   unacknowledged block ends at any moment, within its budget. Pings are not searched.
//! - **Bytes**: blocks are ranges. Whether the right bytes are in them is the records' protection and the simulation's.
//! - **JOIN, CHANNELS, revocation, strangers**: all channels are up at the start and none is added. They have a model of
//!   their own, [`hostile`], with fewer faults and a participant who keeps to no rule.
//! - **Storage, restarts and power cuts**: a commit is one call. They have a model of their own, [`restart`], around the same session.
//! - **Leases on open files** have a model of their own, [`lease`], with time and without messages of the session.
//! - **Writes behind a commit**: a stage that is committed or dropped takes no more writes; a driver has to see to that.
//! - Bounds are as small as the settings say: at most 3 channels per pipeline, 3 blocks, 2 operations.
//!
//! Every fault has a budget, so the space is finite and has no cycle ([`endless`] looks at every way there is), and a state in which
//! nothing can happen is an end: there every operation must be settled at both ends and forgotten.
//!
//! # Running it
//!
//! `cargo test -p xdfs-test-model` searches the usual settings (more than two million states), and
//! with `XDFS_MODEL` one of them, by its name; `cargo run -p xtask -- long bugs` shows that it finds mistakes, and
//! `cargo run -p xtask -- long model` searches the large ones. The binary of this package
//! searches the settings whose names it is given.

pub mod action;
mod drive;
pub mod endless;
pub mod hostile;
pub mod lease;
mod marked;
pub mod oracle;
pub mod restart;
pub mod search;
pub mod setting;
pub mod settings;
pub mod world;

/// States are copied all the time: a third of a search went into the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
