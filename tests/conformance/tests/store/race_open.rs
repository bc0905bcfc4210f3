//! B04 in short for files that are used in place, pipes and watches: while a directory on the way, or the name itself, is exchanged
//! with a link that leads out, they are opened many times. Nothing outside is read, made, written or watched.

use crate::bench::{make_fifo, names_under};
use crate::race::{World, race};
use xdfs_io::store::{Mark, OpenFile, OpenRequest, Store, Watcher};
use xdfs_test_conformance::store::bench::path;

const READ: OpenRequest = OpenRequest { read: true, write: false, create: false, exclusive: false, mode: 0o600 };
const BOTH: OpenRequest = OpenRequest { write: true, ..READ };
const CREATE: OpenRequest = OpenRequest { create: true, ..BOTH };

fn reads_inside(file: &OpenFile) {
    let mut buf = [0; 6];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 6);
    assert_eq!(&buf, b"inside");
}

#[test]
fn an_exchanged_directory_never_lets_an_open_file_out() {
    let world = World::new();
    let inside = world.store.open_file(&path("d/e/x"), &READ).unwrap().0.identity().unwrap();
    race(&world.at("d"), &world.at("link"), |round| {
        let (target, request) = match round % 3 {
            0 => ("d/e/x", READ),
            1 => ("d/e/x", CREATE),
            _ => ("d/e/new", CREATE),
        };
        let Ok((file, created)) = world.store.open_file(&path(target), &request) else { return false };
        if target == "d/e/x" {
            assert!(!created);
            assert_eq!(file.identity().unwrap(), inside);
            reads_inside(&file);
        }
        if request.write {
            file.write_at(b"inside", 0).unwrap();
        }
        true
    });
    world.outside_is_untouched();
    assert_eq!(names_under(&world.at("d/e")), [b"new".to_vec(), b"x".to_vec(), b"xlink".to_vec()]);
}

#[test]
fn an_exchanged_directory_never_lets_a_new_open_file_out() {
    let world = World::new();
    let exclusive = OpenRequest { exclusive: true, ..CREATE };
    race(&world.at("d"), &world.at("link"), |round| {
        let name = format!("d/e/new{round}");
        world.store.open_file(&path(&name), &exclusive).is_ok_and(|(_, created)| created)
    });
    world.outside_is_untouched();
}

#[test]
fn an_exchanged_file_never_lets_an_open_file_through_its_link() {
    let world = World::new();
    for request in [READ, BOTH, CREATE] {
        race(&world.at("d/e/x"), &world.at("d/e/xlink"), |_| match world.store.open_file(&path("d/e/x"), &request) {
            Ok((file, created)) => {
                assert!(!created, "the name is never missing");
                reads_inside(&file);
                if request.write {
                    file.write_at(b"inside", 0).unwrap();
                }
                true
            }
            Err(_) => false,
        });
    }
    world.outside_is_untouched();
}

#[test]
fn an_exchanged_directory_never_lets_a_pipe_out() {
    let world = World::new();
    let outside = world.scratch.path().join("outside/e/p");
    make_fifo(&world.at("d/e/p"));
    make_fifo(&outside);
    let inside = world.store.open_pipe(&path("d/e/p"), false).unwrap().identity;
    race(&world.at("d"), &world.at("link"), |round| match world.store.open_pipe(&path("d/e/p"), round % 2 == 0) {
        Ok(pipe) => {
            assert_eq!(pipe.identity, inside);
            true
        }
        Err(_) => false,
    });
    std::fs::remove_file(outside).unwrap();
    world.outside_is_untouched();
}

#[test]
fn an_exchanged_directory_never_lets_a_watch_out() {
    let world = World::new();
    let watcher = Watcher::new().unwrap();
    let watch = || {
        let mut marks = Vec::new();
        let watched = world.store.watch(&path("d/e"), &watcher, &mut marks);
        (watched.is_ok(), marks)
    };
    let (_, inside): (bool, Vec<Mark>) = watch();
    assert_eq!(inside.len(), 2);
    race(&world.at("d"), &world.at("link"), |_| {
        let (watched, marks) = watch();
        // A directory has one mark, whichever name led to it.
        assert!(inside.starts_with(&marks), "{marks:?}, where those inside are {inside:?}");
        watched
    });
}
