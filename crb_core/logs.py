"""Structured logs: one JSON line an event in files, a friendly line on a terminal."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any, TextIO

import structlog

from crb_core.scrub import scrub_log_line

__all__ = ["configure_logs"]

_SHARED: list[structlog.types.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


def configure_logs(level: str, *, file: Path | None = None, terminal: TextIO | None = sys.stderr) -> None:
    """Send every log line, ours and the libraries', to ``file`` as JSON lines and to ``terminal`` as text.

    Lines carry whatever is bound with ``structlog.contextvars`` (sweep, trial, attempt).
    """
    handlers: list[logging.Handler] = []
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        to_file = _LogFile(file, encoding="utf-8")
        to_file.setFormatter(_formatter(structlog.processors.JSONRenderer(ensure_ascii=False)))
        handlers.append(to_file)
    if terminal is not None:
        to_terminal = logging.StreamHandler(terminal)
        renderer = structlog.dev.ConsoleRenderer(colors=terminal.isatty(), pad_event_to=32)
        to_terminal.setFormatter(_formatter(renderer))
        handlers.append(to_terminal)
    # They tell of every task and migration what our own lines tell with sweep, trial and attempt.
    for name in ("alembic", "celery.app.trace", "celery.worker.strategy"):
        logging.getLogger(name).setLevel(logging.WARNING if level != "debug" else logging.DEBUG)
    root = logging.getLogger()
    root.handlers = handlers
    root.setLevel(level.upper())
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


class _LogFile(logging.FileHandler):
    """A log file whose disk may be full: that is said once, and ends no work and fills no terminal."""

    _failed = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._failed:
            self._failed = True
            print(f"crb: The log {self.baseFilename} cannot be written: {error.strerror}.", file=sys.stderr)


def _formatter(renderer: structlog.types.Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_SHARED,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            renderer,
            _without_secrets,
        ],
    )


def _without_secrets(_: object, __: str, line: Any) -> str:
    """The last processor: what it gets is what the renderer made."""
    return scrub_log_line(str(line))
