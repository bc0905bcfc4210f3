//! A driver that is dropped into a folder is measured by the program as it is (PERF-32).
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "writes a file that is no driver")]

mod support;

use std::path::Path;
use std::process::Command;

use support::{Outcome, globus, xioperf, xioperf_in, xioperf_with_drivers};
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

/// A file that is no driver, under the name of one.
fn broken() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libxdfs_xio_skeleton.so"), b"no library").unwrap();
    folder
}

#[test]
fn drivers_are_found_in_ld_library_path_too_and_in_xdfs_driver_path_before_it() {
    let (good, bad) = (skeletons(), broken());
    let at = |folder: &TempDir| folder.path().to_str().unwrap().to_owned();
    let with = |driver_path: &str, library_path: &str, line: &str| {
        let set = [("XDFS_DRIVER_PATH", driver_path), ("LD_LIBRARY_PATH", library_path)];
        xioperf_in(&set.map(|(name, value)| (name.to_owned(), value.to_owned())), line)
    };
    let (good, bad, nowhere) = (at(&good), at(&bad), "/nonexistent:relative");
    let (later, relative) = (format!("{nowhere}:{good}"), "target:.");
    for (driver_path, library_path) in [("", good.as_str()), (nowhere, &later), (&good, &bad)] {
        let mut server = with(driver_path, library_path, "-s -D tcp -D skeleton:key=9 -B 127.0.0.1");
        let contact = format!("-c 127.0.0.1:{} -n 1M -D tcp -D skeleton=9", server.port());
        with(driver_path, library_path, &contact).succeeds();
        assert_eq!(server.succeeds().field("Bytes recv:"), "1.00 M", "{driver_path} {library_path}");
    }
    let refused = with(&bad, &good, "-s -D tcp -D skeleton=9").wait();
    assert!(refused.code != 0 && refused.errors.contains(&format!("{bad}/libxdfs_xio_skeleton.so")), "{refused:?}");
    let refused = with("", relative, "-s -D tcp -D skeleton=9").wait();
    assert!(refused.code != 0 && refused.errors.contains("there is no driver 'skeleton'"), "{refused:?}");
}

#[test]
fn streams_are_parallel_over_loaded_drivers() {
    let folder = skeletons();
    let mut server = xioperf_with_drivers(folder.path(), "-s -P 4 -D skeleton_block -D skeleton:key=9 -B 127.0.0.1");
    let contact = format!("-c 127.0.0.1:{} -P 4 -n 10M", server.port());
    let client = xioperf_with_drivers(folder.path(), &format!("{contact} -D skeleton_block -D skeleton=9")).succeeds();
    let server = server.succeeds();
    assert_eq!(
        (client.field("Bytes sent:"), server.field("Bytes recv:")),
        ("10.00 M".to_owned(), "10.00 M".to_owned())
    );
    for outcome in [&client, &server] {
        (1..=4).for_each(|stream| drop(outcome.field(&format!("Stream {stream}"))));
    }
}

/// A folder with `drivers/udt-ref`, compiled as its first lines say; none where its library is missing.
fn udt() -> Option<TempDir> {
    let header = Path::new("/usr/include/udt/udt.h");
    let missing = || "UDT's library: install libudt-dev".to_owned();
    xdfs_test_needs::found(header.exists().then_some(()).ok_or_else(missing))?;
    let (folder, root) = (tempfile::tempdir().unwrap(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let mut compiler = Command::new("c++");
    compiler.args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]);
    compiler.arg(format!("-I{}", root.join("crates/xio/include").display()));
    compiler.arg("-o").arg(folder.path().join("libxdfs_xio_udt_ref.so"));
    compiler.arg(root.join("drivers/udt-ref/udt_ref.cpp"));
    compiler.args(["-Wl,--wrap=close,--wrap=pthread_join,--exclude-libs,ALL", "-l:libudt.a"]);
    assert!(compiler.status().unwrap().success(), "{compiler:?}");
    Some(folder)
}

/// Both say that they moved all of it. That is little: on a busy machine, UDT moves a MiB a second, whoever sends.
fn moved(client: &Outcome, server: &Outcome) {
    assert_eq!(client.field("Bytes sent:"), "4.00 M");
    assert_eq!(server.field("Bytes recv:"), "4.00 M");
}

#[test]
fn udt_is_a_driver_that_is_loaded_and_is_understood_by_globus_both_ways() {
    let driver = Path::new("/usr/lib/x86_64-linux-gnu/libglobus_xio_udt_driver.so");
    let missing = || "the driver udt of Globus XIO: install libglobus-xio-udt-driver".to_owned();
    let theirs = xdfs_test_needs::found(driver.exists().then_some(()).ok_or_else(missing));
    let (Some(folder), Some(())) = (udt(), theirs) else { return };
    let ours = |line: &str| xioperf_with_drivers(folder.path(), line);

    // Its own end, where the server writes, too.
    let mut server = ours("-s -D udt_ref");
    let client = ours(&format!("-c 127.0.0.1:{} -D udt_ref:mss=9000 -n 4M", server.port())).succeeds();
    moved(&client, &server.succeeds());
    let mut server = ours("-s -D udt_ref -B 127.0.0.1 -S -n 4M");
    let client = ours(&format!("-c 127.0.0.1:{} -D udt_ref -R -t 50", server.port())).succeeds();
    moved(&server.succeeds(), &client);

    // The server's bytes, with theirs at either end: a client of theirs and a server of ours, and the other way round.
    let mut server = ours("-s -D udt_ref -B 127.0.0.1 -S -n 4M");
    let client = globus(&format!("-c 127.0.0.1:{} -D udt -R -t 50", server.port())).succeeds();
    moved(&server.succeeds(), &client);
    let mut server = globus("-s -D udt -S -n 4M");
    let client = ours(&format!("-c 127.0.0.1:{} -D udt_ref -R -t 50", server.port())).succeeds();
    moved(&server.succeeds(), &client);
    // A file, both ways.
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (source, copy) = (path("source"), path("copy"));
    let content: Vec<u8> = (0..3_000_017_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&source, &content).unwrap();
    let mut server = ours(&format!("-s -D udt_ref -B 127.0.0.1 -F {copy}"));
    globus(&format!("-c 127.0.0.1:{} -D udt -F {source}", server.port())).succeeds();
    server.succeeds();
    assert!(std::fs::read(&copy).unwrap() == content, "theirs sends");
    std::fs::write(&copy, b"").unwrap();
    let mut server = globus(&format!("-s -D udt -F {copy}"));
    ours(&format!("-c 127.0.0.1:{} -D udt_ref -F {source}", server.port())).succeeds();
    server.succeeds();
    assert!(std::fs::read(&copy).unwrap() == content, "ours sends");

    let mut server = ours("-s -D udt_ref -B 127.0.0.1");
    let client = globus(&format!("-c 127.0.0.1:{} -D udt -n 4M", server.port())).succeeds();
    moved(&client, &server.succeeds());
    let mut server = globus("-s -D udt");
    let client = ours(&format!("-c 127.0.0.1:{} -D udt_ref -n 4M", server.port())).succeeds();
    moved(&client, &server.succeeds());
}

#[test]
fn what_is_wrong_with_udt_is_told() {
    let Some(folder) = udt() else { return };
    let wrong = xioperf_with_drivers(folder.path(), "-c 127.0.0.1:1 -D udt_ref:mss=7 -n 1M").wait();
    assert!(wrong.code != 0 && wrong.errors.contains("udt_ref"), "{wrong:?}");
    let nobody = xioperf_with_drivers(folder.path(), "-c 127.0.0.1:9 -D udt_ref -n 1M").wait();
    assert!(nobody.code != 0 && nobody.errors.contains("timed out"), "{nobody:?}");
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
