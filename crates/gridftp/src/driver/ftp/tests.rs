//! What `ftp` and `gridftp` refuse before they connect; `crates/gridftp/tests/remote_file.rs` has servers.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::sync::Arc;
use xdfs_xio::{ErrorKind, Registry, Stack};

#[test]
fn attributes_that_contradict_each_other_are_refused() {
    let mut registry = Registry::empty();
    crate::driver::add_to(&mut registry).unwrap();
    let stack = Stack::of(Arc::new(registry));
    for (attributes, words) in [
        ("credential=/proxy", "certificates are for gsiftp://"),
        ("protection=clear", "certificates are for gsiftp://"),
        ("streams=0", "1 to 64"),
        ("streams=65", "1 to 64"),
        ("mode=x", "'mode' is s or e"),
        ("mode=s;streams=2", "one connection"),
        ("access=both", "'access' is read, write or append"),
        ("access=write;length=1", "'length' is for reading"),
        ("access=append;offset=1", "leave 'offset' out"),
        ("offset=1;length=18446744073709551615", "too long"),
    ] {
        let stack = stack.clone().push("gridftp", attributes).unwrap();
        let error = xdfs_xio::Handle::open(&stack, "ftp://127.0.0.1/a", &xdfs_xio::Options::default()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Usage | ErrorKind::Contact), "{attributes}");
        assert!(error.to_string().contains(words), "{attributes}: {error}");
    }
}
