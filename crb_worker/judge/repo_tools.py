"""What the classifier may read: the frozen repository at head, through git's object store.

No tool touches a file of the disk: paths are looked up in the tree of the head commit, so a link, ``..`` or an absolute
path leads nowhere. Nothing is written, run or fetched, results are capped, and every call ends within seconds.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from crb_core.errors import UnavailableError
from crb_worker.git import DIFF_OPTIONS, Git, GitError
from crb_worker.judge.quoting import element, escaped, opening
from crb_worker.snapshot import Snapshot

__all__ = ["TOOLS", "RepoTools", "ToolResult"]

#: Seconds that one tool call may take.
TOOL_SECONDS = 20.0
#: Characters of one result, after escaping.
MAX_RESULT = 16_000
#: Lines of one read_file or blame call, matches of one search, entries of one list.
MAX_LINES, MAX_BLAME, MAX_MATCHES, MAX_ENTRIES = 400, 200, 60, 400
#: Characters of one line that are shown.
MAX_LINE = 500
#: Largest file that is read, and most that git may say to one call, in bytes.
MAX_FILE, MAX_OUTPUT = 4 * 1024 * 1024, 4 * 1024 * 1024
_DEFAULT_LINES = 200
_TREE_ENTRY = re.compile(rb"^([0-7]{6}) ([a-z]+) ([0-9a-f]+)\t(.*)$", re.DOTALL)


def _tool(name: str, description: str, required: Sequence[str], **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "input_schema": {
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
        },
    }


_PATH = {"type": "string", "description": "Path relative to the repository's root, with forward slashes."}
_LINE = {"type": "integer", "description": "Line number, from 1."}

#: The tools as they are sent.
TOOLS: tuple[dict[str, Any], ...] = (
    _tool(
        "read_file",
        f"Read lines of a file at the head of the pull request, with line numbers. At most {MAX_LINES} lines a call; "
        f"without end_line {_DEFAULT_LINES} lines.",
        ["path"],
        path=_PATH,
        start_line=_LINE,
        end_line=_LINE,
    ),
    _tool(
        "search",
        f"Find a fixed text in the files at head; at most {MAX_MATCHES} matching lines. Not a regular expression.",
        ["text"],
        text={"type": "string", "description": "The text to find, at least two characters, on one line."},
        path={"type": "string", "description": "File or folder to search in; the whole repository by default."},
        ignore_case={"type": "boolean"},
    ),
    _tool(
        "list_files",
        f"List a folder at head: names, folders end with a slash; at most {MAX_ENTRIES} entries.",
        [],
        path={"type": "string", "description": "Folder; the repository's root by default."},
        recursive={"type": "boolean"},
    ),
    _tool("show_diff", "Show the pull request's diff of one file.", ["path"], path=_PATH),
    _tool(
        "blame",
        f"Say for lines of a file at head whether this pull request changed them and by which commit; at most "
        f"{MAX_BLAME} lines. A line that starts with ^ is older than the pull request.",
        ["path", "start_line", "end_line"],
        path=_PATH,
        start_line=_LINE,
        end_line=_LINE,
    ),
)


_REQUIRED: Mapping[str, list[str]] = {tool["name"]: tool["input_schema"]["required"] for tool in TOOLS}
_MAX_ARGUMENT = 4096


class _ToolError(Exception):
    """Something that the model is told, so that it can call again."""


@dataclass(frozen=True)
class ToolResult:
    """``text`` is safe to send: everything from outside in it is escaped. ``read`` says what it shows."""

    text: str
    is_error: bool
    read: Mapping[str, Any]


@dataclass(frozen=True)
class _Entry:
    mode: str
    kind: str
    name: str

    @property
    def is_link(self) -> bool:
        return self.mode == "120000"


@dataclass
class RepoTools:
    """The tools over one snapshot. ``calls`` counts what was read, in order."""

    snapshot: Snapshot
    read: list[Mapping[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._git = Git(self.snapshot.repo / ".git")
        self._head = self.snapshot.pull_request.head
        self._tools: dict[str, tuple[Callable[..., str], Mapping[str, type]]] = {
            "read_file": (self._read_file, {"path": str, "start_line": int, "end_line": int}),
            "search": (self._search, {"text": str, "path": str, "ignore_case": bool}),
            "list_files": (self._list_files, {"path": str, "recursive": bool}),
            "show_diff": (self._show_diff, {"path": str}),
            "blame": (self._blame, {"path": str, "start_line": int, "end_line": int}),
        }

    def call(self, name: object, arguments: object) -> ToolResult:
        """Run a tool. A wrong call is a result that says so, never an exception; a broken repository is one."""
        read: dict[str, Any] = {"tool": escaped(name, 60) if isinstance(name, str) else "?"}
        try:
            if not isinstance(name, str) or name not in self._tools:
                raise _ToolError(f"There is no such tool. There are: {', '.join(self._tools)}.")
            run, types = self._tools[name]
            checked = _checked(name, arguments, types)
            read |= checked
            text, is_error = run(**checked), False
        except _ToolError as error:
            text, is_error = str(error), True
        except GitError as error:
            text, is_error = f"git could not answer: {escaped(error.message, 200)}", True
        except UnavailableError as error:
            if "did not end" not in str(error):
                raise
            text, is_error = "That took too long. Ask for less.", True
        if is_error:
            read["error"] = True
        self.read.append(read)
        return ToolResult(text=text, is_error=is_error, read=read)

    def _read_file(self, path: str, start_line: int = 1, end_line: int | None = None) -> str:
        entry = self._entry(path)
        if entry.is_link:
            target = self._blob(entry).decode("utf-8", "surrogateescape")
            return element("file", target, {"path": path, "symbolic_link": "its target follows, it is not opened"})
        if entry.kind == "tree":
            raise _ToolError("That is a folder. Use list_files.")
        if entry.kind == "commit":
            raise _ToolError("That is a submodule; its content is not part of the snapshot.")
        data = self._blob(entry)
        if b"\0" in data[:8000]:
            raise _ToolError(f"That is a binary file of {len(data)} bytes.")
        lines = data.decode("utf-8", "surrogateescape").split("\n")
        if lines and lines[-1] == "":
            lines.pop()
        start, end = _range(start_line, end_line, len(lines), MAX_LINES, _DEFAULT_LINES)
        numbered = [f"{number:>6}  {_short(lines[number - 1])}" for number in range(start, end + 1)]
        return _block("file", numbered, {"path": path, "lines": f"{start}-{end}", "of": len(lines)})

    def _search(self, text: str, path: str | None = None, ignore_case: bool = False) -> str:
        if len(text.strip()) < 2 or "\n" in text or "\0" in text:
            raise _ToolError("Give at least two characters on one line.")
        arguments = ["grep", "-nIF", "--full-name", "--no-color", "--no-recurse-submodules", "-z"]
        arguments += ["-i"] if ignore_case else []
        arguments += ["-e", text, self._head, "--"]
        if path:
            self._entry(path)
            arguments.append(_clean(path))
        found = []
        for name, line, shown in islice(_matches(self._output(arguments, allowed=(0, 1))), MAX_MATCHES + 1):
            path_at_head = name.decode("utf-8", "surrogateescape").removeprefix(f"{self._head}:")
            found.append(f"{path_at_head}:{line.decode()}: {_short(shown.decode('utf-8', 'surrogateescape'))}")
        count = f"more than {MAX_MATCHES}" if len(found) > MAX_MATCHES else len(found)
        return _block("matches", found[:MAX_MATCHES], {"text": text, "count": count})

    def _list_files(self, path: str = "", recursive: bool = False) -> str:
        arguments = ["ls-tree", "-z", "--full-tree"] + (["-r"] if recursive else [])
        cleaned = "" if path in {"", ".", "./"} else _clean(path)
        if cleaned:
            if self._entry(cleaned).kind != "tree":
                raise _ToolError("That is not a folder.")
            arguments += [self._head, "--", cleaned + "/"]
        else:
            arguments.append(self._head)
        names = []
        output = self._output(arguments)
        # The last record is empty, or was cut off.
        for record in output.split(b"\0")[:-1]:
            match = _TREE_ENTRY.match(record)
            if match:
                mark = b"/" if match[2] == b"tree" else b" (link)" if match[1] == b"120000" else b""
                names.append((match[4] + mark).decode("utf-8", "surrogateescape"))
        shown = names[:MAX_ENTRIES]
        whole = f"at least {len(names)}" if len(output) == MAX_OUTPUT else str(len(names))
        count = whole if len(names) == len(shown) else f"{whole}, the first {MAX_ENTRIES} are shown"
        return _block("listing", shown, {"path": cleaned or ".", "count": count})

    def _show_diff(self, path: str) -> str:
        cleaned = _clean(path)
        arguments = ["diff", *DIFF_OPTIONS, "--no-renames", self.snapshot.merge_base, self._head, "--", cleaned]
        text = self._output(arguments).decode("utf-8", "surrogateescape")
        if not text:
            raise _ToolError("This pull request does not change that file.")
        return element("diff", "\n".join(map(_short, text.split("\n"))), {"path": path}, limit=MAX_RESULT)

    def _blame(self, path: str, start_line: int, end_line: int) -> str:
        entry = self._entry(path)
        if entry.kind != "blob" or entry.is_link:
            raise _ToolError("That is not a file.")
        count = self._blob(entry).count(b"\n") + 1
        start, end = _range(start_line, end_line, count, MAX_BLAME, MAX_BLAME)
        cleaned = _clean(path)
        arguments = ["blame", "-s", f"-L{start},{end}", f"{self.snapshot.merge_base}..{self._head}", "--", cleaned]
        text = self._output(arguments).decode("utf-8", "surrogateescape").rstrip("\n")
        lines = [_short(line) for line in text.split("\n")]
        ours = {line.split(" ")[0] for line in lines if not line.startswith("^")}
        commits = self._output(
            ["log", "--no-color", "--format=%h %as %s", "--abbrev=8", f"{self.snapshot.merge_base}..{self._head}"]
        ).decode("utf-8", "surrogateescape")
        changed = {each[:7] for each in ours}
        named = [f"commit {_short(line)}" for line in commits.split("\n") if line[:7] in changed]
        return _block("blame", [*lines, *named], {"path": path, "lines": f"{start}-{end}"})

    def _entry(self, path: str) -> _Entry:
        """The tree entry of a path at head."""
        cleaned = _clean(path)
        for record in self._output(["ls-tree", "-z", "--full-tree", self._head, "--", cleaned]).split(b"\0"):
            match = _TREE_ENTRY.match(record)
            if match and match[4] == os.fsencode(cleaned):
                return _Entry(match[1].decode(), match[2].decode(), match[3].decode())
        raise _ToolError(f"There is no file {escaped(path, 200)} at head. Use list_files or search.")

    def _blob(self, entry: _Entry) -> bytes:
        size = int(self._output(["cat-file", "-s", entry.name]))
        if size > MAX_FILE:
            raise _ToolError(f"That file has {size} bytes, too many to read; use search with its path.")
        return self._output(["cat-file", entry.kind, entry.name])

    def _output(self, arguments: Sequence[str], *, allowed: Sequence[int] = (0,)) -> bytes:
        """What git says, at most MAX_OUTPUT bytes of it: then the pipe is closed and git ends."""
        reading, writing = os.pipe()
        kept: list[bytes] = []

        def keep() -> None:
            total = 0
            with os.fdopen(reading, "rb", buffering=0) as pipe:
                while total < MAX_OUTPUT and (part := pipe.read(65536)):
                    kept.append(part)
                    total += len(part)

        reader = threading.Thread(target=keep, daemon=True)
        reader.start()
        try:
            with os.fdopen(writing, "wb", buffering=0) as output:
                cut = (-signal.SIGPIPE, 128 + signal.SIGPIPE)
                self._git.run(*arguments, output=output, allowed=(*allowed, *cut), timeout=TOOL_SECONDS)
        finally:
            reader.join()
        return b"".join(kept)[:MAX_OUTPUT]


def _matches(output: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """File, line number and line of each match. A file's name can hold line ends, so records are read in order."""
    place = 0
    while (name_ends := output.find(b"\0", place)) >= 0 and (line_ends := output.find(b"\0", name_ends + 1)) >= 0:
        end = output.find(b"\n", line_ends)
        end = len(output) if end < 0 else end
        yield output[place:name_ends], output[name_ends + 1 : line_ends], output[line_ends + 1 : end]
        place = end + 1


def _checked(name: str, arguments: object, types: Mapping[str, type]) -> dict[str, Any]:
    if not isinstance(arguments, dict):
        raise _ToolError("The input is not an object.")
    for key, value in arguments.items():
        if key not in types:
            raise _ToolError(f"There is no argument {escaped(str(key), 60)}. There are: {', '.join(types)}.")
        if type(value) is not types[key]:
            raise _ToolError(f"The argument {key} is not of type {types[key].__name__}.")
        if isinstance(value, str):
            if len(value) > _MAX_ARGUMENT or "\0" in value:
                raise _ToolError(f"The argument {key} is longer than {_MAX_ARGUMENT} characters or holds a NUL.")
            try:
                os.fsencode(value)
            except UnicodeEncodeError:
                raise _ToolError(f"The argument {key} is not valid text.") from None
    for key in _REQUIRED[name]:
        if key not in arguments:
            raise _ToolError(f"The argument {key} is missing.")
    return dict(arguments)


def _clean(path: str) -> str:
    """A path inside the repository; what leaves it is refused."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if path.startswith("/") or ".." in parts or not parts:
        raise _ToolError("Give a path inside the repository, relative to its root.")
    return "/".join(parts)


def _range(start: int, end: int | None, count: int, most: int, default: int) -> tuple[int, int]:
    if count == 0:
        raise _ToolError("That file is empty.")
    last = start + default - 1 if end is None else end
    if not 1 <= start <= last:
        raise _ToolError("start_line must be at least 1 and not after end_line.")
    if start > count:
        raise _ToolError(f"The file has {count} lines.")
    return start, min(last, count, start + most - 1)


def _short(line: str) -> str:
    line = line.rstrip("\r")
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} [line goes on for {len(line) - MAX_LINE} characters]"


def _block(name: str, lines: Sequence[str], attributes: Mapping[str, str | int | None]) -> str:
    """Lines as one element; what does not fit is left out at the end, and said.

    A line end inside of a line (of a file's name) is made visible, so that no name looks like two entries.
    """
    kept: list[str] = []
    used = 0
    for line in lines:
        safe = escaped(line).replace("\n", "&#xA;")
        used += len(safe) + 1
        if used > MAX_RESULT:
            kept.append(f'<left_out lines="{len(lines) - len(kept)}"/>')
            break
        kept.append(safe)
    return "\n".join([opening(name, attributes), *kept, f"</{name}>"])
