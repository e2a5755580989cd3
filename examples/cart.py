"""Shopping carts in a map across sites. Run `python examples/cart.py CONFIG NAME`, with a configuration file.

`CART ITEM COUNT` sets an item of a cart, `CART` shows it, and `?` compares all members. Every member of
every site has all carts and reads them locally. Two sites that set one item at the same time end with
the same count, and each reports the conflict.

When a relay or any other member dies, nothing is lost that was acknowledged and that one member of its
site has. When a site is away for longer than the budget, it pulls the missing entries afterwards.
"""

from __future__ import annotations

import sys

import trio

import relay


def report(conflict: relay.Conflict) -> None:
    print(f"conflict at {conflict.key}: kept {conflict.kept!r}, lost {conflict.lost!r}", flush=True)


async def follow(channel: relay.RelayChannel) -> None:
    """Read the events of the channel, which a member must do even if it sends only."""
    async for event in channel:
        if isinstance(event, relay.GlobalView):
            print(f"members: {', '.join(event.names)}", flush=True)


async def serve(carts: relay.Map[str]) -> None:
    async for line in trio.wrap_file(sys.stdin):
        match line.split():
            case [cart, item, count]:
                await carts.put(f"{cart}/{item}", count)
                print(f"{cart}: {item} = {count}", flush=True)
            case ["?"]:
                comparison = await carts.compare()
                print("equal" if comparison.equal else f"different: {dict(comparison.differing)}", flush=True)
            case [cart]:
                mine = [(key, count) for key, count in carts.items() if key.startswith(f"{cart}/")]
                items = sorted(f"{key.partition('/')[2]} = {count}" for key, count in mine)
                print(f"{cart} has {', '.join(items) or 'nothing'}", flush=True)


async def main(file: str, name: str) -> None:
    async with relay.open_channel(file, name=name, insecure=True) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(follow, channel)
        async with relay.Map(channel, "carts", encode=str.encode, decode=bytes.decode, on_conflict=report) as carts:
            await serve(carts)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
