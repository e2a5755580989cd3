"""Members' knowledge of another site is bounded, whatever that site sends."""

from __future__ import annotations

import pytest

from relay.replica.entries import RemoteBaseline, RemoteGap
from relay.replica.remote_site import Remote
from relay.replica.vectors import ORIGINS_MAX
from sitestack.model.address import Address
from sitestack.model.gap import GapReason


def origin(number: int) -> Address:
    return Address(number.to_bytes(16, "big"))


@pytest.mark.parametrize("how", ["gaps", "baselines"])
def test_invented_origins_stay_within_the_bound(how: str) -> None:
    """C28: a state above the bound would be refused by every joiner."""
    remote = Remote()
    for number in range(1, ORIGINS_MAX + 100):
        if how == "gaps":
            remote.skip(RemoteGap("SFO", origin(number), 1, 1, GapReason.BUDGET))
        else:
            remote.begin(RemoteBaseline("SFO", {origin(number): 1}))
    assert len(remote.admitted) == ORIGINS_MAX
    assert origin(ORIGINS_MAX + 99) in remote.admitted
