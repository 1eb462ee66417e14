"""What the model may look at: the change and the files of the checkout, read-only and in bounded pieces."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from changes import Change

__all__ = ["TOOLS", "RepositoryTools", "ToolError", "annotated"]

#: Bounds of one answer: characters, lines of a file, matches of a search, entries of a list, characters of a line.
MAX_ANSWER = 60_000
MAX_LINES = 800
MAX_MATCHES = 100
MAX_ENTRIES = 1_000
MAX_LINE = 500
#: Larger files are not read, in bytes.
MAX_FILE_BYTES = 4 * 1024 * 1024
#: Patience with one search, in seconds.
SEARCH_SECONDS = 30

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")

_PATH = {"type": "string", "description": "Path from the root of the repository, with /."}

TOOLS: list[dict[str, Any]] = [
    {
        "name": "read_file",
        "description": f"Lines of a file after the change, numbered. At most {MAX_LINES} lines a call.",
        "input_schema": {
            "type": "object",
            "properties": {
                "path": _PATH,
                "from": {"type": "integer", "minimum": 1, "description": "First line, from 1. Default 1."},
                "to": {"type": "integer", "minimum": 1, "description": "Last line, inclusive."},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    },
    {
        "name": "search",
        "description": (
            "Lines of the repository after the change that match an extended regular expression (grep -E). "
            f"At most {MAX_MATCHES} matches."
        ),
        "input_schema": {
            "type": "object",
            "properties": {
                "pattern": {"type": "string"},
                "path": {**_PATH, "description": "A folder or file to search in. Default: everything."},
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
    },
    {
        "name": "list_files",
        "description": f"The files below a folder, after the change. At most {MAX_ENTRIES}.",
        "input_schema": {
            "type": "object",
            "properties": {"path": {**_PATH, "description": "The folder. Default: the root."}},
            "additionalProperties": False,
        },
    },
    {
        "name": "show_diff",
        "description": "The diff of one changed file, each line with its number after the change.",
        "input_schema": {
            "type": "object",
            "properties": {"path": _PATH},
            "required": ["path"],
            "additionalProperties": False,
        },
    },
]


class ToolError(Exception):
    """The model asked for something that cannot be shown; the text says why."""


def annotated(change: Change) -> str:
    """A file's diff with the line number after the change before each line that is there after the change."""
    result = []
    number: int | None = None
    for line in change.text.rstrip("\n").split("\n"):
        hunk = _HUNK.match(line)
        if hunk:
            number = int(hunk[1])
            result.append(_cut(line))
        elif number is None or line.startswith(("-", "\\")):
            result.append(" " * 7 + _cut(line) if number is not None else _cut(line))
        else:
            result.append(f"{number:6d} {_cut(line)}")
            number += 1
    return "\n".join(result)


class RepositoryTools:
    """The four tools over one checkout and its diff."""

    def __init__(self, repo: Path, changes: list[Change]) -> None:
        self._repo = repo.resolve()
        self._changes = {change.path: change for change in changes}

    def call(self, name: str, arguments: Any) -> str:
        """The answer to a call of the model, at most MAX_ANSWER characters. Raises ToolError with what to do."""
        if not isinstance(arguments, dict):
            raise ToolError("the arguments are not an object")
        tools = {
            "read_file": self._read_file,
            "search": self._search,
            "list_files": self._list_files,
            "show_diff": self._show_diff,
        }
        if name not in tools:
            raise ToolError(f"there is no tool {name[:100]!r}; there are {', '.join(tools)} and report_findings")
        try:
            answer = tools[name](arguments)
        except (OSError, ValueError) as error:
            raise ToolError(f"it cannot be read: {getattr(error, 'strerror', None) or 'a bad path'}") from None
        if len(answer) > MAX_ANSWER:
            answer = answer[:MAX_ANSWER] + f"\n[cut at {MAX_ANSWER} characters; ask for a smaller part]"
        return answer

    def line_count(self, path: str) -> int | None:
        """How many lines a file of the checkout has; None where there is no such readable file."""
        try:
            return len(self._lines(path))
        except (ToolError, OSError, ValueError):
            return None

    def normal(self, path: str) -> str:
        """A path as the model may write it (absolute in the checkout, with ``./``), relative to the repository."""
        for prefix in (f"{self._repo}/", "/work/repo/", "./"):
            path = path.removeprefix(prefix)
        return path

    def _read_file(self, arguments: dict[str, Any]) -> str:
        path = self.normal(_text(arguments, "path"))
        lines = self._lines(path)
        first = _number(arguments, "from", 1)
        last = min(_number(arguments, "to", first + MAX_LINES - 1), first + MAX_LINES - 1, len(lines))
        if not lines:
            return "[the file is empty]"
        if first > len(lines):
            raise ToolError(f"the file has {len(lines)} lines")
        if last < first:
            raise ToolError("to is before from")
        shown = "\n".join(f"{number:6d} {_cut(lines[number - 1])}" for number in range(first, last + 1))
        return shown if last == len(lines) else f"{shown}\n[lines {first} to {last} of {len(lines)}]"

    def _search(self, arguments: dict[str, Any]) -> str:
        pattern = _text(arguments, "pattern")
        if len(pattern) > 1000 or "\n" in pattern or "\0" in pattern:
            raise ToolError("the pattern is one line of at most 1000 characters")
        where = self.normal(arguments["path"]) if isinstance(arguments.get("path"), str) else ""
        start = self._inside(where)
        try:
            done = subprocess.run(
                [
                    "grep",
                    "-rnHIE",
                    "-D",
                    "skip",
                    "--exclude-dir=.git",
                    "-m",
                    str(MAX_MATCHES),
                    "-e",
                    pattern,
                    "--",
                    start,
                ],
                cwd=self._repo,
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SEARCH_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ToolError(f"the search took more than {SEARCH_SECONDS} s; use a simpler pattern") from None
        matches = sorted(done.stdout.decode("utf-8", "replace").splitlines(), key=_match_order)
        if not matches:
            # Status 2 also says that some file could not be read, beside matches in others.
            if done.returncode > 1:
                raise ToolError(f"grep refused it: {done.stderr.decode('utf-8', 'replace')[:300]}")
            return "[no match]"
        shown = "\n".join(_cut(match.removeprefix("./")) for match in matches[:MAX_MATCHES])
        more = len(matches) - MAX_MATCHES
        return f"{shown}\n[at least {more} more matches; narrow the pattern or the path]" if more > 0 else shown

    def _list_files(self, arguments: dict[str, Any]) -> str:
        where = self.normal(arguments["path"]) if isinstance(arguments.get("path"), str) else ""
        start = self._repo / self._inside(where)
        if not start.is_dir():
            raise ToolError("there is no such folder")
        names: list[str] = []
        for name in self._walk(start):
            if len(names) == MAX_ENTRIES:
                names.append(f"[more than {MAX_ENTRIES} files; name a folder]")
                break
            names.append(name)
        return "\n".join(names) or "[no files]"

    def _walk(self, start: Path) -> Iterator[str]:
        for folder, folders, files in os.walk(start):
            folders[:] = sorted(name for name in folders if name != ".git")
            for name in sorted(files):
                yield _show(Path(folder, name).relative_to(self._repo).as_posix())

    def _show_diff(self, arguments: dict[str, Any]) -> str:
        path = self.normal(_text(arguments, "path"))
        if path not in self._changes:
            raise ToolError("the pull request does not change that file")
        return annotated(self._changes[path])

    def _inside(self, path: str) -> str:
        """The path, if it leads to a place inside the checkout and outside git's own folder."""
        target = (self._repo / (path or ".")).resolve()
        if target != self._repo and self._repo not in target.parents:
            raise ToolError("that path leads out of the repository")
        relative = target.relative_to(self._repo)
        if relative.parts and relative.parts[0].lower() == ".git":
            raise ToolError("git's own files are not part of the review")
        return f"./{relative.as_posix()}" if relative.parts else "."

    def _lines(self, path: str) -> list[str]:
        target = self._repo / self._inside(path)
        # Without waiting for a writer where the path is a pipe.
        descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ToolError("that is not a regular file")
            if status.st_size > MAX_FILE_BYTES:
                raise ToolError(f"the file has {status.st_size} bytes, too many to read; search in it")
            data = file.read(MAX_FILE_BYTES)
        if b"\0" in data:
            raise ToolError("that is a binary file")
        return data.decode("utf-8", "replace").removesuffix("\n").split("\n") if data else []


def _text(arguments: dict[str, Any], key: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value:
        raise ToolError(f"{key} has to be text")
    return value


def _number(arguments: dict[str, Any], key: str, default: int) -> int:
    value = arguments.get(key, default)
    if type(value) is not int or value < 1:
        raise ToolError(f"{key} has to be a whole number from 1")
    return value


def _cut(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} [... {len(line) - MAX_LINE} characters]"


def _show(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")


def _match_order(match: str) -> tuple[str, int]:
    name, _, rest = match.partition(":")
    number = rest.partition(":")[0]
    return name, int(number) if number.isdigit() else 0
