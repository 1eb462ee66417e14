"""Leaving producers out: claims anew, candidates without their golden finding unclassified (rule 8; facts A12)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from crb_core.ablation import check_prefixes, excludes, exclusion, left_out, producer_mix
from crb_core.aggregate import to_json
from crb_core.errors import InputError
from crb_core.fast_aggregate import rescore
from crb_core.metrics import score
from crb_core.scoring_arrays import arrays_of
from tests.crb_core.bundle_strategies import bundles
from tests.crb_core.judged_sweeps import golden, judged
from tests.crb_core.test_fast_scoring import read

A, B = "llm_review:a", "llm_review:b"


def test_claims_are_made_again():
    """Without its first golden finding candidate 0 claims the second, and candidate 1 loses it."""
    pr = judged("pr", [golden("x", producer=A), golden("y", producer=B)], {0: [0, 1], 1: [1]})
    whole = rescore(arrays_of({1: [pr]})).score(0).micro.overall
    assert (whole.matched_count, whole.unclassified_count) == (2, 0)
    reduced = rescore(arrays_of({1: [pr]}, leave_out=excludes([A]))).score(0).micro.overall
    assert (reduced.matched_count, reduced.unclassified_count, reduced.golden_tp_count) == (1, 1, 1)
    assert reduced.augmented_precision is None
    assert reduced.grounded_recall == 1.0


def test_a_classified_candidate_keeps_its_label():
    """What was unmatched before is unmatched after, so its label still holds."""
    pr = judged("pr", [golden("x", producer=A), golden("y", producer=B)], {0: [0, 1], 1: [1]}, {2: "fp"})
    reduced = rescore(arrays_of({1: [pr]}, leave_out=excludes([A]))).score(0).micro.overall
    assert (reduced.unmatched_fp_count, reduced.unclassified_count) == (1, 1)


@settings(deadline=None, max_examples=40)
@given(bundles())
def test_leaving_out_equals_scoring_a_golden_set_without(bundle):
    """By the pure definition on pull requests whose golden sets never had these findings."""
    prs = read(bundle)
    found = rescore(arrays_of({1: prs}, leave_out=excludes(["tool"]))).score(0)
    assert to_json(found) == to_json(score([_without(pr) for pr in prs]))


def _without(pr):
    kept = [place for place, each in enumerate(pr.golden) if each.producer != "tool"]
    new = {place: number for number, place in enumerate(kept)}
    return pr.model_copy(
        update={
            "golden": tuple(pr.golden[place] for place in kept),
            "correspondences": tuple(
                record.model_copy(update={"golden": tuple(new[each] for each in record.golden if each in new)})
                for record in pr.correspondences
            ),
        }
    )


GOLDEN = {
    "pr-1": [golden("1", producer=A, severity="high"), golden("2", "fp", producer=A), golden("3", producer=B)],
    "pr-2": [golden("4", producer=A, severity="low")],
    "pr-3": [],
    "pr-4": [golden("5", producer="(unknown)", severity="medium")],
}


def test_an_exclusion_reports_what_it_took():
    """Findings by producer, and pull requests that had golden findings and have none left."""
    found = exclusion(GOLDEN, check_prefixes([A, A]))
    assert (found.excluded, found.left, found.by_producer, found.emptied) == (3, 2, {A: 3}, ("pr-2",))
    assert exclusion(GOLDEN, ["llm_"]).by_producer == {A: 3, B: 1}
    assert left_out({"pr": [golden("1", producer=A), golden("2", producer=A + "b")]}, A).by_producer == {A: 1}


def test_prefixes_are_exact_and_case_counts():
    """Sorted without repetitions; a finding of an unknown producer is never left out; a blank would take all."""
    assert check_prefixes(["b", "a", "b"]) == ("a", "b")
    assert not excludes(["LLM"])("llm_review:a")
    assert not excludes(["("])("(unknown)")
    for blank in ("", "  "):
        with pytest.raises(InputError, match="leave out every golden finding"):
            check_prefixes(["a", blank])
    with pytest.raises(InputError, match=r"begins with 'none'.*\(unknown\), llm_review:a, llm_review:b"):
        exclusion(GOLDEN, ["none"])


def test_the_mix_of_producers():
    """Rows by TPs, then findings, then name; shares of all TPs and of TPs of at least medium severity."""
    found = producer_mix(GOLDEN)
    rows = [(row.name, row.findings, row.tps, row.tp_rate, row.share_of_tps) for row in found.by_producer]
    assert rows == [
        (A, 3, 2, 2 / 3, 0.5),
        ("(unknown)", 1, 1, 1.0, 0.25),
        (B, 1, 1, 1.0, 0.25),
    ]
    assert [row.share_of_weighty_tps for row in found.by_producer] == [0.5, 0.5, 0.0]
    assert (found.findings, found.without_producer, found.without_source_type) == (5, 1, 5)
    assert producer_mix({}).by_producer == ()


def test_source_types_are_rows_of_their_own():
    """A source without a usable type is unknown, not dropped."""
    typed = golden("1").model_copy(update={"source": {"type": "tool"}})
    odd = golden("2").model_copy(update={"source": {"type": 7}})
    found = producer_mix({"pr": [typed, odd]})
    assert [(row.name, row.findings) for row in found.by_source_type] == [("(unknown)", 1), ("tool", 1)]
