//! What a layer costs: writes of one byte through 0, 1 and 16 `noop` above a transport that does nothing.

use crate::{System, Table, rounds};
use std::hint::black_box;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Instant;
use xdfs_xio::{
    Attributes, Below, Contact, Driver, Flow, Handle, Kind, Options, ReadInfo, Registry, Result, Stack, WriteInfo,
};

const OPERATIONS: u32 = 1_000_000;

/// A tenth of a millisecond: most of such runs end before the kernel has a busy machine do something else.
const OPERATIONS_OF_SHORT: u32 = 2_000;
const ROUNDS_OF_SHORT: usize = 500;

struct Null;

struct NullFlow;

impl Driver for Null {
    fn kind(&self) -> Kind {
        Kind::Transport
    }

    fn open(&self, _: &Below, _: &Contact, _: &Attributes) -> Result<Box<dyn Flow>> {
        Ok(Box::new(NullFlow))
    }
}

impl Flow for NullFlow {
    fn receive(&mut self, into: &mut [IoSliceMut<'_>], _: &mut ReadInfo) -> io::Result<usize> {
        Ok(into.iter().map(|slice| slice.len()).sum())
    }

    fn send(&mut self, from: &[IoSlice<'_>], _: &WriteInfo) -> io::Result<usize> {
        Ok(from.iter().map(|slice| slice.len()).sum())
    }
}

/// Prints what one layer and sixteen of them add to an operation.
pub(crate) fn run(count: usize, table: &mut Table) -> io::Result<()> {
    let mut registry = Registry::built_in();
    registry.add("null", Arc::new(Null))?;
    let registry = Arc::new(registry);
    let open = |layers: usize| -> io::Result<Handle> {
        let bottom = Stack::of(registry.clone()).push("null", "")?;
        let stack = (0..layers).try_fold(bottom, |stack, _| stack.push("noop", ""))?;
        Ok(Handle::open(&stack, "nowhere", &Options::default())?)
    };
    let handles = [open(0)?, open(1)?, open(16)?];
    let operations = table.work(OPERATIONS, OPERATIONS_OF_SHORT);
    let system = |name, handle| -> System<'_> { (name, Box::new(move || write(handle, operations))) };
    let mut systems = [system("none", &handles[0]), system("one", &handles[1]), system("sixteen", &handles[2])];
    // Short runs: many rounds, so that some are not disturbed.
    let taken = rounds(count.max(table.work(31, ROUNDS_OF_SHORT)), &mut systems)?;
    let [none, one, sixteen] = [0, 1, 2].map(|at| taken[at]);
    println!(
        "| a write of a byte through the handle alone | {:.1} ns | {:.1} ns | | |",
        none.best * 1e9,
        none.median * 1e9
    );
    let add = |of: crate::Taken| ((of.best - none.best) * 1e9, (of.median - none.median) * 1e9);
    table.goal("one `noop` adds to an operation", add(one).0, add(one).1, 5.0, " ns");
    table.goal("sixteen `noop` add", add(sixteen).0, add(sixteen).1, 100.0, " ns");
    Ok(())
}

fn write(handle: &Handle, operations: u32) -> io::Result<f64> {
    let started = Instant::now();
    for _ in 0..operations {
        black_box(handle.write(black_box(&[7]))?);
    }
    Ok(started.elapsed().as_secs_f64() / f64::from(operations))
}
