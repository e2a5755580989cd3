"""The mutants of the shared transport (decision 27): a channel disturbs another one, or is taken for it."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

SHARED, DESK = (f"sitestack/transport/{name}.py" for name in ("shared", "watch_desk"))
GREETING = "sitestack/transport/tcp_greeting.py"
UNIT, CHANNELS = "tests/sitestack/transport/test_shared.py", "tests/sitestack/channel/test_shared_transport.py"
GREETINGS = "tests/sitestack/transport/test_tcp_greeting.py"
MISSED = f"{CHANNELS}::test_a_channel_that_ends_without_a_word_is_missed_at_once_though_its_process_lives"


def _one(trap: str, why: str, file: str, snippet: str, replacement: str, story: str) -> Mutant:
    return Mutant(trap, why, (Edit(file, snippet, replacement),), (story,))


SHARED_TRANSPORT = (
    _one(
        "SHARE-bound",
        "a channel that reads nothing holds what arrives without limit",
        SHARED,
        "        if not self._queued_bytes.fits(size):\n",
        "        if False:\n",
        f"{UNIT}::test_a_channel_that_reads_nothing_loses_and_the_others_do_not",
    ),
    _one(
        "SHARE-rest",
        "what one turn did not take waits until something more arrives",
        SHARED,
        "        if not self._queue and self._arrival.is_set():\n",
        "        if self._arrival.is_set():\n",
        f"{UNIT}::test_a_channel_that_reads_nothing_loses_and_the_others_do_not",
    ),
    _one(
        "SHARE-pause",
        "every datagram of a flood for nobody wakes the process",
        SHARED,
        "                if not self.poll():\n                    await trio.sleep(OTHERS_PAUSE_S)\n",
        "                self.poll()\n",
        f"{UNIT}::test_a_flood_for_those_that_do_not_wait_is_looked_at_in_portions",
    ),
    _one(
        "SHARE-twice",
        "closing a channel again takes the place of the one that came after it",
        SHARED,
        "        if self._is_open:\n            self._is_open = False\n",
        "        if True:\n            self._is_open = False\n",
        f"{UNIT}::test_a_part_that_was_closed_twice_does_not_take_its_successors_place",
    ),
    _one(
        "SHARE-group",
        "closing one channel leaves the multicast group that another one shares",
        SHARED,
        "part.group is not None and not self._hears(part.group):\n            carrier.leave(part.group)",
        "part.group is not None:\n            carrier.leave(part.group)",
        f"{UNIT}::TestGroups::test_a_group_is_heard_while_somebody_wants_it",
    ),
    _one(
        "SHARE-port",
        "sockets of several sites hear whatever is sent to the groups' port",
        "sitestack/transport/udp.py",
        "            return data, source\n",
        "            pass\n        return data, source\n",
        "tests/sitestack/transport/test_multicast_scope.py"
        "::test_sockets_of_several_sites_hear_the_groups_that_they_have_joined_and_nothing_else",
    ),
    _one(
        "SHARE-alike",
        "two clusters are told apart by a tag that is the same for both",
        SHARED,
        "        if not self._parts.keys().isdisjoint(marks_of(site)):\n",
        "        if False:\n",
        f"{UNIT}::test_two_clusters_whose_sealed_datagrams_look_alike_are_refused",
    ),
    _one(
        "SHARE-left",
        "nobody says that a member with keys is gone from a process that lives",
        DESK,
        "                self._left[watcher.proofs.cluster] = watcher.proofs\n",
        "                pass\n",
        MISSED,
    ),
    _one(
        "SHARE-hold",
        "the connections of a member's watchers outlive its channel",
        DESK,
        "            found.adopt(stream.socket, answer)\n",
        "            found.adopt(stream.socket.dup(), answer)\n            vars(self).setdefault('kept', []).append(stream)\n",
        MISSED,
    ),
    _one(
        "SHARE-common",
        "a connection begins with the keys of one cluster, which the other end may not have",
        GREETING,
        "        if len(self._proofs) > 1:\n",
        "        if False:\n",
        f"{CHANNELS}::test_processes_that_have_only_some_clusters_in_common_connect_by_any_of_them",
    ),
    _one(
        "SHARE-empty",
        "whose last channel with keys was closed lets everybody in",
        GREETING,
        "        if not self.is_proved:\n            return _place",
        "        if not self._proofs:\n            return _place",
        f"{GREETINGS}::test_a_cluster_that_was_closed_is_not_proved_any_more_and_an_empty_transport_is_not_open",
    ),
)
