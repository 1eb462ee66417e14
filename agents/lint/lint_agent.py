"""Runs each tool over the changed files and reports what it says of changed lines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from changes import Change, read_changes
from contract import CONTRACT_BROKEN, Finding, Job, fail, is_reportable, note
from lint_tools import TOOLS, SourceFile, Tool, Violation

__all__ = ["main"]

#: Exit status when a tool is missing, crashes, takes too long or says something that cannot be read.
TOOL_FAILED = 1

#: Files of one call, so that the command line stays within what a kernel takes.
FILES_A_CALL = 200
#: Larger files are generated ones, in bytes.
MAX_FILE_BYTES = 2 * 1024 * 1024


def main() -> int:
    """Review the pull request in the environment."""
    job = Job.from_environment()
    seconds = job.number_setting("TOOL_SECONDS", 180, low=1, high=3600)
    try:
        changes = read_changes(job.diff.read_bytes())
    except (OSError, ValueError) as error:
        fail(CONTRACT_BROKEN, f"the diff cannot be read: {error}")
    added = {change.path: change.added for change in changes}
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        stage = Path(folder, "files")
        empty = Path(folder, "empty")
        for path in (stage, empty):
            path.mkdir()
        sources = [source for change in changes if (source := _stage(job.repo, change, stage)) is not None]
        findings = set()
        for tool in TOOLS:
            chosen = [source for source in sources if tool.takes(source)]
            for start in range(0, len(chosen), FILES_A_CALL):
                files = [str(stage / source.path) for source in chosen[start : start + FILES_A_CALL]]
                for violation in _run(tool, files, empty, seconds):
                    finding = _finding(tool, violation, stage)
                    # A tool speaks of the whole file, the review of what the pull request changed.
                    if not added[finding.file].isdisjoint(range(finding.start_line, finding.end_line + 1)):
                        findings.add(finding)
    job.write(sorted(findings))
    note(f"{len(findings)} findings on changed lines of {len(sources)} files")
    return 0


def _stage(repo: Path, change: Change, stage: Path) -> SourceFile | None:
    """Copy a changed file to the folder of files to check; None, with a note, for what has no lines to review."""
    if change.is_deleted or change.is_special or change.is_binary or not change.added:
        return None
    shown = ascii(change.path)
    if not is_reportable(change.path):
        note(f"not reviewed: {shown} has a name that a findings file cannot carry")
        return None
    path = repo / change.path
    # A link in a folder of the path would lead out of the checkout.
    if path.is_symlink() or not path.is_file() or repo.resolve() not in path.resolve().parents:
        fail(CONTRACT_BROKEN, f"the diff names {shown}, and the checkout has no such regular file")
    data = path.read_bytes()
    if len(data) > MAX_FILE_BYTES:
        note(f"not reviewed: {shown} has {len(data)} bytes, more than {MAX_FILE_BYTES}")
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        note(f"not reviewed: {shown} is not UTF-8 text")
        return None
    copy = stage / change.path
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(data)
    return SourceFile(change.path, text.partition("\n")[0])


def _run(tool: Tool, files: Sequence[str], folder: Path, seconds: int) -> Iterable[Violation]:
    command = [_executable(tool), *tool.arguments, *files]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(folder),
                "TMPDIR": tempfile.gettempdir(),
                "LC_ALL": "C.UTF-8",
                "PYTHONUTF8": "1",
                "PYTHONSAFEPATH": "1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        fail(TOOL_FAILED, f"{tool.name} took more than {seconds} s over {len(files)} files; nothing is reported")
    except OSError as error:
        fail(TOOL_FAILED, f"{tool.name} cannot be started: {error.strerror}")
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-2000:]
    if done.returncode not in tool.statuses:
        fail(TOOL_FAILED, f"{tool.name} ended with status {done.returncode}; nothing is reported. It said: {said}")
    try:
        return list(tool.read(done.stdout.decode("utf-8", "replace")))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        fail(TOOL_FAILED, f"the report of {tool.name} cannot be read ({error!r}); nothing is reported. It said: {said}")


def _executable(tool: Tool) -> str:
    """The tool beside this interpreter (its virtual environment), or else on the search path."""
    beside = str(Path(sys.executable).parent)
    found = shutil.which(tool.name, path=beside) or shutil.which(tool.name)
    if found is None:
        fail(TOOL_FAILED, f"{tool.name} is not installed; install the packages of agents/lint/requirements.txt")
    return found


def _finding(tool: Tool, violation: Violation, stage: Path) -> Finding:
    try:
        path = Path(violation.file).relative_to(stage).as_posix()
    except ValueError:
        fail(TOOL_FAILED, f"{tool.name} reports {violation.file!r}, a file that it was not given")
    text = "".join(character for character in violation.text if character == "\n" or character.isprintable())
    return Finding(path, violation.start_line, violation.end_line, f"{tool.name} {violation.rule}: {text.strip()}")
