"""Journals that grow: a generated run, written record by record as far as a test wants."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from relay.journal import JournalOptions, JournalStore
from relay.journal.retention import Retention
from relay_lab.bench.generate import GeneratedProcess, Generator, GeneratorPlan
from sitestack.journal import records
from sitestack.model.address import Address


class GrowingJournals:
    """Writes a run in the order of its time. Each site has a folder, which appears with its first record."""

    def __init__(
        self, directory: Path, plan: GeneratorPlan, segment_bytes: int = 64 << 20, retained_bytes_max: int | None = None
    ) -> None:
        self.directory = directory
        self.segment_bytes = segment_bytes
        self.retention = Retention(retained_bytes_max)
        self._records = Generator(plan).run()
        self._stores: dict[Address, JournalStore] = {}
        weakref.finalize(self, _close, self._stores)

    def write(self, count: int | None = None, wanted: Callable[[GeneratedProcess, records.Record], bool] | None = None) -> int:
        """The next records, or all that are left; how many. Those that are not `wanted` are left out for good."""
        written = 0
        for process, record in islice(self._records, count):
            if wanted is None or wanted(process, record):
                self._store(process).write(record)
            written += 1
        return written

    def files(self) -> list[Path]:
        """The segment files in the order of their names."""
        return sorted(self.directory.rglob("*.rlj"))

    def _store(self, process: GeneratedProcess) -> JournalStore:
        store = self._stores.get(process.uuid)
        if store is None:
            where = self.directory / process.site
            options = JournalOptions(where, segment_bytes=self.segment_bytes, strict=True, retention=self.retention)
            store = self._stores[process.uuid] = JournalStore(options, process.site, process.uuid, process.name)
        return store


def _close(stores: dict[Address, JournalStore]) -> None:
    for store in stores.values():
        store.close()


def small_run(deliveries: int = 6_000) -> GeneratorPlan:
    """Two sites of two; 1,500 messages in about 150 batches."""
    return GeneratorPlan(seed=1, members=2, deliveries=deliveries, rate=1_000)
