"""Hypothesis strategies for scoring bundles: small, dense in overlaps, valid under the protocol they are made for."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests import oracle

SEVERITIES = ["high", "medium", "low"]
CATEGORIES = ["correctness", "security", "other"]
SCOPES = ["introduced-by-pr", "pre-existing"]
DIFFICULTIES = ["easy", "hard"]
CONTEXTS = ["diff-only", "broader-project-context"]
ACTIONABILITIES = ["actionable", "not-actionable"]
PRODUCERS = ["human", "tool"]

AXES: dict[str, list[str]] = {
    "severity": SEVERITIES,
    "category": CATEGORIES,
    "scope": SCOPES,
    "difficulty": DIFFICULTIES,
    "context_required": CONTEXTS,
    "actionability": ACTIONABILITIES,
    "producer": PRODUCERS,
}


def _present(draw: Any, values: list[str]) -> dict[str, str]:
    """Values for some of the label axes; the others are absent."""
    chosen = {axis: draw(st.sampled_from([*options, None])) for axis, options in AXES.items() if axis in values}
    return {axis: value for axis, value in chosen.items() if value is not None}


@st.composite
def filters(draw: Any) -> dict[str, list[str]]:
    """Any combination of axes with one or more values each."""
    return draw(
        st.fixed_dictionaries(
            {},
            optional={
                axis: st.lists(st.sampled_from(values), min_size=1, unique=True) for axis, values in AXES.items()
            },
        )
    )


@st.composite
def pull_requests(draw: Any, key: str, protocol: str = "reviewbench") -> dict[str, Any]:
    """One judged pull request whose classifications cover some, all or none of what may be classified."""
    files = st.sampled_from(["a.py", "b.py"])
    label_axes = [axis for axis in AXES if axis != "producer"]
    golden = []
    for number in range(draw(st.integers(0, 5))):
        finding = {"file": draw(files), "start_line": 1, "end_line": 1, "message": f"golden {number}"}
        finding |= {"tp_fp": draw(st.sampled_from(["tp", "tp", "fp"]))} | _present(draw, label_axes)
        if draw(st.booleans()):
            finding["producer"] = draw(st.sampled_from(PRODUCERS))
        if draw(st.booleans()):
            finding["classifier"] = _present(draw, ["severity", "category"])
        golden.append(finding)
    candidates = [
        {"file": draw(files), "start_line": 2, "end_line": 3, "message": f"candidate {number}"}
        for number in range(draw(st.integers(0, 6)))
    ]
    correspondences = []
    for number, candidate in enumerate(candidates):
        near = [g for g, finding in enumerate(golden) if finding["file"] == candidate["file"]]
        if draw(st.booleans()) or not near:
            continue
        chosen = draw(st.lists(st.sampled_from(near), unique=True))
        correspondences.append({"candidate": number, "golden": chosen})
    correspondences = draw(st.permutations(correspondences))
    pr: dict[str, Any] = {
        "key": key,
        "golden": golden,
        "candidates": candidates,
        "correspondences": correspondences,
        "classifications": [],
    }
    free = [c for c in range(len(candidates)) if c not in _settled(pr, protocol)]
    complete = draw(st.booleans())
    pr["classifications"] = [
        {"candidate": c, "tp_fp": draw(st.sampled_from(["tp", "fp"]))} | _present(draw, label_axes)
        for c in draw(st.permutations(free))
        if complete or draw(st.booleans())
    ]
    return pr


def _settled(pr: dict[str, Any], protocol: str) -> set[int]:
    """Candidates that take their label from the golden set."""
    if protocol == "reviewbench":
        return set(oracle.claims(pr))
    tps = {g for g, finding in enumerate(pr["golden"]) if finding["tp_fp"] == "tp"}
    taken: set[int] = set()
    settled: set[int] = set()
    for candidate in range(len(pr["candidates"])):
        mine = sorted(golden for number, golden in oracle.matches(pr) if number == candidate)
        free = [g for g in mine if g in tps and g not in taken]
        taken.update(free[:1])
        if free or any(g not in tps for g in mine):
            settled.add(candidate)
    return settled


@st.composite
def bundles(draw: Any, protocol: str = "reviewbench") -> dict[str, Any]:
    """A bundle of up to four pull requests."""
    return {
        "format": "crb.bundle/1",
        "pull_requests": [draw(pull_requests(f"pr-{number}", protocol)) for number in range(draw(st.integers(0, 4)))],
    }
