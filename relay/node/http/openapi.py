"""`GET /openapi.json`: the paths of a node as OpenAPI 3.1, for programs that make clients of it."""

from __future__ import annotations

from typing import Any

from relay.node.http.event_json import KINDS
from relay.node.http.messages import BODY_BYTES_MAX, RETRY_AFTER_S
from sitestack.model.envelope import KEY_BYTES_MAX

_Schema = dict[str, Any]


def describe_api(version: str, *, token: bool) -> dict[str, Any]:
    """The description. `token`: whether this node wants one for what is not only about its health."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "A node of Relay", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": {
            "/healthz": {"get": _get("Alive: the process works.", _text("alive"), open_to_all=True)},
            "/readyz": {"get": _readyz()},
            "/status": {"get": _get("What `relay status --json` shows.", _json("An object.", {"type": "object"}), token=token)},
            "/metrics": {"get": _get("Metrics for Prometheus.", _text("The text format of Prometheus."), token=token)},
            "/openapi.json": {"get": _get("This description.", _json("OpenAPI.", {"type": "object"}), open_to_all=True)},
            "/events": {"get": _events(token)},
            "/messages": {"post": _messages(token)},
        },
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _get(summary: str, answer: _Schema, *, token: bool = False, open_to_all: bool = False) -> _Schema:
    refusals = {} if open_to_all else _REFUSALS
    return {"summary": summary, "responses": {"200": answer, **refusals}, **_security(token)}


def _security(token: bool) -> _Schema:
    return {"security": [{"token": []}]} if token else {"security": []}


def _readyz() -> _Schema:
    operation = _get("Ready: in a view and, if it relays, linked.", _text("ready"), open_to_all=True)
    operation["responses"] |= {"400": _text("members is no whole number."), "503": _text("Not ready, and why.")}
    about = "How many members the global view must have."
    return {**operation, "parameters": [_parameter("members", "query", about, {"type": "integer", "minimum": 0})]}


def _events(token: bool) -> _Schema:
    operation = _get("Messages, views and gaps as server-sent events.", _stream(), token=token)
    operation["responses"] |= {
        "400": _error("The id is none."),
        "503": _error("There are too many streams already.", again=True),
    }
    parameters = [
        _parameter("Last-Event-ID", "header", "Go on after this event. A gap comes first when others are missing.", _STRING),
        _parameter("last_event_id", "query", "The same, for clients that cannot set headers.", _STRING),
        _parameter(
            "from", "query", "oldest: begin with the oldest event that is held, not with the next one.", _word("oldest")
        ),
        _parameter("messages", "query", "no: only views, roles and gaps.", _word("no", "yes")),
    ]
    return {**operation, "parameters": parameters}


def _messages(token: bool) -> _Schema:
    answers = {
        "200": _json("The message is delivered at this node. Posted again it is not sent again.", _ref("Posted")),
        "400": _error("This is no message."),
        **_REFUSALS,
        "408": {"description": "The body came too slowly; nothing was sent."},
        "411": {"description": "The length of the body is not said beforehand."},
        "413": {"description": f"The body has more than {BODY_BYTES_MAX} bytes, or the message more than the site takes."},
        "422": _error("Another message, or this one with another scope, has been published with this key."),
        "429": _error("Members or sites are to catch up first; nothing was sent.", again=True),
        "503": _error("The node is no member now; nothing was sent.", again=True),
        "504": _error("The message is under way; post it again with its key to know.", again=True),
    }
    key = "Names the message: however often and wherever it is posted, everybody is shown it once."
    fit = {"type": "string", "minLength": 1, "maxLength": KEY_BYTES_MAX, "pattern": "^[!-~]+$"}
    return {
        "summary": "Publish a message.",
        "parameters": [
            _parameter("Idempotency-Key", "header", key, fit),
            _parameter("scope", "query", "all: to all sites; site: to the site of this node.", _word("all", "site")),
        ],
        "requestBody": {
            "required": True,
            "description": "The payload itself or, as application/json, an object that holds it.",
            "content": {"application/json": {"schema": _ref("MessageToPost")}, "*/*": {}},
        },
        "responses": answers,
        **_security(token),
    }


def _parameter(name: str, place: str, about: str, schema: _Schema) -> _Schema:
    return {"name": name, "in": place, "description": about, "required": False, "schema": schema}


def _text(about: str) -> _Schema:
    return {"description": about, "content": {"text/plain": {"schema": _STRING}}}


def _json(about: str, schema: _Schema) -> _Schema:
    return {"description": about, "content": {"application/json": {"schema": schema}}}


def _error(about: str, *, again: bool = False) -> _Schema:
    seconds = f"Seconds to wait; {RETRY_AFTER_S} at present."
    headers = {"headers": {"Retry-After": {"description": seconds, "schema": {"type": "integer"}}}} if again else {}
    return {**_json(about, _ref("Error")), **headers}


def _stream() -> _Schema:
    about = "A stream without end: each event has a kind, an id, and an object as its data. Kinds: " + ", ".join(
        f"{kind} ({schema})" for kind, schema in KINDS.items()
    )
    return {"description": f"{about}.", "content": {"text/event-stream": {"schema": _STRING}}}


def _ref(name: str) -> _Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _word(*words: str) -> _Schema:
    return {"type": "string", "enum": list(words)}


def _object(required: dict[str, _Schema], optional: dict[str, _Schema] | None = None) -> _Schema:
    properties = {**required, **(optional or {})}
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


_STRING: _Schema = {"type": "string"}
_NUMBER: _Schema = {"type": "integer", "minimum": 1}
_NAMES: _Schema = {"type": "array", "items": _STRING}
_SAID: dict[str, _Schema] = {"text": _STRING, "base64": {"type": "string", "contentEncoding": "base64"}}
_TIME: dict[str, _Schema] = {"time": {"type": "number", "description": "When this node heard it: seconds since 1970."}}
_ID: _Schema = {
    "description": "Site and UUID of the sender, scope, number: the same at every node.",
    "type": "array",
    "prefixItems": [_STRING, _STRING, _word("all", "site", "unicast", "oob"), _NUMBER],
    "minItems": 4,
    "maxItems": 4,
}
_RUN: _Schema = _object({"site": _STRING, "origin": _STRING, "scope": _STRING, "first": _NUMBER, "last": _NUMBER})
_MISSED: _Schema = _object({"after": _STRING, "before": _STRING})
_REFUSALS: dict[str, _Schema] = {
    "401": _text("This wants the token."),
    "403": _text("A page of another origin asks."),
}
_SCHEMAS: dict[str, _Schema] = {
    "MessageToPost": {**_object({}, {**_SAID, "scope": _word("all", "site")}), "minProperties": 1},
    "Posted": _object({"id": _ID, "key": _STRING, "repeated": {"type": "boolean"}}),
    "Error": _object({"error": _STRING}),
    "Message": _object({**_TIME, "from": _STRING, "site": _STRING, "id": _ID}, {"key": _STRING, **_SAID}),
    "View": _object(
        {**_TIME, "site": _STRING, "view": {"type": "array"}, "members": _NAMES, "merged": {"type": "boolean"}},
    ),
    "GlobalView": _object({**_TIME, "sites": {"type": "object", "additionalProperties": _NAMES}, "down": _NAMES}),
    "Role": _object({**_TIME, "role": _word("member", "coord", "relay", "share"), "relays_to": _NAMES}),
    "SiteSwitched": _object({**_TIME, "site": _STRING, "offline": {"type": "boolean"}}),
    "Gap": _object({"gap": {"anyOf": [_RUN, _MISSED, _object({"events": _NUMBER})]}, "reason": _STRING}, _TIME),
    "Unreachable": _object(
        {**_TIME, "target": _NAMES, "first": _NUMBER, "last": _NUMBER, "reason": _STRING, "certainty": _STRING}
    ),
}
