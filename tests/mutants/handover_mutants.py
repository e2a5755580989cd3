"""The mutants of handing over beforehand (decision 17): all wait again while something large travels."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

SLOW = "tests/simulation/relay/test_slow_handover.py"

HANDOVER = (
    Mutant(
        "HAND-fetch",
        "a joiner is let in before it has fetched anything",
        (Edit("sitestack/layers/membership/joining.py", "        if not self._fetches:\n", "        if self._fetches:\n"),),
        (f"{SLOW}::test_nobody_waits_while_a_joiner_with_a_slow_line_fetches_what_is_held",),
    ),
    Mutant(
        "HAND-resume",
        "a joiner begins anew with each coordinator",
        (
            Edit(
                "relay/layer/handover.py",
                "        return HeldRequest(0, 0, known.runs)",
                "        return HeldRequest(0, 0, ())",
            ),
        ),
        (f"{SLOW}::test_what_a_joiner_has_fetched_is_not_fetched_again_when_the_coordinator_dies",),
    ),
    Mutant(
        "HAND-merge",
        "parts that merge send each other what both have",
        (
            Edit(
                "sitestack/layers/membership/flush.py",
                "            messages.append((part.representative, Give(self.proposal, known)))",
                "            messages.append((part.representative, Give(self.proposal, ())))",
            ),
        ),
        (f"{SLOW}::test_parts_of_a_site_that_held_a_lot_before_the_split_merge_without_sending_it",),
    ),
    Mutant(
        "HAND-parts",
        "parts merge before they have fetched what the others were given since the split",
        (Edit("sitestack/layers/membership/merging.py", "        if not self._fetches:\n", "        if self._fetches:\n"),),
        (f"{SLOW}::test_what_the_parts_were_given_since_the_split_is_fetched_before_they_merge",),
    ),
    Mutant(
        "HAND-all",
        "what one of several joiners knows is left out for all of them",
        (
            Edit(
                "relay/replica/known.py",
                "reduce(_common, each) if each else {}",
                "each[0] if each else {}",
            ),
        ),
        ("tests/relay/replica/test_known.py::test_a_batch_is_left_out_only_if_all_of_it_is_in_one_run_of_every_taker",),
    ),
    Mutant(
        "HAND-token",
        "whoever asks in a joiner's name has it sent the buffer",
        (
            Edit(
                "relay/layer/handover.py",
                "        if request.token and request.token != self._tokens.get(joiner):\n",
                "        if False:\n",
            ),
        ),
        ("tests/relay/layer/test_handover.py::test_a_chunk_costs_the_token_of_the_one_before",),
    ),
)
