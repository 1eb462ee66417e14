"""What must not leave the exporting machine: where its folders and private images are, and the values of secrets."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["Private"]

_GONE = "<folder of the exporting machine>"
_HIDDEN = "<secret>"
_UNSAID = "<private image>"
#: Where a system's own packages are: names nobody, and stands in many a message.
_NOT_PRIVATE = frozenset({"/", ".", "/usr", "/usr/local"})
#: A value shorter than this is no usable secret and may occur anywhere.
_MIN_SECRET = 8


class Private:
    """What must not leave the exporting machine: folders by path, values of secrets, and names of private images."""

    def __init__(self, folders: Iterable[Path], secrets: Iterable[str] = (), images: Iterable[str] = ()) -> None:
        paths = {str(path) for folder in folders for path in (folder, folder.resolve())}
        # Longest first, so that a folder inside another is replaced as a whole.
        usable = sorted((path for path in paths if path not in _NOT_PRIVATE), key=len, reverse=True)
        self._folders = re.compile(
            "|".join(rf"(?<![\w./-]){re.escape(path)}(?![\w-])" for path in usable) if usable else r"(?!)"
        )
        self._folder_bytes = re.compile(self._folders.pattern.encode())
        self._secrets = sorted({value for value in secrets if len(value) >= _MIN_SECRET}, key=len, reverse=True)
        # Longest first, so that a digest goes with its repository.
        self._images = sorted(set(images), key=len, reverse=True)

    @classmethod
    def of_process(cls, home: Path, secrets: Iterable[str] = (), images: Iterable[str] = ()) -> Private:
        """The folders of this farm, this installation and its interpreter."""
        return cls((home, Path(sys.prefix), Path(__file__).resolve().parents[2]), secrets, images)

    def text(self, text: str) -> str:
        """``text`` with folders, secrets and private images replaced."""
        for value in self._secrets:
            text = text.replace(value, _HIDDEN)
        for name in self._images:
            text = text.replace(name, _UNSAID)
        return self._folders.sub(_GONE, text)

    def value(self, value: Any) -> Any:
        """A JSON value with every text in it replaced."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(each) for name, each in value.items()}
        return value

    def base_name(self, value: Any) -> Any:
        """An absolute path of this machine without its folders; anything else as it is."""
        if isinstance(value, str) and value.startswith("/") and not value.startswith("/work/repo"):
            return f"{_GONE}/{value.rstrip('/').rsplit('/', 1)[-1]}"
        return value

    def is_in(self, data: bytes) -> bool:
        """Whether a blob holds any of it."""
        hidden = (*self._secrets, *self._images)
        return any(value.encode() in data for value in hidden) or bool(self._folder_bytes.search(data))
