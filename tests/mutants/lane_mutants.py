"""The mutants of lanes: each condition of each predicate taken away."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, trap

_FRAGMENT = "sitestack/layers/fragment/layer.py"
_LANES, _STACK, _TESTS = "sitestack/stack/lanes.py", "sitestack/stack/stack.py", "tests/sitestack/stack/test_lanes.py"
_ACCOUNTS, _FLOW = "sitestack/layers/flow_control/accounts.py", "sitestack/layers/flow_control/layer.py"
_UNICAST, _SENDER = "sitestack/layers/unicast/layer.py", "sitestack/layers/unicast/sender.py"
_RECEIVER, _FAILURES = "sitestack/layers/unicast/receiver.py", "sitestack/layers/failure_detection.py"
_DOWN, _UP, _BAD = (
    f"{_TESTS}::{name}"
    for name in ("test_a_message_walks_when", "test_a_frame_is_expanded_when", "test_bad_datagrams_are_dropped_and_counted")
)

#: The predicate's condition, its file, and the text without it; the story that must fail.
_DOUBT = "member in self._checks or member in self._suspected"

_CONDITIONS = (
    ("credit", _ACCOUNTS, "return has_credit and not self.queue and", "return not self.queue and", _DOWN),
    ("a queue for credit", _ACCOUNTS, "has_credit and not self.queue and", "has_credit and", _DOWN),
    ("a mark", _ACCOUNTS, " and sent + FRAME_BYTES + size - self.marked < self._mark_bytes", "", _DOWN),
    (
        "a block of flow control",
        _FLOW,
        "None if self._blocked else self._accounts.get(dest)",
        "self._accounts.get(dest)",
        _DOWN,
    ),
    (
        "the size of a piece",
        "sitestack/layers/fragment/layer.py",
        "lambda size: size <= limit",
        "lambda size: limit > 0",
        _DOWN,
    ),
    ("an address", _LANES, "if place is None or batch", "if batch", _DOWN),
    (
        "the number of an acknowledgement",
        _UNICAST,
        "if dest in self._owing and self._owing[dest].fits_lane:",
        "if dest in self._owing:",
        f"{_TESTS}::test_an_acknowledgement_with_too_large_a_number_does_not_ride_on_a_lane",
    ),
    (
        "the count of a batch",
        _LANES,
        " or batch.count > COUNT_MAX:",
        ":",
        f"{_TESTS}::test_a_batch_of_too_many_messages_walks",
    ),
    ("a scope", _LANES, "batch.scope is not Scope.UNICAST or ", "", _DOWN),
    (
        "another site",
        _LANES,
        "        if batch.target_site != self._site:\n            return None\n",
        "",
        f"{_TESTS}::test_a_message_to_another_site_walks",
    ),
    ("short ids", _STACK, "self._ids is not None or self._limits or", "self._limits or", _DOWN),
    ("narrow paths", _STACK, "or self._limits or", "or", _DOWN),
    ("room in a datagram", _STACK, " or LANE_HEAD_BYTES + len(batch.body) > self._room:", ":", _DOWN),
    (
        "a block of unicasts",
        _UNICAST,
        "if self._blocked or dest not in self._senders:",
        "if dest not in self._senders:",
        _DOWN,
    ),
    (
        "a connection",
        _UNICAST,
        "sender is not None and sender.is_usual(size)",
        "sender is None or sender.is_usual(size)",
        _DOWN,
    ),
    ("an acknowledgement", _SENDER, "is_open = self._opened and ", "is_open = ", _DOWN),
    ("a receiver that reads lanes", _SENDER, " and self._reads_lanes and", " and", _DOWN),
    ("a queue for the window", _SENDER, "_reads_lanes and not self.queue", "_reads_lanes", _DOWN),
    ("a seqno that fits", _SENDER, "is_open and self._next_seqno <= NUMBER_MAX and", "is_open and", _DOWN),
    ("room in the window", _SENDER, " <= NUMBER_MAX and self._has_room(FRAME_COST_BYTES + size)", " <= NUMBER_MAX", _DOWN),
    (
        "the version of a receiver",
        _SENDER,
        "header.window >= LANE_WINDOW_MIN",
        "True",
        f"{_TESTS}::test_a_member_that_reads_no_lanes_is_sent_none",
    ),
    ("the next number", _RECEIVER, "head.seqno == self._next_seqno and head", "head", _UP),
    (
        "the connection of a frame",
        _RECEIVER,
        "is_next = head.seqno == self._next_seqno and head.conn_id == self.conn_id",
        "is_next = head.seqno == self._next_seqno",
        f"{_TESTS}::test_a_connection_that_was_opened_again_is_not_taken_for_the_one_before",
    ),
    ("a hole", _RECEIVER, "is_next and head.seqno > self._highest and", "is_next and", _UP),
    ("an early message", _RECEIVER, "> self._highest and not self.early", "> self._highest", _UP),
    ("held frames", _UNICAST, " and not self._reorder_all_bytes.now", "", _UP),
    (
        "a block at the receiver",
        _UNICAST,
        "        if self._blocked:\n            return None\n\n        def is_usual(head",
        "        def is_usual(head",
        _UP,
    ),
    ("a watched sender", _FAILURES, "lambda head: source in self._heard and not", "lambda head: not", _UP),
    (
        "a checked sender",
        _FAILURES,
        _DOUBT,
        "member in self._suspected",
        _UP,
    ),
    (
        "a suspected sender",
        _FAILURES,
        _DOUBT,
        "member in self._checks",
        _UP,
    ),
    ("a tap", _LANES, "if lane.accept is None or walk:", "if lane.accept is None:", _UP),
    ("the size of a body", _LANES, "size != len(data) - HEAD_BYTES or ", "", _BAD),
    ("a count that fits", _LANES, "not 0 < messages <= size // 4 or ", "", _BAD),
    ("a first number that fits", _LANES, " or not 0 < head.first <= INT_MAX - messages:", ":", _BAD),
    ("a connection that is open", _RECEIVER, "head.conn_id != self.conn_id or head.seqno < 1", "head.seqno < 1", _BAD),
    ("a positive seqno", _RECEIVER, "head.conn_id != self.conn_id or head.seqno < 1", "head.conn_id != self.conn_id", _BAD),
    (
        "an announcement",
        _STACK,
        "        self.lanes.close(event.view.members if isinstance(event, ViewInstalled) else None)\n",
        "",
        f"{_TESTS}::test_an_announcement_closes_lanes_until_the_layers_open_them_again",
    ),
)

LANES: tuple[Mutant, ...] = tuple(
    [
        trap(f"L-{what.replace(' ', '-')}", f"lanes do not look at {what}", file, snippet, replacement, story)
        for what, file, snippet, replacement, story in _CONDITIONS
    ]
)
