"""Votes on FastAPI: every process in every site counts them and answers with the same result.

`RELAY_CONFIG=examples/nyc.yaml uvicorn --app-dir examples fastapi_service:app`, and another with sfo.yaml and `--port 8001`.
`curl -X POST localhost:8000/votes/tea` votes, `curl localhost:8001/votes` counts.

A vote is counted when it comes back: in each process once, in the order of its site. Votes only add, so the sites agree in
any order. When the relay or another process dies, no counted vote is lost, and one that starts again gets the counts from
another process. A client that gets no answer repeats its request with the same `Idempotency-Key`, at any process.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Header, Request

import relay
import relay.aio

votes: Counter[str] = Counter()


def get_state() -> bytes:
    return json.dumps(votes).encode()


def set_state(state: bytes) -> None:
    votes.clear()
    votes.update(json.loads(state))


async def count(channel: relay.aio.RelayChannel) -> None:
    async for event in channel:
        if isinstance(event, relay.Message):
            votes[event.payload.decode()] += 1


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    opened = relay.aio.open_channel(os.environ["RELAY_CONFIG"], get_state=get_state, set_state=set_state, insecure=True)
    async with opened as channel, asyncio.TaskGroup() as tasks:
        tasks.create_task(count(channel))
        await channel.ready()  # the counts of the other processes are there
        app.state.channel = channel
        yield
        await channel.leave()


app = FastAPI(lifespan=lifespan)


@app.post("/votes/{choice}", status_code=202)
async def vote(choice: str, request: Request, idempotency_key: Annotated[str, Header()] = "") -> None:
    await request.app.state.channel.send(choice.encode(), key=idempotency_key)


@app.get("/votes")
async def result() -> dict[str, int]:
    return dict(sorted(votes.items()))
