"""The browser for the tests of the dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.harness.browser import Browser, browser, find_browser

WITHOUT = "dashboard not exercised: there is no Chromium here"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        print(WITHOUT)
        pytest.skip(WITHOUT)
    with TemporaryDirectory(prefix="relay-", ignore_cleanup_errors=True) as directory, browser(path, Path(directory)) as opened:
        yield opened
