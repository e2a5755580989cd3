"""Reasons of drops that no campaign is asked for: why they are rare there, and the test that provokes each."""

from __future__ import annotations

_NONSENSE = "no member of a simulated site says what makes no sense, and damaged datagrams fail their checksum first"
_STRANGER = "nobody in the simulator speaks for another one or out of his turn"
_BOUND = "no plan of the simulator goes so far beyond a bound"
_INTACT = "the connections of the simulator keep bytes as they are, and relays are configured right"
_MOMENT = "two things have to cross within milliseconds: some in ten thousand seeds, or none"
_FEW = "a few in a thousand seeds, sometimes none"
_ROUTER = "the simulator has neither gossip routers nor doctors"
_NO_STATE = "the applications of the simulator share no state"
_NO_OPERATOR = "nobody takes a site offline in the simulator"

#: Why a drop is rare -> its reason -> the test that provokes it, without `tests/`.
_BY_WHY: dict[str, dict[str, str]] = {
    _NONSENSE: {
        "bad_contact": "sitestack/layers/discovery/test_discovery.py"
        "::test_nobody_speaks_for_another_and_addresses_must_make_sense",
        "bad_entry": "sitestack/layers/sequencer/test_sequencer_state.py::test_nonsense_is_dropped_and_counted",
        "bad_forward": "sitestack/layers/sequencer/test_sequencer_state.py::test_nonsense_is_dropped_and_counted",
        "batch": "sitestack/wire/test_codec.py::test_a_batch_whose_next_number_could_not_travel_is_refused",
        "body": "sitestack/channel/test_channel.py::test_a_batch_whose_body_makes_no_sense_is_counted_and_passed_over",
        "envelope": "sitestack/model/test_message.py::test_whatever_arrives_is_read_or_refused",
        "field": "relay/test_every_header.py::test_a_field_of_another_type_is_refused_by_name",
        "fragment": "sitestack/layers/fragment/test_fragment.py::test_pieces_that_make_no_frame_are_dropped_and_leave_nothing",
        "header": "sitestack/wire/test_codec.py::test_a_header_that_does_not_have_its_exact_shape_is_refused",
        "relay_handover": "relay/layer/test_relaying.py"
        "::test_a_buffer_is_handed_to_who_shows_its_token_and_taken_from_who_was_asked",
        "relay_malformed": "relay/layer/test_relaying.py::test_a_unicast_that_is_not_its_senders_own_is_not_forwarded",
        "route_foreign": "relay/gateway/test_routes.py::test_pieces_that_make_no_sense_are_dropped",
        "route_loop": "relay/gateway/test_routes.py::test_pieces_that_make_no_sense_are_dropped",
        "sealed": "sitestack/wire/test_codec.py::test_a_sealed_datagram_is_told_from_nonsense",
        "sequenced_unicast": "sitestack/layers/sequencer/test_sequencer_state.py::test_nonsense_is_dropped_and_counted",
        "slice": "sitestack/wire/test_slices.py::test_a_slice_is_no_datagram",
        "to_self": "sitestack/layers/test_resolver.py::test_nothing_is_sent_to_oneself",
        "unicast_malformed": "sitestack/layers/unicast/test_unicast_bounds.py"
        "::test_hostile_headers_are_counted_and_change_nothing",
    },
    _ROUTER: {
        "early": "relay/router/test_spliced.py::test_who_speaks_before_the_caller_is_cut_as_its_bytes_may_be_part_of_a_frame",
        "uncalled": "relay/router/test_switchboard.py::test_a_connection_is_for_one_thing",
        "frame_kind": "relay/router/test_router.py::test_what_no_member_says_ends_the_connection",
        "frame_size": "relay/router/test_router.py"
        "::test_frames_are_found_however_they_arrive_and_none_is_larger_than_it_may_be",
        "greeting": "relay/router/test_router.py::test_nothing_is_parsed_before_the_proof",
        "not_asked": "relay/node/doctor/test_doctor.py::test_what_is_no_answer_is_counted",
        "other_site": "relay/router/test_router.py::test_who_proves_nothing_is_cut",
        "registration": "relay/router/test_router.py::test_a_name_that_could_forge_a_line_of_a_log_is_refused",
        "registration_proof": "relay/router/test_router.py::test_what_no_member_says_ends_the_connection",
        "too_many": "relay/router/test_router.py::test_no_site_takes_the_places_of_another",
        "two_registrations": "relay/router/test_router.py::test_what_no_member_says_ends_the_connection",
        "unproven": "relay/router/test_router.py::test_who_proves_nothing_is_cut",
        "unregistered": "relay/router/test_router.py::test_who_has_not_registered_sends_nothing",
    },
    _STRANGER: {
        "cluster": "sitestack/wire/test_codec.py::test_another_cluster_is_refused",
        "foreign_site": "relay/gateway/test_gateway.py::test_a_site_speaks_for_itself_only",
        "ids_stranger": "sitestack/layers/test_short_ids.py::test_a_table_of_anybody_else_or_out_of_no_stream_is_dropped",
        "forward_from_non_member": "sitestack/layers/sequencer/test_sequencer_state.py::test_nonsense_is_dropped_and_counted",
        "forward_to_non_coordinator": "sitestack/layers/sequencer/test_sequencer.py"
        "::test_a_forward_to_a_member_that_is_not_coordinator_is_counted_and_delivered_all_the_same",
        "leave_of_stranger": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_who_has_no_view_lets_nobody_in_and_nobody_out",
        "nak_stranger": "sitestack/layers/nakack/test_nakack.py"
        "::test_what_strangers_multicast_and_copies_of_my_own_are_dropped",
        "not_coordinator": "sitestack/layers/sequencer/test_sequencer.py"
        "::test_an_entry_of_the_layer_above_takes_its_place_in_the_stream_at_the_coordinator_only",
        "other_parameters": "sitestack/layers/discovery/test_site_parameters.py"
        "::test_a_search_finds_no_process_with_other_parameters",
        "not_in_the_stream": "sitestack/layers/sequencer/test_sequencer_state.py::test_nonsense_is_dropped_and_counted",
        "stable_stranger": "sitestack/layers/test_stability.py"
        "::test_reports_of_strangers_of_other_views_and_to_others_are_dropped",
    },
    _BOUND: {
        "bridge_overrun": "relay/gateway/test_gateway.py::test_more_than_may_wait_closes_the_link",
        "flow_control_queue_full": "sitestack/layers/flow_control/test_flow_control.py"
        "::test_the_queues_have_a_bound_and_what_is_beyond_is_counted",
        "held_frames": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_frames_of_a_view_to_come_are_held_up_to_a_bound",
        "joiners": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_joiners_beyond_the_bound_are_not_taken_and_may_ask_again",
        "nak_busy": "sitestack/layers/nakack/test_nakack.py"
        "::test_a_storm_of_requests_is_answered_once_a_period_and_within_the_budget",
        "nak_window": "sitestack/layers/nakack/test_nakack.py::test_the_window_is_bounded_by_count_and_by_bytes_and_recovers",
        "relay_reply_queue_full": "relay/layer/test_relaying.py::test_a_reply_for_which_the_link_has_no_room_is_counted",
        "relay_reply_too_large": "relay/unicast/test_large_unicasts.py::test_a_reply_that_has_no_frame_is_counted",
        "relay_unicast_pending_full": "relay/unicast/test_large_unicasts.py::test_what_the_origin_may_not_keep_is_counted",
        "relay_unicast_queue_full": "relay/unicast/test_large_unicasts.py"
        "::test_what_a_full_link_refuses_is_counted_and_tried_again",
        "relay_unicast_too_large": "relay/unicast/test_large_unicasts.py"
        "::test_one_without_a_frame_is_told_to_its_sender_at_once_and_blocks_nothing",
        "too_large": "sitestack/layers/fragment/test_fragment.py"
        "::test_a_message_above_the_maximum_is_dropped_and_a_unicast_reported",
        "too_many_contacts": "sitestack/layers/discovery/test_discovery.py"
        "::test_nobody_speaks_for_another_and_addresses_must_make_sense",
        "too_many_peers": "sitestack/layers/discovery/test_discovery.py::test_contacts_are_bounded",
        "unicast_queue_full": "sitestack/layers/unicast/test_unicast_bounds.py"
        "::test_a_frame_beyond_the_queue_is_refused_and_reported",
        "unicast_shed": "sitestack/layers/unicast/test_unicast_bounds.py"
        "::test_what_all_peers_have_ahead_of_holes_is_bounded_too_and_who_has_most_loses_it",
        "unicast_window_full": "sitestack/layers/unicast/test_unicast_bounds.py"
        "::test_beyond_the_receive_window_frames_are_dropped_and_come_again",
    },
    _INTACT: {
        "bridge_hello": "relay/gateway/test_gateway.py::test_anything_before_hello_closes_the_connection",
        "bridge_length": "relay/gateway/test_session.py::test_a_stranger_may_not_make_us_buffer_more_than_a_hello",
        "hello_certificate": "relay/gateway/test_routes.py::test_the_far_end_of_a_route_is_believed_for_no_site_but_its_own",
        "hello_own_site": "relay/gateway/test_gateway.py"
        "::test_a_peer_that_can_never_be_right_is_refused_with_one_clear_sentence",
        "hello_unknown_site": "relay/gateway/test_gateway.py"
        "::test_a_peer_that_can_never_be_right_is_refused_with_one_clear_sentence",
        "hello_version": "relay/gateway/test_gateway.py"
        "::test_a_peer_that_can_never_be_right_is_refused_with_one_clear_sentence",
        "hello_wrong_site": "relay/layer/test_relaying.py"
        "::test_a_relay_of_another_peer_than_the_one_that_was_called_is_refused",
        "link_slow_frame": "relay/gateway/test_gateway.py::test_a_frame_that_never_ends_closes_the_link",
        "link_stuck": "relay/layer/test_relaying.py::test_a_chunk_that_is_not_taken_closes_the_link",
        "route_refused": "relay/gateway/test_routes.py::test_a_site_that_is_not_told_to_hand_on_refuses",
    },
    _NO_OPERATOR: {
        "hello_offline": "simulation/relay/test_switches.py"
        "::test_what_a_site_misses_while_it_is_offline_is_one_gap_and_nothing_else_is_lost",
        "relay_offline": "simulation/relay/test_switches.py"
        "::test_what_is_on_its_way_when_a_site_is_switched_off_is_refused_and_comes_later",
    },
    _MOMENT: {
        "before_first_view": "sitestack/layers/batching/test_batching.py"
        "::test_a_unicast_that_overtakes_the_first_view_is_delivered_after_it",
        "bridge_refused": "relay/gateway/test_gateway.py::test_who_does_not_relay_hangs_up",
        "foreign_prepare": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_a_cut_of_a_view_that_was_never_installed_here_is_not_reached_for",
        "join_of_member": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
        "join_without_view": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_who_has_no_view_lets_nobody_in_and_nobody_out",
        "late_invalidate": "sitestack/layers/discovery/test_discovery.py"
        "::test_a_late_invalidate_does_not_hurt_who_has_come_back",
        "join_too_soon": "sitestack/layers/membership/test_leader.py"
        "::test_a_joiner_for_which_all_stood_still_in_vain_is_not_let_in_again_soon",
        "merge_answer": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
        "merge_refusal": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
        "merge_reply": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
        "order_hole": "sitestack/layers/sequencer/test_sequencer.py"
        "::test_what_arrives_before_its_predecessor_is_never_delivered_ahead_of_it",
        "queued_before_view": "sitestack/layers/flow_control/test_flow_control_group.py"
        "::test_a_view_discards_queued_multicasts_and_starts_their_totals_again",
        "recut_batch": "sitestack/layers/sequencer/test_sequencer.py"
        "::test_a_batch_that_was_cut_in_another_way_the_second_time_is_dropped_whole",
        "forward_again": "sitestack/layers/sequencer/test_sequencer_state.py::test_nonsense_is_dropped_and_counted",
        "relay_gap_settled": "relay/layer/test_relaying.py::test_a_gap_that_two_relays_report_is_settled_once",
        "stale_credits": "sitestack/layers/flow_control/test_flow_control.py::test_credits_that_mean_nothing_here_are_dropped",
        "stale_physical": "sitestack/layers/test_resolver.py::test_a_moved_member_is_followed_and_its_older_address_is_refused",
        "merge_fetch": "sitestack/layers/membership/test_joining.py"
        "::test_a_member_that_is_stopped_or_has_come_into_another_view_fetches_nothing",
        "merge_fetched": "sitestack/layers/membership/test_joining.py::test_what_is_said_of_another_survey_or_twice_is_dropped",
        "stale_give": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
        "stale_given": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
        "stale_share": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
        "stale_shared": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
    },
    _FEW: {
        "lane_malformed": "sitestack/stack/test_lanes.py::test_bad_datagrams_are_dropped_and_counted",
        "lane_unknown": "sitestack/stack/test_lanes.py::test_bad_datagrams_are_dropped_and_counted",
        "flush_timeout": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_who_does_not_answer_in_time_is_counted_and_left_out",
        "merge_request": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
        "relay_hole": "relay/gateway/test_takeover.py::test_a_hole_is_refused_and_asked_for_again",
        "relay_reply_no_link": "relay/layer/test_relaying.py::test_a_reply_for_which_the_link_has_no_room_is_counted",
        "relay_view_duplicate": "relay/layer/test_global_view.py::test_of_two_views_on_their_way_at_once_the_newer_one_stays",
        "stale_commit": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
        "stale_flush_reply": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
        "stale_prepare": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
        "stale_prepared": "sitestack/layers/membership/test_membership_refusals.py"
        "::test_what_belongs_to_nothing_that_goes_on_is_dropped",
        "uncertain_at_stop": "simulation/test_senders.py"
        "::test_who_cannot_be_rid_of_its_messages_leaves_all_the_same_and_says_what_is_uncertain",
        "unsent_at_stop": "sitestack/layers/batching/test_batching.py"
        "::test_leaving_does_not_hang_and_says_how_many_messages_are_not_sent_or_not_certain",
    },
    _NO_STATE: {
        "site_state_astray": "relay/site_state/test_exchange.py::test_what_nobody_waits_for_is_dropped",
        "site_state_no_way": "relay/site_state/test_exchange.py::test_frames_find_no_way_where_there_is_none",
        "state_fetched_already": "relay/site_state/test_exchange.py"
        "::test_a_running_member_fetches_a_state_that_contains_all_that_it_has_been_delivered",
        "state_chunk_again": "sitestack/layers/state_transfer/test_state_transfer.py"
        "::test_a_joiner_asks_the_first_in_rank_that_has_the_state_piece_by_piece",
        "state_chunk_astray": "sitestack/layers/state_transfer/test_state_transfer.py"
        "::test_what_is_no_piece_of_this_state_is_dropped",
        "state_not_given": "sitestack/layers/state_transfer/test_state_transfer.py"
        "::test_an_application_that_fails_to_give_its_state_has_every_joiner_told_until_the_next_view",
        "state_of_a_stranger": "sitestack/layers/state_transfer/test_state_transfer.py"
        "::test_the_coordinator_writes_reports_into_the_stream",
        "state_of_an_old_view": "sitestack/layers/state_transfer/test_state_transfer.py"
        "::test_who_is_not_the_provider_gives_nothing",
        "state_request_astray": "sitestack/layers/state_transfer/test_state_transfer.py"
        "::test_a_request_that_makes_no_sense_is_dropped",
        "state_too_large": "sitestack/layers/state_transfer/test_state_transfer.py"
        "::test_a_state_above_the_bound_is_not_given_and_the_joiner_is_told_once",
    },
}

#: Reason -> the test that provokes it.
RARE: dict[str, str] = {reason: f"tests/{test}" for tests in _BY_WHY.values() for reason, test in tests.items()}
