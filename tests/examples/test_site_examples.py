"""The examples of one site, run as they are: processes, UDP multicast on the loopback interface; and one of them is killed."""

from __future__ import annotations

import pytest

from tests.examples.programs import new_site, programs

pytestmark = pytest.mark.slow


def test_a_chat_continues_after_its_coordinator_is_killed() -> None:
    room = new_site()
    with programs() as start:
        a = start("chat", room, "A")
        a.expect("here now: A")
        b = start("chat", room, "B")
        b.expect("here now: A, B")
        c = start("chat", room, "C")
        for each in (a, b, c):
            each.expect("here now: A, B, C")
        a.say("hello")
        for each in (b, c):
            each.expect("A: hello")
        a.kill()
        b.say("where is A?")
        c.say("gone")
        for each in (b, c):
            each.expect("here now: B, C")
        assert (b.end(), c.end()) == (0, 0)
        said = [[line for line in each.printed if line.startswith(("B:", "C:"))] for each in (b, c)]
        assert sorted(said[0]) == sorted(said[1]) == ["B: where is A?", "C: gone"]
        assert said[0] == said[1]


def test_a_counter_is_the_same_everywhere_and_outlives_its_coordinator() -> None:
    site = new_site()
    with programs() as start:
        a = start("replicated_counter", site, "A")
        a.expect("0 at A")
        b = start("replicated_counter", site, "B")
        b.expect("0 at A, B")
        a.say("1", "10")
        b.say("100")
        for each in (a, b):
            each.expect(lambda line: line.startswith("111 by"))
        a.kill()
        b.expect("111 at B")
        c = start("replicated_counter", site, "C")
        c.expect("111 at B, C")
        c.say("1000")
        for each in (b, c):
            each.expect("1111 by C")
        assert c.printed == ["111 at B, C", "1111 by C"]


@pytest.mark.long
def test_every_task_is_done_though_the_leader_and_a_worker_are_killed() -> None:
    site, tasks = new_site(), [f"task {n}" for n in range(80)]
    with programs() as start:
        a = start("work_queue", site, "A")
        a.expect("workers: A")
        b, c = start("work_queue", site, "B"), start("work_queue", site, "C")
        b.expect(lambda line: line in ("workers: A, B, C", "workers: A, C, B"))
        b.say(*tasks[:40])
        b.expect(lambda line: line.startswith("task 9 by"))
        a.kill()
        b.expect(lambda line: line in ("workers: B, C", "workers: C, B"))
        d = start("work_queue", site, "D")
        d.expect(lambda line: line.endswith(", D"))
        b.say(*tasks[40:])
        d.expect(lambda line: " by D, " in line)
        c.kill()
        for each in (b, d):
            each.expect(lambda line: line in ("workers: B, D", "workers: D, B"))
        d.say("the last one")
        for each in (b, d):
            each.expect(lambda line: line.startswith("the last one by "))
            if not each.printed[-1].endswith(" 0 left"):
                each.expect(lambda line: line.endswith(" 0 left"))
        done = [line.partition(" by ")[0] for line in b.printed if " by " in line]
        assert sorted(done) == sorted([*tasks, "the last one"])
        assert d.printed == b.printed[-len(d.printed) :]
