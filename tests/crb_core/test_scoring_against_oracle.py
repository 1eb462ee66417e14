"""The scoring core against an independent brute-force oracle, and the invariants of the rules."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crb_core.claims import claims_of
from crb_core.formats.bundle import read_bundle, write_bundle
from crb_core.matching import JudgedPullRequest
from crb_core.metrics import score, to_json
from crb_core.protocols import PROTOCOLS, golden_comments
from crb_core.strata import Subset
from tests import oracle
from tests.crb_core.bundle_strategies import AXES, bundles, filters

# No deadline: these run on loaded machines.
thorough = settings(deadline=None, max_examples=100)
brief = settings(deadline=None, max_examples=40)

betas = st.sampled_from([0.1, 0.5, 1.0, 2.0, 10.0])


def read(bundle: dict[str, Any], protocol: str | None = None) -> tuple[JudgedPullRequest, ...]:
    return read_bundle(json.dumps(bundle).encode(), "bundle.json", protocol=protocol).judged


def approximately(expected: Any) -> Any:
    """The same structure with floats compared to 12 digits; None and integers exactly."""
    if isinstance(expected, dict):
        return {key: approximately(value) for key, value in expected.items()}
    if isinstance(expected, list):
        return [approximately(value) for value in expected]
    return pytest.approx(expected, rel=1e-12, abs=1e-15) if isinstance(expected, float) else expected


@thorough
@given(bundles(), filters(), betas)
def test_every_metric_of_reviewbench_equals_the_oracle(bundle, chosen, beta):
    """Macro, micro, n and every pull request, overall and in every stratum, under any filter and beta."""
    found = to_json(score(read(bundle), beta=beta, subset=Subset.parse(**chosen)))
    assert found == approximately(oracle.score(bundle, beta, chosen))


@brief
@given(bundles("answer-key"), filters(), betas)
def test_every_metric_of_answer_key_equals_the_oracle(bundle, chosen, beta):
    """The same for the answer-key protocol, tiers (difficulty) included."""
    judged = read(bundle, "answer-key")
    found = to_json(PROTOCOLS["answer-key"].score(judged, beta=beta, subset=Subset.parse(**chosen)))
    assert found == approximately(oracle.score(bundle, beta, chosen, protocol="answer-key"))


@brief
@given(bundles(), st.sampled_from(["strict", "core", "all"]), st.randoms(use_true_random=False))
def test_counts_of_golden_comments_equal_the_oracle(bundle, profile, random):
    """Profiles, matched-excluded and dedup groups, with goldens whose categories are in no profile."""
    names = [*golden_comments.CATEGORIES, None]
    for pr in bundle["pull_requests"]:
        pr["classifications"] = []
        for golden in pr["golden"]:
            golden.pop("classifier", None)
            golden |= {"tp_fp": "tp", "category": random.choice(names)}
        candidates = list(range(len(pr["candidates"])))
        random.shuffle(candidates)
        cut = random.randint(0, len(candidates))
        pr["dedup_groups"] = [candidates[:cut], candidates[cut : cut + 1]]
    content = read_bundle(json.dumps(bundle).encode(), protocol="golden-comments")
    result = golden_comments.score(content.judged, profile=profile, dedup_groups=content.dedup_groups)
    wanted = golden_comments.PROFILES[profile]
    each = [oracle.golden_comments_counts(pr, wanted, pr["dedup_groups"]) for pr in bundle["pull_requests"]]
    for found, expected in zip(result.per_pull_request, each, strict=True):
        assert {name: getattr(found.overall, name) for name in expected} == expected
    for name in ("tp", "fp", "fn", "matched_excluded_count"):
        assert getattr(result.micro.overall, name) == sum(counts[name] for counts in each)


@thorough
@given(bundles())
def test_claims_are_unique_and_covered(bundle):
    """A golden finding is claimed at most once, a candidate claims at most one, and every claim is covered."""
    for pr in read(bundle):
        claims = claims_of(pr)
        assert len(set(claims.claimed.values())) == len(claims.claimed)
        assert set(claims.claimed.values()) <= claims.covered
        assert dict(claims.claimed) == oracle.claims(
            next(raw for raw in bundle["pull_requests"] if raw["key"] == pr.key)
        )
        assert {*claims.claimed, *claims.unmatched(len(pr.candidates))} == set(range(len(pr.candidates)))


@brief
@given(bundles(), st.randoms(use_true_random=False))
def test_recall_does_not_depend_on_candidate_order(bundle, random):
    """Coverage counts golden findings, so shuffling the candidates changes no recall and no coverage."""
    for pr in bundle["pull_requests"]:
        pr["classifications"] = []
    before = score(read(bundle))
    for pr in bundle["pull_requests"]:
        order = list(range(len(pr["candidates"])))
        random.shuffle(order)
        pr["candidates"] = [pr["candidates"][old] for old in order]
        for record in pr["correspondences"]:
            record["candidate"] = order.index(record["candidate"])
    after = score(read(bundle))
    for old, new in ((before.macro, after.macro), (before.micro, after.micro)):
        assert new.overall.grounded_recall == old.overall.grounded_recall
        assert new.overall.golden_covered_count == old.overall.golden_covered_count
        assert {value: m.grounded_recall for value, m in new.by_severity.items()} == {
            value: m.grounded_recall for value, m in old.by_severity.items()
        }


@brief
@given(bundles())
def test_strata_and_unclassified_sum_to_the_whole(bundle):
    """Where every finding has a severity, the strata and the unclassified add up to the overall counts (rule 10)."""
    for pr in bundle["pull_requests"]:
        for finding in [*pr["golden"], *pr["classifications"]]:
            finding.setdefault("severity", "low")
    level = score(read(bundle)).micro
    for name in type(level.overall).model_fields:
        whole = getattr(level.overall, name)
        if not name.endswith("_count") or name == "unclassified_count":
            continue
        parts = sum(getattr(stratum, name) for stratum in level.by_severity.values())
        rest = level.overall.unclassified_count if name in {"candidate_count", "unmatched_count"} else 0
        assert parts + rest == whole, name
    for stratum in level.by_severity.values():
        assert stratum.unclassified_count == level.overall.unclassified_count


@brief
@given(bundles(), filters())
def test_counts_keep_their_invariants(bundle, chosen):
    """candidates = matched + unmatched; tp and fp cover the classified; covered <= golden tp (facts A9)."""
    subset = Subset.parse(**chosen)
    result = score(read(bundle), subset=subset)
    for level in (result.macro, result.micro, *result.per_pull_request):
        m = level.overall
        assert m.candidate_count == m.matched_count + m.unmatched_count
        hidden = 0 if subset.restricts_labels else m.unclassified_count
        assert m.unmatched_count == m.unmatched_tp_count + m.unmatched_fp_count + hidden
        assert m.matched_tp_count <= m.matched_count
        assert m.golden_covered_count <= m.golden_tp_count
        assert m.novel_tp_count == m.unmatched_tp_count
        if m.unclassified_count:
            assert m.augmented_precision is m.augmented_recall is m.augmented_f is m.novel_tp_yield is None


@brief
@given(bundles(), filters(), filters())
def test_filters_compose(bundle, one, other):
    """Filtering by two subsets is filtering by their intersection, and order does not matter."""
    judged = read(bundle)
    first, second = Subset.parse(**one), Subset.parse(**other)
    assert score(judged, subset=first & second) == score(judged, subset=second & first)
    merged = {axis: sorted(set(one.get(axis, values)) & set(other.get(axis, values))) for axis, values in AXES.items()}
    merged = {axis: values for axis, values in merged.items() if axis in one or axis in other}
    found = to_json(score(judged, subset=first & second))
    assert found == approximately(oracle.score(bundle, 1, merged))


@brief
@given(bundles(), filters())
def test_a_stratum_is_the_filter_of_its_value(bundle, chosen):
    """A stratum's metrics are what a filter by its value gives overall, in macro and micro."""
    judged, subset = read(bundle), Subset.parse(**chosen)
    result = score(judged, subset=subset)
    for axis in ("severity", "category"):
        for value in result.micro.strata[axis]:
            filtered = score(judged, subset=subset.with_value(axis, value))
            assert result.micro.strata[axis][value] == filtered.micro.overall
            assert result.macro.strata[axis][value] == filtered.macro.overall


@brief
@given(bundles(), st.randoms(use_true_random=False))
def test_scores_do_not_depend_on_pull_request_order(bundle, random):
    """The same pull requests in another order give the same bits."""
    judged = list(read(bundle))
    shuffled = list(judged)
    random.shuffle(shuffled)
    assert score(shuffled).macro == score(judged).macro
    assert score(shuffled).micro == score(judged).micro


@brief
@given(bundles())
def test_a_written_bundle_reads_back_equal(bundle):
    """Writing and reading again loses nothing and changes no label."""
    judged = read(bundle)
    assert read(write_bundle(judged, protocol="reviewbench")) == judged
