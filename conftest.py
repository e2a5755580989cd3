"""Root plugin, so that pytest knows the project's options whatever its arguments are."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ["pytester", "tests.conformance.plugin"]


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    """Distributes test by test, but sends all tests with Spark to one process, so that there is one session."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith("tests/spark/") else nodeid


#: Fixtures that start a Spark or a browser: what uses them is slow.
_HEAVY = {"spark", "chromium"}


@pytest.hookimpl(tryfirst=True)  # before -m takes tests away
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and _HEAVY & set(item.fixturenames):
            item.add_marker(pytest.mark.slow)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """With pytest 9.2 the groups of xdist itself (3.8) are ignored."""
    return _Scheduling(config, log)
