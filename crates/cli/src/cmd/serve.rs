//! `xdfs serve`: offers directories until it is told to stop.
//!
//! The server runs on a thread of its own; this one waits for signals and for that thread's end.

use std::sync::Arc;

use xdfs_proto::base::Error;
use xdfs_server::{Address, Config, DiskMode, Export, Log, LogEvent, Policy, Server, ServerLimits, TransportOptions};
use xdfs_xio::store::{LocalStore, MemoryExport};

use super::notify;
use crate::descriptors;
use crate::exit::{Exit, Failure};
use crate::output::{JsonLines, Ready, complain, print};
use crate::plan::{ExportPlan, Root, ServePlan};
use crate::signal::{Asked, Signals};
use crate::text::printable_path;

/// Serves until SIGTERM or Ctrl-C, and then until the running transfers have ended.
pub(crate) fn run(plan: ServePlan) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    let limit = descriptors::raise_limit();
    if let (fitting, Some(message)) = descriptors::channels_that_fit(plan.channels_max, limit) {
        complain(&format!("sessions of more than {fitting} channels will fail: {message}"));
    }
    let exports = plan.exports.iter().map(export).collect::<Result<Vec<_>, _>>()?;
    let config = Config {
        listen: Address::Tcp(plan.listen),
        transport: TransportOptions::default(),
        exports,
        policy: Policy { channels_max: plan.channels_max, floor: plan.level_min, ..Policy::default() },
        limits: ServerLimits::default(),
        disk: DiskMode::default(),
        log: log(plan.quiet),
    };
    // What stops a server from listening is the network, whatever its kind.
    let server = Server::bind(config).map_err(|error| Failure::new(Exit::ConnectionLost, error.to_string()))?;
    let handle = server.handle();
    announce(&plan, &server.address().to_string())?;
    notify::notify(notify::READY);

    let teller = signals.teller()?;
    let serving = std::thread::spawn(move || {
        let _teller = teller;
        server.run()
    });
    let mut exit = Exit::Done;
    loop {
        match signals.wait() {
            Asked::Report => handle.status(),
            Asked::Ended => break,
            asked @ (Asked::Interrupt | Asked::Terminate) => {
                if asked == Asked::Interrupt {
                    exit = Exit::Cancelled;
                }
                notify::notify(notify::STOPPING);
                handle.drain();
            }
        }
    }
    match serving.join() {
        Ok(Ok(())) => Ok(exit),
        Ok(Err(error)) => Err(ended(&error)),
        Err(_) => {
            Err(Failure::new(Exit::SomeFailed, "the server failed; this is a bug, please report the lines above"))
        }
    }
}

fn ended(error: &Error) -> Failure {
    Failure::new(Exit::ConnectionLost, format!("the server cannot go on: {error}"))
}

fn export(plan: &ExportPlan) -> Result<Export, Failure> {
    let name = plan.name.clone();
    let writable = plan.writable;
    Ok(match &plan.root {
        Root::Memory => Export::open_to_all(name, Arc::new(MemoryExport), writable),
        Root::Directory(path) => {
            let store = LocalStore::open_root(path, writable).map_err(|error| {
                let shown = printable_path(path);
                Failure::new(
                    Exit::LocalStorage,
                    format!("--export {name}={shown}: {error}; name a directory that is there"),
                )
            })?;
            Export::open_to_all(name, Arc::new(store), writable)
        }
    })
}

/// One line when it is ready, whatever else is said.
fn announce(plan: &ServePlan, address: &str) -> Result<(), Failure> {
    if plan.json {
        return JsonLines.write(&Ready { address: address.to_owned(), host_key: None });
    }
    let names: Vec<String> = plan
        .exports
        .iter()
        .map(|export| format!("{}{}", export.name, if export.writable { "" } else { " (read-only)" }))
        .collect();
    print(&format!("xdfs is ready on {address}, without a host key until xSec, and offers {}\n", names.join(", ")))
}

/// The log is standard error, a line for each event; a supervisor adds the time.
fn log(quiet: bool) -> Log {
    Arc::new(move |event| {
        let worth_it = match event {
            LogEvent::SessionOpened { .. } | LogEvent::SessionEnded { error: None, .. } => !quiet,
            LogEvent::Transfer { error: None, .. } | LogEvent::Draining { .. } => !quiet,
            _ => true,
        };
        if worth_it {
            complain(&event.to_string());
        }
    })
}
