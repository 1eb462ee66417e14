"""The judge ``council``: the strict majority of other judges' stored judgments of the same trial (seed C).

``council:judges=ID+ID+ID`` names judges by fingerprint; ``crb judge run SWEEP --judge council:judges=NAME+NAME`` fills
them in. It asks no model and runs no matcher. Judges that failed on a trial did not respond there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crb_core.council import council_labels, council_matches
from crb_core.errors import InputError, UsageError
from crb_core.finding import CandidateFinding, GoldenFinding
from crb_core.matching import Classification, Correspondence
from crb_core.settings import load_settings
from crb_core.store import open_store
from crb_core.store.member_judgments import MemberJudge, Responses, member_judges, responses
from crb_worker.judge.base import JudgeWork, LaterError, judge_fingerprint

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["CouncilJudge", "council_members", "named_council"]

_JUDGE_ID = re.compile(r"^j-[0-9a-f]{12}$")
#: Fewest judges of a council, and fewest that have to respond.
SMALLEST = 2
#: Seconds for which a step waits for the members that still judge the trial.
_DEFER_SECONDS = 5.0


class CouncilJudge:
    """Works on one trial at a time: ``for_step`` gives it the store."""

    kind = "council"
    #: Half of the votes decide nothing, so some candidates stay unclassified (rule 10).
    abstains = True

    def __init__(self, members: Sequence[MemberJudge], work: JudgeWork | None = None) -> None:
        """``members`` in any order; it decides nothing. InputError under two."""
        self.members = tuple(sorted(members, key=lambda member: member.judge_id))
        if len(self.members) < SMALLEST:
            raise InputError("a council has at least two judges", remedy="Write council:judges=ID+ID")
        self.classifies = any(member.classifies for member in self.members)
        self.fake_model = any(member.fake_model for member in self.members)
        #: Says where the scripted model votes, as every judge's name does.
        self.name = f"{self.kind}-fake-model" if self.fake_model else self.kind
        self._work = work
        self.fingerprint = judge_fingerprint(self.describe())

    @classmethod
    def load(cls, options: Mapping[str, str]) -> CouncilJudge:
        """The council of the judges that the option names by fingerprint, all of which the store has."""
        ids = council_members(options)
        for judge_id in ids:
            if not _JUDGE_ID.match(judge_id):
                raise InputError(
                    f"{judge_id[:80]!r} is no judge's fingerprint",
                    remedy="Let crb judge run SWEEP --judge council:judges=NAME+NAME fill them in",
                )
        store = open_store(load_settings().resolved_store_url)
        try:
            with store.read() as connection:
                return cls(member_judges(connection, ids))
        finally:
            store.close()

    def describe(self) -> dict[str, Any]:
        return {
            "judge": self.kind,
            "rule": "strict majority of the judges that responded; half is a tie and decides nothing",
            "judges": [member.judge_id for member in self.members],
            **({"fake_model": True} if self.fake_model else {}),
        }

    def for_step(self, work: JudgeWork) -> CouncilJudge:
        """The council for one trial."""
        return CouncilJudge(self.members, work)

    def match(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],
        golden: Sequence[GoldenFinding],  # noqa: ARG002
        *,
        protocol: str,  # noqa: ARG002
    ) -> tuple[Correspondence, ...]:
        """What a majority matched. LaterError while members still judge; InputError where fewer than two responded."""
        links, _ = council_matches(self._responses(pull_request_key).members, len(candidates))
        return links

    def classify(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],  # noqa: ARG002
        positions: Sequence[int],
        *,
        protocol: str,  # noqa: ARG002
    ) -> tuple[Classification, ...]:
        """The labels that have a majority; a position without one stays unclassified."""
        labels, _ = council_labels(self._responses(pull_request_key).members, positions, provenance=self.fingerprint)
        return labels

    def _responses(self, key: str) -> Responses:
        if self._work is None or self._work.trial_id is None:
            raise InputError(
                "a council votes with stored judgments of a trial",
                remedy="Use it with crb judge run, or calibrate it with crb judge calibrate",
            )
        with self._work.store.read() as connection:
            found = responses(connection, self._work.trial_id, self.members)
        if found.waiting:
            raise LaterError(f"{', '.join(found.waiting)} still judges {key}", seconds=_DEFER_SECONDS)
        if len(found.members) < SMALLEST:
            names = ", ".join(member.judge for member in found.members) or "none"
            raise InputError(f"fewer than two judges of the council responded on {key}: {names}")
        return found


def council_members(options: Mapping[str, str]) -> list[str]:
    """The judges that the option ``judges`` names; InputError where it names fewer than two, or one twice."""
    unknown = sorted(set(options) - {"judges"})
    if unknown or "judges" not in options:
        raise UsageError(
            f"the council has no option {unknown[0][:80]!r}" if unknown else "the council names no judges",
            remedy="Write council:judges=NAME+NAME",
        )
    names = [name for name in options["judges"].split("+") if name]
    if len(names) < SMALLEST:
        raise InputError("a council has at least two judges", remedy="Write council:judges=NAME+NAME")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the council names {name[:80]!r} twice", remedy="Name each judge once")
    return names


def named_council(connection: Connection, sweep_id: str, spec: str) -> tuple[str, CouncilJudge]:
    """A council's spec with the fingerprints that a sweep has for its judges' names, and that council."""
    from crb_core.store.results import find_judge
    from crb_worker.judge import judge_options

    name, options = judge_options(spec)
    ids = [find_judge(connection, sweep_id, member).judge_id for member in council_members(options)]
    council_members({"judges": "+".join(ids)})
    return f"{name}:judges={'+'.join(ids)}", CouncilJudge(member_judges(connection, ids))
