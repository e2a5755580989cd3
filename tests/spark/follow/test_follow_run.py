"""How following ends, without Spark: nothing there is told and is no success; bad options are a sentence."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from pyspark_relay import job
from pyspark_relay.follow import run as follow_run
from pyspark_relay.follow.judge import FollowError, Progress
from pyspark_relay.follow.run import run_follow
from pyspark_relay.follow.streams import HORIZON_MIN_S, FollowOptions
from pyspark_relay.session import LOG, stop_session
from relay.journal.retention import SUFFIX
from sitestack.model.errors import ConfigurationError
from tests.harness.command_line import Run, run

__all__ = ["run"]

NO_SPARK = cast(SparkSession, None)


def pretend(
    monkeypatch: pytest.MonkeyPatch, *progress: Progress, then: Exception | None = None, signalled: bool = True
) -> None:
    """Following sees so much, and then the signal comes, and what it comes to."""

    def follow(_spark: object, _options: object, observe: Any, _tell: object, stop: threading.Event) -> None:
        for each in progress:
            observe(each)
        if signalled:
            signal.raise_signal(signal.SIGTERM)
            assert stop.is_set()
        if then is not None:
            os.write(2, b"what libraries say\n")
            raise then

    monkeypatch.setattr(follow_run, "follow", follow)
    monkeypatch.setattr(follow_run, "stop_session", lambda _spark: None)


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


@pytest.mark.parametrize("error", [Py4JNetworkError("no answer"), ConnectionRefusedError(), EOFError()])
@pytest.mark.parametrize("signalled", [True, False])
def test_that_java_is_gone_matters_only_when_no_signal_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: Exception, signalled: bool
) -> None:
    pretend(monkeypatch, Progress(3, 1, 0, 0, 0, 0, {}, 1), then=error, signalled=signalled)
    comments: list[str] = []

    def follow() -> bool:
        return run_follow(NO_SPARK, FollowOptions([str(tmp_path)], tmp_path), False, lambda _: None, comments.append)

    if signalled and not isinstance(error, EOFError):
        assert follow()
        assert comments[-1] == "Ended by SIGTERM: PASS as of batch 3."
    else:
        with pytest.raises(type(error)):
            follow()
    assert capfd.readouterr().err == ("" if signalled else "what libraries say\n")
    assert (tmp_path / LOG).exists() == signalled
    os.write(2, b"heard again")
    assert capfd.readouterr().err == "heard again"


def test_where_no_log_can_be_written_a_signal_ends_it_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, Progress(3, 1, 0, 0, 0, 0, {}, 1))
    options = FollowOptions([str(tmp_path)], tmp_path / "gone")
    assert run_follow(NO_SPARK, options, False, lambda _: None, lambda _: None)


def test_a_horizon_that_is_too_short_is_one_sentence_everywhere(
    tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    short = HORIZON_MIN_S - 1
    sentence = f"The horizon must be at least {HORIZON_MIN_S} s, and not {short} s.\n"
    with pytest.raises(ConfigurationError):
        FollowOptions([str(tmp_path)], tmp_path, short)
    assert run("audit", tmp_path, "--follow", "--horizon", short) == (2, "", sentence)
    assert job.main([str(tmp_path), "--follow", "--out", str(tmp_path / "out"), "--horizon", str(short)]) == 2
    assert capsys.readouterr().err == sentence
    assert not (tmp_path / "out").exists()


class Session:
    """Stands for a session of Spark and for its context, and knows how often it was stopped."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = [*failures]
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1
        if self.failures:
            raise self.failures.pop()

    @property
    def sparkContext(self) -> Session:
        return self

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@pytest.mark.parametrize("error", [Py4JNetworkError("no answer"), ConnectionRefusedError()])
def test_where_java_is_gone_the_rest_of_spark_is_stopped(error: Exception) -> None:
    session = Session(error)
    stop_session(cast(SparkSession, session))
    assert session.stops == 2


@pytest.mark.parametrize("options", [(), ("--follow",)])
def test_a_job_that_cannot_write_is_a_sentence_and_stops_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    session = Session()

    def run_out_of_space(*_: object) -> None:
        raise OSError(28, "No space left on device", "report.html")

    (tmp_path / f"a{SUFFIX}").touch()
    monkeypatch.setattr(job, "open_session", lambda *_: session)
    monkeypatch.setattr(job, "run_audit", run_out_of_space)
    monkeypatch.setattr(follow_run, "follow", run_out_of_space)
    assert job.main([str(tmp_path), *options, "--out", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    _advice, reason = err.splitlines()
    assert (out, reason.count("No space left on device"), session.stops) == ("", 1, 1)
