"""Where the bundled agents, the showcase corpus and the prompts are."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from crb_core.errors import UnavailableError

__all__ = ["Part", "bundled", "bundled_references"]

Part = Literal["agents", "corpus", "prompts"]

_PACKAGE = Path(__file__).resolve().parent


def bundled(part: Part) -> Path:
    """The folder of a bundled part: package data in an installed wheel, the repository's own folder in a checkout.

    Raises UnavailableError if the installation holds neither.
    """
    for folder in (_PACKAGE / "bundled" / part, _PACKAGE.parent / part):
        if folder.is_dir():
            return folder
    raise UnavailableError(
        f"this installation of crb has no bundled {part}", remedy="Install crb again from its wheel or a checkout"
    )


def bundled_references(corpus: str) -> Path:
    """Where the reference judgments of the bundled corpus of that name are; there is no such folder for any other one.

    Raises UnavailableError as ``bundled`` does.
    """
    return bundled("corpus") / corpus / "reference"
