//! Tests of the table of inodes.

use super::*;
use proptest::prelude::*;
use std::time::Duration;

fn identity(of: u8) -> Identity {
    [of; 16]
}

fn table() -> Inodes {
    Inodes::new(identity(0))
}

fn a_directory(of: u8) -> Found {
    Found { identity: identity(of), directory: true, only_name: true }
}

/// One of several names of a file.
fn a_link(of: u8) -> Found {
    Found { identity: identity(of), directory: false, only_name: false }
}

fn a_file(of: u8) -> Found {
    Found { only_name: true, ..a_link(of) }
}

#[test]
fn a_renamed_directory_moves_everything_below_it() {
    let mut table = table();
    let one = table.look_up(ROOT, b"one", a_directory(1)).unwrap();
    let two = table.look_up(one, b"two", a_directory(2)).unwrap();
    let file = table.look_up(two, b"file", a_file(3)).unwrap();
    let other = table.look_up(ROOT, b"other", a_directory(4)).unwrap();
    assert_eq!(table.path(file).as_deref(), Some(&b"one/two/file"[..]));
    table.renamed((one, b"two"), (other, b"moved"));
    assert_eq!(table.path(file).as_deref(), Some(&b"other/moved/file"[..]));
    assert!(table.is_below(file, other) && !table.is_below(file, one));
}

#[test]
fn an_inode_goes_when_nothing_needs_it_and_its_parents_with_it() {
    let mut table = table();
    let directory = table.look_up(ROOT, b"d", a_directory(1)).unwrap();
    let file = table.look_up(directory, b"f", a_file(2)).unwrap();
    assert_eq!(table.look_up(directory, b"f", a_file(2)), Some(file));
    table.forget(directory, 1);
    assert_eq!(table.path(file).as_deref(), Some(&b"d/f"[..]), "its file is still known");
    table.open(file);
    table.forget(file, 2);
    assert_eq!(table.len(), 3, "it is open");
    assert_eq!(table.close(file), None);
    assert_eq!(table.len(), 1);
    assert_eq!(table, Inodes { next: table.next, ..Inodes::new(identity(0)) });
}

#[test]
fn what_is_new_is_no_inode_that_is_known_by_its_identity() {
    let mut table = table();
    let top = table.look_up(ROOT, b"top", a_directory(1)).unwrap();
    let removed = table.look_up(top, b"removed", a_directory(2)).unwrap();
    // The server has removed it and given its number away; its answer comes later.
    table.made(identity(2));
    let new = table.look_up(ROOT, b"new", a_directory(2)).unwrap();
    assert_ne!(new, removed);
    assert_eq!((table.path(removed), table.named(top, b"removed")), (None, None));
    table.unlinked(top, b"removed");
    table.forget(removed, 1);
    assert_eq!(table.path(new).as_deref(), Some(&b"new"[..]));
    assert_eq!(table.look_up(ROOT, b"new", a_directory(2)), Some(new));
}

#[test]
fn hard_links_are_one_inode_and_either_name_leads_to_it() {
    let mut table = table();
    let file = table.look_up(ROOT, b"a", a_link(1)).unwrap();
    assert_eq!(table.look_up(ROOT, b"b", a_link(1)), Some(file));
    table.open(file);
    assert_eq!(table.is_last_name_of_open(ROOT, b"a"), None);
    table.unlinked(ROOT, b"a");
    assert_eq!(table.path(file).as_deref(), Some(&b"b"[..]));
    assert_eq!(table.is_last_name_of_open(ROOT, b"b"), Some(file));
}

#[test]
fn a_hidden_file_is_removed_with_its_last_close() {
    let mut table = table();
    let file = table.look_up(ROOT, b"a", a_file(1)).unwrap();
    table.open(file);
    table.open(file);
    assert_eq!(table.hid(ROOT, b"a", b".hidden"), None);
    assert!(table.is_hidden(file));
    assert_eq!(table.named(ROOT, b"a"), None);
    assert_eq!(table.path(file).as_deref(), Some(&b".hidden"[..]));
    assert_eq!(table.close(file), None);
    assert_eq!(table.close(file).as_deref(), Some(&b".hidden"[..]));
    assert_eq!(table.path(file), None);
    table.forget(file, 1);
    assert_eq!(table.len(), 1);
}

#[test]
fn a_file_that_is_closed_while_it_gets_a_hidden_name_is_removed() {
    let mut table = table();
    let file = table.look_up(ROOT, b"a", a_file(1)).unwrap();
    table.open(file);
    assert_eq!(table.is_last_name_of_open(ROOT, b"a"), Some(file));
    assert_eq!(table.close(file), None);
    assert_eq!(table.hid(ROOT, b"a", b".hidden").as_deref(), Some(&b".hidden"[..]));
    assert_eq!(table.path(file), None);
}

#[test]
fn a_hidden_file_stays_hidden_when_it_is_moved() {
    let mut table = table();
    let directory = table.look_up(ROOT, b"d", a_directory(1)).unwrap();
    let file = table.look_up(directory, b"a", a_file(2)).unwrap();
    table.look_up(directory, b"b", a_file(3)).unwrap();
    table.open(file);
    assert_eq!(table.hid(directory, b"a", b".hidden"), None);
    assert_eq!(table.hidden_in(directory), [(file, b".hidden".to_vec())]);
    table.renamed((directory, b".hidden"), (ROOT, b".other"));
    assert_eq!(table.hidden_in(directory), []);
    assert_eq!(table.close(file).as_deref(), Some(&b".other"[..]));
}

#[test]
fn the_last_close_of_a_hidden_file_removes_its_hidden_name_and_no_other() {
    // Another hard link is looked up before the file has its hidden name, behind that, or both.
    for (before, behind) in [(true, false), (false, true), (true, true)] {
        let mut table = table();
        let file = table.look_up(ROOT, b"a", a_link(1)).unwrap();
        table.open(file);
        assert_eq!(table.is_last_name_of_open(ROOT, b"a"), Some(file));
        if before {
            assert_eq!(table.look_up(ROOT, b"b", a_link(1)), Some(file));
        }
        assert_eq!(table.hid(ROOT, b"a", b".hidden"), None);
        if behind {
            assert_eq!(table.look_up(ROOT, b"b", a_link(1)), Some(file));
        }
        assert!(table.is_hidden(file));
        assert_eq!(table.path(file).as_deref(), Some(&b".hidden"[..]));
        assert_eq!(table.hidden_in(ROOT), [(file, b".hidden".to_vec())]);
        assert_eq!(table.close(file).as_deref(), Some(&b".hidden"[..]));
        assert_eq!((table.is_hidden(file), table.path(file).as_deref()), (false, Some(&b"b"[..])));
    }
}

#[test]
fn another_file_under_a_known_name_is_another_inode() {
    let mut table = table();
    let old = table.look_up(ROOT, b"a", a_file(1)).unwrap();
    let new = table.look_up(ROOT, b"a", a_file(2)).unwrap();
    assert_ne!(old, new);
    assert_eq!(table.path(old), None);
    // The number of a removed file is given to the next one.
    table.unlinked(ROOT, b"a");
    let reused = table.look_up(ROOT, b"b", a_file(2)).unwrap();
    assert_ne!(reused, new);
}

#[test]
fn a_name_that_the_kernel_may_still_use_is_asked_for_with_a_reason() {
    let mut table = table();
    let file = table.look_up(ROOT, b"a", a_file(1)).unwrap();
    let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
    assert!(!table.is_told(ROOT, b"a", now), "nobody said until when");
    table.told(file, later);
    assert!(table.is_told(ROOT, b"a", now) && !table.is_told(ROOT, b"a", later));
    assert!(!table.is_told(ROOT, b"b", now), "another name");
    table.open(file);
    table.forget(file, 1);
    assert!(!table.is_told(ROOT, b"a", now), "the kernel has forgotten it");
}

#[test]
fn a_directory_is_never_below_itself() {
    let mut table = table();
    let a = table.look_up(ROOT, b"a", a_directory(1)).unwrap();
    let b = table.look_up(a, b"b", a_directory(2)).unwrap();
    let again = table.look_up(b, b"c", a_directory(1)).unwrap();
    assert_ne!(again, a);
    assert_eq!(table.path(again).as_deref(), Some(&b"a/b/c"[..]));
    assert_eq!(table.path(b).as_deref(), Some(&b"a/b"[..]));
}

fn found(of: u8, pick: usize) -> Found {
    match (of % 2, pick % 2) {
        (0, _) => a_directory(of),
        (_, 0) => a_file(of),
        _ => a_link(of),
    }
}

#[test]
fn a_file_that_somebody_else_renamed_is_found_by_its_latest_name() {
    for (found, names) in [(a_file(1), 1), (a_link(1), 2)] {
        let mut table = table();
        let moved = table.look_up(ROOT, b"log", found).unwrap();
        assert_eq!(table.look_up(ROOT, b"log.1", found), Some(moved));
        assert_eq!(table.path(moved).as_deref(), Some(&b"log.1"[..]));
        assert_eq!(table.inodes[&moved].names.iter().count(), names);
        let new = table.look_up(ROOT, b"log", a_file(2)).unwrap();
        assert_eq!((table.path(moved), table.path(new)), (Some(b"log.1".to_vec()), Some(b"log".to_vec())));
        // Back again.
        assert_eq!(table.look_up(ROOT, b"log", found), Some(moved));
        assert_eq!(table.path(moved).as_deref(), Some(&b"log"[..]));
        assert_eq!(table.path(new), None);
    }
}

#[test]
fn a_listing_that_is_older_than_a_rename_is_recognized() {
    let mut table = table();
    table.look_up(ROOT, b"old", a_file(1)).unwrap();
    table.renamed((ROOT, b"old"), (ROOT, b"new"));
    assert!(table.is_known_otherwise(ROOT, b"old", identity(1)));
    assert!(!table.is_known_otherwise(ROOT, b"new", identity(1)));
    assert!(!table.is_known_otherwise(ROOT, b"other", identity(2)), "it was never seen");
}

proptest! {
    /// Whatever happens, the two directions of the names agree, and when the kernel has forgotten
    /// everything nothing is left.
    #[test]
    fn the_table_agrees_with_itself_and_empties(
        steps in proptest::collection::vec((0_u8..7, 0_usize..6, 0_usize..6, 0_u8..4, 1_u8..6), 1..80)
    ) {
        let mut table = table();
        let (mut told, mut open): (Vec<u64>, Vec<u64>) = (vec![ROOT], Vec::new());
        for (what, one, two, name, of) in steps {
            let (at, to, name) = (told[one % told.len()], told[two % told.len()], [b'a' + name]);
            match what {
                0 | 1 => told.extend(table.look_up(at, &name, found(of, two))),
                2 if table.inodes.contains_key(&at) => (table.open(at), open.push(at)).1,
                3 => table.renamed((at, &name), (to, b"n")),
                4 => table.unlinked(at, &name),
                5 if table.is_last_name_of_open(at, &name).is_some() => drop(table.hid(at, &name, b".h")),
                _ => drop(open.pop().map(|id| table.close(id))),
            }
            for (at, id) in &table.names {
                prop_assert!(table.inodes[id].names.iter().any(|name| name == at));
                prop_assert!(table.inodes.contains_key(&at.0));
            }
            for (id, inode) in &table.inodes {
                prop_assert!(inode.names.iter().all(|at| table.names.get(at) == Some(id)));
                prop_assert_eq!(inode.children, table.names.keys().filter(|at| at.0 == *id).count());
                let _ = table.path(*id);
            }
        }
        open.into_iter().for_each(|id| drop(table.close(id)));
        told.into_iter().skip(1).for_each(|id| table.forget(id, 1));
        prop_assert_eq!(table.len(), 1);
        prop_assert!(table.names.is_empty());
    }
}
