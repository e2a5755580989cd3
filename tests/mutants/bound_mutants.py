"""The mutants of bounds, what gives way at one included, and of what is refused where it enters."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

LAYERS = "tests/sitestack/layers"
BACK = "tests/relay/gateway/test_history.py"
LOST = "tests/relay/replica/test_lost_lineage.py"

BOUNDS = (
    Mutant(
        "BOUND-answers",
        "a member that asks for everything without end uses up what all may be sent again",
        (Edit("sitestack/layers/nakack/retransmission.py", "self._bytes_for[requester] < share and ", ""),),
        (f"{LAYERS}/nakack/test_nakack.py::test_a_member_that_asks_without_end_keeps_no_other_from_what_it_misses",),
    ),
    Mutant(
        "BOUND-head",
        "every second request for a hole goes to a member that never answers",
        (
            Edit(
                "sitestack/layers/nakack/retransmission.py", "both if gap.wait_s > 4 * self._delay_s else both[:1]", "both[:1]"
            ),
        ),
        (
            f"{LAYERS}/nakack/test_nakack.py"
            "::test_a_gap_is_asked_for_only_after_a_delay_and_then_less_and_less_often_from_everybody",
        ),
    ),
    Mutant(
        "BOUND-lineages",
        "at the bound of lineages that of the relay that tells of the others goes first",
        (
            Edit(
                "relay/replica/remote_site.py",
                "            return self.lineages[name].epoch is not None, self.lineages[name].view is not None",
                "            return self.lineages[name].view is not None, False",
            ),
        ),
        (f"{LOST}::test_who_comes_back_after_the_grace_time_outlives_the_history_that_it_tells",),
    ),
    Mutant(
        "BOUND-left",
        "what a layer held back for the view with which its member left is neither sent nor reported",
        (
            Edit(
                "sitestack/layers/unicast/layer.py",
                "return [*effects, *self._forget_sender(peer, sender)] if self._has_left else effects",
                "return effects",
            ),
        ),
        (f"{LAYERS}/unicast/test_unicast_bounds.py::test_what_comes_down_after_the_end_is_sent_once_and_reported",),
    ),
    Mutant(
        "BOUND-later-views",
        "frames of views that never come push out those of the view that does",
        (
            Edit(
                "sitestack/layers/nakack/later_views.py",
                "sender = self._who_gives_way(frame.source)",
                "sender = next(iter(self._senders))",
            ),
        ),
        (f"{LAYERS}/nakack/test_nakack.py::test_frames_of_views_that_never_come_push_out_nobody_elses",),
    ),
    Mutant(
        "BOUND-hold",
        "whoever came last gives way, whoever has filled the table",
        (
            Edit(
                "sitestack/model/fair_hold.py",
                "self._give_up_last(frame.source if has_share else max(self._frames, key=self._share))",
                "self._give_up_last(frame.source)",
            ),
        ),
        (
            f"{LAYERS}/membership/test_membership_refusals.py"
            "::test_one_members_flood_of_frames_of_a_view_to_come_takes_no_others_place",
            f"{LAYERS}/batching/test_batching.py::test_one_members_flood_before_the_first_view_takes_no_others_place",
        ),
    ),
    Mutant(
        "BOUND-pieces",
        "a flood of pieces discards the frames of others",
        (
            Edit(
                "sitestack/layers/fragment/partials.py", "if self.bytes.is_over and now < ", "if self.bytes.is_over and now > "
            ),
        ),
        (f"{LAYERS}/fragment/test_fragment.py::test_a_flood_of_pieces_discards_nothing_of_others",),
    ),
    Mutant(
        "BOUND-lists",
        "a datagram of empty lists takes seventy times its bytes",
        (Edit("sitestack/wire/plain.py", "self._left = min(LISTS_MAX, ", "self._left = max(LISTS_MAX, "),),
        ("tests/sitestack/wire/test_codec.py::test_what_is_refused_takes_no_more_room_than_a_few_times_its_bytes",),
    ),
    Mutant(
        "BOUND-names",
        "a member's name has line ends, and forges lines of the logs of others",
        (Edit("sitestack/wire/schema.py", " or not value.isprintable()", ""),),
        ("tests/sitestack/wire/test_texts.py::test_a_header_with_a_name_that_cannot_be_printed_is_refused",),
    ),
)

#: Views of another site that were shown before (`relay/gateway/receiver.py`).
HISTORY = (
    Mutant(
        "G3 history",
        "a site that is back is shown as it was long ago",
        (Edit("relay/gateway/receiver.py", "lineage != view.lineage and remote.has_shown(view)", "False"),),
        (f"{BACK}::test_who_is_back_is_not_shown_with_members_that_are_long_dead",),
    ),
    Mutant(
        "G5 history",
        "last words of a member that is gone come without the view that has it",
        (Edit("relay/gateway/receiver.py", "                self._injector.cast(view)\n", "                pass\n"),),
        (f"{BACK}::test_a_message_that_is_lacked_brings_the_view_that_has_its_sender",),
    ),
)
