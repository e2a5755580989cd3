from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from relay.cli.exits import EXIT_CHECK_FAILED, Unanswered
from relay.cli.output import json_option, print_json
from relay.cli.running import run
from relay.node.status.control_socket import give_order
from relay.node.status.status_socket import fetch_here, fetch_status, run_directory
from sitestack.model.errors import LocalError
from sitestack.model.printable import escaped

_site = click.argument("site", metavar="SITE")
_node = click.option(
    "--node",
    "socket",
    metavar="SOCKET",
    type=click.Path(path_type=Path),
    help="Status socket of a node of this site.  [default: any in RELAY_RUN_DIRECTORY, if all are of one site]",
)


@click.group(name="site")
def command() -> None:
    """Take another site offline for this one, and online again.

    An offline site has no link, no messages are held for it, and no member waits for it. Run this
    before a site is away for longer than the budget lasts. Once linked again it receives the missed
    messages as a gap. One member of this site receives the order; all members, also later relays,
    follow it. The command uses the node's own socket, so run it as the user of the node.
    """


@command.command()
@_site
@_node
@click.pass_context
def offline(ctx: click.Context, site: str, socket: Path | None) -> None:
    """Close the link to SITE, and hold no messages for it."""
    _switch(ctx, site, socket, offline=True)


@command.command()
@_site
@_node
@click.pass_context
def online(ctx: click.Context, site: str, socket: Path | None) -> None:
    """Link to SITE again, and hold further messages for it."""
    _switch(ctx, site, socket, offline=False)


@command.command(name="list")
@_node
@json_option
def list_sites(socket: Path | None, as_json: bool) -> None:
    """Print the other sites: linked, away, down or offline."""
    path, status = run(_one_node, socket, "")
    try:
        states = {link["site"]: _state(link, status) for link in status["links"]}
        answer = {"site": status["site"], "sites": states}
    except (AttributeError, LookupError, TypeError):
        raise Unanswered(f"{path} is not a node of this version.") from None
    if as_json:
        print_json(answer)
        return
    for site, state in states.items():
        click.echo(f"{escaped(str(site))}  {state}")


def _state(link: dict[str, Any], status: dict[str, Any]) -> str:
    """Return the state of another site as known here; only the relay is sure of its link."""
    if link["offline"]:
        return "offline"
    if link["down"]:
        return "down"
    shown = link["site"] in (status["global_view"] or {"sites": {}})["sites"]
    return "linked" if link["linked"] or (shown and status["role"] == "member") else "away"


def _switch(ctx: click.Context, site: str, socket: Path | None, *, offline: bool) -> None:
    path, status = run(_one_node, socket, site)
    if status.get("site") == site:
        raise LocalError(f"{site} is the site of the node at {path}; take it offline at the other sites.")
    try:
        answer = run(give_order, path, {"site": site, "offline": offline})
    except OSError as error:
        raise Unanswered(f"no node accepts orders at {path} ({error.strerror or error}).") from error
    word, mine = "offline" if offline else "online", escaped(status["site"])
    if not answer.get("done"):
        click.echo(f"{site} is not {word} for {mine} yet: its members have no coordinator at present; retry.", err=True)
        ctx.exit(EXIT_CHECK_FAILED)
    click.echo(f"{site} is {word} for {mine}.")


async def _one_node(socket: Path | None, site: str) -> tuple[Path, dict[str, Any]]:
    """Return the named node, else one running here, rather not in `site` and the relay, with its status."""
    if socket is None:
        answers = await fetch_here()
        found = {path: each for path, each in answers.items() if isinstance(each, dict) and "links" in each}
    else:
        try:
            found = {socket: await fetch_status(socket)}
            if "links" not in found[socket]:
                raise OSError("that is not the status of a node")
        except OSError as error:
            raise Unanswered(f"no node answers at {socket} ({error.strerror or error}).") from error
    # Its own site is the last choice.
    found = {path: status for path, status in found.items() if status.get("site") != site} or found
    sites = sorted({str(status.get("site")) for status in found.values()})
    if not sites:
        raise Unanswered(f"no suitable node of this user answers on this machine; see {run_directory()}.")
    if len(sites) > 1:
        raise click.ClickException(f"nodes of {' and '.join(sites)} run here; name a status socket with --node.")
    return min(found.items(), key=lambda each: each[1].get("role") == "member")
