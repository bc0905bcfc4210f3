//! Kills and errors at every call by which a group of small files is put, and power cuts behind each of its steps.

use std::path::Path;
use xdfs_test_crash::batch;
use xdfs_test_crash::loopback::Disk;
use xdfs_test_crash::small::sweep;
use xdfs_test_crash::small_cuts::series;
use xdfs_test_crash::trace::Strike;

const POINTS_MIN: usize = 250;
const CUTS: usize = 400;
const SERVER_POINTS_MIN: usize = 30;

fn points(strike: Strike) {
    if !xdfs_test_needs::tracing() {
        return;
    }
    let points = sweep(Path::new(env!("CARGO_BIN_EXE_put-small")), strike);
    let count: usize = points.struck.values().sum();
    println!("{count} points ({:?}), everything was put behind {}", points.struck, points.completed);
    assert!(count >= POINTS_MIN, "only {count} points");
    for call in ["pwrite64", "linkat", "fsync", "syncfs", "sync_file_range", "renameat", "mkdirat"] {
        assert!(points.struck.contains_key(call), "no {call} was struck");
    }
}

#[test]
fn a_kill_at_any_call_leaves_each_small_file_as_it_was_or_as_it_was_put() {
    points(Strike::Kill);
}

#[test]
fn an_error_of_any_call_is_told_of_whom_it_was_about_and_leaves_nothing_else() {
    points(Strike::Error);
}

#[test]
fn a_batch_of_small_files_keeps_the_same_promises_through_the_server() {
    if !xdfs_test_needs::tracing() {
        return;
    }
    for strike in [Strike::Kill, Strike::Error] {
        let points = batch::sweep(strike, 5);
        let count: usize = points.struck.values().sum();
        println!("{count} points ({:?}), everything was put behind {}", points.struck, points.completed);
        assert!(count >= SERVER_POINTS_MIN, "only {count} points");
    }
}

#[test]
fn a_power_cut_at_any_step_of_a_group_leaves_whole_files_and_every_durable_one() {
    let Some(mut disk) = Disk::new() else { return };
    let cuts = series(&mut disk, CUTS);
    println!("{cuts:?}");
    assert_eq!(cuts.broken, None);
    assert!(cuts.new > 0 && cuts.inside * 10 >= cuts.all * 8, "{cuts:?}");
}
