"""The mutants of short ids (decision 26): an id means two members, or is written to who cannot read it."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

STORIES = "tests/simulation/test_short_ids.py"
WIRE = "tests/sitestack/wire/test_short_ids.py"
LAYER = "sitestack/layers/short_ids.py"

SHORT_IDS = (
    Mutant(
        "ID-failover",
        "a successor goes on above the members it sees, and gives the id of one that has died",
        (Edit(LAYER, "(table.epoch, table.highest), table.ids", "(table.epoch, max(table.ids.values())), table.ids"),),
        (f"{STORIES}::test_a_successor_gives_the_newcomer_an_id_that_nobody_had_and_sends_again_in_its_own_ids",),
    ),
    Mutant(
        "ID-joiner",
        "a joiner is not told what was given",
        (Edit(LAYER, "return IdsGiven(*self._given) if self._given != (0, 0) else None", "return None"),),
        (f"{STORIES}::test_a_joiner_whose_elders_all_die_goes_on_above_what_was_given",),
    ),
    Mutant(
        "ID-merge",
        "after a merge the members of the part that leads keep ids that the other part has given, too",
        (Edit(LAYER, "        if event.view.subviews:\n            self._ids = {}\n", ""),),
        (f"{STORIES}::test_two_parts_that_gave_the_same_id_are_numbered_anew_before_anybody_writes_one",),
    ),
    Mutant(
        "ID-table",
        "a datagram does not say by which table it was written",
        (Edit("sitestack/model/short_ids.py", "self.name = digest.digest()", "self.name = bytes(NAME_BYTES)"),),
        (
            f"{STORIES}::test_two_parts_that_gave_the_same_id_are_numbered_anew_before_anybody_writes_one",
            f"{WIRE}::test_a_datagram_is_read_by_the_table_that_it_was_written_by_and_by_no_other",
        ),
    ),
    Mutant(
        "ID-early",
        "ids are written by a table that some member has not got yet",
        (Edit(LAYER, "        return [LearnIds(ids)]\n", "        return [LearnIds(ids), WriteIds(ids)]\n"),),
        (f"{STORIES}::test_nobody_writes_an_id_while_one_member_lacks_the_table",),
    ),
    Mutant(
        "ID-view",
        "ids are written on in the next view, to members that have joined with it",
        (Edit(LAYER, "[WriteIds(None)] if self._writes else []", "[]"),),
        (f"{STORIES}::test_members_differ_and_understand_each_other",),
    ),
    Mutant(
        "ID-strangers",
        "heartbeats and searches carry ids, so that parts of a site never find each other",
        (Edit("sitestack/stack/stack.py", "if ids is None or frame.batch is None or frame.unreliable:", "if ids is None:"),),
        (f"{STORIES}::test_who_is_no_member_hears_heartbeats_and_searches_though_all_others_write_ids",),
    ),
)
