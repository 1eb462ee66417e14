"""Judges are made by name, and protocols say which pairs exist."""

from __future__ import annotations

import pytest

from crb_core.corpus import Corpus
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding
from crb_worker.judge import Classifier, comparable, judge_names, load_judge

CORPUS = Corpus(name="empty", version="1", title="Empty", source="none", entries=())


def at(file: str | None, start: int | None = None, end: int | None = None) -> CandidateFinding:
    return CandidateFinding(file=file, start_line=start, end_line=end, message="m", producer="p")


def test_names() -> None:
    """Both judges that need no model are there."""
    assert {"offline", "reference"} <= set(judge_names())


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("ofline", "no judge 'ofline' *. *Did you mean offline"),
        ("", "no judge ''"),
        ("\x1b[31m", r"no judge '\\x1b"),
        ("offline:limit=1", "no option 'limit'"),
        ("offline:threshold", "not of the form key=value"),
        ("offline:threshold=", "not of the form key=value"),
        ("offline:threshold=0.3,threshold=0.3", "given twice"),
        ("offline:threshold=x", "not a number"),
        ("offline:threshold=nan", "not between 0 and 1"),
        ("offline:threshold=0", "not between 0 and 1"),
        ("offline:threshold=1", "not between 0 and 1"),
        ("reference:a=1", "has no option 'a'"),
    ],
)
def test_bad_specs(spec: str, problem: str) -> None:
    """A spec that cannot be meant is refused with the way to mend it."""
    with pytest.raises(InputError, match=problem):
        load_judge(spec, corpus=CORPUS)


def test_options_reach_the_judge_and_its_fingerprint() -> None:
    """Another threshold is another judge; the same one is the same, whatever its spelling."""
    plain = load_judge("offline", corpus=CORPUS)
    low = load_judge("offline:threshold=0.30", corpus=CORPUS)
    assert low.describe()["threshold"] == 0.3
    assert low.fingerprint == load_judge("offline:threshold=0.3", corpus=CORPUS).fingerprint != plain.fingerprint
    assert not isinstance(plain, Classifier)
    assert plain.classifies is False


@pytest.mark.parametrize(
    ("candidate", "golden", "expected"),
    [
        (at("a.py", 1, 1), at("a.py", 900, 901), (True, False, True)),
        (at("a.py", 10, 12), at("a.py", 15, 15), (True, True, True)),
        (at("a.py", 10, 12), at("a.py", 16, 16), (True, False, True)),
        (at("a.py", 20, 20), at("a.py", 17, 17), (True, True, True)),
        (at("a.py", 20, 20), at("a.py", 16, 16), (True, False, True)),
        (at("a.py", 1, 99), at("a.py", 50, 50), (True, True, True)),
        (at("a.py"), at("a.py", 1, 1), (True, False, True)),
        (at("A.py", 1, 1), at("a.py", 1, 1), (False, False, True)),
        (at("./a.py", 1, 1), at("a.py", 1, 1), (False, False, True)),
        (at(None), at(None), (False, False, True)),
    ],
)
def test_comparable(candidate: CandidateFinding, golden: CandidateFinding, expected: tuple[bool, ...]) -> None:
    """reviewbench: the same file exactly; answer-key: and at most three lines apart; golden-comments: every pair."""
    protocols = ("reviewbench", "answer-key", "golden-comments")
    assert tuple(comparable(candidate, golden, protocol) for protocol in protocols) == expected
    assert tuple(comparable(golden, candidate, protocol) for protocol in protocols) == expected
