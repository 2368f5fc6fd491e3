"""Finds the commands, runs the one that is called, and turns every error into a line and an exit code."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from harness.errors import HarnessError

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
OURS = ("harness", "models", "pyx")


def names() -> list[str]:
    """Every command, by the modules of the package, those that start with an underscore apart."""
    return sorted(_modules())


def _modules() -> dict[str, str]:
    """Each command's module: find_limit holds find-limit, and import_ what would be a keyword of Python."""
    folder = [str(Path(__file__).parent)]
    found = [module.name for module in pkgutil.iter_modules(folder)]
    return {name.rstrip("_").replace("_", "-"): name for name in found if not name.startswith("_")}


class Commands(click.Group):
    """Loads a command's module when it is asked for; each has a `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _modules().get(cmd_name)
        if module is None:
            return None
        command: click.Command = importlib.import_module(f"{__package__}.{module}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in names() and not args[0].startswith("-"):
            from models.knobs import offer

            raise click.UsageError(f"{args[0]}: no such command{offer(args[0], names())}")
        return super().resolve_command(ctx, args)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
def group() -> None:
    """Finds, predicts and explains the point where a concurrent server stops scaling.

    Example: python -m harness sweep --var workers
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit code: 0 ok, 1 the work failed, 2 bad usage, 130 interrupted.

    Every error is a line on stderr; with KNEEPOINT_DEBUG=1 it is a traceback.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = group.main(
            args=words,
            obj=words,
            prog_name="python -m harness",
            standalone_mode=False,
        )
        return status if isinstance(status, int) else OK
    except KeyboardInterrupt:
        return _say(["interrupted"], INTERRUPTED)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        return _say(["interrupted"], INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return USAGE
    except click.ClickException as error:
        return _say([error.format_message()], error.exit_code)
    except HarnessError as error:
        if _debugging():
            raise
        return _say(str(error).split("\n"), USAGE if error.usage else FAILED)
    except BrokenPipeError:
        # Whoever read our output is gone; keep the interpreter's own flush at exit from failing over it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if _debugging():
            raise
        missing = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
        if missing.startswith("pyx."):
            return _say([f"the native core is not built ({missing} is missing); run make setup"], FAILED)
        known = type(error).__module__.partition(".")[0] in OURS  # written for the user, not a fault of ours
        text = " ".join(str(error).split())
        hint = "" if known else " (KNEEPOINT_DEBUG=1 shows where)"
        message = text if known else f"{type(error).__name__}: {text}"
        return _say([message + hint], USAGE if getattr(error, "usage", False) else FAILED)


def _say(messages: Sequence[str], status: int) -> int:
    for message in messages:
        print(f"error: {' '.join(message.split())}" if status != INTERRUPTED else message, file=sys.stderr)
    return status


def _debugging() -> bool:
    return os.environ.get("KNEEPOINT_DEBUG") == "1"
