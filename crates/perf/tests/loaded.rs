//! A driver that is dropped into a folder is measured by the program as it is (PERF-32).
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]

mod support;

use std::path::Path;
use std::process::Command;

use support::{xioperf, xioperf_with_drivers};
use tempfile::TempDir;

/// A folder with the drivers of `drivers/skeleton`.
fn skeletons() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in ["skeleton", "skeleton_block"] {
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC"]).arg(format!("-I{}", root.join("crates/xio/include").display()));
        compiler.arg(root.join(format!("drivers/skeleton/{name}.c")));
        compiler.arg("-o").arg(folder.path().join(format!("libxdfs_xio_{name}.so")));
        assert!(compiler.status().unwrap().success(), "{compiler:?}");
    }
    folder
}

#[test]
fn drivers_that_were_dropped_into_a_folder_are_named_by_d() {
    let folder = skeletons();
    let mut server = xioperf_with_drivers(folder.path(), "-s -D tcp -D skeleton:key=9 -B 127.0.0.1");
    let contact = format!("-c 127.0.0.1:{} -n 10M", server.port());
    let client = xioperf_with_drivers(folder.path(), &format!("{contact} -D skeleton_block -D skeleton=9")).succeeds();
    let server = server.succeeds();
    assert_eq!(client.field("Bytes sent:"), "10.00 M");
    assert_eq!(server.field("Bytes recv:"), "10.00 M");
}

#[test]
fn a_driver_that_is_nowhere_is_told_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = xioperf_with_drivers(folder.path(), "-s -D nosuch").wait();
    assert!(outcome.errors.contains("libxdfs_xio_nosuch.so"), "{outcome:?}");
    assert!(outcome.errors.contains(folder.path().to_str().unwrap()), "{outcome:?}");
    let outcome = xioperf("-s -D skeleton").wait();
    assert!(outcome.errors.contains("there is no driver 'skeleton'"), "{outcome:?}");
}
