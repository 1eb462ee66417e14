"""Further judges on a sweep: reviews that are done get match steps, once each."""

from __future__ import annotations

from pathlib import Path

from crb_core.agent import Outcome
from crb_core.store import Store, open_store
from crb_core.store.judgments import add_judge_steps
from crb_core.store.steps import finish_attempt
from crb_core.store.sweeps import JudgePlan, add_judges
from crb_core.store.tables import Stage
from tests.crb_core.store.planned import LIMITS, Planned, plan


def _finish_review(planned: Planned, step_id: int) -> None:
    taken = planned.take(step_id)
    with planned.store.write() as connection:
        finish_attempt(connection, taken, outcome=Outcome.SUCCEEDED, detail="", values={}, limits=LIMITS)
        add_judge_steps(connection, taken)


def _judge(number: int, builds: frozenset[str] | None = None) -> JudgePlan:
    return JudgePlan(judge_id=f"j-{number}", name=f"judge {number}", classifies=False, document={}, builds=builds)


def _add(store: Store, planned: Planned, *judges: JudgePlan) -> int:
    with store.write() as connection:
        return add_judges(connection, planned.sweep_id, judges, [planned.build_id])


def test_a_further_judge_gets_the_finished_reviews(tmp_path: Path) -> None:
    """One match step a finished review and new judge; reviews that are open get theirs when they finish."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    planned = plan(store, pull_requests=3)
    first, second, third = planned.ids()
    _finish_review(planned, first)
    _finish_review(planned, second)
    assert len(planned.ids(Stage.MATCH)) == 2
    assert _add(store, planned, _judge(2), _judge(3)) == 4
    assert _add(store, planned, _judge(2), _judge(3)) == 0
    _finish_review(planned, third)
    assert len(planned.ids(Stage.MATCH)) == 9
    store.close()


def test_a_judge_of_other_builds_gets_nothing(tmp_path: Path) -> None:
    """A judge that judges only some builds adds no steps for the rest."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    planned = plan(store)
    _finish_review(planned, planned.ids()[0])
    assert _add(store, planned, _judge(2, frozenset({"b-other"}))) == 0
    store.close()
