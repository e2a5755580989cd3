"""The mutants of the state transfer inside a site."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, trap

STATE: tuple[Mutant, ...] = (
    trap(
        "STATE-gaps",
        "a joiner takes a state that lacks its provider's gaps, and is notified of none",
        "sitestack/channel/receiving/receive_end.py",
        "            self._state.pass_gap(item)\n",
        "            pass\n",
        "tests/sitestack/channel/receiving/test_state_extras.py::test_a_joiner_receives_the_gaps_of_its_state",
    ),
    trap(
        "STATE-numbers",
        "a joiner drops a message that its provider delivers after the view of the state, where both parts of a split go on",
        "sitestack/channel/receiving/state_handover.py",
        "self._read if extras.numbers or self._majority else None",
        "self._read if self._majority else None",
        "tests/sitestack/channel/receiving/test_state_extras.py"
        "::test_a_joiner_keeps_what_it_delivered_before_the_view_if_the_state_lacks_it",
    ),
    trap(
        "STATE-keys",
        "a joiner is shown a repeat of a message that its state contains",
        "sitestack/channel/receiving/state_handover.py",
        "        self._keys.adopt(extras.keys)\n",
        "",
        "tests/sitestack/channel/receiving/test_state_extras.py::test_a_joiner_does_not_apply_a_repeat_of_a_message_in_its_state",
    ),
    trap(
        "STATE-history",
        "a member of another part drops, without a gap, messages that its provider never had",
        "sitestack/channel/receiving/state_handover.py",
        "first = lowest.get(stream_of(gap), gap.last + 1)",
        "first = gap.last + 1",
        "tests/sitestack/channel/receiving/test_state_extras.py"
        "::test_a_joiner_is_shown_history_of_its_provider_that_was_delivered_here",
    ),
    trap(
        "STATE-waiting",
        "a joiner forgets the keys of waiting messages that its state lacks, and is shown repeats",
        "sitestack/channel/receiving/state_handover.py",
        "history.append(replace(gap, last=min(gap.last, first - 1)))",
        "history.append(gap)",
        "tests/sitestack/channel/receiving/test_state_extras.py"
        "::test_a_joiner_knows_the_keys_of_messages_that_it_keeps_where_the_state_lacks_them",
    ),
    trap(
        "STATE-abstains",
        "a member that shares no state and is left alone takes itself for its provider, and joiners wait for ever",
        "sitestack/layers/state_transfer/layer.py",
        "Standing.WAITS if self._takes_part else Standing.ABSTAINS)\n        effects",
        "Standing.WAITS)\n        effects",
        "tests/sitestack/layers/state_transfer/test_state_transfer.py"
        "::test_an_abstaining_member_left_alone_before_its_report_arrived_inherits_nothing",
    ),
    trap(
        "STATE-dropped",
        "a joiner drops messages below a number of the state, which lacks them, without a gap",
        "sitestack/channel/receiving/state_handover.py",
        "numbers is not None and first > numbers.get(stream_of(gap), 0)",
        "numbers is not None",
        "tests/sitestack/channel/receiving/test_state_extras.py"
        "::test_a_joiner_is_shown_history_that_it_drops_for_a_later_number_of_the_state",
    ),
    trap(
        "STATE-merge",
        "after a merge a state claims messages of the other part's new senders",
        "sitestack/layers/sequencer/received_table.py",
        "known or _FRESH",
        "known or theirs",
        "tests/simulation/test_missed.py::test_messages_never_sent_to_a_member_are_history_and_no_gap",
    ),
    trap(
        "STATE-mark",
        "a state carries the keys of messages that it does not contain",
        "sitestack/channel/sending/message_keys.py",
        "            if each.place <= place\n",
        "",
        "tests/sitestack/channel/receiving/test_state_extras.py::test_adopted_keys_expire_by_their_age",
    ),
)
