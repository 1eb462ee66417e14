"""A council of judges: what a strict majority of those that responded says, and where they are tied (seed C).

A pair matches, and a label holds, where more than half of the responding judges say so. Half is a tie: it decides
nothing and is named. A candidate without a majority on tp or fp stays unclassified, never a guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crb_core.finding import LABEL_AXES, Label, Record
from crb_core.matching import Classification, Correspondence

__all__ = ["Member", "Tie", "council_labels", "council_matches"]


@dataclass(frozen=True, kw_only=True)
class Member:
    """One responding judge's answers on one trial.

    ``open_golden`` and ``open_candidates`` are positions that it left open, as imported judgments do: on pairs of
    these it did not respond, unless it matched them.
    """

    judge: str
    correspondences: tuple[Correspondence, ...]
    classifications: tuple[Classification, ...] = ()
    open_golden: frozenset[int] = frozenset()
    open_candidates: frozenset[int] = frozenset()


class Tie(Record):
    """A question without a strict majority: ``golden`` names a pair, ``axis`` a label; ``votes`` are by judge."""

    candidate: int
    golden: int | None = None
    axis: str | None = None
    votes: dict[str, str]


def council_matches(
    members: Sequence[Member], candidate_count: int
) -> tuple[tuple[Correspondence, ...], tuple[Tie, ...]]:
    """One record a candidate; ``probabilities`` are the shares of the responding judges, ``reasoning`` names them."""
    said = {
        member.judge: {(link.candidate, golden) for link in member.correspondences for golden in link.golden}
        for member in members
    }
    matched: dict[int, list[tuple[int, float, str]]] = {place: [] for place in range(candidate_count)}
    ties: list[Tie] = []
    for candidate, golden in sorted(set().union(*said.values())):
        votes = {
            member.judge: (candidate, golden) in said[member.judge]
            for member in members
            if (candidate, golden) in said[member.judge]
            or (golden not in member.open_golden and candidate not in member.open_candidates)
        }
        yes = [judge for judge, vote in votes.items() if vote]
        if 2 * len(yes) > len(votes):
            against = [judge for judge, vote in votes.items() if not vote]
            why = f"golden {golden}: {', '.join(yes)}" + (f"; not {', '.join(against)}" if against else "")
            matched[candidate].append((golden, round(len(yes) / len(votes), 4), why))
        elif 2 * len(yes) == len(votes):
            words = {judge: "match" if vote else "no match" for judge, vote in votes.items()}
            ties.append(Tie(candidate=candidate, golden=golden, votes=words))
    links = tuple(
        Correspondence(
            candidate=candidate,
            golden=tuple(golden for golden, _, _ in found),
            probabilities=tuple(share for _, share, _ in found),
            reasoning="\n".join(why for _, _, why in found) or None,
        )
        for candidate, found in matched.items()
    )
    return links, tuple(ties)


def council_labels(
    members: Sequence[Member], positions: Sequence[int], *, provenance: str
) -> tuple[tuple[Classification, ...], tuple[Tie, ...]]:
    """The labels of the positions that have a majority on tp or fp. Each axis is decided on its own.

    Only judges that labelled a candidate responded on it. ``provenance`` is the council's fingerprint.
    """
    labels = {member.judge: {each.candidate: each.label for each in member.classifications} for member in members}
    found: list[Classification] = []
    ties: list[Tie] = []
    for candidate in positions:
        given = {judge: by_place[candidate] for judge, by_place in labels.items() if candidate in by_place}
        decided: dict[str, str] = {}
        for axis in LABEL_AXES:
            votes = {judge: str(value) for judge, label in given.items() if (value := getattr(label, axis)) is not None}
            answer = _majority(votes)
            if answer is not None:
                decided[axis] = answer
            elif votes:
                ties.append(Tie(candidate=candidate, axis=axis, votes=votes))
        if "tp_fp" in decided:
            found.append(
                Classification(
                    candidate=candidate,
                    label=Label.model_validate({**decided, "provenance": dict.fromkeys(decided, provenance)}),
                )
            )
    return tuple(found), tuple(ties)


def _majority(votes: Mapping[str, str]) -> str | None:
    for answer, count in Counter(votes.values()).most_common(1):
        if 2 * count > len(votes):
            return answer
    return None
