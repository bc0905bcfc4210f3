//! The drivers of this crate.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use xdfs_gridftp::driver;
use xdfs_xio::{Handle, Options, Registry, Stack};

use crate::subject::{Ability, Ends, Lack, Subject, over_loopback};
use crate::support::Server;

/// What none of them can: `mode_e` is one-way, and the others know files.
pub const LACKING: &[Ability] = &[Ability::Messages, Ability::BothWays];

const NO_MESSAGES: Lack = (Ability::Messages, "it carries bytes without limits between them");
const MODE_E: &[Lack] = &[NO_MESSAGES, (Ability::BothWays, "who connects sends, and who listens receives")];
const FILE: &[Lack] = &[
    NO_MESSAGES,
    (Ability::Wait, "a reader at the end of a server's file is at the end"),
    (Ability::BothWays, "a file is opened to be read or to be written, and each end is a session of its own"),
];

/// All drivers.
pub fn subjects() -> Vec<Subject> {
    let stack = "tcp,mode_e:streams=3;block=1000,ordering";
    let mut all = vec![Subject::new(registry(), "mode_e", stack, MODE_E, over_loopback)];
    if let Some([vsftpd, globus]) = servers() {
        all.push(Subject::new(registry(), "ftp", "ftp", FILE, |_, options| file_of(vsftpd, "ftp", options)));
        all.push(Subject::new(registry(), "gridftp", "gridftp", FILE, |_, options| {
            file_of(globus, "gridftp:streams=3", options)
        }));
    }
    all
}

/// Debian's servers, which may be missing.
pub fn servers() -> Option<&'static [Server; 2]> {
    static SERVERS: OnceLock<Option<[Server; 2]>> = OnceLock::new();
    SERVERS.get_or_init(|| Some([Server::vsftpd()?, Server::globus()?])).as_ref()
}

fn registry() -> Arc<Registry> {
    let mut registry = Registry::built_in();
    driver::add_to(&mut registry).unwrap();
    Arc::new(registry)
}

/// A file of a server that is written, and read when it was.
fn file_of(server: &'static Server, driver: &str, options: &Options) -> Ends {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let name = format!("suite-{}", FILES.fetch_add(1, Ordering::Relaxed));
    let file = server.here.join(&name);
    fs::write(&file, b"before").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    let contact = format!("ftp://{}/{}/{name}", server.address, server.there);
    let separator = if driver.contains(':') { ';' } else { ':' };
    let stack = |attributes: &str| Stack::of(registry()).push_all(&format!("{driver}{attributes}")).unwrap();
    let writer = Handle::open(&stack(&format!("{separator}access=write")), &contact, options).unwrap();
    let (reading, options) = (stack(""), *options);
    Ends::later(writer, move || Handle::open(&reading, &contact, &options).unwrap())
}
