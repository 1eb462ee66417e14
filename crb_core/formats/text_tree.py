"""The base tree and the patch of a pull request in a text corpus: regular text files with plain names, nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from crb_core.diff import DiffIndex
from crb_core.errors import CrbError
from crb_core.formats.checked import Problems
from crb_core.formats.paths import tree_path_problem

__all__ = ["read_patch", "read_tree"]

#: A text corpus is reviewed by people; a file above this (bytes) is no text that anyone reviews.
MAX_FILE_BYTES = 1024 * 1024


def read_patch(path: Path, problems: Problems) -> tuple[bytes, DiffIndex | None]:
    """The bytes of a patch and the lines it shows; None for the latter after noting why it is unusable."""
    if path.exists() and not path.is_file():
        problems.add("this is no regular file", file=path)
        return b"", None
    try:
        data = path.read_bytes()
        diff = DiffIndex.parse(data, str(path))
    except OSError as error:
        problems.add(f"the patch cannot be read: {error.strerror}", file=path)
        return b"", None
    except CrbError as error:
        problems.note(error)
        return b"", None
    if not diff.files_changed:
        problems.add("the patch changes no file", file=path, remedy="Write it with git diff")
        return data, None
    usable = True
    for name, file in {**diff.files, **diff.deleted}.items():
        wrong = tree_path_problem(name)
        if wrong or file.binary:
            problems.add(wrong or f"{name} is binary; a text corpus holds text only", file=path)
            usable = False
    return data, diff if usable else None


def read_tree(root: Path, problems: Problems) -> dict[str, Path] | None:
    """Path in the repository to the file that holds its bytes; None after noting why the tree is unusable.

    Links are never followed.
    """
    if root.is_symlink() or not root.is_dir():
        problems.add("the base tree is missing or no folder", file=root)
        return None
    files: dict[str, Path] = {}
    folded: dict[str, str] = {}
    usable = True
    for folder, names, leaves in os.walk(root, onerror=lambda error: problems.add(str(error), file=root)):
        here = Path(folder)
        if not names and not leaves:
            problems.add("the folder is empty, which git cannot keep", file=here, remedy="Remove it or add a file")
        for name in [*names, *leaves]:
            source = here / name
            path = source.relative_to(root).as_posix()
            wrong = tree_path_problem(path) or _file_problem(source, is_folder=name in names)
            twin = folded.setdefault(path.casefold(), path)
            if twin != path:
                wrong = f"the names {twin!r} and {path!r} differ only in case, which some systems cannot keep apart"
            if wrong:
                problems.add(wrong, file=source.as_posix().encode(errors="replace").decode())
                usable = False
            elif name in leaves:
                files[path] = source
    if usable and not files:
        problems.add("the base tree is empty", file=root)
    return files if usable and files else None


def _file_problem(source: Path, *, is_folder: bool) -> str | None:
    if source.is_symlink():
        return "this is a symbolic link; a text corpus holds regular files only"
    if is_folder:
        return None
    if not source.is_file():
        return "this is no regular file"
    if source.stat().st_size > MAX_FILE_BYTES:
        return f"the file is larger than {MAX_FILE_BYTES} bytes"
    data = source.read_bytes()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"the file is not UTF-8 at byte {error.start}"
    return "the file holds a NUL byte" if b"\0" in data else None
