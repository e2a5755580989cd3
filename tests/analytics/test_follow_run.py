"""How following ends without Spark: nothing there is told and is no success; bad options are a sentence."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from relay.analytics import follow_job, follow_run, job
from relay.analytics.follow import HORIZON_MIN_S, FollowOptions
from relay.analytics.follow_judge import FollowError, Progress
from relay.analytics.follow_run import run_follow
from relay.journal.store import SUFFIX
from sitestack.errors import ConfigurationError
from tests.relay.cli.conftest import Run, run

__all__ = ["run"]

NO_SPARK = cast(SparkSession, None)


def pretend(monkeypatch: pytest.MonkeyPatch, *progress: Progress) -> None:
    """Following sees so much, and then the signal comes."""

    def follow(_spark: object, _options: object, observe: Any, _tell: object, stop: threading.Event) -> None:
        for each in progress:
            observe(each)
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()

    monkeypatch.setattr(follow_run, "follow", follow)


def test_that_there_is_nothing_yet_is_said_once_and_to_have_read_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, Progress(0, 0, 0, 0, 0, 0, {}, 0))
    comments: list[str] = []
    options = FollowOptions([str(tmp_path / "typo"), str(tmp_path)], tmp_path / "out")
    with pytest.raises(FollowError, match=r"^Ended by SIGTERM: nothing was read\.$"):
        run_follow(NO_SPARK, options, True, comments.append, comments.append)
    assert comments[1:] == [f"There are no journals under {tmp_path / 'typo'}, {tmp_path} yet; waiting."]


@pytest.mark.parametrize(("violations", "verdict"), [(0, "PASS"), (1, "FAIL")])
def test_where_journals_are_nothing_is_said_of_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, violations: int, verdict: str
) -> None:
    (tmp_path / f"a{SUFFIX}").touch()
    pretend(monkeypatch, Progress(3, 1, 0, 0, 0, violations, {}, 1))
    comments: list[str] = []
    holds = run_follow(NO_SPARK, FollowOptions([str(tmp_path)], tmp_path / "out"), False, lambda _: None, comments.append)
    assert holds == (verdict == "PASS")
    assert comments[1:] == [f"Ended by SIGTERM: {verdict} as of batch 3."]


def test_a_horizon_that_is_too_short_is_one_sentence_everywhere(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    short = HORIZON_MIN_S - 1
    sentence = f"The horizon must be at least {HORIZON_MIN_S} s, and not {short} s.\n"
    with pytest.raises(ConfigurationError):
        FollowOptions([str(tmp_path)], tmp_path, short)
    assert run("audit", tmp_path, "--follow", "--horizon", short) == (2, "", sentence)
    assert follow_job.main([str(tmp_path), "--out", str(tmp_path / "out"), "--horizon", str(short)]) == 2
    assert capsys.readouterr().err == sentence
    assert not (tmp_path / "out").exists()


class Session:
    """Stands for a session of Spark, and knows whether it was stopped."""

    is_stopped = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_stopped = True


@pytest.mark.parametrize("module", [job, follow_job])
def test_a_job_that_cannot_write_is_a_sentence_and_stops_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: Any
) -> None:
    session = Session()

    def run_out_of_space(*_: object) -> None:
        raise OSError(28, "No space left on device", "report.html")

    (tmp_path / f"a{SUFFIX}").touch()
    monkeypatch.setattr(module, "open_session", lambda *_: session)
    monkeypatch.setattr(module, "run_audit" if module is job else "run_follow", run_out_of_space)
    assert module.main([str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "No space left on device" in err
    assert session.is_stopped
