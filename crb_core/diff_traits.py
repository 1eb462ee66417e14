"""What a diff itself says of a pull request, where the corpus records neither its size nor its language.

Languages are told by the names of changed files only (Pygments' table of file names), never by what they hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from crb_core.diff import DiffIndex
from crb_core.errors import InputError

__all__ = ["DiffTraits", "language_of", "traits_of_diff"]

#: Where Pygments' first language of a name is not the one that reviewers of code nearly always mean; None for no one.
_USUAL: dict[str, str | None] = {
    ".cls": None,
    ".h": "C",
    ".inc": None,
    ".jsx": "JavaScript",
    ".m": "Objective-C",
    ".mod": None,
    ".pl": "Perl",
    ".r": "R",
    ".sh": "Shell",
    ".sql": "SQL",
    ".sum": None,
    ".tsx": "TypeScript",
    ".v": "Verilog",
}
#: What Pygments calls a language that is none.
_NO_LANGUAGE = frozenset({"Text only", "Text output"})


@dataclass(frozen=True, kw_only=True)
class DiffTraits:
    """Lines that a diff adds and removes, and the languages of the files that it changes, by name."""

    lines_added: int
    lines_removed: int
    languages: tuple[str, ...]


def traits_of_diff(data: bytes) -> DiffTraits | None:
    """The traits of git's unified diff; None where it cannot be read as one."""
    try:
        index = DiffIndex.parse(data)
    except InputError:
        return None
    found = {language_of(path) for path in (*index.files, *index.deleted)}
    return DiffTraits(
        lines_added=index.lines_added,
        lines_removed=index.lines_removed,
        languages=tuple(sorted(each for each in found if each is not None)),
    )


def language_of(path: str) -> str | None:
    """The language that a file's name stands for; None where it stands for none, as ``LICENSE`` and ``a.txt`` do."""
    name = PurePosixPath(path).name
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _USUAL:
        return _USUAL[suffix]
    # A whole table of patterns is asked for each name, so files of one suffix are asked for once.
    return _of_name(f"file{suffix}" if suffix else name[:100])


@lru_cache(maxsize=2048)
def _of_name(name: str) -> str | None:
    # Half a second to import and to ask for the first time; only diffs that nobody described need it.
    from pygments.lexers import find_lexer_class_for_filename  # type: ignore[import-untyped]

    lexer = find_lexer_class_for_filename(name)
    found = None if lexer is None else str(lexer.name)
    return None if found in _NO_LANGUAGE else found
