//! The drivers of this crate, one directory each, and the table of their names.
//!
//! A directory has the driver in `mod.rs`, which says at its head what the driver promises beside the
//! contract of [`crate::Flow`], its open element in `flow.rs` where it is not that of another, and in
//! `tests.rs` the tests of what it promises. What all promise is tested by one suite, `tests/conformance`,
//! which has a row for each; docs/xio.md has a section for each.

mod bounce;
mod fault;
mod file;
#[cfg(test)]
mod flood;
mod gsi;
mod http;
mod noop;
mod op;
mod opening;
mod ordering;
mod pipe;
mod popen;
mod queue;
mod queues;
mod rate;
mod sockets;
mod tcp;
mod telnet;
mod tls;
mod trace;
mod udp;
mod unix;
mod verify;
mod zstd;

use crate::driver::Driver;
use std::sync::Arc;

/// The drivers by name.
pub(crate) fn built_in() -> Vec<(&'static str, Arc<dyn Driver>)> {
    vec![
        ("bounce", Arc::new(bounce::Bounce)),
        ("fault", Arc::<fault::Fault>::default()),
        ("file", Arc::new(file::File)),
        ("gsi", Arc::new(gsi::GsiDriver)),
        ("http", Arc::new(http::Http)),
        ("noop", Arc::new(noop::Noop)),
        ("op", Arc::new(op::Op)),
        ("ordering", Arc::new(ordering::Ordering)),
        ("pipe", Arc::new(pipe::Pipe)),
        ("popen", Arc::new(popen::Popen)),
        ("queue", Arc::new(queue::Queue)),
        ("rate", Arc::new(rate::Rate)),
        ("tcp", Arc::new(tcp::Tcp)),
        ("telnet", Arc::new(telnet::Telnet)),
        ("tls", Arc::new(tls::TlsDriver)),
        ("trace", Arc::<trace::Trace>::default()),
        ("udp", Arc::new(udp::Udp)),
        ("unix", Arc::new(unix::Unix)),
        ("verify", Arc::new(verify::Verify)),
        ("zstd", Arc::new(zstd::Zstd)),
    ]
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_driver_has_its_directory_with_the_same_files() {
        for (name, _) in super::built_in() {
            for file in ["mod.rs", "tests.rs"] {
                let path = format!("{}/src/drivers/{name}/{file}", env!("CARGO_MANIFEST_DIR"));
                assert!(rustix::fs::stat(&path).is_ok(), "there is no {path}");
            }
        }
    }

    /// The page that people read and the tables that the drivers have say the same.
    #[test]
    fn the_page_describes_every_driver_and_every_attribute() {
        let page = include_str!("../../../../docs/xio.md");
        for (name, driver) in super::built_in() {
            let section = page.split("\n### ").find(|section| section.starts_with(&format!("`{name}`\n")));
            let section = section.unwrap_or_else(|| panic!("docs/xio.md has no section on {name}"));
            for info in driver.attributes() {
                // A stroke would end the cell.
                let about = info.about.replace('|', "\\|");
                let row = format!("| `{}` | {about} |", info.name);
                assert!(section.contains(&row), "docs/xio.md, {name}: there is no row {row}");
            }
        }
    }
}
