"""Small judged sweeps, readable at a glance: what the tests of intervals, rows and ablation share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crb_core.agent import AgentBuild
from crb_core.finding import CandidateFinding, GoldenFinding, Label
from crb_core.identity import RowIdentity
from crb_core.matching import Classification, Correspondence, JudgedPullRequest
from crb_core.rows import Entry, Measured, Trial
from crb_core.scoring_arrays import arrays_of


def golden(message: str, tp_fp: str = "tp", *, producer: str = "human_review", **axes: Any) -> GoldenFinding:
    return GoldenFinding(
        file="a.py", start_line=1, end_line=1, message=message, producer=producer, label=Label(tp_fp=tp_fp, **axes)
    )


def judged(
    key: str,
    goldens: Sequence[GoldenFinding] | str,
    matches: Mapping[int, Sequence[int]] | None = None,
    labels: Mapping[int, str] | None = None,
    candidates: int = 0,
) -> JudgedPullRequest:
    """A pull request; ``goldens`` may be text such as ``"ttf"``: two TPs and one FP."""
    findings = (
        tuple(golden(f"{key} {place}", "tp" if kind == "t" else "fp") for place, kind in enumerate(goldens))
        if isinstance(goldens, str)
        else tuple(goldens)
    )
    matches, labels = matches or {}, labels or {}
    size = max([candidates, *(place + 1 for place in (*matches, *labels))])
    return JudgedPullRequest(
        key=key,
        golden=findings,
        candidates=tuple(
            CandidateFinding(file="a.py", start_line=2, end_line=2, message=f"c{place}", producer="agent")
            for place in range(size)
        ),
        correspondences=tuple(
            Correspondence(candidate=place, golden=tuple(found)) for place, found in sorted(matches.items())
        ),
        classifications=tuple(
            Classification(candidate=place, label=Label(tp_fp=label)) for place, label in sorted(labels.items())
        ),
    )


def build(agent: str, **fields: Any) -> AgentBuild:
    return AgentBuild(
        **(
            {
                "agent": agent,
                "display_name": agent,
                "provider": "test",
                "image": f"test/{agent}",
                "image_id": f"sha256:{agent:0>64}",
                "runner": "docker",
            }
            | fields
        )
    )


def measured(
    rounds: Mapping[str, Mapping[int, Sequence[JudgedPullRequest]]],
    *,
    planned: Sequence[str] | None = None,
    builds: Mapping[str, AgentBuild] | None = None,
    trial: Mapping[str, Any] | None = None,
    answer_key_at: str | None = "2026-01-01T00:00:00.000Z",
    protocol: str = "reviewbench",
) -> Measured:
    """A measured sweep from judged pull requests by agent and round.

    ``planned`` are the pull requests that every round should have (by default all that occur); ``trial`` gives every
    trial further fields.
    """
    known = dict(builds or {})
    keys = planned or sorted({pr.key for of_agent in rounds.values() for prs in of_agent.values() for pr in prs})
    groups, entries = {}, []
    for agent, of_agent in rounds.items():
        subject = known.get(agent) or build(agent)
        trials = []
        for number, prs in of_agent.items():
            groups[subject.build_id, number] = tuple(prs)
            scored = {pr.key for pr in prs}
            trials += [
                Trial(
                    **(
                        {
                            "pull_request": key,
                            "round": number,
                            "scored": key in scored,
                            "succeeded": key in scored,
                            "started_at": "2026-02-01T00:00:00.000Z",
                            "problem": None if key in scored else "timeout",
                        }
                        | dict(trial or {})
                    )
                )
                for key in keys
            ]
        entries.append(
            Entry(
                build=subject,
                identity=RowIdentity.of_build(subject, corpus_fingerprint="c", protocol=protocol, judge="j"),
                trials=tuple(trials),
            )
        )
    return Measured(entries=tuple(entries), arrays=arrays_of(groups, protocol), answer_key_at=answer_key_at)
