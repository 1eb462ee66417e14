"""``crb.proposals/1``: what is written is read back, and everything that is wrong is named with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crb_core.corpus import Producer
from crb_core.errors import InputError
from crb_core.finding import Finding
from crb_core.formats.proposals import proposals_to_json, read_proposals
from crb_core.proposals import LeftOut, Origin, Proposal, Proposals, merged_producers

MADE = Proposals(
    corpus="c",
    corpus_fingerprint="f",
    origin=Origin.TOOL,
    producers=(Producer(name="ruff", version="1", configuration={"select": "E"}),),
    proposals=(
        Proposal(
            pull_request="pr-1",
            finding=Finding(file="a.py", start_line=1, end_line=2, message="É\n", producer="ruff"),
            source={"type": "tool", "rule": "E1"},
        ),
        Proposal(pull_request="pr-1", finding=Finding(file="a.py", message="whole file", producer="ruff")),
    ),
    left_out=(LeftOut(kind="k", problem="p", file="x.json", field="[1]"),),
)


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "p.json"
    path.write_text(json.dumps({**proposals_to_json(MADE), **changes}), encoding="utf-8")
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Every field, also of what was left out."""
    assert read_proposals(written(tmp_path), keys=["pr-1"]) == MADE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "crb.labels/1"}, "crb.proposals/1"),
        ({"more": 1}, "field more"),
        ({"proposals": {}}, "field proposals"),
        ({"producers": None}, "field producers"),
        ({"origin": "guess"}, "field origin"),
        ({"corpus": " "}, "field corpus"),
        ({"left_out": [{"kind": "k"}]}, r"field left_out\[0\]"),
        ({"left_out": 3}, "field left_out"),
        ({"producers": []}, r"'ruff' is not among .*field proposals\[0\].producer"),
        ({"proposals": [3]}, r"field proposals\[0\]"),
    ],
)
def test_a_damaged_file(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """One sentence with the field."""
    with pytest.raises(InputError, match=message):
        read_proposals(written(tmp_path, **changes), keys=["pr-1"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pull_request": "pr-2"}, r"no pull request 'pr-2'.*proposals\[0\].pull_request"),
        ({"pull_request": None}, r"proposals\[0\].pull_request"),
        ({"file": None}, r"proposals\[0\]"),
        ({"file": None, "start_line": None, "end_line": None}, r"proposals\[0\].file"),
        ({"file": "../x"}, r"proposals\[0\].file"),
        ({"start_line": 3}, r"before start_line.*proposals\[0\]"),
        ({"start_line": 1.5}, r"proposals\[0\].start_line"),
        ({"message": ""}, r"proposals\[0\].message"),
        ({"message": "a\0b"}, r"NUL.*proposals\[0\].message"),
        ({"source": []}, r"proposals\[0\].source"),
        ({"tp_fp": "tp"}, r"unknown.*proposals\[0\].tp_fp"),
    ],
)
def test_a_damaged_proposal(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """Labels have no place here either: they come from a classifier or from people, with their provenance."""
    item = {**proposals_to_json(MADE)["proposals"][0], **changes}
    with pytest.raises(InputError, match=message):
        read_proposals(written(tmp_path, proposals=[item]), keys=["pr-1"])


def test_a_producer_has_one_version() -> None:
    """The same one is one; another version or configuration under the same name is refused."""
    first = Producer(name="ruff", version="1", note="n")
    assert merged_producers([first], [Producer(name="ruff", version="1"), Producer(name="x", version="2")]) == (
        first,
        Producer(name="x", version="2"),
    )
    for other in (Producer(name="ruff", version="2"), Producer(name="ruff", version="1", configuration={"a": "b"})):
        with pytest.raises(InputError, match="another version or configuration"):
            merged_producers([first], [other])
