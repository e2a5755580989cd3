"""Texts from other processes: no received name can forge a log line or control a terminal (C25)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.gateway.wire import FRAMES, Hello
from sitestack.channel.open import make_local
from sitestack.layers.discovery.headers import IAmHere
from sitestack.layers.membership.headers import JoinRequest, Prepare
from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.address_cache import Contact
from sitestack.model.errors import ConfigurationError, ProtocolError
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from sitestack.wire.codec import Codec
from tests.relay.any_header import EVERY, product_stack

A = Address(bytes(16))
VID = ViewId(1, A)
CODEC, BRIDGE = Codec("NYC", EVERY), Codec("", FRAMES)
FORGED = ['A\n{"ev":"deliver"}', "\x1b[2J", "A\r", "A\0", "A\u2028B", "A\u202eB", "A\x7f", "x" * 1_025]


def hostile(name: str) -> list[Header]:
    contact = Contact(A, name, (Physical("10.0.0.1", 1),), 1)
    elsewhere = Contact(A, "A", (Physical(name, 1),), 1)
    return [
        JoinRequest(name, False),
        Prepare(None, View(VID, VID, (A,), (name,)), {}, {}, False, ()),
        IAmHere(contact, None, None, "", ()),
        IAmHere(elsewhere, None, None, "", ()),
    ]


@pytest.mark.parametrize("name", FORGED)
def test_a_header_with_a_name_that_cannot_be_printed_is_refused(name: str) -> None:
    for header in hostile("A"):
        assert CODEC.parse(CODEC.pack(header)) == header
    for header in hostile(name):
        with pytest.raises(ProtocolError, match=r"field|malformed"):
            CODEC.parse(CODEC.pack(header))


@pytest.mark.parametrize("name", FORGED)
def test_a_hello_with_an_unprintable_site_or_relay_name_is_refused(name: str) -> None:
    for site, relay in ((name, "A"), ("SFO", name)):
        with pytest.raises(ProtocolError, match=r"field|malformed"):
            BRIDGE.parse(BRIDGE.pack(Hello(1, site, VID, VID, A, relay, 1, 1, 1)))


@pytest.mark.parametrize("site", FORGED)
def test_a_batch_of_such_a_site_is_refused(site: str) -> None:
    for batch in (
        Batch(site, A, Scope.ALL, 1, 1, pack_body([b"x"])),
        Batch("SFO", A, Scope.UNICAST, 1, 1, pack_body([b"x"]), A, site),
    ):
        with pytest.raises(ProtocolError, match=r"batch|malformed"):
            CODEC.decode_frame(CODEC.encode_frame(Frame(A, None, (), batch)), A, None)


@given(st.text())
def test_a_valid_member_name_is_accepted_by_other_members(name: str) -> None:
    try:
        local = make_local("NYC", name)
    except ConfigurationError:
        assert not name.isprintable() or len(name) > 1_024
        return
    request = JoinRequest(local.name, False)
    assert CODEC.parse(CODEC.pack(request)) == request


def test_a_proxy_of_such_a_site_is_refused() -> None:
    schema = product_stack().codec.schema
    pack, parse = schema.converter(ProxyUUID)
    assert parse(pack(ProxyUUID(A, "SFO"))) == ProxyUUID(A, "SFO")
    with pytest.raises(ProtocolError, match="field"):
        parse(pack(ProxyUUID(A, "S\nO")))
