"""Two to four agent builds on the same pull requests: paired differences, strata, and each pull request's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

from crb_core.agent import AgentBuild
from crb_core.aggregate import f_measure, mean
from crb_core.bootstrap import Bootstrap, LevelName
from crb_core.errors import InputError
from crb_core.identity import RowIdentity, differences
from crb_core.samples import Sample

__all__ = ["LEVELS", "MOST_BUILDS", "Strata", "check_comparable", "paired", "pull_request_values"]

#: Builds that one comparison takes at most: more differences than four builds have cannot be read.
MOST_BUILDS = 4
LEVELS: tuple[LevelName, ...] = ("macro", "micro")

#: By axis and value the builds' samples inside that stratum, in the order of the builds.
Strata: TypeAlias = Mapping[str, Mapping[str, Sequence[Sample]]]


def check_comparable(builds: Sequence[tuple[AgentBuild, RowIdentity]]) -> None:
    """InputError for too few or too many builds, for one given twice, and where they were measured differently."""
    if not 2 <= len(builds) <= MOST_BUILDS:
        raise InputError(
            f"a comparison takes two to {MOST_BUILDS} builds, not {len(builds)}", remedy="Name as many agents or builds"
        )
    for (first, mine), (second, theirs) in combinations(builds, 2):
        one, other = first.agent, second.agent
        if first == second:
            raise InputError(f"{one} and {other} are the same build", remedy="Name another one")
        mixed = {
            name: values
            for name, values in differences(mine, theirs).items()
            if name in {"corpus_fingerprint", "protocol", "judge", "harness"}
        }
        if mixed:
            fields = "; ".join(f"{name}: {left!r} and {right!r}" for name, (left, right) in mixed.items())
            raise InputError(f"{one} and {other} were not measured in the same way: {fields}")


def paired(
    builds: Sequence[str],
    samples: Sequence[Sample],
    strata: Strata,
    bootstrap: Bootstrap,
    *,
    metrics: Sequence[str],
    stratum_metrics: Sequence[str],
) -> list[dict[str, Any]]:
    """Every pair of builds in their order: the first one's metrics minus the second one's, as JSON.

    ``comparisons`` are macro and micro of every metric over everything; ``strata`` the macro ``stratum_metrics``.
    """
    inside_strata = [sample for values in strata.values() for inside in values.values() for sample in inside]
    bootstrap.prepare([*samples, *inside_strata], "macro", stratum_metrics)
    bootstrap.prepare(samples, "macro", [metric for metric in metrics if metric not in stratum_metrics])
    bootstrap.prepare(samples, "micro", metrics)
    return [
        {
            "one": builds[left],
            "other": builds[right],
            "comparisons": [
                bootstrap.compare(samples[left], samples[right], metric, level).model_dump(mode="json")
                for level in LEVELS
                for metric in metrics
            ],
            "strata": {
                axis: {
                    value: [
                        bootstrap.compare(inside[left], inside[right], metric).model_dump(mode="json")
                        for metric in stratum_metrics
                    ]
                    for value, inside in values.items()
                }
                for axis, values in strata.items()
            },
        }
        for left, right in combinations(range(len(builds)), 2)
    ]


def pull_request_values(sample: Sample, metrics: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By pull request and metric the values of its ``rounds`` and their ``mean``; None where a round has none.

    A round without a score has no value. What the whole withholds (rule 10) a single pull request may have. F comes
    from that round's precision and recall (rule 11).
    """
    f_measures = sample.recipe.measures.f_measures
    ratios = {name: _ratios(sample, name) for metric in metrics for name in f_measures.get(metric, (metric,))}
    found: dict[str, dict[str, Any]] = {}
    for place, key in enumerate(sample.keys):
        found[key] = {}
        for metric in metrics:
            parts = [ratios[name][place] for name in f_measures.get(metric, (metric,))]
            values = parts[0]
            if metric in f_measures:
                values = [f_measure(precision, recall, sample.beta) for precision, recall in zip(*parts, strict=True)]
            found[key][metric] = {"mean": mean(values)[0], "rounds": values}
    return found


def _ratios(sample: Sample, name: str) -> list[list[float | None]]:
    """A ratio by pull request and round."""
    values = sample.data[:, :, sample.names.index(f"value {name}")].tolist()
    defined = (sample.present & (sample.data[:, :, sample.names.index(f"defined {name}")] > 0)).tolist()
    return [
        [value if is_there else None for value, is_there in zip(*of_both, strict=True)]
        for of_both in zip(values, defined, strict=True)
    ]
