"""Structured logs: one JSON line an event in files, a friendly line on a terminal."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TextIO

import structlog

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
        to_file = logging.FileHandler(file, encoding="utf-8")
        to_file.setFormatter(_formatter(structlog.processors.JSONRenderer(ensure_ascii=False)))
        handlers.append(to_file)
    if terminal is not None:
        to_terminal = logging.StreamHandler(terminal)
        renderer = structlog.dev.ConsoleRenderer(colors=terminal.isatty(), pad_event_to=32)
        to_terminal.setFormatter(_formatter(renderer))
        handlers.append(to_terminal)
    root = logging.getLogger()
    root.handlers = handlers
    root.setLevel(level.upper())
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _formatter(renderer: structlog.types.Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_SHARED,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            renderer,
        ],
    )
