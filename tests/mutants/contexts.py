"""A pytest plugin for `coverage run`: tells it which test is running, so that each line knows the tests that run it.

Measuring makes tests several times as slow, so of each test only the first set of parameters is run.
"""

from __future__ import annotations

from collections.abc import Iterator

import coverage
import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave one item of each test."""
    items[:] = {name_of(item): item for item in reversed(items)}.values()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Count what runs now as run by this test."""
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.switch_context(name_of(item))
    return (yield)


def name_of(item: pytest.Item) -> str:
    """The test without its parameters, as conformance marks name it."""
    return item.nodeid.split("[")[0]
