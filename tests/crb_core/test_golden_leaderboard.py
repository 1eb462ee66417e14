"""The golden-comments leaderboard, counted strictly and as the public tool counts (rules 15, 18, 19)."""

from __future__ import annotations

from typing import Any

import pytest

from crb_core.agent import AgentBuild
from crb_core.comment_lists import compatible_rows, text_keyed_lists
from crb_core.comment_rows import CommentRow, CommentTrial
from crb_core.errors import InputError
from crb_core.finding import CandidateFinding, GoldenFinding, Label, TpFp
from crb_core.golden_leaderboard import strict_rows
from crb_core.identity import RowIdentity
from crb_core.matching import Correspondence, JudgedPullRequest
from crb_core.protocols.golden_comments import RecordedLists
from crb_core.rows import Trial

BUILD = AgentBuild(
    agent="alpha",
    display_name="alpha",
    provider="alpha",
    image="i",
    image_id="i",
    runner="imported",
    adapter="imported",
)
IDENTITY = RowIdentity.of_build(BUILD, corpus_fingerprint="c", protocol="golden-comments", judge="j")


def judged(
    key: str,
    golden: list[str | None],
    candidates: list[str],
    pairs: list[tuple[int, int]],
    texts: list[str] | None = None,
) -> JudgedPullRequest:
    """Golden comments by category, candidates by text, and the pairs that match."""
    links: dict[int, list[int]] = {}
    for candidate, comment in pairs:
        links.setdefault(candidate, []).append(comment)
    return JudgedPullRequest(
        key=key,
        golden=tuple(
            GoldenFinding(
                message=texts[place] if texts else f"golden {place}",
                producer="human_review",
                label=Label(tp_fp=TpFp.TP, category=category),
            )
            for place, category in enumerate(golden)
        ),
        candidates=tuple(CandidateFinding(message=text, producer="alpha") for text in candidates),
        correspondences=tuple(Correspondence(candidate=c, golden=tuple(g)) for c, g in sorted(links.items())),
    )


def trial(value: JudgedPullRequest | None, key: str = "a", round_number: int = 1, **more: Any) -> CommentTrial:
    return CommentTrial(pull_request=key, round=round_number, judged=value, **more)


def strict(trials: list[CommentTrial], keys: tuple[str, ...] = ("a",), **options: Any) -> CommentRow:
    options = {"profile": "all"} | options
    (row,) = strict_rows([(BUILD, IDENTITY, trials)], judge="j", pull_requests=keys, **options)
    return row


def counts(row: CommentRow) -> tuple[Any, ...]:
    return tuple(row.figures[name] for name in ("tp", "fp", "fn"))


def test_strict_counts_inside_the_profile() -> None:
    """A match outside it is neutral, a miss outside it is no fn, and a fp is charged whatever the profile."""
    value = judged("a", ["bug", "style", "perf"], ["x", "y", "z"], [(0, 0), (1, 1)])
    assert counts(strict([trial(value)])) == (2, 1, 1)
    assert counts(strict([trial(value)], profile="core")) == (1, 1, 1)
    assert counts(strict([trial(value)], profile="strict")) == (1, 1, 0)


def test_comments_without_category_count_only_without_a_profile() -> None:
    """And the row says so."""
    value = judged("a", [None], ["x"], [(0, 0)])
    assert counts(strict([trial(value)], profile=None)) == (1, 0, 0)
    row = strict([trial(value)])
    assert counts(row) == (0, 0, 0)
    assert row.figures["precision"] is None
    assert "1 golden comments have no category and count in no profile" in row.marks


def test_dedup_groups_count_one_false_positive() -> None:
    """A group with a matched sibling costs nothing; without dedup each candidate counts."""
    value = judged("a", ["bug"], ["x", "x again", "y", "y again"], [(0, 0)])
    groups = [[0, 1], [2, 3]]
    assert counts(strict([trial(value, dedup_groups=groups)])) == (1, 1, 0)
    assert counts(strict([trial(value, dedup_groups=groups)], dedup=False)) == (1, 3, 0)


def test_what_is_not_recorded_is_neither_true_nor_false() -> None:
    """Displaced candidates are no fp; comments that were not judged are left out, and the row is not ranked."""
    value = judged("a", ["bug", "bug"], ["x", "y"], [(0, 0)])
    row = strict([trial(value, match_unrecorded=[1], golden_unjudged=frozenset({1}))])
    assert counts(row) == (1, 0, 0)
    assert (row.ranked, row.rank) == (False, None)
    assert row.figures["golden_unjudged_count"] == 1
    assert row.figures["match_unrecorded_count"] == 1


def test_positions_hold_when_an_unjudged_comment_is_left_out() -> None:
    """Leaving out the first comment does not shift the match of the second."""
    value = judged("a", ["bug", "style"], ["x"], [(0, 1)])
    row = strict([trial(value, golden_unjudged=frozenset({0}))], profile="core")
    assert counts(row) == (0, 0, 0)
    assert row.figures["matched_excluded_count"] == 1


def test_a_category_of_the_judgment_fills_in() -> None:
    """Only where the corpus has none."""
    value = judged("a", [None, "style"], ["x"], [(0, 0)])
    row = strict([trial(value, golden_categories={0: "bug", 1: "bug"})], profile="strict")
    assert counts(row) == (1, 0, 0)


def test_an_incomplete_round_is_shown_and_not_averaged() -> None:
    """A failure is never 0; a partial row is asked for and is not ranked (rule 15)."""
    trials = [trial(judged("a", ["bug"], ["x"], [(0, 0)])), trial(None, "b", problem="timeout")]
    row = strict(trials, ("a", "b", "c"))
    assert counts(row) == (None, None, None)
    assert row.figures["problems"] == [
        {"pull_request": "b", "round": 1, "problem": "timeout"},
        {"pull_request": "c", "round": 1, "problem": "not reviewed"},
    ]
    partial = strict(trials, ("a", "b", "c"), allow_partial=True)
    assert counts(partial) == (1, 0, 0)
    assert (partial.figures["reviews"], partial.figures["planned"], partial.ranked) == (1, 3, False)


def test_a_judgment_that_failed_on_unnamed_pairs_has_recorded_lists_only() -> None:
    """Strictly it has no score; the public tool's counting takes its lists."""
    value = judged("a", ["bug"], ["x"], [(0, 0)])
    mine = [trial(value, recorded=RecordedLists(["g"], [], []), unscorable="failed")]
    row = strict(mine)
    assert (counts(row), row.figures["problems"][0]["problem"]) == ((None, None, None), "failed")
    (compatible,) = compatible_rows([(BUILD, IDENTITY, mine)], judge="j")
    assert counts(compatible) == (1, 0, 0)


@pytest.mark.parametrize(
    ("runner", "answer_key_at", "expected"),
    [
        ("docker", "2026-01-31T23:59:59.999Z", ("older", 1)),
        ("docker", "2026-02-01T00:00:00.000Z", ("not older", None)),
        ("docker", None, ("unknown", 1)),
        ("imported", "2026-03-01T00:00:00.000Z", ("unknown", 1)),
    ],
)
def test_golden_comments_must_be_older_than_the_trial(runner: str, answer_key_at: str | None, expected: Any) -> None:
    """Rule 14 in this protocol too: otherwise the row is marked and not ranked. The trial begins on 1 February."""
    build = BUILD.model_copy(update={"runner": runner})
    review = Trial(pull_request="a", round=1, scored=True, succeeded=True, started_at="2026-02-01T00:00:00.000Z")
    mine = [trial(judged("a", ["bug"], ["x"], [(0, 0)]), review=review)]
    (row,) = strict_rows(
        [(build, IDENTITY, mine)], judge="j", pull_requests=["a"], profile="all", answer_key_at=answer_key_at
    )
    assert (row.to_json()["answer_key"], row.rank) == expected
    late = "unranked: the answer key is not older than 1 trial"
    assert (row.ranked, late in row.marks) == ((False, True) if row.rank is None else (True, False))


def test_a_row_without_f_is_not_ranked_and_says_so() -> None:
    """Nothing of the profile found and nothing charged: precision and F are null, never 0, and so is the rank."""
    row = strict([trial(judged("a", ["bug"], [], []))])
    assert (row.figures["recall"], row.figures["f"], row.rank, row.ranked) == (0.0, None, None, False)
    assert row.marks == ("imported", "unranked: micro f is undefined in round 1")


def test_shared_cores_are_said() -> None:
    """Its containers shared cores, so its seconds are longer than on cores of their own."""
    mine = [trial(judged("a", ["bug"], ["x"], [(0, 0)]))]
    row = strict(mine, oversubscribed=frozenset([BUILD.build_id]))
    assert (row.marks, strict(mine).marks) == (("imported", "cores shared"), ("imported",))


def test_rounds_are_averaged() -> None:
    """Counts are summed over rounds, ratios are the mean of the rounds' ratios (rule 11)."""
    hit, miss = judged("a", ["bug"], ["x"], [(0, 0)]), judged("a", ["bug"], ["x"], [])
    row = strict([trial(hit), trial(miss, round_number=2)])
    assert counts(row) == (1, 1, 1)
    assert (row.figures["precision"], row.figures["recall"]) == (0.5, 0.5)
    assert row.figures["micro"]["precision"]["rounds"] == [1.0, 0.0]


def test_beta_belongs_to_the_benchmark_and_macro_f1_stays_f1() -> None:
    """0.5 to 3; ``f`` and ``macro_f`` follow beta, ``macro_f1`` does not."""
    value = judged("a", ["bug", "bug"], ["x"], [(0, 0)])
    row = strict([trial(value)], beta=2.0)
    assert row.figures["f"] == pytest.approx(5 * 1 * 0.5 / (4 * 1 + 0.5))
    assert row.figures["macro_f"] == row.figures["f"]
    assert row.figures["macro_f1"] == pytest.approx(2 / 3)
    for beta in (0.4, 3.1, float("nan"), True):
        with pytest.raises(InputError, match=r"takes 0\.5 to 3"):
            strict([trial(value)], beta=beta)


def test_compatible_counts_recorded_lists_and_skips_what_has_none() -> None:
    """Undefined is 0, the macro mean is over evaluated reviews."""
    trials = [
        trial(judged("a", ["bug"], ["x"], []), recorded=RecordedLists(["g"], ["x"], [])),
        trial(judged("b", ["bug"], [], []), "b", recorded=RecordedLists([], [], ["g"])),
        trial(None, "c", problem="skipped"),
    ]
    (row,) = compatible_rows([(BUILD, IDENTITY, trials)], judge="j")
    assert {name: row.figures[name] for name in ("tp", "fp", "fn", "precision", "recall", "f", "macro_f1")} == {
        "tp": 1,
        "fp": 1,
        "fn": 1,
        "precision": 0.5,
        "recall": 0.5,
        "f": 0.5,
        "macro_f1": pytest.approx(1 / 3),
    }
    assert (row.figures["reviews"], row.figures["skipped"]) == (2, 1)


def test_text_keyed_lists_collapse_equal_texts() -> None:
    """Two candidates or comments with one text are one entry (facts C3)."""
    value = judged("a", ["bug", "bug"], ["x", "x", "y", "y"], [(0, 0)], texts=["same", "same"])
    lists = text_keyed_lists(value)
    assert (lists.true_positives, lists.false_positives, lists.false_negatives) == (["same"], ["y"], [])


def test_a_better_later_match_displaces_and_a_worse_one_is_a_false_positive() -> None:
    """The displaced candidate is in no list; the one that comes too late is charged."""
    value = judged("a", ["bug"], ["first", "better", "late"], [(0, 0), (1, 0), (2, 0)])
    lists = text_keyed_lists(value, {(0, 0): 0.6, (1, 0): 0.9, (2, 0): 0.9})
    assert (lists.true_positives, lists.false_positives) == (["golden 0"], ["late"])


def test_a_zero_probability_never_matches_and_siblings_are_marked() -> None:
    """A pair counts only above the best so far, which begins at 0; a marked group costs nothing."""
    value = judged("a", ["bug", "bug"], ["x", "y", "z"], [(0, 0), (1, 1)])
    lists = text_keyed_lists(value, {(0, 0): 0.0, (1, 1): 0.5}, [[1, 2]])
    assert (lists.true_positives, lists.false_positives, lists.false_negatives) == (["golden 1"], ["x"], ["golden 0"])


def test_rows_are_ranked_by_f_with_ties_sharing_a_rank() -> None:
    """The best first; what has no f comes last, unranked."""
    other = BUILD.model_copy(update={"agent": "beta"})
    third = BUILD.model_copy(update={"agent": "gamma"})
    good, none = judged("a", ["bug"], ["x"], [(0, 0)]), judged("a", [None], [], [])
    rows = strict_rows(
        [
            (third, IDENTITY, [trial(none)]),
            (other, IDENTITY, [trial(good)]),
            (BUILD, IDENTITY, [trial(good)]),
        ],
        judge="j",
        pull_requests=("a",),
        profile="all",
    )
    assert [(row.build.agent, row.rank) for row in rows] == [("alpha", 1), ("beta", 1), ("gamma", None)]
