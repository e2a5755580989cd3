from __future__ import annotations

from collections.abc import Sequence
from http.client import FORBIDDEN, UNAUTHORIZED, HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import click

from relay.cli.client import SCHEMES, require_url
from relay.cli.exits import EXIT_CHECK_FAILED, Unanswered
from relay.cli.output import json_option, print_json, print_whole
from relay.cli.running import run
from relay.cli.status_tables import status_tables
from relay.node.status.status_socket import (
    ANSWER_BYTES_MAX,
    ANSWER_TIMEOUT_S,
    fetch_here,
    fetch_status,
    parse_answer,
    run_directory,
)

_STRANGE = "not a node of this version; --json prints its answer"


def _address(_ctx: click.Context, _parameter: click.Parameter, target: str | None) -> str | None:
    """Accept a path, or the URL of a node."""
    if target is not None and target.startswith(SCHEMES):
        require_url(target)
    return target


@click.command(name="status")
@click.option(
    "--node", "target", metavar="SOCKET|URL", callback=_address, help="A single node.  [default: all in RELAY_RUN_DIRECTORY]"
)
@click.option("--token", type=click.Path(path_type=Path), help="File with the node's HTTP token, if it requires one.")
@click.option("--queues", is_flag=True, help="Also show the queues in use, with their bounds.")
@json_option
@click.pass_context
def command(ctx: click.Context, target: str | None, token: Path | None, queues: bool, as_json: bool) -> None:
    """Show the status of running nodes.

    Views, roles, links, problems and drops; the JSON also has the queues. With --node the JSON is
    the status of that node; without, it is {"nodes": [...], "silent": [...]}.
    """
    if target is not None:
        status = _ask(target, token)
        if not as_json and not _can_be_shown(status):
            raise Unanswered(f"{target} is {_STRANGE}.")
        _show([status], status if as_json else None, queues)
        return
    found, silent = _ask_here(as_json)
    for path, why in silent.items():
        click.echo(f"{path}: {why}", err=True)
    if not found and not silent:
        where = f"{run_directory()} has no socket; set RELAY_RUN_DIRECTORY to that of the node"
        click.echo(f"No node of this user is running on this machine: {where}.", err=True)
    _show(found, {"nodes": found, "silent": list(silent)} if as_json else None, queues)
    ctx.exit(0 if found else EXIT_CHECK_FAILED)


def _ask_here(as_json: bool) -> tuple[list[dict[str, Any]], dict[str, str]]:
    answers = run(fetch_here)
    if not as_json:
        answers = {path: each if _can_be_shown(each) else _STRANGE for path, each in answers.items()}
    found = [answer for answer in answers.values() if isinstance(answer, dict)]
    return found, {str(path): answer for path, answer in answers.items() if isinstance(answer, str)}


def _can_be_shown(status: dict[str, Any] | str) -> bool:
    """Return whether an answer fits the tables."""
    try:
        return isinstance(status, str) or bool(list(status_tables([status], True)))
    except (AttributeError, LookupError, TypeError, ValueError):
        return False


def _show(statuses: Sequence[dict[str, Any]], as_json: dict[str, Any] | None, queues: bool) -> None:
    if as_json is not None:
        print_json(as_json)
        return
    for table in status_tables(statuses, queues):
        print_whole(table)


def _ask(target: str, token: Path | None) -> dict[str, Any]:
    try:
        return _ask_url(target, token) if target.startswith(SCHEMES) else run(fetch_status, Path(target))
    except HTTPError as error:
        error.close()
        answer = "it requires its token: --token FILE" if error.code == UNAUTHORIZED else f"it answers {error.code}"
        kind = click.ClickException if error.code in (UNAUTHORIZED, FORBIDDEN) else Unanswered
        raise kind(f"{target} does not report its status ({answer}).") from error
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        raise Unanswered(f"no node answers at {target} ({reason}).") from error


def _ask_url(url: str, token: Path | None) -> dict[str, Any]:
    """`url` may omit /status."""
    where = url if url.rstrip("/").endswith("/status") else f"{url.rstrip('/')}/status"
    request = Request(where)
    if token is not None:  # unredirected: never sent to another server
        from relay.node.http.token import find_secret  # noqa: PLC0415

        request.add_unredirected_header("Authorization", f"Bearer {find_secret(token, 'operate')}")
    with urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
        return parse_answer(answer.read(ANSWER_BYTES_MAX), where)
