"""Which findings of one pull request speak of one issue, by the offline judge's matcher (seed A 5.4, C step 2.5).

Inside one review these are its dedup groups; among golden findings of several producers, the duplicates of rule 23.
"""

from __future__ import annotations

from collections.abc import Sequence

from crb_core.duplicates import components
from crb_core.finding import CandidateFinding, Finding, GoldenFinding, Label, TpFp
from crb_worker.judge.offline import OfflineJudge

__all__ = ["DUPLICATE", "duplicate_groups"]

#: Probability, mean of both directions, from which two findings are one issue. Higher than for a match, because a wrong
#: merge hides a finding and a missed one only repeats it.
DUPLICATE = 0.7


def duplicate_groups(
    judge: OfflineJudge, findings: Sequence[Finding], *, protocol: str, threshold: float = DUPLICATE
) -> tuple[tuple[int, ...], ...]:
    """Groups of two or more positions, each ascending, by their first position.

    Equal findings are always one group. Otherwise each finding is compared with the others as a candidate with golden
    findings, so with those of its file where the protocol has files; a pair's probability is the mean of both
    directions. A group is a connected component.
    """
    chances: dict[tuple[int, int], float] = {}
    for place, finding in enumerate(findings):
        others = [position for position in range(len(findings)) if position != place]
        given = judge.probabilities(
            [_as_candidate(finding)], [_as_golden(findings[position]) for position in others], protocol=protocol
        )
        for (_, number), chance in given.items():
            chances[place, others[number]] = chance
    links = [
        (first, second)
        for (first, second), chance in chances.items()
        if first < second
        and (_same(findings[first], findings[second]) or (chance + chances.get((second, first), 0.0)) / 2 >= threshold)
    ]
    return tuple(group for group in components(len(findings), links) if len(group) > 1)


def _same(first: Finding, second: Finding) -> bool:
    return (first.file, first.start_line, first.end_line, first.message) == (
        second.file,
        second.start_line,
        second.end_line,
        second.message,
    )


def _as_candidate(finding: Finding) -> CandidateFinding:
    return CandidateFinding.model_validate(_fields(finding))


def _as_golden(finding: Finding) -> GoldenFinding:
    return GoldenFinding.model_validate({**_fields(finding), "label": Label(tp_fp=TpFp.TP)})


def _fields(finding: Finding) -> dict[str, object]:
    names = ("file", "start_line", "end_line", "message", "producer")
    return {name: getattr(finding, name) for name in names}
