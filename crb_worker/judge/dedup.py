"""Which findings of one pull request speak of one issue, by a judge's matcher (seed A 5.4, C step 2.5).

Inside one review these are its dedup groups; among golden findings of several producers, the duplicates of rule 23.
"""

from __future__ import annotations

from collections.abc import Sequence

from crb_core.duplicates import components
from crb_core.finding import CandidateFinding, Finding, GoldenFinding, Label, TpFp
from crb_worker.judge.base import Judge
from crb_worker.judge.offline import OfflineJudge

__all__ = ["DUPLICATE", "duplicate_groups"]

#: Probability, mean of both directions, from which two findings are one issue. Higher than for a match, because a wrong
#: merge hides a finding and a missed one only repeats it.
DUPLICATE = 0.7


def duplicate_groups(
    judge: Judge, key: str, findings: Sequence[Finding], *, protocol: str
) -> tuple[tuple[int, ...], ...]:
    """Groups of two or more positions, each ascending, by their first position; ``key`` is the pull request's.

    Equal findings are always one group. Otherwise each finding is compared with the others as a candidate with golden
    findings, so with those of its file where the protocol has files. Two are linked where both directions say so: the
    offline judge by the mean of its probabilities, any other judge by matching each with the other. A group is a
    connected component.
    """
    if len(findings) < 2:
        return ()
    if isinstance(judge, OfflineJudge):
        linked = _likely(judge, findings, protocol)
    else:
        linked = _matched(judge, key, findings, protocol)
    links = [
        (first, second)
        for second in range(len(findings))
        for first in range(second)
        if (first, second) in linked or _same(findings[first], findings[second])
    ]
    return tuple(group for group in components(len(findings), links) if len(group) > 1)


def _likely(judge: OfflineJudge, findings: Sequence[Finding], protocol: str) -> set[tuple[int, int]]:
    chances: dict[tuple[int, int], float] = {}
    for place, finding in enumerate(findings):
        others = [position for position in range(len(findings)) if position != place]
        given = judge.probabilities(
            [_as_candidate(finding)], [_as_golden(findings[position]) for position in others], protocol=protocol
        )
        for (_, number), chance in given.items():
            chances[place, others[number]] = chance
    return {
        (first, second)
        for (first, second), chance in chances.items()
        if first < second and (chance + chances.get((second, first), 0.0)) / 2 >= DUPLICATE
    }


def _matched(judge: Judge, key: str, findings: Sequence[Finding], protocol: str) -> set[tuple[int, int]]:
    matches = judge.match(
        key,
        [_as_candidate(finding) for finding in findings],
        [_as_golden(finding) for finding in findings],
        protocol=protocol,
    )
    pairs = {(match.candidate, position) for match in matches for position in match.golden}
    return {(first, second) for first, second in pairs if first < second and (second, first) in pairs}


def _same(first: Finding, second: Finding) -> bool:
    return (first.file, first.start_line, first.end_line, first.message) == (
        second.file,
        second.start_line,
        second.end_line,
        second.message,
    )


def _as_candidate(finding: Finding) -> CandidateFinding:
    return CandidateFinding.model_validate(finding.bare())


def _as_golden(finding: Finding) -> GoldenFinding:
    return GoldenFinding.model_validate({**finding.bare(), "label": Label(tp_fp=TpFp.TP)})
