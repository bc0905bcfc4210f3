//! Computes pi on several machines that meet in two named pipes of a server:
//!
//! ```text
//! xdfs serve --export data=/srv/data --allow-anonymous rw --pipes      # prints its address and key
//! xdfs mkfifo xdfs://HOST/data/tasks xdfs://HOST/data/results
//! parallel_pi worker ADDRESS KEY data                                  # on as many machines as there are
//! parallel_pi coordinator ADDRESS KEY data                             # when they all are there
//! ```

mod work;

use std::error::Error;
use std::sync::Arc;
use xdfs_client::file::Remote;
use xdfs_client::{Address, ConnectOptions, Pinned};

const STEPS: u64 = 100_000_000;
const TASKS: u64 = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, address, key, place] = &words[..] else {
        return Err("usage: parallel_pi coordinator|worker ADDRESS:PORT SHA256:KEY EXPORT[/DIRECTORY]".into());
    };
    let host_check = Arc::new(Pinned(key.parse()?));
    let options = ConnectOptions { host_check, ..ConnectOptions::to(Address::Tcp(address.parse()?)) };
    let server = Remote::new(options);
    match role.as_str() {
        "coordinator" => println!("{}", work::coordinate(&server, place, TASKS, STEPS)?),
        "worker" => println!("{} ranges", work::work(work::join(&server, place)?, STEPS)?),
        other => return Err(format!("'{other}' is neither coordinator nor worker").into()),
    }
    Ok(())
}
