"""A member that writes to a map: `python map_member.py CONFIG NAME RATE KEYS LOG`. Its orders are lines on standard input.

`go` writes RATE values a second, `stop` ends that, `compare` prints how the other members differ. LOG has a line
for each write once it is acknowledged (`W key value before`, what the writer saw), for each lost value of a
conflict (`L key value`), and at the end of the input for each entry (`E key value`).
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import trio

import relay

#: Writes under way at a time.
WRITERS = 16


class Member:
    def __init__(self, name: str, rate: float, keys: int, log: Path) -> None:
        self._name, self._rate, self._keys = name, rate, keys
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._rng = random.Random(name)
        self._number = 0
        self._writing: trio.CancelScope | None = None

    def note(self, *words: object) -> None:
        os.write(self._log, " ".join(map(str, words)).encode() + b"\n")

    def lost(self, conflict: relay.Conflict) -> None:
        self.note("L", conflict.key, None if conflict.lost is None else conflict.lost.decode())

    async def serve(self, channel: relay.RelayChannel) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow, channel)
            async with relay.Map(channel, "m", encode=str.encode, decode=bytes.decode, on_conflict=self.lost) as shared:
                print("open", len(shared), flush=True)
                async for line in trio.wrap_file(sys.stdin):
                    match line.strip():
                        case "go":
                            nursery.start_soon(self._write_all, shared)
                        case "stop":
                            assert self._writing is not None
                            self._writing.cancel()
                        case "compare":
                            found = await shared.compare()
                            print("equal" if found.equal and not found.silent else f"{found}", flush=True)
                for key, value in shared.items():
                    self.note("E", key, value)
            nursery.cancel_scope.cancel()

    async def _follow(self, channel: relay.RelayChannel) -> None:
        async for _ in channel:
            pass

    async def _write_all(self, shared: relay.Map[str]) -> None:
        with trio.CancelScope() as self._writing:
            async with trio.open_nursery() as nursery:
                for _ in range(WRITERS):
                    nursery.start_soon(self._write, shared)

    async def _write(self, shared: relay.Map[str]) -> None:
        """Write one after the other; a writer that is late does not catch up."""
        while True:
            due = trio.current_time() + WRITERS / self._rate
            self._number += 1
            key, value = f"k{self._rng.randrange(self._keys)}", f"{self._name}-{self._number}"
            before = shared.get(key)
            with trio.CancelScope(shield=True):
                await shared.put(key, value)
            self.note("W", key, value, before)
            await trio.sleep_until(due)


async def main(arguments: list[str]) -> None:
    file, name, rate, keys, log = arguments
    async with relay.open_channel(file, name=name, insecure=True) as channel:
        await Member(f"{name}{os.getpid()}", float(rate), int(keys), Path(log)).serve(channel)


if __name__ == "__main__":
    trio.run(main, sys.argv[1:])
