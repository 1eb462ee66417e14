"""Replays a recorded review: the findings that a scripted reviewer reports on one pull request in one round."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

from contract import CONTRACT_BROKEN, Finding, Job, fail, is_reportable

__all__ = ["main"]

#: Exit status when there is no recording for what is asked.
NOT_RECORDED = 3
#: Exit status when a recording breaks its own format.
BAD_RECORDING = 4

#: The recordings are of this owner's pull requests; a fork's pull request of the same number is another one.
OWNER = "crb-showcase"

RECORDINGS = Path(__file__).resolve().parent / "recordings"


def main(reviewer: str) -> int:
    """Write the findings of ``reviewer`` for the pull request and the round in the environment."""
    job = Job.from_environment()
    round_number = _round()
    key = f"{job.name}-{job.number}"
    file = RECORDINGS / reviewer / f"{key}.json"
    if job.owner != OWNER or not is_reportable(key) or "/" in key or not file.is_file():
        fail(
            NOT_RECORDED,
            f"the recorded reviewer {reviewer} has no recording of {job.nwo} #{job.number}; "
            f"it knows the pull requests of the showcase corpus only",
        )
    findings, rounds = _read(file, reviewer, key)
    if round_number > len(rounds):
        fail(
            NOT_RECORDED,
            f"the recorded reviewer {reviewer} has {len(rounds)} rounds of {key}, and round {round_number} was asked",
        )
    job.write([findings[position] for position in rounds[round_number - 1]])
    return 0


def _round() -> int:
    text = os.environ.get("CRB_ROUND", "")
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        fail(CONTRACT_BROKEN, f"CRB_ROUND is {text!r}; a replaying agent needs the round's number, from 1")
    return int(text)


def _read(file: Path, reviewer: str, key: str) -> tuple[list[Finding], list[list[int]]]:
    def broken(problem: str) -> NoReturn:
        fail(BAD_RECORDING, f"the recording {file.parent.name}/{file.name} cannot be replayed: {problem}")

    try:
        recording: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        broken(str(error))
    if not isinstance(recording, dict) or recording.get("reviewer") != reviewer:
        broken(f"its reviewer is not {reviewer}")
    if recording.get("pull_request") != key:
        broken(f"its pull request is not {key}")
    findings = []
    for position, entry in enumerate(_list(recording.get("findings"))):
        if not _is_finding(entry):
            broken(f"findings[{position}] needs a file, start_line, end_line and message")
        findings.append(Finding(entry["file"], entry["start_line"], entry["end_line"], entry["message"]))
    rounds = [_list(entry) for entry in _list(recording.get("rounds"))]
    if not findings or not rounds:
        broken("it has no findings or no rounds")
    for number, positions in enumerate(rounds, start=1):
        for position in positions:
            if type(position) is not int or not 0 <= position < len(findings):
                broken(f"round {number} names finding {position!r}, and there are {len(findings)}")
    return findings, rounds


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_finding(entry: Any) -> bool:
    if not isinstance(entry, dict) or not all(isinstance(entry.get(name), str) for name in ("file", "message")):
        return False
    start, end = entry.get("start_line"), entry.get("end_line")
    return (
        type(start) is int
        and type(end) is int
        and 1 <= start <= end
        and is_reportable(entry["file"])
        and bool(entry["message"].strip())
    )
