"""Who is who in tests: members have one-letter names, which say their address, their place and their part of a view."""

from __future__ import annotations

import random

from sitestack.model.address import Address, Physical
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Local

#: The site of everybody who is not said to be elsewhere.
SITE = "NYC"


def address(name: str) -> Address:
    """A member called A has an address that shows as 41414141."""
    return Address(name[0].encode() * 16)


def name_of(member: Address) -> str:
    """The letter of a member with such an address."""
    return chr(member[0])


def place(name: str) -> Physical:
    """Where a member called A is unless the test says otherwise: a:1. One called a is at a:2."""
    return Physical(name[0].lower(), 1 if name[0].isupper() else 2)


def view_id(name: str) -> ViewId:
    """`"3A"` is the view with counter 3 that A has made."""
    return ViewId(int(name[:-1]), address(name[-1]))


def view_of(counter: int, names: str, lineage: str = "") -> View:
    """The view `counter` of these members, made by the first; it begins a lineage unless one is named, such as `"1A"`."""
    made = view_id(f"{counter}{names[0]}")
    return View(made, view_id(lineage) if lineage else made, tuple(map(address, names)), tuple(names))


def local_of(name: str, seed: float | None = None, site: str = SITE) -> Local:
    """What the layers of a member are told about it. Its name is the seed unless there is another."""
    return Local(site, address(name), name, random.Random(name if seed is None else seed))
