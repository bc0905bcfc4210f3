//! The conformance suite of stores: what every implementation must do.
//!
//! An implementation brings a [`bench::Bench`] that looks behind it, and names it once:
//!
//! ```text
//! xdfs_test_conformance::store_conforms! { my_store => MyBench::new(); }
//! ```
//!
//! Each rule then is a test of its own, with a bench of its own. What an implementation declares decides how
//! it is tested: who takes bytes in order gets them in order.

pub mod bench;
#[allow(missing_docs, reason = "the name of a rule is what it says")]
pub mod rules;
#[allow(missing_docs, reason = "the name of a rule is what it says")]
pub mod small;

/// One test per rule for each implementation: `name => bench;`.
#[macro_export]
macro_rules! store_conforms {
    ($($implementation:ident => $bench:expr;)*) => { $($crate::store_rules! { $implementation, $bench; rules:
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
        concurrent_writers_of_one_stage_do_not_mix
        a_member_does_what_it_declares; small:
        groups_come_back_as_they_were_put
        what_fails_for_one_file_ends_that_one_alone
        missing_directories_are_made_where_that_is_asked_for
        of_two_with_one_name_the_last_replaces_and_the_first_is_kept
        a_base_is_replaced_and_nothing_else_unless_it_is_the_file_itself
        only_whole_regular_files_of_the_asked_size_are_read
        special_mode_bits_of_small_files_are_never_set;
    })* };
}

/// The tests of one implementation; see [`store_conforms`].
#[doc(hidden)]
#[macro_export]
macro_rules! store_rules {
    ($implementation:ident, $bench:expr; $($suite:ident: $($rule:ident)*;)*) => {
        mod $implementation {
            #[allow(unused_imports)]
            use super::*;
            $($(#[test] fn $rule() { $crate::store::$suite::$rule(&$bench); })*)*
        }
    };
}
