//! One suite over all dispatchers: `epoll`, `poll` and `sim`. What is tested is their contract, and not the way of one to
//! keep it; what only one has is in a file of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod fairness;
mod harness;
mod life;
mod receive;
mod send;
mod sim;
mod stack;

use harness::{KernelEpoll, KernelPoll, Layered, Simulated};

/// Runs each function once per implementation.
macro_rules! over_all_members {
    ($($room:ident::$test:ident,)*) => {
        mod over_epoll { $(#[test] fn $test() { super::$room::$test::<super::KernelEpoll>(); })* }
        mod over_poll { $(#[test] fn $test() { super::$room::$test::<super::KernelPoll>(); })* }
        mod over_sim { $(#[test] fn $test() { super::$room::$test::<super::Simulated>(); })* }
    };
}

/// The same for links whose bytes pass through layers.
macro_rules! over_layers {
    ($($room:ident::$test:ident,)*) => {
        mod over_layers { $(#[test] fn $test() { super::$room::$test::<super::Layered<super::KernelEpoll>>(); })* }
        mod over_layers_and_poll {
            $(#[test] fn $test() { super::$room::$test::<super::Layered<super::KernelPoll>>(); })*
        }
    };
}

over_all_members! {
    receive::bytes_arrive_in_order_whatever_operation_takes_them,
    receive::the_head_behind_a_fill_is_kept_for_the_next_head,
    receive::a_head_in_two_parts_survives_detach_and_attach,
    receive::a_head_read_ahead_survives_detach_and_attach,
    receive::what_a_small_read_takes_ahead_is_bounded_and_goes_to_whatever_comes_next,
    receive::bytes_in_front_of_the_end_come_first,
    receive::the_end_is_told_once_for_each_operation,
    receive::a_reset_is_a_failure_and_gives_the_buffer_back,
    receive::an_empty_fill_and_an_empty_small_complete,
    receive::a_long_fill_comes_in_whole_over_many_turns,
    send::every_kind_of_body_arrives_exactly,
    send::a_source_that_shrank_goes_out_as_zeros_and_is_reported,
    send::a_source_that_cannot_be_read_ends_the_send,
    send::a_full_socket_does_not_hold_up_another_file,
    send::buffers_come_back_when_a_send_fails_or_is_detached,
    send::a_reset_while_a_file_is_sent_ends_the_send,
    send::two_files_interleave_on_two_sockets,
    life::connections_are_accepted_and_carry_bytes,
    life::a_refused_connection_ends_the_connect,
    life::a_second_receiving_operation_panics,
    life::a_second_sending_operation_panics,
    life::detach_drops_operations_and_frees_the_name,
    life::the_waker_ends_a_wait_once_for_any_number_of_calls,
    life::a_deadline_passes,
    life::sockets_that_nobody_asks_about_cost_no_processor_time,
    life::every_operation_completes_exactly_once,
    fairness::eight_full_sockets_are_served_in_turns,
    fairness::sixty_four_full_sockets_are_served_in_turns,
}

// Not those that fill a link with zeros, which compress, or break it off without the layers' farewell.
over_layers! {
    receive::bytes_arrive_in_order_whatever_operation_takes_them,
    receive::the_head_behind_a_fill_is_kept_for_the_next_head,
    receive::a_head_in_two_parts_survives_detach_and_attach,
    receive::a_head_read_ahead_survives_detach_and_attach,
    receive::what_a_small_read_takes_ahead_is_bounded_and_goes_to_whatever_comes_next,
    receive::bytes_in_front_of_the_end_come_first,
    receive::the_end_is_told_once_for_each_operation,
    receive::an_empty_fill_and_an_empty_small_complete,
    receive::a_long_fill_comes_in_whole_over_many_turns,
    send::every_kind_of_body_arrives_exactly,
    send::a_source_that_shrank_goes_out_as_zeros_and_is_reported,
    send::a_source_that_cannot_be_read_ends_the_send,
    send::a_full_socket_does_not_hold_up_another_file,
    send::buffers_come_back_when_a_send_fails_or_is_detached,
    send::a_reset_while_a_file_is_sent_ends_the_send,
    send::two_files_interleave_on_two_sockets,
    life::connections_are_accepted_and_carry_bytes,
    life::a_refused_connection_ends_the_connect,
    life::a_second_receiving_operation_panics,
    life::a_second_sending_operation_panics,
    life::detach_drops_operations_and_frees_the_name,
    life::the_waker_ends_a_wait_once_for_any_number_of_calls,
    life::a_deadline_passes,
    life::sockets_that_nobody_asks_about_cost_no_processor_time,
    life::every_operation_completes_exactly_once,
}
