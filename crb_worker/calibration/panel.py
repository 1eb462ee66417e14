"""A council that is calibrated: its members judge the examples themselves, and the majority is held against people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crb_core.calibration import calibration_key
from crb_core.corpus import Corpus
from crb_core.council import Member, council_labels, council_matches
from crb_core.errors import CrbError, InputError
from crb_core.finding import CandidateFinding, GoldenFinding
from crb_core.matching import Classification, Correspondence
from crb_core.store import Store
from crb_core.store.imports import IMPORTER
from crb_core.store.member_judgments import member_judges
from crb_worker.judge import judge_options, load_judge, spec_of
from crb_worker.judge.base import Classifier, Judge, JudgeWork, LaterError, StoppedError, bound
from crb_worker.judge.calls import BudgetError
from crb_worker.judge.complete import complete_labels, complete_matches
from crb_worker.judge.council import SMALLEST, CouncilJudge, council_members

__all__ = ["PanelJudge", "open_panel"]

#: What ends the whole calibration instead of counting as a member that did not respond.
_NOT_AN_ANSWER = (LaterError, StoppedError, BudgetError)


class PanelJudge:
    """The judge of a council's description, so that its calibration is the council's; its members are opened judges."""

    abstains = True

    def __init__(self, council: CouncilJudge, members: Sequence[Judge]) -> None:
        """``members`` in the council's order."""
        self.council, self.members = council, tuple(members)
        self.name, self.fingerprint = council.name, council.fingerprint
        self.classifies = any(member.classifies for member in members)

    def describe(self) -> dict[str, Any]:
        return self.council.describe()

    def check(self) -> None:
        """UnavailableError where this machine lacks what a member needs."""
        for member in self.members:
            check = getattr(member, "check", None)
            if check is not None:
                check()

    def for_step(self, work: JudgeWork) -> PanelJudge:
        """Every member with calls of its own, so that a judge calibrated alone and here is asked once."""
        return PanelJudge(
            self.council,
            [bound(member, lambda m=member: replace(work, judge_id=m.fingerprint)) for member in self.members],  # type: ignore[misc]
        )

    def match(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],
        golden: Sequence[GoldenFinding],
        *,
        protocol: str,
    ) -> tuple[Correspondence, ...]:
        """What a strict majority of the members that respond match."""

        def ask(name: str, judge: Judge) -> Member:
            links = complete_matches(judge, pull_request_key, candidates, golden, protocol=protocol)
            return Member(judge=name, correspondences=links)

        links, _ = council_matches(self._responding(pull_request_key, self._named(), ask), len(candidates))
        return links

    def classify(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],
        positions: Sequence[int],
        *,
        protocol: str,
    ) -> tuple[Classification, ...]:
        """The labels that have a majority of the members that classify; a position without one is left out."""

        def ask(name: str, judge: Judge) -> Member:
            labels: tuple[Classification, ...] = ()
            if isinstance(judge, Classifier):
                labels = complete_labels(judge, pull_request_key, candidates, positions, protocol=protocol)
            return Member(judge=name, correspondences=(), classifications=labels)

        asked = [(name, judge) for name, judge in self._named() if judge.classifies]
        labels, _ = council_labels(
            self._responding(pull_request_key, asked, ask, fewest=1), positions, provenance=self.fingerprint
        )
        return labels

    def _named(self) -> list[tuple[str, Judge]]:
        return [(each.name, judge) for each, judge in zip(self.council.members, self.members, strict=True)]

    def _responding(
        self,
        key: str,
        asked: Sequence[tuple[str, Judge]],
        ask: Callable[[str, Judge], Member],
        *,
        fewest: int = SMALLEST,
    ) -> list[Member]:
        found: list[Member] = []
        reasons: list[str] = []
        for name, judge in asked:
            try:
                found.append(ask(name, judge))
            except _NOT_AN_ANSWER:
                raise
            except CrbError as error:
                reasons.append(f"{name}: {error}")
        if len(found) < fewest:
            raise InputError(f"fewer than {fewest} judges of the council responded on {key}: {'; '.join(reasons)}")
        return found


def open_panel(store: Store, spec: str, corpus: Corpus, reference_folder: Path | None) -> PanelJudge:
    """The council of a spec for a reference's corpus; its judges are named by fingerprint, or by a name that one has.

    InputError for a judge that the store has not, one that was imported, and one that is another judge by now: its
    answers would not be those that the council votes with.
    """
    _, options = judge_options(spec)
    with store.read() as connection:
        members = member_judges(connection, [_judge_id(connection, name) for name in council_members(options)])
        documents = {member.judge_id: _document(connection, member.judge_id) for member in members}
    council = CouncilJudge(members)
    opened = []
    for member in council.members:
        document = documents[member.judge_id]
        if document.get("spec") in {None, IMPORTER}:
            raise InputError(
                f"the judgments of {member.name} were imported, so it cannot judge the examples",
                remedy="Calibrate a council of judges that run here",
            )
        spec = spec_of(document["spec"], document.get("description", {}))
        judge = load_judge(spec, corpus=corpus, reference_folder=reference_folder)
        if calibration_key(judge.describe()) != calibration_key(document.get("description", {})):
            raise InputError(
                f"{member.name} {member.judge_id} has other prompts, model or options now",
                remedy="Judge anew with crb judge rejudge and name the judge that it adds",
            )
        opened.append(judge)
    return PanelJudge(council, opened)


def _judge_id(connection: Any, name: str) -> str:
    from sqlalchemy import select

    from crb_core.store.tables import JudgeRow, core

    judges = core(JudgeRow)
    found = list(
        connection.execute(select(judges.c.id).where((judges.c.id == name) | (judges.c.name == name))).scalars()
    )
    if not found:
        raise InputError(f"the store has no judge {name[:80]!r}", remedy="`crb judge list` shows the stored ones")
    if len(found) > 1:
        raise InputError(
            f"{len(found)} stored judges are named {name[:80]!r}",
            remedy=f"Name one by fingerprint: {', '.join(found[:5])}",
        )
    return str(found[0])


def _document(connection: Any, judge_id: str) -> dict[str, Any]:
    from crb_core.store.judgments import judge_document

    document: dict[str, Any] = judge_document(connection, judge_id).document
    return document
