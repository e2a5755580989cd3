"""Refusals: a JSON object with the reason, and `Retry-After` where the same request may succeed later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

RETRY_AFTER_S = 1
_AGAIN = (408, 429, 503, 504)


def _advice(status: int) -> dict[str, str]:
    again = {"Retry-After": str(RETRY_AFTER_S)} if status in _AGAIN else {}
    return {"WWW-Authenticate": "Bearer"} if status == 401 else again


def refuse(status: int, why: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": why}, status, {**_advice(status), **(headers or {})})


async def refuse_path(_request: Request, error: Exception) -> Response:
    """Return the refusal of an unknown path, or of a method that the path lacks."""
    assert isinstance(error, HTTPException)
    why = "There is no such path." if error.status_code == 404 else "The method is not allowed here."
    return refuse(error.status_code, why, error.headers)


def encode_refusal(status: int, why: str) -> bytes:
    """Return a whole last answer."""
    body = json.dumps({"error": why}).encode()
    headers = {"Content-Type": "application/json", "Content-Length": len(body), "Connection": "close", **_advice(status)}
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *[f"{name}: {value}" for name, value in headers.items()]]
    return "\r\n".join([*lines, "", ""]).encode() + body
