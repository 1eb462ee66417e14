"""The tools: which files each takes, how it is called, and how its report is read.

Every tool is called with this agent's rules, in a folder that holds nothing of the reviewed repository but the files to
check, so that no configuration of the repository is found. Comments inside the code that silence a rule are code, and
are respected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

__all__ = ["TOOLS", "SourceFile", "Tool", "Violation"]

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class SourceFile:
    """A changed text file: its path in the repository and its first line."""

    path: str
    first_line: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix.lower()

    def has_interpreter(self, *names: str) -> bool:
        """Whether the file starts with a ``#!`` line that names one of the interpreters."""
        if not self.first_line.startswith("#!"):
            return False
        words = [PurePosixPath(word).name for word in self.first_line[2:].split()]
        return any(word in names for word in words[:3])


@dataclass(frozen=True, order=True)
class Violation:
    """What a tool reports. ``file`` is the path that the tool was given; lines count from 1, inclusive."""

    file: str
    start_line: int
    end_line: int
    rule: str
    text: str


@dataclass(frozen=True)
class Tool:
    """A tool. ``statuses`` are the exit statuses of a run that did its work, whether or not it found something."""

    name: str
    arguments: tuple[str, ...]
    takes: Callable[[SourceFile], bool]
    read: Callable[[str], Iterator[Violation]]
    statuses: tuple[int, ...]


def _is_python(file: SourceFile) -> bool:
    return file.suffix in {".py", ".pyi"} or file.has_interpreter("python", "python3")


def _is_shell(file: SourceFile) -> bool:
    return file.suffix in {".sh", ".bash", ".dash", ".ksh"} or file.has_interpreter("sh", "bash", "dash", "ksh")


def _is_yaml(file: SourceFile) -> bool:
    return file.suffix in {".yml", ".yaml"}


def _is_script(file: SourceFile) -> bool:
    return file.suffix in {".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte", ".astro"}


def _is_dockerfile(file: SourceFile) -> bool:
    stem = file.name.split(".")[0]
    return stem in {"Dockerfile", "Containerfile"} or file.suffix in {".dockerfile", ".containerfile"}


#: Files that people do not write, so that their spelling is nobody's remark.
_GENERATED = re.compile(r"(^|[.-])(lock|lockb|sum|min\.js|min\.css|map|svg|po|pot|csv|tsv|ipynb|snap)$")


def _is_prose_or_code(file: SourceFile) -> bool:
    return not _GENERATED.search(file.name) and file.name not in {"package-lock.json", "pnpm-lock.yaml"}


def _read_ruff(report: str) -> Iterator[Violation]:
    for entry in _array(json.loads(report)):
        start, end = entry["location"]["row"], entry["end_location"]["row"]
        # A range that ends before the first column does not reach into that line.
        if end > start and entry["end_location"]["column"] == 1:
            end -= 1
        yield Violation(entry["filename"], start, max(start, end), entry["code"] or "invalid-syntax", entry["message"])


def _read_shellcheck(report: str) -> Iterator[Violation]:
    for entry in _array(json.loads(report)["comments"]):
        start, end = entry["line"], entry["endLine"]
        yield Violation(entry["file"], start, max(start, end), f"SC{entry['code']:04d}", entry["message"])


def _read_oxlint(report: str) -> Iterator[Violation]:
    for entry in _array(json.loads(report)["diagnostics"]):
        labels = entry.get("labels") or []
        # The first label is where the tool points; the others explain.
        start = labels[0]["span"]["line"] if labels else 1
        text = " ".join(part for part in (entry["message"], entry.get("help")) if part)
        yield Violation(entry["filename"], max(start, 1), max(start, 1), entry.get("code") or "syntax", text)


def _read_hadolint(report: str) -> Iterator[Violation]:
    for entry in _array(json.loads(report)):
        yield Violation(entry["file"], entry["line"], entry["line"], entry["code"], entry["message"])


_YAMLLINT_LINE = re.compile(
    r"(?P<file>.+?):(?P<line>\d+):\d+: \[(?:error|warning)\] (?P<text>.*?)(?: \((?P<rule>[\w-]+)\))?"
)


def _read_yamllint(report: str) -> Iterator[Violation]:
    for line in report.splitlines():
        found = _YAMLLINT_LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"the line {line[:200]!r} is no report of a problem")
        number = int(found["line"])
        yield Violation(found["file"], number, number, found["rule"] or "syntax", found["text"])


_CODESPELL_LINE = re.compile(r"(?P<file>.+?):(?P<line>\d+): (?P<text>.+ ==> .+)")


def _read_codespell(report: str) -> Iterator[Violation]:
    for line in report.splitlines():
        found = _CODESPELL_LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"the line {line[:200]!r} is no report of a misspelling")
        number = int(found["line"])
        yield Violation(found["file"], number, number, "misspelling", found["text"])


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("the report is not a list of problems")
    return value


#: In the order in which they run; their findings are sorted by file and line afterwards.
TOOLS = (
    Tool(
        name="ruff",
        arguments=(
            "check",
            "--isolated",
            "--no-cache",
            "--no-fix",
            "--exit-zero",
            "--quiet",
            "--output-format=json",
            "--target-version=py311",
            "--select=ASYNC,B,BLE,C4,DTZ,E4,E7,E9,F,LOG,PERF,PLE,PLW,RET5,RUF,S,SIM",
            # Style, or a matter of the project's own conventions.
            "--ignore=E701,E702,E741,PLW2901,RUF001,RUF002,RUF003,RUF012,S404,SIM105,SIM108",
            "--per-file-ignores=**/test_*.py:S101,**/*_test.py:S101,**/conftest.py:S101,**/tests/**:S101",
        ),
        takes=_is_python,
        read=_read_ruff,
        statuses=(0,),
    ),
    Tool(
        name="shellcheck",
        arguments=("--norc", "--color=never", "--format=json1", "--severity=style"),
        takes=_is_shell,
        read=_read_shellcheck,
        statuses=(0, 1),
    ),
    Tool(
        name="oxlint",
        arguments=(
            f"--config={_HERE / 'oxlint.json'}",
            "--disable-nested-config",
            "--no-ignore",
            "--no-error-on-unmatched-pattern",
            "--threads=1",
            "--format=json",
        ),
        takes=_is_script,
        read=_read_oxlint,
        statuses=(0, 1),
    ),
    Tool(
        name="yamllint",
        arguments=("--format=parsable", f"--config-file={_HERE / 'yamllint.yaml'}"),
        takes=_is_yaml,
        read=_read_yamllint,
        statuses=(0, 1),
    ),
    Tool(
        name="hadolint",
        # Pinning the versions of distribution packages is a matter of the project's own conventions.
        arguments=("--no-fail", "--no-color", "--format=json", "--ignore=DL3008", "--ignore=DL3018"),
        takes=_is_dockerfile,
        read=_read_hadolint,
        statuses=(0,),
    ),
    Tool(
        name="codespell",
        arguments=(
            "--disable-colors",
            "--check-hidden",
            "--quiet-level=39",
            "--builtin=clear",
            "--uri-ignore-words-list=*",
        ),
        takes=_is_prose_or_code,
        read=_read_codespell,
        statuses=(0, 65),
    ),
)
