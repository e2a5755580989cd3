"""Members in tests have one-letter names, from which their addresses, places and views follow."""

from __future__ import annotations

import random

from sitestack.model.address import Address, Physical
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Local

#: The site of members for which the test names no other.
SITE = "NYC"


def address(name: str) -> Address:
    """The address of a member; that of A is printed as 41414141."""
    return Address(name[0].encode() * 16)


def name_of(member: Address) -> str:
    """The letter of the member with this address."""
    return chr(member[0])


def place(name: str) -> Physical:
    """The default place of a member: a:1 for A, a:2 for a."""
    return Physical(name[0].lower(), 1 if name[0].isupper() else 2)


def view_id(name: str) -> ViewId:
    """`"3A"` is the view with counter 3 that A has made."""
    return ViewId(int(name[:-1]), address(name[-1]))


def view_of(counter: int, names: str, lineage: str = "") -> View:
    """The view `counter` of these members, made by the first; it begins a lineage unless one is named, such as `"1A"`."""
    made = view_id(f"{counter}{names[0]}")
    return View(made, view_id(lineage) if lineage else made, tuple(map(address, names)), tuple(names))


def local_of(name: str, seed: float | None = None, site: str = SITE) -> Local:
    """A member as its layers know it; its random generator is seeded with `seed`, or with its name."""
    return Local(site, address(name), name, random.Random(name if seed is None else seed))
