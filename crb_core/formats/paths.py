"""Paths of files in a reviewed repository, as text from outside: what is refused and why."""

from __future__ import annotations

import unicodedata

__all__ = ["path_problem", "tree_path_problem"]

_MAX_BYTES = 1024


def path_problem(path: str) -> str | None:
    """What is wrong with the path of a finding, or None: it must be repository-relative with ``/`` between names.

    The rules are those of ReviewBench's strictest validator (facts A4).
    """
    if path.startswith("/"):
        return f"the path {path!r} is absolute, but must be relative to the repository"
    if "\\" in path or ":" in path:
        return f"the path {path!r} holds a backslash or a colon"
    if any(part in {"", ".", ".."} for part in path.split("/")):
        return f"the path {path!r} has an empty, '.' or '..' part"
    return None


def tree_path_problem(path: str) -> str | None:
    """What is wrong with the path of a file in a corpus's base tree, or None.

    Beyond ``path_problem``, names are refused that git, an archive or another system would drop or change.
    """
    problem = path_problem(path)
    if problem:
        return problem
    if any(unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} for character in path):
        return f"the path {path!r} holds a control or invisible character"
    if unicodedata.normalize("NFC", path) != path:
        return f"the path {path!r} is not in Unicode normal form C"
    if len(path.encode()) > _MAX_BYTES:
        return f"the path {path[:40]!r}... is longer than {_MAX_BYTES} bytes"
    for part in path.split("/"):
        if part.lower().startswith(".git"):
            return f"the name {part!r} belongs to git itself and would change how the repository behaves"
        if part == "__pycache__" or part.endswith(".pyc"):
            return f"{part!r} is left over from running Python and is no part of the text"
        if part.endswith((" ", ".")) or part.startswith(" "):
            return f"the name {part!r} starts or ends with a blank or a dot"
    return None
