"""Records of the journal for what package `relay` adds to the events of a stack."""

from __future__ import annotations

from relay.events import Baseline, Gap, GlobalView, Role, Unreachable
from sitestack.journal import records
from sitestack.journal.recorder import Recorder
from sitestack.model.events import Event
from sitestack.model.frame import Frame


class RelayRecorder(Recorder):
    """Records one member of a site that is relayed."""

    def record(self, event: Event | Frame) -> None:
        """Record what came out of the stack, in order."""
        match event:
            case GlobalView():
                self.global_view = event.components
                members = tuple([(member.site, member.original) for member in event.members])
                self.write(records.GlobalView(*self.clock(), event.components, members, event.down))
            case Role():
                self.role(event.duty.value, event.epoch, event.sites)
            case Gap():
                self.write(records.Gap(*self.clock(), event.site, event.origin, event.first, event.last, event.reason))
            case Baseline():
                for origin, last in event.origins.items():
                    self.write(records.Baseline(*self.clock(), event.site, origin, last + 1))
            case Unreachable():
                self.write(self._unreach(event))
            case _:
                super().record(event)

    def _unreach(self, event: Unreachable) -> records.Unreach:
        return records.Unreach(
            *self.clock(),
            self.site,
            self.address,
            event.scope,
            event.first,
            event.last - event.first + 1,
            event.target.original,
            event.target.site,
            event.reason,
            event.certainty.value,
        )
