//! The conformance suite of the storage room: what every member must do, run over every member.
//!
//! `suite` holds the rules that hold for all, `bench` the members under test; the other files attack one member where
//! it is weakest. Nothing here sleeps, and every directory is the test's own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod as_user;
mod attack;
mod bench;
mod faults;
mod full;
mod holes;
mod kept;
mod paths;
mod race;
mod race_tree;
mod resume;
mod small;
mod staging;
mod stream;
mod suite;
mod tree;
mod typed;

use bench::{FaultBench, LocalBench, MemoryBench, SimBench};

/// One test per rule for one member.
macro_rules! conforms {
    ($member:ident, $bench:expr; $($suite:ident: $($rule:ident)*;)*) => {
        mod $member {
            #[allow(unused_imports)]
            use super::*;
            $($(#[test] fn $rule() { crate::$suite::$rule(&$bench); })*)*
        }
    };
}

/// The list of rules, once.
macro_rules! members {
    ($($member:ident => $bench:expr;)*) => { $(conforms! { $member, $bench; suite:
        content_comes_back_as_it_was_written
        ranges_may_come_in_any_order
        the_old_content_stays_until_commit
        nothing_is_left_after_abort_or_drop
        a_failed_commit_leaves_old_content_and_nothing_else
        keep_refuses_at_stage_and_again_at_commit
        of_many_that_keep_exactly_one_wins
        two_stages_of_one_target_leave_one_content_whole
        commit_sets_length_mode_and_time
        special_mode_bits_are_never_set
        an_open_source_survives_the_replacement_of_its_file
        offsets_at_the_end_of_the_number_line_are_refused_without_effect
        sizes_no_file_can_have_are_refused
        a_missing_name_and_a_missing_directory_are_told_apart
        a_directory_or_special_file_is_never_opened_or_replaced
        a_parent_that_is_a_file_is_named
        versions_differ_between_contents
        reading_beyond_the_end_is_short_and_exact_reading_an_error
        every_range_gives_exactly_its_part
        a_committed_length_is_exact_or_nothing_is_left
        an_empty_file_is_a_file
        concurrent_writers_of_one_stage_do_not_mix; small:
        groups_come_back_as_they_were_put
        what_fails_for_one_file_ends_that_one_alone
        missing_directories_are_made_where_that_is_asked_for
        of_two_with_one_name_the_last_replaces_and_the_first_is_kept
        a_base_is_replaced_and_nothing_else_unless_it_is_the_file_itself
        only_whole_regular_files_of_the_asked_size_are_read
        special_mode_bits_of_small_files_are_never_set;
    })* };
}

members! {
    local_tmpfs => LocalBench::on_tmpfs();
    local_disk => LocalBench::on_disk();
    local_named => LocalBench::without_unnamed();
    memory => MemoryBench::new();
    sim => SimBench::new();
    fault => FaultBench::on_local();
}
