"""`/openapi.json` describes the paths that there are, and no others."""

from __future__ import annotations

import json

import pytest
from openapi_spec_validator import validate
from starlette.routing import Route

from relay.node.http.app import describe_api, make_app
from relay.node.http.messages import BODY_BYTES_MAX
from relay.node.http.refusal import RETRY_AFTER_S
from relay.node.http.token import Tokens
from sitestack.model.envelope import KEY_BYTES_MAX
from tests.relay.node.http.test_http import FakeNode, get, served

#: The kinds of events, each with the name of its schema.
KINDS = {
    "message": "Message",
    "view": "View",
    "global_view": "GlobalView",
    "role": "Role",
    "site_switched": "SiteSwitched",
    "gap": "Gap",
    "unreachable": "Unreachable",
}


def test_every_path_and_method_is_described_except_those_of_the_dashboard() -> None:
    routes = [route for route in make_app(FakeNode().served()).routes if isinstance(route, Route)]
    served = {(route.path, method.lower()) for route in routes for method in (route.methods or set()) - {"HEAD"}}
    pages = {(path, method) for path, method in served if path == "/" or path.startswith("/dashboard/")}
    described = {(path, method) for path, methods in describe_api("1", token=False)["paths"].items() for method in methods}
    assert described == served - pages


@pytest.mark.parametrize("token", [False, True])
def test_a_standard_validator_accepts_the_description(token: bool) -> None:
    validate(describe_api("1", token=token))


def test_the_description_has_the_bounds_and_the_kinds_of_the_node() -> None:
    about = describe_api("1", token=False)
    publish = about["paths"]["/messages"]["post"]
    assert publish["parameters"][0]["schema"]["maxLength"] == KEY_BYTES_MAX
    assert f"The body has more than {BODY_BYTES_MAX} bytes," in publish["responses"]["413"]["description"]
    assert f"Seconds to wait; {RETRY_AFTER_S} at present." in str(publish["responses"]["429"])
    kinds = ", ".join([f"{kind} ({schema})" for kind, schema in KINDS.items()])
    assert f"Kinds: {kinds}." in about["paths"]["/events"]["get"]["responses"]["200"]["description"]
    assert set(KINDS.values()) <= about["components"]["schemas"].keys()


def test_the_description_marks_the_paths_that_require_a_token() -> None:
    paths = describe_api("1", token=True)["paths"]
    secured = {path for path, methods in paths.items() for each in methods.values() if each["security"]}
    assert secured == {"/status", "/metrics", "/events", "/messages"}


async def test_the_description_and_the_page_require_no_token_and_secured_paths_do() -> None:
    async with served(FakeNode(), Tokens("hush-hush-hush-hush")) as place:
        for path, methods in json.loads((await get(place, "/openapi.json"))[1])["paths"].items():
            for method, operation in methods.items():
                status, _, _ = await get(place, path, method.upper()) if method == "get" else (401, "", None)
                assert (status == 401) is bool(operation["security"]), path
        status, text, answer = await get(place, "/")
        assert (status, "<!doctype html>" in text.lower()) == (200, True)
        assert "script-src 'self'" in answer.headers["content-security-policy"]
