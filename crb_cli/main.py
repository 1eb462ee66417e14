"""The ``crb`` command.

Heavy libraries are imported inside the commands that need them, so that ``crb --help`` is quick.
"""

from __future__ import annotations

import codecs
import errno
import importlib
import os
import sys
import traceback
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from crb_core.errors import CrbError, Where

__all__ = ["app", "run"]

#: Command -> (module, attribute, one-line help). Modules are imported when their command runs.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("crb_cli.demo", "demo", "Run the main job on the showcase corpus; nothing else is needed."),
    "doctor": ("crb_cli.doctor", "doctor", "Say what this machine has and lacks, and how to mend it."),
    "corpus": ("crb_cli.corpus", "app", "Import, list, show, validate corpora; build snapshots."),
    "agent": ("crb_cli.agent", "app", "List, validate, build and try agents."),
    "sweep": ("crb_cli.sweep", "app", "Start, list, show, watch, pause, resume and cancel sweeps."),
    "trial": ("crb_cli.trial", "app", "List and show trials, read their logs, cancel and retry single ones."),
    "worker": ("crb_cli.services", "worker", "Take steps from the queues and work on them."),
    "workers": ("crb_cli.workers", "app", "List the farm's workers; change their slots while they run."),
    "scheduler": ("crb_cli.services", "scheduler", "Dispatch steps and give back what is lost."),
    "flower": ("crb_cli.flower", "flower", "Watch tasks in Flower, on loopback and with a password."),
    "judge": ("crb_cli.judge", "app", "List the judges with what was measured of them."),
    "leaderboard": ("crb_cli.leaderboard", "app", "Print a sweep's leaderboard; compare, submit, cost, producers."),
    "serve": ("crb_cli.serve", "serve", "Serve the pages and the API; read-only and on this machine by default."),
    "token": ("crb_cli.token", "app", "Make, list and revoke the access tokens of crb serve."),
    "score": ("crb_cli.score", "score", "Score a bundle of judgments that anyone brings."),
    "dispute": ("crb_cli.dispute", "app", "Dispute a label or a match; decide, apply and follow disputes."),
    "export": ("crb_cli.export", "app", "Export a sweep: archive, CSV, XLSX, ReviewBench files; all pages as a site."),
    "gc": ("crb_cli.gc", "gc", "Make room: list or remove what nobody names or can be made again."),
    "backup": ("crb_cli.backup", "backup", "Write the store with its evidence to one file, while the farm works."),
    "restore": ("crb_cli.backup", "restore", "Restore a backup into an empty home or store."),
    "verify": ("crb_cli.verify", "verify", "Check an archive and make its numbers again, or a site; needs no store."),
}


#: What tables are drawn with, where a terminal lacks it: one character for one, so that columns stay.
_ALIKE = {"–": "-", "±": "~", "·": ".", "…": ".", "×": "x", "█": "#", "━": "-", "─": "-", "│": "|", "≥": ">", "≤": "<"}

#: Set in the context once a command is to be run.
_IS_RUN = "crb.is_run"


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        ctx.meta[_IS_RUN] = True
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, text = COMMANDS[cmd_name]
        # The list of commands asks for every one of them and needs their names only.
        target: Any = getattr(importlib.import_module(module), attribute) if _IS_RUN in ctx.meta else _placeholder
        single = typer.Typer(add_completion=False)
        if not isinstance(target, typer.Typer):
            single.command(name=cmd_name, help=text)(target)
            target = single
        # A group of its own would have options that install completion for it, as if it were a program.
        command: Any = typer.main.get_group(target) if target is not single else typer.main.get_command(target)
        command.name = cmd_name
        command.help = command.help or text
        return command


def _placeholder() -> None:
    """Stands for a command while only the list of commands is printed."""


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="An evaluation farm for AI code-review agents.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root() -> None:
    """An evaluation farm for AI code-review agents."""


def run() -> None:
    """Entry point: a sentence instead of a traceback, exit codes 0, 1, 2 and 3 (design.md, "CLI"); 130 after Ctrl-C."""
    _open_streams()
    try:
        try:
            app(prog_name="crb")
        finally:
            # What is still buffered fails here and not while Python ends, where nobody could say so.
            if sys.stdout is not None:
                sys.stdout.flush()
    except CrbError as error:
        _fail(error)
    except BrokenPipeError:
        _leave_standard_output()
        sys.exit(1)
    except OSError as error:
        _leave_standard_output()
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        _fail(
            CrbError(
                f"A file or standard output cannot be used: {error.strerror or error}",
                where=Where(file=None if error.filename is None else str(error.filename)),
                remedy="Free space, or name another place" if full else None,
            ),
            error,
        )
    except Exception as error:  # noqa: BLE001 - the last one who can still make a sentence of it
        frames = traceback.extract_tb(error.__traceback__)
        frame = next((each for each in reversed(frames) if "crb_" in each.filename), frames[-1])
        _fail(
            CrbError(
                f"This is a mistake in crb: {type(error).__name__}: {error}",
                where=Where(file=frame.filename, line=frame.lineno),
                remedy="Please report it with what CRB_LOG_LEVEL=debug prints",
            ),
            error,
        )


def _fail(said: CrbError, cause: BaseException | None = None) -> NoReturn:
    """End with a sentence; with the whole story of what nobody foresaw where the log level asks for it."""
    if cause is not None and os.environ.get("CRB_LOG_LEVEL", "").lower() == "debug":
        traceback.print_exception(cause)
    print(f"crb: {said}", file=sys.stderr)
    sys.exit(said.exit_code)


def _open_streams() -> None:
    """A closed standard stream is the null device, and for characters that a stream lacks others stand in."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # Else the first file that is opened gets the number, and what is printed goes into it.
            while (opened := os.open(os.devnull, os.O_RDWR)) < number:
                pass
            setattr(sys, name, os.fdopen(opened, "r" if number == 0 else "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and not stream.encoding.lower().startswith("utf"):
            codecs.register_error("crb.alike", _alike)
            reconfigure(errors="crb.alike")


def _alike(error: UnicodeError) -> tuple[str, int]:
    """For characters that an encoding lacks, what looks most like them."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_ALIKE.get(each, "?") for each in error.object[error.start : error.end]), error.end


def _leave_standard_output() -> None:
    """Nobody takes it any more; Python must not complain about that again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    run()
