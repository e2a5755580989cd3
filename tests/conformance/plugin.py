"""The `conforms` mark: a test names the rows that it proves, and a report lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.report import Claim, render, unknown_rows


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--conformance-report",
        metavar="FILE",
        type=Path,
        help="write which of the collected tests proves which row, as Markdown (see `make conformance`)",
    )


@pytest.hookimpl(tryfirst=True)  # before -k and -m take tests away
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    report: Path | None = config.getoption("--conformance-report")
    if report and not session.testsfailed and _is_only_writer(config):
        claims = [claim for item in items for claim in _claims(item)]
        if complaints := unknown_rows(claims):
            raise pytest.UsageError("\n".join(complaints))
        report.write_text(render(claims), encoding="utf-8")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if complaints := unknown_rows(_claims(item)):
        pytest.fail("\n".join(complaints), pytrace=False)


def _claims(item: pytest.Item) -> list[Claim]:
    needs = " and ".join(str(mark.args[0]) for mark in item.iter_markers("needs"))
    return [Claim(item.nodeid, tuple(map(str, mark.args)), needs) for mark in item.iter_markers("conforms")]


def _is_only_writer(config: pytest.Config) -> bool:
    """Under xdist every worker collects the same tests, and the controller none."""
    worker: dict[str, str] = getattr(config, "workerinput", {"workerid": "gw0"})
    return worker["workerid"] == "gw0"
