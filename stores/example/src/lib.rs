//! A store in a crate of its own, and the skeleton of the next one: files are objects of a service
//! that has the limits of object stores.
//!
//! An object is written whole or in parts of a least size, in order; it appears when the service has
//! it all, is never renamed and never changed in place. The service is [`Bucket`], in memory. A store
//! for a real one replaces that module by its client and keeps the rest: [`ObjectStore`] says what a
//! path means, `source` reads an object by ranges, `stage` writes one. `docs/write-a-store.md`
//! explains the steps.

#![forbid(unsafe_code)]

mod bucket;
mod source;
mod stage;
mod store;

pub use bucket::{Bucket, Metadata, Object};
pub use store::ObjectStore;

use std::sync::Arc;
use xdfs_io::store::errors::{self, Verb};
use xdfs_io::store::{Registration, Result, Store};
use xdfs_proto::base::ErrorKind;

/// How an export names this store: `example-objects:`, or `example-objects:MIB` with its size.
pub const REGISTRATION: Registration = Registration { word: "example-objects", addressed: true, open };

/// Size of a bucket whose size nobody wrote, in MiB.
const MIB_DEFAULT: u64 = 64;
/// Most that can be written: the bucket is in memory.
const MIB_MAX: u64 = 4096;

fn open(address: &str) -> Result<Arc<dyn Store>> {
    let size = if address.is_empty() { Some(MIB_DEFAULT) } else { address.parse().ok() };
    match size.filter(|size| (1..=MIB_MAX).contains(size)) {
        Some(size) => Ok(Arc::new(ObjectStore::new(Bucket::new(size << 20)))),
        None => {
            let name = format!("{}:{}", REGISTRATION.word, address.escape_default());
            let because = format!("what follows the colon is its size in MiB, 1 to {MIB_MAX}");
            Err(errors::refused(ErrorKind::InvalidPath, Verb::Open, &name, &because))
        }
    }
}
