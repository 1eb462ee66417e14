"""Proposed findings as a file, ``crb.proposals/1``: written by ``crb corpus propose``, or by hand (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from crb_core.corpus import Producer
from crb_core.errors import InputError, Where
from crb_core.finding import Finding, NonBlank, Record
from crb_core.formats.checked import Problems
from crb_core.formats.imported import require_keys
from crb_core.formats.paths import path_problem
from crb_core.formats.strict_json import load_json
from crb_core.proposals import LeftOut, Origin, Proposal, Proposals

__all__ = ["FORMAT", "proposals_to_json", "read_proposals"]

FORMAT = "crb.proposals/1"
_FIELDS = ("format", "corpus", "corpus_fingerprint", "origin", "producers", "proposals", "left_out")


class _Head(Record):
    corpus: NonBlank
    corpus_fingerprint: NonBlank
    origin: Origin


def proposals_to_json(made: Proposals) -> dict[str, Any]:
    """The document; a proposal is one flat object."""
    return {
        "format": FORMAT,
        "corpus": made.corpus,
        "corpus_fingerprint": made.corpus_fingerprint,
        "origin": made.origin.value,
        "producers": [producer.model_dump(mode="json") for producer in made.producers],
        "proposals": [
            {
                "pull_request": each.pull_request,
                **each.finding.bare(),
                "source": each.source,
            }
            for each in made.proposals
        ],
        "left_out": [each.model_dump(mode="json") for each in made.left_out],
    }


def read_proposals(path: Path, *, keys: Collection[str]) -> Proposals:
    """Read one file; ``keys`` are the corpus's pull requests.

    InputError names the first problem with file and field, and how many more there are.
    """
    file = str(path)
    document = load_json(path)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(
            f'the file does not say "format": "{FORMAT}"',
            where=Where(file=file, field="format"),
            remedy="`crb corpus propose` writes such files",
        )
    problems = Problems()
    for name in document:
        if name not in _FIELDS:
            problems.add("this field is unknown", file=file, field=str(name)[:100])
    document = {"left_out": [], **document}
    for name in ("producers", "proposals", "left_out"):
        if not isinstance(document.get(name), list):
            problems.add("this must be an array", file=file, field=name)
    problems.raise_first()
    producers = [
        problems.record(Producer, each, file=file, field=f"producers[{place}]")
        for place, each in enumerate(document["producers"])
    ]
    named = {producer.name for producer in producers if producer is not None}
    proposals = [
        _proposal(each, f"proposals[{place}]", file, keys, named, problems)
        for place, each in enumerate(document["proposals"])
    ]
    whole = problems.record(
        _Head, {name: document.get(name) for name in ("corpus", "corpus_fingerprint", "origin")}, file=file
    )
    left_out = [
        problems.record(LeftOut, each, file=file, field=f"left_out[{place}]")
        for place, each in enumerate(document["left_out"])
    ]
    problems.raise_first()
    assert whole is not None
    return Proposals(
        corpus=whole.corpus,
        corpus_fingerprint=whole.corpus_fingerprint,
        origin=whole.origin,
        producers=tuple(each for each in producers if each is not None),
        proposals=tuple(each for each in proposals if each is not None),
        left_out=tuple(each for each in left_out if each is not None),
    )


def _proposal(
    item: Any, field: str, file: str, keys: Collection[str], producers: Collection[str], problems: Problems
) -> Proposal | None:
    if not isinstance(item, dict):
        problems.add("a proposal must be an object", file=file, field=field)
        return None
    rest = {name: value for name, value in item.items() if name not in ("pull_request", "source")}
    source = item.get("source", {})
    finding = problems.record(Finding, rest, file=file, field=field)
    if not isinstance(source, dict):
        problems.add("this must be an object", file=file, field=f"{field}.source")
        return None
    key = item.get("pull_request")
    try:
        require_keys(tuple(keys), key if isinstance(key, str) else "", Where(file=file, field=f"{field}.pull_request"))
    except InputError as error:
        problems.note(error)
        return None
    if finding is None:
        return None
    if finding.file is None:
        problems.add("this field is missing", file=file, field=f"{field}.file")
        return None
    if "\0" in finding.message:
        problems.add("the text holds a NUL character, which no store takes", file=file, field=f"{field}.message")
        return None
    wrong = path_problem(finding.file)
    if wrong is not None:
        problems.add(wrong, file=file, field=f"{field}.file")
        return None
    if finding.producer not in producers:
        problems.add(
            f"the producer {finding.producer!r} is not among the file's producers",
            file=file,
            field=f"{field}.producer",
            remedy="List it there with version and configuration",
        )
        return None
    return Proposal(pull_request=str(key), finding=finding, source=source)
