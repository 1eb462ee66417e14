"""The values of the secrets that agents declare by name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from crb_core.agent import AgentBuild
from crb_core.errors import InputError
from crb_core.scrub import MIN_LENGTH
from crb_core.settings import Settings

__all__ = ["ENVIRONMENT_PREFIX", "agent_secrets"]

#: A secret NAME is taken from ``CRB_SECRET_NAME`` before any other place.
ENVIRONMENT_PREFIX = "CRB_SECRET_"
MAX_SECRET_BYTES = 64 * 1024
#: Variables with which the farm itself reaches its judge's model, its store and its evidence. No agent gets them under
#: their own name, whatever its manifest declares.
_OF_THE_FARM = re.compile(
    r"(ANTHROPIC_.*|AWS_.*|AZURE_STORAGE_.*|GOOGLE_APPLICATION_CREDENTIALS|PG[A-Z]+|DOCKER_.*|CELERY_.*|FLOWER_.*"
    r"|SSH_AUTH_SOCK)",
    re.IGNORECASE,
)


def agent_secrets(build: AgentBuild, settings: Settings, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Values by name, as far as this machine has them, of the variables and files that ``build`` declares.

    A variable is taken from ``CRB_SECRET_<NAME>``, else from the file ``<NAME>`` in the secrets folder, else, unless
    the farm uses it itself, from ``<NAME>``. A file is ``<secrets folder>/<declared path>``. A blank value, as compose
    files make of a variable that is not set, is none. InputError for a value that cannot be used; it never shows the
    value.
    """
    found: dict[str, str] = {}
    folder = settings.secrets_folder
    for name in build.secrets.env:
        value = _unless_blank(environment.get(ENVIRONMENT_PREFIX + name))
        if value is None and folder is not None:
            value = _unless_blank(_read(folder, name))
            value = None if value is None else value.rstrip("\r\n")
        if value is None and not _OF_THE_FARM.fullmatch(name):
            value = _unless_blank(environment.get(name))
        if value is not None:
            if "\0" in value:
                raise InputError(f"the secret {name} holds a zero byte, which no variable can")
            found[name] = value
    for path in build.secrets.files:
        value = None if folder is None else _unless_blank(_read(folder, path.lstrip("/")))
        if value is not None:
            found[path] = value
    for name, value in found.items():
        if len(value.strip()) < MIN_LENGTH:
            raise InputError(
                f"the value of the secret {name} is shorter than {MIN_LENGTH} characters, so it could not be kept out"
                " of logs",
                remedy="Use a longer one; what is no secret belongs into the configuration of agent.toml",
            )
    return found


def _unless_blank(value: str | None) -> str | None:
    return value if value is not None and value.strip() else None


def _read(folder: Path, name: str) -> str | None:
    """The text of a file below ``folder``; None where there is none."""
    root = folder.resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root):
        raise InputError(f"the secret {name} is outside of the secrets folder", remedy="Put the file itself into it")
    if not path.is_file():
        return None
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise InputError(f"the secret {name} cannot be read: {error.strerror}") from None
    if len(data) > MAX_SECRET_BYTES:
        raise InputError(f"the secret {name} is larger than {MAX_SECRET_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"the secret {name} is not UTF-8 text") from None
