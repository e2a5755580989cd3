"""Journal records for the events that package `relay` adds to those of a stack."""

from __future__ import annotations

from types import MappingProxyType

from relay.events import GlobalView, Role, Unreachable
from sitestack.journal import records
from sitestack.journal.recorder import EventRecords, Recorder
from sitestack.model.state_events import Baseline


def _global_view(recorder: Recorder, event: GlobalView) -> None:
    recorder.global_view = event.components
    members = tuple([(member.site, member.original) for member in event.members])
    recorder.write(records.GlobalView(*recorder.clock(), event.components, members, event.down))


def _role(recorder: Recorder, event: Role) -> None:
    recorder.role(event.duty.value, event.epoch, event.sites)


def _baseline(recorder: Recorder, event: Baseline) -> None:
    for origin, last in event.origins.items() if event.site != recorder.site else ():
        recorder.write(records.Baseline(*recorder.clock(), event.site, origin, last + 1, event.in_state))


def _unreachable(recorder: Recorder, event: Unreachable) -> None:
    recorder.write(
        records.Unreach(
            *recorder.clock(),
            recorder.site,
            recorder.address,
            event.scope,
            event.first,
            event.last - event.first + 1,
            event.target.original,
            event.target.site,
            event.reason.value,
            event.certainty.value,
        )
    )


#: Event -> its recording function, for members of a relayed site.
RELAY_RECORDS: EventRecords = MappingProxyType(
    {GlobalView: _global_view, Role: _role, Baseline: _baseline, Unreachable: _unreachable}
)
