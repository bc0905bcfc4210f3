//! Paths as a person types them: relative, with `..`, through links, at pipes and devices.

use crate::bench::{Scratch, make_fifo, names_under};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use xdfs_io::store::{Existing, FileKind, LocalPlace, Store};
use xdfs_proto::base::ErrorKind;
use xdfs_test_conformance::store::bench::{commit, transfer};

fn place(path: &Path) -> xdfs_io::store::Result<LocalPlace> {
    LocalPlace::of(path.as_os_str().as_bytes())
}

fn write(path: &Path, bytes: &[u8]) -> xdfs_io::store::Result<()> {
    let stage = place(path)?.stage(Some(bytes.len() as u64), Existing::Replace, transfer(), None, None, false)?;
    stage.write(bytes, 0)?;
    stage.commit(&commit(bytes.len() as u64)).map(drop)
}

fn read(path: &Path) -> xdfs_io::store::Result<Vec<u8>> {
    let mut source = place(path)?.open()?;
    let mut bytes = vec![0; 4096];
    let count = if source.is_sequential() { source.read(&mut bytes)? } else { source.read_at(&mut bytes, 0)? };
    bytes.truncate(count);
    Ok(bytes)
}

#[test]
fn a_relative_path_starts_at_the_working_directory() {
    // The package's own directory: tests do not change it, since it is the whole process's.
    let here = LocalPlace::of(b"Cargo.toml").unwrap();
    assert_eq!((here.existing, here.name.as_bytes().to_vec()), (Some(FileKind::Regular), b"Cargo.toml".to_vec()));
    assert!(here.open().unwrap().attributes().size.unwrap() > 0);
    let above = LocalPlace::of(b"tests/../Cargo.toml").unwrap();
    assert_eq!(above.open().unwrap().attributes(), here.open().unwrap().attributes());
    assert_eq!(above.open().unwrap().shown(), "tests/../Cargo.toml");
    assert_eq!(LocalPlace::of(b".").unwrap().existing, Some(FileKind::Directory));
}

#[test]
fn a_link_to_a_file_is_the_file() {
    let scratch = Scratch::on_tmpfs();
    let top = scratch.path();
    std::fs::create_dir_all(top.join("data/deep")).unwrap();
    std::fs::write(top.join("data/deep/file"), b"old").unwrap();
    symlink("deep/file", top.join("data/near")).unwrap();
    symlink(top.join("data/near"), top.join("link")).unwrap();
    symlink("data", top.join("dirlink")).unwrap();
    for name in ["link", "dirlink/near", "dirlink/../link"] {
        std::fs::write(top.join("data/deep/file"), b"old").unwrap();
        assert_eq!(read(&top.join(name)).unwrap(), b"old");
        write(&top.join(name), b"newer").unwrap();
        assert_eq!(std::fs::read(top.join("data/deep/file")).unwrap(), b"newer", "{name}");
    }
    // The links are still links, and no part file is left anywhere.
    assert!(top.join("link").symlink_metadata().unwrap().is_symlink());
    assert_eq!(names_under(top).len(), 6);
}

#[test]
fn a_link_to_nothing_is_an_error_both_ways() {
    let scratch = Scratch::on_tmpfs();
    symlink("nowhere", scratch.path().join("link")).unwrap();
    symlink("loop", scratch.path().join("loop")).unwrap();
    let error = place(&scratch.path().join("link")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.message.ends_with("it is a symbolic link to 'nowhere', which does not exist"), "{error}");
    assert!(place(&scratch.path().join("loop")).is_err());
    assert_eq!(names_under(scratch.path()).len(), 2);
}

#[test]
fn a_directory_takes_files_under_their_names() {
    let scratch = Scratch::on_tmpfs();
    let top = scratch.path();
    std::fs::create_dir(top.join("d")).unwrap();
    symlink("d", top.join("link")).unwrap();
    for (index, typed) in ["d", "d/", "d/.", "link", "link/", "d/../d"].into_iter().enumerate() {
        let mut place = place(&top.join(typed)).unwrap();
        assert_eq!((place.existing, place.name.is_root()), (Some(FileKind::Directory), true), "{typed}");
        place.name.push(format!("f{index}").as_bytes()).unwrap();
        let stage = place.stage(None, Existing::Keep, transfer(), None, None, false).unwrap();
        stage.commit(&commit(0)).unwrap();
        assert!(top.join(format!("d/f{index}")).exists(), "{typed}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let scratch = Scratch::on_tmpfs();
    let top = scratch.path().to_str().unwrap();
    std::fs::write(format!("{top}/f"), b"").unwrap();
    let message = |path: &str| LocalPlace::of(path.as_bytes()).unwrap_err().message;
    assert_eq!(message(&format!("{top}/a/b")), format!("cannot find '{top}/a/b': no such directory '{top}/a'"));
    assert_eq!(message(&format!("{top}/a/")), format!("cannot find '{top}/a/': no such directory"));
    assert_eq!(message(&format!("{top}/f/x")), format!("cannot find '{top}/f/x': not a directory"));
    assert_eq!(message(&format!("{top}/f/")), format!("cannot find '{top}/f/': not a directory"));
    assert_eq!(message(""), "cannot find '': the name is empty");
    assert_eq!(message("a\0b"), "cannot find 'a\\x00b': it contains a NUL byte");
    let absent = LocalPlace::of(format!("{top}/x").as_bytes()).unwrap();
    assert_eq!(absent.existing, None);
    assert_eq!(absent.open().unwrap_err().message, format!("cannot open '{top}/x': no such file or directory"));
}

#[test]
fn a_pipe_that_a_shell_made_is_read_and_written_in_order() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&writer, b"from a pipe").unwrap();
    let typed = format!("/dev/fd/{}", reader.as_raw_fd());
    drop(writer);
    assert_eq!(read(Path::new(&typed)).unwrap(), b"from a pipe");

    let scratch = Scratch::on_tmpfs();
    let fifo = scratch.path().join("fifo");
    make_fifo(&fifo);
    std::thread::scope(|scope| {
        scope.spawn(|| write(&fifo, b"through a fifo").unwrap());
        assert_eq!(read(&fifo).unwrap(), b"through a fifo");
    });
    let kept = place(&fifo).unwrap().stage(None, Existing::Keep, transfer(), None, None, false).unwrap_err();
    assert_eq!(kept.kind, ErrorKind::AlreadyExists);
}

#[test]
fn dev_null_swallows_and_files_of_the_kernel_are_read_to_their_end() {
    write(Path::new("/dev/null"), b"gone").unwrap();
    assert_eq!(read(Path::new("/dev/null")).unwrap(), b"");
    let status = read(Path::new("/proc/self/status")).unwrap();
    assert!(status.starts_with(b"Name:"), "{}", status.escape_ascii());
}

#[test]
fn a_place_that_turns_into_a_link_after_it_was_looked_at_is_refused() {
    let scratch = Scratch::on_tmpfs();
    let (file, victim) = (scratch.path().join("file"), scratch.path().join("victim"));
    std::fs::write(&victim, b"untouched").unwrap();
    let found = place(&file).unwrap();
    symlink(&victim, &file).unwrap();
    assert_eq!(
        found.stage(None, Existing::Replace, transfer(), None, None, false).unwrap_err().kind,
        ErrorKind::NotRegular
    );
    assert_eq!(found.store.open(&found.name).unwrap_err().kind, ErrorKind::NotRegular);
    assert_eq!(std::fs::read(&victim).unwrap(), b"untouched");
}
