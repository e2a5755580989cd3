"""The doctor's questions: only answers to them are noted."""

from __future__ import annotations

import pytest

from relay.node.doctor.enquiry import Enquiry
from sitestack.layers.discovery.headers import IAmHere, WhoIsThere
from sitestack.model.address_cache import Contact
from sitestack.model.frame import Frame, Header
from sitestack.stack.layer import Dropped
from tests.harness.addresses import address, local_of

B, C = address("B"), address("C")


@pytest.mark.parametrize(
    "headers",
    [(), (WhoIsThere(Contact(B, "B", (), 1), None, None, ""),), (IAmHere(Contact(C, "C", (), 1), None, None, "", ()),)],
    ids=["nothing", "a question", "another's answer"],
)
def test_what_is_no_answer_is_counted(headers: tuple[Header, ...]) -> None:
    enquiry = Enquiry(local_of("A"), "")
    assert enquiry.up(Frame(B, None, headers, None, True), 0.0) == [Dropped("not_asked")]
    assert (enquiry.answered, enquiry.told) == ({}, {})
