"""Reasons of drops that no campaign is asked for, and why they are rare there. A test provokes each."""

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

#: Why a drop is rare -> its reasons.
_BY_WHY = {
    _NONSENSE: (
        "bad_contact bad_entry bad_forward batch body envelope field fragment header relay_handover relay_malformed "
        "route_foreign route_loop sealed sequenced_unicast slice to_self unicast_malformed"
    ),
    _ROUTER: (
        "early uncalled frame_kind frame_size greeting not_asked other_site registration registration_proof too_many "
        "two_registrations unproven unregistered"
    ),
    _STRANGER: (
        "cluster foreign_site ids_stranger forward_from_non_member forward_to_non_coordinator leave_of_stranger "
        "nak_stranger not_coordinator other_parameters not_in_the_stream stable_stranger"
    ),
    _BOUND: (
        "bridge_overrun flow_control_queue_full held_frames joiners nak_busy nak_window relay_reply_queue_full "
        "relay_reply_too_large relay_unicast_pending_full relay_unicast_queue_full relay_unicast_too_large too_large "
        "too_many_contacts too_many_peers unicast_peers unicast_queue_full unicast_shed unicast_window_full"
    ),
    _INTACT: (
        "bridge_compressed bridge_hello bridge_length hello_certificate hello_own_site hello_unknown_site hello_version "
        "hello_wrong_site link_slow_frame link_stuck route_refused"
    ),
    _NO_OPERATOR: "hello_offline relay_offline",
    _MOMENT: (
        "before_first_view bridge_refused foreign_prepare join_of_member join_without_view late_invalidate "
        "join_too_soon merge_answer merge_refusal merge_reply order_hole queued_before_view recut_batch forward_again "
        "relay_gap_settled stale_credits stale_physical merge_fetch merge_fetched stale_give stale_given stale_share "
        "stale_shared"
    ),
    _FEW: (
        "lane_malformed lane_unknown flush_timeout merge_request relay_hole relay_reply_no_link relay_view_duplicate "
        "stale_commit stale_flush_reply stale_prepare stale_prepared uncertain_at_stop unsent_at_stop"
    ),
    _NO_STATE: (
        "site_state_astray site_state_no_way state_fetched_already state_chunk_again state_chunk_astray state_not_given "
        "state_of_a_stranger state_of_an_old_view state_request_astray state_too_large"
    ),
}

RARE = frozenset(" ".join(_BY_WHY.values()).split())
