"""What an agent wrote, read and judged strictly (facts A4, the strictest of the public validators; rule 1).

Reading follows no link, opens no device, waits for no FIFO and takes no more bytes than the limit. Validation never
clamps, drops or repairs a finding: the file is accepted whole, or refused with the place that is wrong.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from crb_core.agent import Outcome
from crb_core.errors import CrbError, InputError, Where, first_problem
from crb_core.finding import CandidateFinding
from crb_core.formats.strict_json import load_json
from crb_core.pull_request import PullRequest
from crb_core.usage import LARGEST_FIGURE
from crb_worker.sandbox.contract import USAGE_KEYS, InDiff

__all__ = [
    "FINDINGS_NAME",
    "MAX_DEPTH",
    "MAX_FINDINGS",
    "MAX_LINE",
    "MAX_MODELS",
    "MAX_VALUES",
    "OutputError",
    "Review",
    "normalise_path",
    "read_findings_file",
    "reported_usage",
    "require_few_values",
    "validate_findings",
]

FINDINGS_NAME = "findings.json"
#: Most findings in one review; more is output_too_large.
MAX_FINDINGS = 20_000
#: Most values in the file: 64 MiB of ``{}`` would take 2 GiB of the worker's memory.
MAX_VALUES = 2_000_000
#: Deepest nesting of arrays and objects in the file.
MAX_DEPTH = 32
#: Largest line number.
MAX_LINE = 2**31 - 1
#: Most models that a usage report names.
MAX_MODELS = 64

_CONTAINER_REPO = "/work/repo/"
_NOT_BLANK = re.compile(r"\S")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


class OutputError(InputError):
    """The agent's output breaks a rule; ``outcome`` is the verdict that follows."""

    def __init__(self, outcome: Outcome, problem: str, *, field: str | None = None, remedy: str | None = None) -> None:
        super().__init__(problem, where=Where(file=FINDINGS_NAME, field=field), remedy=remedy)
        self.outcome = outcome


@dataclass(frozen=True, kw_only=True)
class Review:
    """A valid findings file: findings in the agent's order, and the usage that it reports (None: none reported)."""

    findings: tuple[CandidateFinding, ...]
    usage: dict[str, Any] | None


def read_findings_file(out: Path, max_bytes: int) -> bytes:
    """The bytes of ``findings.json`` in the folder ``out``, at most ``max_bytes``.

    To be called when nothing of the agent runs any more. Raises OutputError: missing, not a regular file of one link,
    or larger than ``max_bytes``. PermissionError passes through: the caller may have another way to read it.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        folder = os.open(out, flags | os.O_DIRECTORY)
    except PermissionError:
        raise
    except OSError as error:
        raise OutputError(
            Outcome.OUTPUT_INVALID, f"the output folder is no longer a folder: {error.strerror}"
        ) from None
    try:
        return _read_at(folder, max_bytes, flags)
    finally:
        os.close(folder)


def _read_at(folder: int, max_bytes: int, flags: int) -> bytes:
    try:
        seen = os.lstat(FINDINGS_NAME, dir_fd=folder)
    except FileNotFoundError:
        raise OutputError(
            Outcome.OUTPUT_MISSING,
            "the agent ended with exit code 0 but wrote no findings file",
            remedy='Write the file that RB_OUT names; a review without findings has "findings": []',
        ) from None
    _check_kind(seen)
    if seen.st_size > max_bytes:
        raise _too_large(max_bytes)
    descriptor = os.open(FINDINGS_NAME, flags | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
    try:
        opened = os.fstat(descriptor)
        _check_kind(opened)
        if (opened.st_dev, opened.st_ino) != (seen.st_dev, seen.st_ino):
            raise OutputError(Outcome.OUTPUT_INVALID, "the findings file was replaced while it was read")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return data


def _check_kind(status: os.stat_result) -> None:
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a folder",
        stat.S_IFBLK: "a device",
        stat.S_IFCHR: "a device",
    }
    if not stat.S_ISREG(status.st_mode):
        kind = kinds.get(stat.S_IFMT(status.st_mode), "not a file")
        raise OutputError(Outcome.OUTPUT_INVALID, f"the findings file is {kind}", remedy="Write a regular file")
    if status.st_nlink != 1:
        raise OutputError(
            Outcome.OUTPUT_INVALID,
            f"the findings file has {status.st_nlink} hard links",
            remedy="Write a file of its own",
        )


def _too_large(max_bytes: int) -> OutputError:
    return OutputError(
        Outcome.OUTPUT_TOO_LARGE,
        f"the findings file is larger than the limit of {max_bytes} bytes",
        remedy="Report fewer or shorter findings, or raise findings_mib in the agent's limits",
    )


def require_few_values(data: bytes) -> None:
    """OutputError where the text holds more than MAX_VALUES values; to be asked before it is parsed."""
    if _separators(data) > MAX_VALUES and _separators(_STRING.sub(b"", data)) > MAX_VALUES:
        raise OutputError(
            Outcome.OUTPUT_TOO_LARGE,
            f"the findings file holds more than {MAX_VALUES} values",
            remedy="Report fewer findings, and leave out what is no part of a finding",
        )


def _separators(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def normalise_path(path: str, repo_prefixes: Iterable[str] = (_CONTAINER_REPO,)) -> str:
    """``path`` relative to the repository: a container prefix and one leading ``./`` are taken off (rule 1)."""
    for prefix in repo_prefixes:
        if path.startswith(prefix):
            path = path[len(prefix) :]
            break
    return path.removeprefix("./")


def validate_findings(
    data: bytes, pull_request: PullRequest, in_diff: InDiff, *, repo_prefixes: Iterable[str] = (_CONTAINER_REPO,)
) -> Review:
    """The review in ``data``, with repository-relative paths and ``in_diff`` computed for every finding.

    Lines that lie outside the diff, past the end of a file or in a file that does not exist stay as they are, with
    ``in_diff`` false. Unknown keys are ignored. Raises OutputError with the field that is wrong: wrong_pull_request
    for another repository, number, head or base; output_too_large for more than MAX_FINDINGS; else output_invalid.
    """
    try:
        document = load_json(data, FINDINGS_NAME, max_depth=MAX_DEPTH)
    except CrbError as error:
        raise _located(error) from None
    document = _object(document, "the document", None)
    _check_identity(_object(document.get("pr"), "pr", "pr"), pull_request)
    _text(document.get("agent"), "agent", "agent")
    entries = document.get("findings")
    if not isinstance(entries, list):
        raise _invalid(f"findings is {_kind(entries)}, not an array", "findings")
    if len(entries) > MAX_FINDINGS:
        raise OutputError(
            Outcome.OUTPUT_TOO_LARGE,
            f"the review holds {len(entries)} findings, more than the limit of {MAX_FINDINGS}",
            field="findings",
        )
    prefixes = tuple(repo_prefixes)
    findings = tuple(_finding(entry, f"findings[{i}]", in_diff, prefixes) for i, entry in enumerate(entries))
    return Review(findings=findings, usage=_usage(document))


def reported_usage(data: bytes, pull_request: PullRequest) -> dict[str, Any] | None:
    """The usage that the file of an attempt reports which did not succeed; None where it reports none that counts.

    Such an attempt may have been stopped at any moment, so nothing but the usage must be right: findings may be wrong
    or missing, ``pr`` too, but where ``pr`` names another pull request the figures are not of this attempt.
    """
    try:
        document = _object(load_json(data, FINDINGS_NAME, max_depth=MAX_DEPTH), "the document", None)
        if "pr" in document:
            _check_identity(_object(document["pr"], "pr", "pr"), pull_request)
        return _usage(document)
    except CrbError:
        return None


def _located(error: CrbError) -> OutputError:
    located = OutputError(Outcome.OUTPUT_INVALID, error.problem, remedy=error.remedy)
    located.where = error.where
    return located


def _invalid(problem: str, field: str | None) -> OutputError:
    return OutputError(Outcome.OUTPUT_INVALID, problem, field=field)


def _kind(value: Any) -> str:
    if value is None:
        return "missing or null"
    names = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
        dict: "an object",
    }
    return names[type(value)]


def _object(value: Any, name: str, field: str | None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _invalid(f"{name} is {_kind(value)}, not an object", field)
    return value


def _text(value: Any, name: str, field: str) -> str:
    if not isinstance(value, str):
        raise _invalid(f"{name} is {_kind(value)}, not a string", field)
    if not _NOT_BLANK.search(value):
        raise _invalid(f"{name} is blank", field)
    if "\0" in value:
        raise _invalid(f"{name} holds a NUL character", field)
    return value


def _integer(value: Any, name: str, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid(f"{name} is {_kind(value)}, not an integer", field)
    if isinstance(value, float) and not value.is_integer():
        raise _invalid(f"{name} is not an integer", field)
    if not 1 <= value <= MAX_LINE:
        raise _invalid(f"{name} is not between 1 and {MAX_LINE}", field)
    return int(value)


def _check_identity(identity: dict[str, Any], pull_request: PullRequest) -> None:
    for name in ("repo", "head"):
        _text(identity.get(name), f"pr.{name}", f"pr.{name}")
    number = _integer(identity.get("pr_number"), "pr.pr_number", "pr.pr_number")
    if "base" in identity:
        _text(identity["base"], "pr.base", "pr.base")
    expected: dict[str, Any] = {"repo": pull_request.repo, "head": pull_request.head, "base": pull_request.base}
    if number != pull_request.number:
        raise _wrong("pr_number", number, pull_request.number)
    for name, value in expected.items():
        if name in identity and identity[name] != value:
            raise _wrong(name, identity[name], value)


def _wrong(name: str, found: Any, expected: Any) -> OutputError:
    return OutputError(
        Outcome.WRONG_PULL_REQUEST,
        f"the review is of another pull request: pr.{name} is {_shown(found)}, expected {_shown(expected)}",
        field=f"pr.{name}",
        remedy="Copy the pr object from the file that RB_PR_JSON names",
    )


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 100 else text[:97] + "..."


def _finding(entry: Any, at: str, in_diff: InDiff, prefixes: tuple[str, ...]) -> CandidateFinding:
    record = _object(entry, "the finding", at)
    path = _path(_text(record.get("file"), "file", f"{at}.file"), f"{at}.file", prefixes)
    start = _integer(record.get("start_line"), "start_line", f"{at}.start_line")
    end = _integer(record.get("end_line"), "end_line", f"{at}.end_line")
    if end < start:
        raise _invalid(f"end_line {end} is before start_line {start}", f"{at}.end_line")
    message = _text(record.get("message"), "message", f"{at}.message")
    producer = _text(record.get("producer"), "producer", f"{at}.producer")
    try:
        return CandidateFinding(
            file=path,
            start_line=start,
            end_line=end,
            message=message,
            producer=producer,
            in_diff=in_diff(path, start, end),
        )
    except ValidationError as error:
        field, problem = first_problem(error)
        raise _invalid(problem, f"{at}.{field}" if field else at) from None


def _path(written: str, at: str, prefixes: tuple[str, ...]) -> str:
    path = normalise_path(written, prefixes)
    for character, name in (("\\", "a backslash"), (":", "a colon")):
        if character in path:
            raise _invalid(f"the path {_shown(written)} holds {name}", at)
    if path.startswith("/"):
        raise _invalid(f"the path {_shown(written)} is absolute; it must be relative to the repository", at)
    if any(segment in {"", ".", ".."} for segment in path.split("/")):
        raise _invalid(f"the path {_shown(written)} holds an empty segment, '.' or '..'", at)
    return path


def _usage(document: dict[str, Any]) -> dict[str, Any] | None:
    if "usage" not in document:
        return None
    usage = _object(document["usage"], "usage", "usage")
    known: dict[str, Any] = {}
    for key in USAGE_KEYS:
        if key in usage:
            known[key] = _figure(usage[key], key)
    models = usage.get("models")
    # No key of the public contract, so a value of another form is let pass; its tokens then compare with nobody's.
    if known and isinstance(models, list) and 0 < len(models) <= MAX_MODELS and all(map(_is_model, models)):
        known["models"] = sorted(set(models))
    return known or None


def _is_model(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= 200 and "\0" not in value


def _figure(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid(f"{key} is {_kind(value)}, not a number", f"usage.{key}")
    figure = math.inf
    with contextlib.suppress(OverflowError):
        figure = float(value)
    if not 0 <= figure <= LARGEST_FIGURE:
        raise _invalid(f"{key} is not a finite number of at least 0 and at most {LARGEST_FIGURE:g}", f"usage.{key}")
    # An integer that a double cannot hold exactly would change silently in a store.
    return value if isinstance(value, int) and value <= 2**53 else figure
