"""The chat on plain threads: all members read all lines in one order. Run `python examples/threads.py ROOM NAME` several times.

One thread receives, the main thread sends typed lines; any number may send. When a member dies, all others read its lines
or none does, as on trio: the channel runs in a thread, and no call waits for another one.
"""

from __future__ import annotations

import sys
import threading

import sitestack
import sitestack.blocking


def listen(channel: sitestack.blocking.Channel) -> None:
    for event in channel:
        if isinstance(event, sitestack.Message):
            print(f"{event.sender}: {event.payload.decode(errors='replace')}", flush=True)
        elif isinstance(event, sitestack.View):
            print(f"here now: {', '.join(event.names)}", flush=True)


def main(room: str, name: str) -> None:
    with sitestack.blocking.open_channel(sitestack.local(room), name=name) as channel:
        listener = threading.Thread(target=listen, args=[channel])
        listener.start()
        for line in sys.stdin:
            channel.send(line.strip().encode())
        channel.leave()
        listener.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
