"""The mutants of the spill (decision 32)."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

STORIES = "tests/simulation/relay/test_spill_stories.py"
UNITS = "tests/relay/replica/test_spill.py"
ALL_ARRIVES = f"{STORIES}::test_what_exceeds_the_budget_arrives_all_the_same_and_in_order"

SPILL = (
    Mutant(
        "SPILL-start",
        "a link begins in memory, behind what is on the disk",
        (Edit("relay/gateway/sender.py", "            self._cursor = self._replay.start(vector)\n", "            pass\n"),),
        (ALL_ARRIVES,),
    ),
    Mutant(
        "SPILL-stays",
        "what all sites have stays on the disk",
        (Edit("relay/replica/spill.py", "while self._segments and covered(self._segments[0]):", "while False:"),),
        (ALL_ARRIVES,),
    ),
    Mutant(
        "SPILL-early",
        "a segment is dropped when a site has the first numbers of it",
        (
            Edit(
                "relay/replica/spill.py",
                "        self.lasts[batch.origin] = max(batch.last, self.lasts.get(batch.origin, 0))",
                "        self.lasts.setdefault(batch.origin, batch.last)",
            ),
        ),
        (f"{STORIES}::test_the_relay_dies_in_the_middle_and_the_next_one_goes_on_from_its_own_disk",),
    ),
    Mutant(
        "SPILL-base",
        "what is on the disk begins with the view before what is in memory",
        (
            Edit(
                "relay/replica/buffer.py",
                "        return self.base_view if segment is None else segment.base",
                "        return self.base_view",
            ),
        ),
        (f"{UNITS}::test_the_last_words_of_a_member_arrive_before_the_view_without_it",),
    ),
    Mutant(
        "SPILL-reason",
        "what a disk did not take is said to have gone for the budget's sake",
        (
            Edit(
                "relay/replica/gone.py",
                "self._note(self._failed if reason is GapReason.DISK else self._taken, origin, run)",
                "self._note(self._taken, origin, run)",
            ),
        ),
        (
            f"{UNITS}::test_what_a_full_disk_does_not_take_is_a_gap_of_its_own_reason_and_what_it_takes_later_is_none",
            f"{UNITS}::test_a_segment_that_cannot_be_read_is_an_exact_gap",
        ),
    ),
    Mutant(
        "SPILL-wait",
        "senders wait while a site is sent what is on the disk",
        (
            Edit(
                "relay/replica/pace.py",
                "        return has_room and spill.is_lacking(lineage.acked, lineage.acked_view)",
                "        return False",
            ),
        ),
        (f"{UNITS}::test_nobody_waits_for_a_site_that_is_sent_what_is_on_the_disk_as_long_as_that_has_room",),
    ),
    Mutant(
        "SPILL-room",
        "nobody waits for a site that is sent what is on the disk although that is full",
        (Edit("relay/replica/pace.py", "        return has_room and spill", "        return spill"),),
        (f"{UNITS}::test_nobody_waits_for_a_site_that_is_sent_what_is_on_the_disk_as_long_as_that_has_room",),
    ),
    Mutant(
        "SPILL-back",
        "what was passed over on the disk for lower numbers in memory is sent when its origin says more, which may be never",
        (Edit("relay/gateway/sender.py", "        if self._replay is None or not waiting:", "        if True:"),),
        (f"{UNITS}::test_what_was_passed_over_on_the_disk_is_sent_though_its_origin_says_nothing_more",),
    ),
)
