"""The command `relay`: runs the subcommand, and turns errors into a sentence and an exit code."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import StringIO
from typing import NoReturn

import click

from relay.cli.command_group import CommandGroup
from relay.cli.exits import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, Unanswered
from sitestack.channel.version import installed_version
from sitestack.model.errors import JoinFailed, LocalError, NoNetwork, SlowConsumer, Unwritten

#: Name -> module with its `command`, in the order of the help text.
COMMANDS = {
    name: f"relay.cli.{name}"
    for name in ("node", "router", "pub", "sub", "config", "keygen", "keys", "doctor", "status", "site", "journal", "check")
}


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"relay, version {installed_version()}")
        ctx.exit()


@click.group(
    cls=CommandGroup,
    modules=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version and exit."
)
@click.pass_context
def relay(ctx: click.Context) -> None:
    """Reliable, ordered multicast inside a data centre, relayed without loss between data centres."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(EXIT_USAGE)


#: Other errors may pass.
_MISTAKES = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    try:
        status = relay.main(arguments, prog_name="relay", standalone_mode=False)
        _flush()
    except click.UsageError as error:
        where = "relay" if error.ctx is None else error.ctx.command_path
        _fail(f"{where}: {error.format_message()} (See {where} --help.)")
    except click.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except click.ClickException as error:
        _fail(f"relay: {error.format_message()}", EXIT_CHECK_FAILED if isinstance(error, Unanswered) else EXIT_USAGE)
    except (JoinFailed, NoNetwork, SlowConsumer, Unwritten) as error:
        _fail(str(error), EXIT_CHECK_FAILED)
    except LocalError as error:
        _fail(str(error), EXIT_CHECK_FAILED if getattr(error.__cause__, "errno", None) in _PASSING else EXIT_USAGE)
    except BrokenPipeError:
        sys.exit(EXIT_CHECK_FAILED)
    except OSError as error:
        code = EXIT_USAGE if isinstance(error, _MISTAKES) else EXIT_CHECK_FAILED
        _fail(f"relay: {error.filename or 'the system'}: {error.strerror or error}", code)
    sys.exit(status if isinstance(status, int) else 0)


def _flush() -> None:
    """Write pending output, or drop it: the interpreter would try again, and exit with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = StringIO()
        raise


def _fail(sentence: str, code: int = EXIT_USAGE) -> NoReturn:
    with suppress(OSError):
        _flush()
    click.echo(sentence, err=True)
    sys.exit(code)
