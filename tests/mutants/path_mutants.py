"""The mutants of path MTU discovery (decision 16): a member that large datagrams do not reach stops its site again."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

PATHS = "tests/simulation/test_path_mtu.py"

PATH_MTU = (
    Mutant(
        "MTU-multicast",
        "nobody wonders why a member asks for the same multicasts again and again",
        (
            Edit(
                "sitestack/layers/nakack/layer.py",
                "        if request.in_vain:\n            effects.append(Down(PathDoubt(requester, True)))\n",
                "",
            ),
        ),
        (f"{PATHS}::test_a_member_that_large_datagrams_do_not_reach_gets_everything_in_slices",),
    ),
    Mutant(
        "MTU-unicast",
        "nobody wonders why a peer acknowledges nothing",
        (
            Edit(
                "sitestack/layers/unicast/sender.py",
                "[Down(PathDoubt(self._peer, self._answers))] if now >= self._moved_at + self._config.doubt_s else []",
                "[]",
            ),
        ),
        (f"{PATHS}::test_a_member_whose_large_datagrams_do_not_arrive_sends_them_in_slices",),
    ),
    Mutant(
        "MTU-elsewhere",
        "nobody asks where a member is whom nothing of any size reaches",
        (Edit("sitestack/layers/path_mtu/layer.py", ", Up(FindPhysical(member, again=True))]", "]"),),
        ("tests/simulation/test_places.py::test_who_has_moved_unheard_is_asked_for_when_nothing_arrives_at_the_old_place",),
    ),
    Mutant(
        "MTU-dead-way",
        "nobody turns to another address of a member whose multicasts come by another network",
        (Edit("sitestack/layers/path_mtu/layer.py", "[Down(TryNextPhysical(member)), Up(", "[Up("),),
        (
            "tests/sitestack/layers/path_mtu/test_path_mtu.py"
            "::test_no_answer_at_all_says_nothing_about_sizes_and_the_member_is_tried_and_sought_elsewhere",
        ),
    ),
    Mutant(
        "MTU-probes",
        "a way that is full is probed as often as one that is narrow, which fills it further",
        (
            Edit(
                "sitestack/layers/path_mtu/layer.py",
                "            interval_s = min(2 * last.interval_s, self._config.search_interval_s_max)\n",
                "            pass\n",
            ),
        ),
        (
            "tests/sitestack/layers/path_mtu/test_path_mtu.py"
            "::test_the_way_is_searched_less_and_less_often_while_all_sizes_pass",
        ),
    ),
    Mutant(
        "MTU-raise",
        "a limit stays when the network is mended",
        (
            Edit(
                "sitestack/layers/path_mtu/layer.py",
                "            if now >= again_at:\n                effects += self._look_again(member, now)\n",
                "            if now >= again_at:\n                self._limits[member] = (1_400, now + 30.0)\n",
            ),
        ),
        (f"{PATHS}::test_whole_datagrams_are_sent_again_when_they_pass_again",),
    ),
    Mutant(
        "MTU-digest",
        "slices of a datagram that is sent again do not complete those that have arrived",
        (
            Edit(
                "sitestack/wire/slices.py",
                "hashlib.blake2b(datagram, digest_size=DIGEST_BYTES).digest()",
                "id(datagram).to_bytes(DIGEST_BYTES)",
            ),
        ),
        (
            "tests/sitestack/wire/test_slices.py::test_what_is_lost_once_may_come_with_the_same_datagram_sent_again",
            f"{PATHS}::test_a_member_that_large_datagrams_do_not_reach_gets_everything_in_slices",
        ),
    ),
)
