"""The mutants of flow control: four ways to run out of credit for ever, each once a mistake of the product."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

STORIES = "tests/simulation/test_credit.py"
ENDS = (
    "tests/sitestack/layers/flow_control/test_credit_conservation.py::test_at_rest_every_mark_is_acknowledged_and_nothing_waits"
)

CREDIT = (
    Mutant(
        "CREDIT-stranger",
        "what goes to a process outside the view is counted too, and nobody returns it",
        (
            Edit(
                "sitestack/layers/flow_control/layer.py",
                "            if not self._blocked:\n                return [Down(frame)]",
                "            if False:\n                return [Down(frame)]",
            ),
        ),
        (
            f"{STORIES}::test_who_talks_with_a_process_outside_its_view_is_heard_by_it_and_by_its_own_site",
            f"{STORIES}::test_what_is_said_to_a_stranger_that_is_gone_is_reported_and_stops_nothing",
        ),
    ),
    Mutant(
        "CREDIT-totals",
        "the totals of unicasts go on over views",
        (Edit("sitestack/layers/flow_control/accounts.py", "        self.unicasts.start_view()\n", ""),),
        (f"{STORIES}::test_forwards_that_come_too_late_for_their_view_cost_no_credit", ENDS),
    ),
    Mutant(
        "CREDIT-quarter",
        "a receiver returns credit when a quarter of its own window is consumed, whatever its sender's is",
        (
            Edit(
                "sitestack/layers/flow_control/layer.py",
                "        self._due[sender] = None\n\n    def flush",
                "        owed = account.cast_consumed - account.cast_returned"
                " + account.unicast_consumed - account.unicast_returned\n"
                "        if owed >= self._window // 4:\n            self._due[sender] = None\n\n    def flush",
            ),
        ),
        (f"{STORIES}::test_a_member_with_a_smaller_window_than_all_others_goes_on_sending", ENDS),
    ),
    Mutant(
        "CREDIT-early-mark",
        "what overtakes its view is not counted when the view comes",
        (
            Edit(
                "sitestack/layers/flow_control/layer.py", "            if mark.view == event.view.id:", "            if False:"
            ),
        ),
        (ENDS,),
    ),
)
