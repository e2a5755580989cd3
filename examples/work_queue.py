"""A work queue led by the coordinator, without a lock service. Run `python examples/work_queue.py SITE NAME`.

Each typed line is a task, and every member is a worker. All members hold the queue and change it
only by delivered messages, so all copies are equal. The coordinator, the first member of the view,
assigns the tasks. An assignment counts once it is delivered, so no task of a dead leader is
assigned twice or forgotten.

When the leader dies, the next member of the view leads with the same queue. When a worker dies, the
next view returns its tasks to the queue, and a half-done task is done again. A joiner receives the
queue. When the network splits the site, both parts continue, and a task may be done in both. After
the split heals, the members of the smaller parts join the largest part again and take its queue.
"""

from __future__ import annotations

import json
import sys
from typing import assert_never

import trio

import sitestack

#: How long a task takes.
WORK_S = 0.2
#: Tasks that one worker has at a time.
GIVEN_MAX = 2


class Queue:
    """The open tasks and their workers. Only deliveries change it."""

    def __init__(self) -> None:
        self.tasks: dict[str, str] = {}
        #: Task -> the worker that it was given to, as hexadecimal digits.
        self.given: dict[str, str] = {}

    def get_state(self) -> bytes:
        return json.dumps([self.tasks, self.given]).encode()

    def set_state(self, state: bytes) -> None:
        self.tasks, self.given = json.loads(state)

    def give(self, task: str, worker: str, workers: set[str]) -> bool:
        """False: the task was given out before, is done, or the worker is gone. The first decision counts."""
        if task not in self.tasks or task in self.given or worker not in workers:
            return False
        self.given[task] = worker
        return True

    def done(self, task: str) -> str | None:
        """Remove a task and return its text; None when another worker has done it."""
        self.given.pop(task, None)
        return self.tasks.pop(task, None)

    def take_back(self, workers: set[str]) -> None:
        """What members have that are gone is to be done by others."""
        self.given = {task: worker for task, worker in self.given.items() if worker in workers}

    def waiting(self) -> list[str]:
        return [task for task in self.tasks if task not in self.given]


class Member:
    def __init__(self, channel: sitestack.Channel, queue: Queue, nursery: trio.Nursery) -> None:
        self._channel = channel
        self._queue = queue
        self._nursery = nursery
        self._me = channel.address.hex()
        self._workers: list[str] = []
        #: Assignments of this leader that are not delivered yet.
        self._deciding: dict[str, str] = {}

    async def follow(self) -> bool:
        """Until this member has left, which is False, or is to join anew, which is True."""
        async for event in self._channel:
            match event:
                case sitestack.Message():
                    self._hear(event)
                case sitestack.View():
                    if event.subviews and self._channel.address not in largest(event.subviews).members:
                        return True
                    self._workers = [member.hex() for member in event.members]
                    self._queue.take_back(set(self._workers))
                    self._deciding.clear()
                    print(f"workers: {', '.join(event.names)}", flush=True)
                case sitestack.Gap():
                    pass  # the preceding merge view handled the split
                case _:
                    assert_never(event)
            if self._workers[0] == self._me:
                await self._lead()
        return False

    def _hear(self, message: sitestack.Message) -> None:
        said = json.loads(message.payload)
        if "put" in said:
            self._queue.tasks[f"{message.source.hex()}.{message.id.n}"] = said["put"]
        elif "give" in said:
            self._deciding.pop(said["give"], None)
            if self._queue.give(said["give"], said["to"], set(self._workers)) and said["to"] == self._me:
                self._nursery.start_soon(self._work, said["give"])
        elif (task := self._queue.done(said["done"])) is not None:
            print(f"{task} by {message.sender}, {len(self._queue.tasks)} left", flush=True)

    async def _lead(self) -> None:
        """Assign waiting tasks to the least busy workers."""
        busy = [*self._queue.given.values(), *self._deciding.values()]
        load = {worker: busy.count(worker) for worker in self._workers}
        for task in [task for task in self._queue.waiting() if task not in self._deciding]:
            worker = min(load, key=lambda each: load[each])
            if load[worker] == GIVEN_MAX:
                return
            load[worker] += 1
            self._deciding[task] = worker
            await self._say(give=task, to=worker)

    async def _work(self, task: str) -> None:
        await trio.sleep(WORK_S)
        await self._say(done=task)

    async def _say(self, **words: str) -> None:
        await self._channel.send(json.dumps(words).encode())

    async def put(self, tasks: trio.MemoryReceiveChannel[str]) -> None:
        """Send the typed tasks. A task may be lost while this member joins again."""
        async for task in tasks:
            await self._say(put=task)
        await self._channel.leave()


def largest(parts: tuple[sitestack.SubView, ...]) -> sitestack.SubView:
    """Return the part that survives a merge; every member computes the same one."""
    return max(parts, key=lambda part: (len(part.members), part.id))


async def take_part(queue: Queue, site: str, name: str, tasks: trio.MemoryReceiveChannel[str]) -> bool:
    opened = sitestack.open_channel(sitestack.local(site), name=name, get_state=queue.get_state, set_state=queue.set_state)
    async with opened as channel, trio.open_nursery() as nursery:
        member = Member(channel, queue, nursery)
        nursery.start_soon(member.put, tasks)
        again = await member.follow()
        nursery.cancel_scope.cancel()
    return again


async def read_tasks(tasks: trio.MemorySendChannel[str]) -> None:
    async with tasks:
        async for line in trio.wrap_file(sys.stdin):
            await tasks.send(line.strip())


async def main(site: str, name: str) -> None:
    typed, tasks = trio.open_memory_channel[str](0)
    queue = Queue()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_tasks, typed)
        while await take_part(queue, site, name, tasks):
            pass


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
