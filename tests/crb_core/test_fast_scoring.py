"""The fast path of scoring against the pure definition, which is its oracle."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crb_core.aggregate import PullRequestCounts, to_json
from crb_core.errors import InputError
from crb_core.fast_aggregate import rescore
from crb_core.fast_score import count
from crb_core.formats.bundle import read_bundle
from crb_core.metrics import pull_request_counts
from crb_core.protocols import PROTOCOLS
from crb_core.recipes import RECIPES
from crb_core.scoring_arrays import ArraysBuilder, arrays_of
from crb_core.strata import LABEL_FILTERS, Subset
from tests.crb_core.bundle_strategies import bundles, filters, pull_requests

thorough = settings(deadline=None, max_examples=60)
brief = settings(deadline=None, max_examples=25)
betas = st.sampled_from([0.1, 0.5, 1.0, 2.0, 10.0])


def read(bundle: dict[str, Any], protocol: str = "reviewbench") -> Any:
    return read_bundle(json.dumps(bundle).encode(), "bundle.json", protocol=protocol).judged


@st.composite
def sweeps(draw: Any, protocol: str) -> dict[int, dict[str, Any]]:
    """Groups of trials of the same pull requests, some of them missing, each with judgments of its own."""
    keys = [f"pr-{number}" for number in range(draw(st.integers(1, 3)))]
    first = {key: draw(pull_requests(key, protocol)) for key in keys}
    groups = {0: {"format": "crb.bundle/1", "pull_requests": list(first.values())}}
    for group in range(1, draw(st.integers(1, 3))):
        others = []
        for key in draw(st.permutations(keys)):
            other = draw(pull_requests(key, protocol))
            # The same golden findings, judged empty-handed or as they were judged in the first group.
            same = draw(st.booleans())
            others.append(
                first[key]
                if same
                else {**other, "golden": first[key]["golden"], "correspondences": [], "classifications": []}
            )
        groups[group] = {"format": "crb.bundle/1", "pull_requests": others[: draw(st.integers(0, len(others)))]}
    return groups


@pytest.mark.parametrize("protocol", sorted(RECIPES))
@thorough
@given(data=st.data(), chosen=filters(), beta=betas)
def test_every_digit_equals_the_definition(protocol, data, chosen, beta):
    """Macro, micro, n and every pull request, in every group, stratum and filter: exactly equal, not nearly."""
    groups = {group: read(bundle, protocol) for group, bundle in data.draw(sweeps(protocol)).items()}
    subset = Subset.parse(**chosen)
    scores = rescore(arrays_of(groups, protocol), beta=beta, subset=subset)
    for place, judged in enumerate(groups.values()):
        expected = PROTOCOLS[protocol].score(judged, beta=beta, subset=subset)
        assert to_json(scores.score(place)) == to_json(expected)


@pytest.mark.parametrize("protocol", sorted(RECIPES))
@brief
@given(data=st.data(), chosen=filters(), beta=betas)
def test_the_whole_is_the_same_without_strata(protocol, data, chosen, beta):
    """Every figure of the whole subset, to the last digit, whether or not the strata are made beside it."""
    groups = {group: read(bundle, protocol) for group, bundle in data.draw(sweeps(protocol)).items()}
    arrays, subset = arrays_of(groups, protocol), Subset.parse(**chosen)
    full, brief_ones = (rescore(arrays, beta=beta, subset=subset, axes=axes) for axes in (None, ()))
    for name in ("macro", "micro", "n", "total"):
        expected = {metric: values[0].tolist() for metric, values in getattr(full, name).items()}
        assert repr({metric: values[0].tolist() for metric, values in getattr(brief_ones, name).items()}) == repr(
            expected
        )
    assert brief_ones.counted.levels == ()


@brief
@given(bundles(), filters())
def test_counts_equal_the_seam_on_every_axis(bundle, chosen):
    """The seam is PullRequestCounts: equal for any axes, not only those reported by default."""
    judged, subset = read(bundle), Subset.parse(**chosen)
    counted = count(arrays_of({"round": judged}), subset, LABEL_FILTERS)
    found = [counted.of_position(position) for position in range(len(judged))]
    expected = [pull_request_counts(pr, subset, LABEL_FILTERS) for pr in judged]
    assert found == [PullRequestCounts(pr.key, pr.counts) for pr in expected]


@brief
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 400)), min_size=1, max_size=60))
def test_a_mean_rounds_once(parts):
    """The mean of many ratios has the digits of the exactly rounded sum, whatever their order."""
    label = {"tp_fp": "tp", "severity": "low"}
    builder = ArraysBuilder(RECIPES["reviewbench"], ["round"])
    judged = []
    for number, (covered, more) in enumerate(parts):
        golden = covered + more
        builder.add_pull_request(f"pr-{number}", [(label, "human")] * golden)
        builder.add_trial("round", f"pr-{number}", 1, [(0, range(covered))], [] if covered else [(0, label)])
        judged.append(covered / golden)
    assert rescore(builder.build()).macro["grounded_recall"][0, 0] == math.fsum(judged) / len(judged)


def test_nothing_is_no_zero():
    """No trial at all, no finding at all: every ratio is undefined and nothing fails."""
    empty = rescore(arrays_of({"round": ()})).score(0)
    assert empty.macro.overall.grounded_f is None
    assert empty.micro.overall.candidate_count == 0
    assert rescore(arrays_of({})).macro["grounded_f"].shape == (1, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"matches": [(0, [7])]}, "names candidate 0 and golden"),
        ({"matches": [(9, [0])]}, "names candidate 9"),
        ({"labels": [(0, {"tp_fp": "tp"})]}, "candidate 0 takes the label of a golden finding"),
        ({"labels": [(1, {"tp_fp": "tp"}), (1, {"tp_fp": "fp"})]}, "candidate 1 is already classified"),
        ({"labels": [(5, {"tp_fp": "tp"})]}, "candidate 5 does not exist"),
    ],
)
def test_contradictory_judgments_are_refused(change, message):
    """Positions out of range and labels of candidates that have one are errors with their place."""
    builder = ArraysBuilder(RECIPES["reviewbench"], ["round"])
    builder.add_pull_request("pr-1", [({"tp_fp": "tp"}, "human")])
    trial = {"matches": [(0, [0])], "labels": []} | change
    with pytest.raises(InputError, match=message):
        builder.add_trial("round", "pr-1", 2, trial["matches"], trial["labels"])


def test_a_pull_request_counts_once_a_round():
    """The same pull request twice in one group would weigh double."""
    builder = ArraysBuilder(RECIPES["reviewbench"], ["round"])
    builder.add_pull_request("pr-1", [])
    builder.add_trial("round", "pr-1", 0, [], [])
    with pytest.raises(InputError, match="given twice in one round"):
        builder.add_trial("round", "pr-1", 0, [], [])
