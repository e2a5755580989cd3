"""The mutants of membership in a network with holes (decision 13): an unreachable member stops the others again."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

MERGING = "sitestack/layers/membership/merging.py"
LEADER = "sitestack/layers/membership/leader.py"
REMINDERS = "sitestack/layers/membership/reminders.py"
QUARANTINE = "sitestack/layers/membership/quarantine.py"
HOLES = "tests/simulation/test_holes.py"
MISSED = "tests/simulation/test_missed.py"
WOKEN = "tests/simulation/relay/test_quarantine.py"

MEMBERSHIP = (
    Mutant(
        "S23",
        "a leader continues the lineage though another one may do so too",
        (Edit(LEADER, "self._is_disputed or flush.disputes(None if prepare is None else prepare.view)", "False"),),
        (
            "tests/sitestack/layers/membership/test_leader.py"
            "::test_who_may_not_be_the_only_one_to_continue_the_lineage_starts_its_own",
            "tests/simulation/test_found.py::test_what_was_found_once_stays_mended",
        ),
    ),
    Mutant(
        "S23-told",
        "who has prepared a view without the leader does not tell it",
        (
            Edit(
                "sitestack/layers/membership/participant.py",
                "if rivals or proposal.creator in prepare.view.members else None",
                "if proposal.creator in prepare.view.members else None",
            ),
        ),
        ("tests/simulation/test_found.py::test_what_was_found_once_stays_mended",),
    ),
    Mutant(
        "MERGE-too-late",
        "who has promised another leader lets the leader of a merge wait until its time is up",
        (
            Edit(
                "sitestack/layers/membership/participant.py",
                "        if proposal >= self._member.promised:\n",
                "        if True:\n",
            ),
        ),
        (
            "tests/sitestack/layers/membership/test_membership_refusals.py"
            "::test_a_step_of_a_merge_after_a_promise_to_another_leader_is_refused",
        ),
    ),
    Mutant(
        "MERGE-budget",
        "a merge goes on for as long as it gets on, and all parts stand still",
        (Edit(LEADER, "self.due = min(until, self.end)", "self.due = until"),),
        ("tests/sitestack/layers/membership/test_leader.py::test_a_merge_that_takes_too_long_in_all_is_given_up",),
    ),
    Mutant(
        "R-reminded",
        "who reports a member of an earlier view is not told the commit that it has not heard",
        (Edit(REMINDERS, "            return [self._remind(source, view)]\n", "            return []\n"),),
        (
            "tests/simulation/test_leaving_leader.py::test_a_member_that_does_not_hear_the_commit_of_a_leader_that_leaves_hears_it_from_the_next_in_line",
        ),
    ),
    Mutant(
        "R-reminded-later",
        "who has reported the leader before its commit was heard here is not told the commit",
        (
            Edit(
                REMINDERS,
                "        reporters, self._reporters = self._reporters, []\n",
                "        reporters, self._reporters = list[Address](), []\n",
            ),
        ),
        ("tests/sitestack/layers/membership/test_reminders.py::test_who_has_reported_before_is_told_once_the_commit_is_heard",),
    ),
    Mutant(
        "HOLE-astray",
        "who did not take the commit, since it had promised another leader, is not asked anew",
        (
            Edit(
                LEADER,
                "        self.changes.lagging = [m for m in members if view is not None and m in view.members]\n",
                "        self.changes.lagging = []\n",
            ),
        ),
        (
            "tests/sitestack/layers/membership/test_leader.py::test_who_does_not_say_that_it_has_installed_the_view_is_asked_anew_after_a_while",
        ),
    ),
    Mutant(
        "S21",
        "what another part has delivered is not told",
        (
            Edit(
                "sitestack/layers/sequencer/layer.py",
                "        return [*self._gaps(), *self._forward()]",
                "        return self._forward()",
            ),
        ),
        (f"{MISSED}::test_each_part_is_told_exactly_what_the_other_one_delivered",),
    ),
    Mutant(
        "S21-silent",
        "of a member that had sent nothing before the split nothing is missed",
        (
            Edit(
                "sitestack/layers/sequencer/received_table.py",
                "{member: known.pop(member, _FRESH) for member in members}",
                "{member: known.pop(member) for member in members if member in known}",
            ),
        ),
        (f"{MISSED}::test_who_was_excluded_is_told_after_the_merge_view_and_before_anything_else",),
    ),
    Mutant(
        "S22",
        "a coordinator that goes on after a quarantine does not ask for what it dropped meanwhile",
        (Edit("sitestack/layers/sequencer/layer.py", "*self._forward(), *self._ask_again()]", "*self._forward()]"),),
        (
            "tests/sitestack/layers/sequencer/test_sequencer_refusals.py"
            "::test_a_coordinator_that_goes_on_in_the_same_view_asks_for_what_it_dropped",
        ),
    ),
    Mutant(
        "S20",
        "who was excluded goes on in its old view and in one of its own until it is merged",
        (
            Edit(
                QUARANTINE,
                "        if self:\n            if event.member in",
                "        if True:\n            if event.member in",
            ),
        ),
        (f"{WOKEN}::test_a_coordinator_that_wakes_sends_nothing_that_its_own_site_does_not_get",),
    ),
    Mutant(
        "S20-alone",
        "who was excluded goes on as soon as it is in a view of its own",
        (Edit(QUARANTINE, "        return bool(self)\n\n    def expire", "        return False\n\n    def expire"),),
        (f"{WOKEN}::test_a_coordinator_that_wakes_sends_nothing_that_its_own_site_does_not_get",),
    ),
    Mutant(
        "S20-end",
        "a member in quarantine waits for a merge, whatever comes",
        (Edit(QUARANTINE, "        return min(self._silent_at, self._ends) if self else None", "        return None"),),
        (
            f"{WOKEN}::test_when_those_that_it_heard_are_gone_it_goes_on_alone",
            f"{WOKEN}::test_when_the_parts_cannot_merge_it_goes_on_alone_after_the_longest_time",
            f"{WOKEN}::test_one_forged_heartbeat_stops_nobody_for_long",
        ),
    ),
    Mutant(
        "S20-limit",
        "a member in quarantine stands still for as long as it hears the others",
        (
            Edit(
                QUARANTINE,
                "        return min(self._silent_at, self._ends) if self else None",
                "        return self._silent_at if self else None",
            ),
        ),
        (f"{WOKEN}::test_when_the_parts_cannot_merge_it_goes_on_alone_after_the_longest_time",),
    ),
    Mutant(
        "HOLE-survey",
        "a merge stops members before it is known whether they hear its leader",
        (
            Edit(
                "sitestack/layers/membership/survey.py",
                "        return tuple([part for part in self.parts if part not in silent])",
                "        return self.parts",
            ),
        ),
        (f"{HOLES}::test_parts_that_no_coordinator_reaches_whole_stay_apart_at_work_until_a_hole_is_gone",),
    ),
    Mutant(
        "HOLE-lead",
        "only the coordinator with the lowest address leads merges, reach whom it may",
        (
            Edit(
                MERGING,
                "source < self._local.address or (source in self._silent.values() and not self._attempts())",
                "source < self._local.address",
            ),
        ),
        (f"{HOLES}::test_a_merge_whose_leader_does_not_reach_a_member_is_led_by_the_other_coordinator",),
    ),
    Mutant(
        "HOLE-apart",
        "a part that did not answer whole is asked again at each heartbeat",
        (Edit(MERGING, "            self._apart.failed(other, now)\n", ""),),
        (f"{HOLES}::test_parts_that_no_coordinator_reaches_whole_stay_apart_at_work_until_a_hole_is_gone",),
    ),
    Mutant(
        "HOLE-late-answer",
        "a part is left alone for a minute though its silent member has answered",
        (Edit(MERGING, "        if other is not None:\n            self._apart.forget(other)\n", ""),),
        (f"{HOLES}::test_parts_that_no_coordinator_reaches_whole_stay_apart_at_work_until_a_hole_is_gone",),
    ),
    Mutant(
        "HOLE-hearsay",
        "the lead is left to a coordinator that only others have heard",
        (
            Edit(
                MERGING,
                "{peer.address for peer in found.peers if peer.coordinator == peer.address}",
                "{peer.coordinator for peer in found.peers if peer.coordinator is not None}",
            ),
        ),
        (f"{HOLES}::test_parts_merge_without_the_coordinator_that_neither_reaches",),
    ),
    Mutant(
        "HOLE-merge-again",
        "a merge for which all stood still in vain is made again at once",
        (
            Edit(
                LEADER,
                "                    changes.failed.failed((flush.parts[0].view.members, part.view.members), now)",
                "                    pass",
            ),
        ),
        (f"{HOLES}::test_a_merge_that_takes_too_long_each_time_stops_its_parts_seldom",),
    ),
    Mutant(
        "HOLE-merge-end",
        "the other parts of a merge that is given up stand still until they lose patience",
        (Edit(MERGING, "        if self._follows:\n            self._leader.end_hold(now)\n", ""),),
        (f"{HOLES}::test_a_merge_that_takes_too_long_each_time_stops_its_parts_seldom",),
    ),
    Mutant(
        "HOLE-join-again",
        "a joiner for which all stood still in vain is let in again at once",
        (Edit(LEADER, "                    changes.failed.failed(joiner, now)", "                    pass"),),
        (f"{HOLES}::test_a_joiner_that_is_ready_too_late_each_time_stops_the_site_seldom",),
    ),
    Mutant(
        "HOLE-deaf",
        "a coordinator asks whether it is heard only when the other one has judged that it is not",
        (
            Edit(
                "sitestack/layers/failure_detection/layer.py",
                "self._check_deaf(source, now) if coordinates and source in self._heard else []",
                "[]",
            ),
        ),
        (f"{HOLES}::test_who_does_not_hear_the_coordinator_is_left_out_hardly_later_than_one_that_is_dead",),
    ),
    Mutant(
        "HOLE-joiner",
        "a joiner asks the coordinator of the newest view again and again, whether it answers or not",
        (Edit("sitestack/layers/membership/joining.py", "            self._silent.append(self._asked)", "            pass"),),
        (f"{HOLES}::test_a_joiner_joins_the_part_whose_coordinator_answers_it",),
    ),
)
