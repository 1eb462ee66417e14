"""Pairs, counting and vocabularies of the three protocols."""

from __future__ import annotations

from typing import Any

import pytest

from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding, Label
from crb_core.matching import Classification, Correspondence, JudgedPullRequest
from crb_core.protocols import PROTOCOLS, PairGroup, answer_key, golden_comments, protocol_named, reviewbench
from crb_core.strata import Subset


def at(file: str | None, start: int | None = 1, end: int | None = None) -> dict[str, Any]:
    lines = {} if file is None else {"start_line": start, "end_line": end or start}
    return {"file": file, "message": "text", "producer": "someone", **lines}


def judged(
    golden: list[dict[str, Any]],
    candidates: list[dict[str, Any]],
    matches: dict[int, tuple[int, ...]] | None = None,
    labels: dict[int, str] | None = None,
) -> JudgedPullRequest:
    return JudgedPullRequest(
        key="pr",
        golden=tuple(
            GoldenFinding(
                **{name: value for name, value in each.items() if name not in {"tp_fp", "category", "severity"}},
                label=Label(
                    tp_fp=each.get("tp_fp", "tp"), category=each.get("category"), severity=each.get("severity")
                ),
            )
            for each in golden
        ),
        candidates=tuple(CandidateFinding(**each) for each in candidates),
        correspondences=tuple(Correspondence(candidate=c, golden=g) for c, g in (matches or {}).items()),
        classifications=tuple(
            Classification(candidate=c, label=Label(tp_fp=tp_fp)) for c, tp_fp in (labels or {}).items()
        ),
    )


def test_reviewbench_pairs_stay_in_one_file_and_in_chunks_of_ten():
    """12 candidates and 11 goldens in a.py are four requests; files with one side only are none (seed A 6.2.1)."""
    pr = judged(
        [at("a.py")] * 11 + [at("only-golden.py")],
        [at("a.py")] * 12 + [at("only-candidate.py")],
    )
    tens, rest = tuple(range(10)), (10, 11)
    assert reviewbench.pairs(pr) == (
        PairGroup("a.py", tens, tens),
        PairGroup("a.py", tens, (10,)),
        PairGroup("a.py", rest, tens),
        PairGroup("a.py", rest, (10,)),
    )


def test_golden_comments_pairs_everything():
    """No file is needed: every candidate meets every golden comment once."""
    pr = judged([at(None)] * 3, [at(None)] * 11)
    pairs = [(c, g) for group in golden_comments.pairs(pr) for c in group.candidates for g in group.golden]
    assert sorted(pairs) == [(c, g) for c in range(11) for g in range(3)]


@pytest.mark.parametrize(
    ("candidate", "golden", "near"),
    [
        (at("a.py", 10, 12), at("a.py", 12, 20), True),
        (at("a.py", 10, 12), at("a.py", 15, 15), True),
        (at("a.py", 10, 12), at("a.py", 16, 16), False),
        (at("a.py", 15, 15), at("a.py", 10, 12), True),
        (at("a.py", 16, 16), at("a.py", 10, 12), False),
        (at("a.py", 1, 99), at("a.py", 50, 50), True),
        (at("a.py", 1), at("b.py", 1), False),
    ],
)
def test_locality_proposes_overlap_or_three_lines(candidate, golden, near):
    """Same file and max(0, s2 - e1, s1 - e2) <= 3 (rule 20)."""
    pr = judged([golden], [candidate])
    assert answer_key.are_near(pr.candidates[0], pr.golden[0]) is near
    assert bool(answer_key.pairs(pr)) is near


def test_answer_key_found_missed_intended_unkeyed():
    """Two defects (one missed), one trade-off, four candidates: a find, its duplicate, the trade-off, an unkeyed fp."""
    pr = judged(
        [at("a.py", 1), at("a.py", 50), at("a.py", 2) | {"tp_fp": "fp"}],
        [at("a.py", 1)] * 4,
        {0: (0,), 1: (0,), 2: (2,)},
        {1: "tp", 3: "fp"},
    )
    metrics = answer_key.score([pr]).micro.overall
    assert (metrics.found_count, metrics.missed_count, metrics.intended_count, metrics.unkeyed_count) == (1, 1, 1, 2)
    assert metrics.precision == pytest.approx((1 + 1) / (4 - 1))
    assert metrics.recall == 0.5


def test_answer_key_precision_is_withheld_after_a_partial_pass():
    """One unkeyed candidate without a label: precision and f are null, recall stays."""
    pr = judged([at("a.py")], [at("a.py")] * 2, {0: (0,)})
    metrics = answer_key.score([pr]).macro.overall
    assert (metrics.precision, metrics.recall, metrics.f, metrics.unclassified_count) == (None, 1.0, None, 1)


def test_answer_key_precision_never_passes_one():
    """A candidate that finds two defects is still one candidate."""
    pr = judged([at("a.py"), at("a.py")], [at("a.py")], {0: (0, 1)})
    metrics = answer_key.score([pr]).micro.overall
    assert (metrics.precision, metrics.recall, metrics.found_count, metrics.claimed_count) == (1.0, 1.0, 2, 1)


def test_answer_key_only_intended_candidates_leave_precision_undefined():
    """Neither credit nor charge: nothing to divide by."""
    pr = judged([at("a.py") | {"tp_fp": "fp"}], [at("a.py")], {0: (0,)})
    assert answer_key.score([pr]).micro.overall.precision is None


def test_answer_key_refuses_a_match_that_locality_did_not_propose():
    """The judge was never asked about it."""
    with pytest.raises(InputError, match="not within 3 lines"):
        answer_key.check(judged([at("a.py", 1)], [at("a.py", 9)], {0: (0,)}))


def test_dedup_siblings_are_no_false_positives():
    """Group 0+1 has a match, group 2+3 has none and is charged once, candidate 4 alone once (rule 18)."""
    pr = judged([at(None) | {"category": "bug"}], [at(None)] * 5, {0: (0,)})
    counts = golden_comments.counts(pr, dedup_groups=[[0, 1], [2, 3]])
    assert (counts.tp, counts.fp, counts.fn) == (1, 2, 0)
    assert golden_comments.counts(pr).fp == 4


def test_a_match_outside_the_profile_is_neutral():
    """Style is outside strict: its match is neither tp nor fp, its miss no fn; fp are not filtered."""
    pr = judged(
        [at(None) | {"category": "bug"}, at(None) | {"category": "style"}, at(None)],
        [at(None)] * 3,
        {0: (1,), 1: (2,)},
    )
    found = golden_comments.score([pr], profile="strict").micro.overall
    assert (found.tp, found.fp, found.fn, found.matched_excluded_count) == (0, 1, 1, 2)
    every = golden_comments.score([pr], profile="all").micro.overall
    assert (every.tp, every.fp, every.fn, every.matched_excluded_count) == (1, 1, 1, 1)
    unlimited = golden_comments.score([pr], profile=None).micro.overall
    assert (unlimited.tp, unlimited.fp, unlimited.fn, unlimited.matched_excluded_count) == (2, 1, 1, 0)


def test_equal_texts_never_collapse():
    """Two golden comments with one text, each matched by its own candidate of one text: two tp, no fp (facts C6.1)."""
    pr = judged([at(None) | {"category": "bug"}] * 2, [at(None)] * 2, {0: (0,), 1: (1,)})
    counts = golden_comments.score([pr]).micro.overall
    assert (counts.tp, counts.fp, counts.fn) == (2, 0, 0)


def test_a_candidate_whose_match_is_unrecorded_is_neither_fp_nor_tp():
    """Strict counting of imported judgments: displaced candidates (rule 19)."""
    counts = golden_comments.counts(judged([at(None)], [at(None)] * 2), match_unrecorded=[1])
    assert (counts.tp, counts.fp, counts.fn, counts.match_unrecorded_count) == (0, 1, 1, 1)


@pytest.mark.parametrize(("groups", "field"), [([[0, 5]], "dedup_groups[0][1]"), ([[0], [1, 0]], "dedup_groups[1][1]")])
def test_dedup_groups_are_checked(groups, field):
    """A position out of range and a candidate in two groups are located."""
    with pytest.raises(InputError) as caught:
        golden_comments.counts(judged([], [at(None)] * 2), dedup_groups=groups)
    assert caught.value.where is not None
    assert caught.value.where.field == field


def test_compatible_counting_is_the_public_tools():
    """Lists counted, 0 where undefined, macro = mean over reviews including empty ones (rule 19)."""
    reviews = [
        golden_comments.RecordedLists(["m"] * 3, ["x"], ["y"] * 3),
        golden_comments.RecordedLists([], [], ["y"] * 2),
    ]
    result = golden_comments.compatible(reviews)
    assert (result.tp, result.fp, result.fn) == (3, 1, 5)
    assert result.precision == 0.75
    assert result.recall == 0.375
    assert result.f == pytest.approx(2 * 0.75 * 0.375 / 1.125)
    assert result.macro_f1 == pytest.approx((2 * 0.75 * 0.5 / 1.25 + 0) / 2)
    assert golden_comments.compatible([]).f == 0.0


def test_profiles_nest():
    """Strict is inside core, core inside all (seed C, scoring profiles)."""
    strict, core, every = (set(golden_comments.PROFILES[name]) for name in ("strict", "core", "all"))
    assert strict < core < every == set(golden_comments.CATEGORIES)


def test_a_stratum_charges_only_pull_requests_that_have_it():
    """A pull request without high golden comments adds no fp to the stratum high."""
    one = judged([at(None) | {"category": "bug", "severity": "high"}], [at(None)], {0: (0,)})
    other = judged([at(None) | {"category": "bug", "severity": "low"}], [at(None)]).model_copy(update={"key": "b"})
    strata = golden_comments.score([one, other]).micro.by_severity
    assert (strata["high"].fp, strata["low"].fp) == (0, 1)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_each_protocol_scores_nothing_as_undefined(name):
    """No pull request: every ratio null, every count 0, in every protocol."""
    protocol = protocol_named(name)
    values = protocol.score([]).macro.overall.model_dump().values()
    assert set(values) == {None, 0}


def test_unknown_names_are_refused_with_the_choices():
    """Protocol, profile, severity and category of a filter."""
    with pytest.raises(InputError, match="Choose from reviewbench, answer-key, golden-comments"):
        protocol_named("reviewbnch")
    with pytest.raises(InputError, match="Choose from strict, core, all"):
        golden_comments.profile_subset("most")
    with pytest.raises(InputError, match=r"'critical' is not a severity of this protocol.*high, medium, low"):
        protocol_named("reviewbench").check_subset(Subset.parse(severity=["critical"]))
    protocol_named("golden-comments").check_subset(Subset.parse(severity=["critical"]))
