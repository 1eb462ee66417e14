"""What people do to sweeps, trials and workers, and the row that says who did it (crb_core/store/operations.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import func, insert, select, update

from crb_core.agent import Outcome
from crb_core.errors import InputError
from crb_core.store import Store
from crb_core.store.judgments import add_judge_steps
from crb_core.store.operations import (
    FARM,
    Operation,
    cancel_sweep,
    cancel_trials,
    list_operations,
    pause_build,
    pause_sweep,
    resume_sweep,
    retry,
    set_limits,
    set_worker_slots,
)
from crb_core.store.retries import Compared, PlannedBuild, Retriable, check_retries, choose_retries, planned_builds
from crb_core.store.steps import beat, fail, finish_attempt, interrupt, look, lose, take
from crb_core.store.sweep_limits import read_limits, why_it_rests
from crb_core.store.tables import OperatorActionRow, Stage, StepRow, StepState, SweepState, WorkerRow, core
from crb_core.store.trials import TrialFilter, list_trials
from tests.crb_core.store.planned import LIMITS, Planned, plan

actions = core(OperatorActionRow)
steps = core(StepRow)
workers = core(WorkerRow)

ME = "a person"


def do(store: Store, change: Callable[..., Any], *values: Any, **more: Any) -> Any:
    """One operation in its own transaction."""
    with store.write() as connection:
        return change(connection, *values, **{"actor": ME} | more)


def fail_review(planned: Planned, step_id: int, outcome: Outcome = Outcome.TIMEOUT) -> None:
    taken = planned.take(step_id)
    with planned.store.write() as connection:
        state = finish_attempt(
            connection, taken, outcome=outcome, detail="said so", values={}, limits=LIMITS, final=True
        )
        assert state is StepState.FAILED


def succeed(planned: Planned, step_id: int) -> None:
    taken = planned.take(step_id)
    with planned.store.write() as connection:
        finish_attempt(connection, taken, outcome=Outcome.SUCCEEDED, detail="", values={}, limits=LIMITS)
        add_judge_steps(connection, taken)


def retry_all(store: Store, wanted: TrialFilter, stages: tuple[Stage, ...] = ()) -> list[Operation]:
    with store.write() as connection:
        return retry(connection, choose_retries(connection, wanted, stages), actor=ME)


def stored(store: Store) -> list[Operation]:
    with store.read() as connection:
        return list_operations(connection)


class TestWhatIsWrittenDown:
    def test_every_operation_is_read_back_as_it_was_returned(self, store: Store) -> None:
        """Actor, time, sweep, trials, counts, values before and after; newest first."""
        planned = plan(store, pull_requests=3)
        failed, running, _ = planned.ids()
        fail_review(planned, failed)
        planned.take(running)
        done = [
            do(store, set_limits, planned.sweep_id, priority=5, weight=0.5, concurrency=7),
            do(store, set_limits, planned.sweep_id, agent="minimal", concurrency=2),
            do(store, pause_sweep, planned.sweep_id, reason="lunch"),
            do(store, resume_sweep, planned.sweep_id),
            do(store, pause_build, planned.sweep_id, planned.build_id, reason="refused host", actor=FARM),
            do(store, resume_sweep, planned.sweep_id, agent="minimal"),
            *do(store, cancel_trials, [planned.trial(running)]),
            *retry_all(store, TrialFilter(trial_ids=(planned.trial(failed),))),
            do(store, cancel_sweep, "sweep-of-minimal", reason="enough"),
        ]
        assert [operation.has_changed for operation in done] == [True] * len(done)
        assert stored(store) == done[::-1]
        assert [(operation.action, operation.actor) for operation in done] == [
            ("set limits", ME), ("set limits", ME), ("pause", ME), ("resume", ME), ("pause", FARM), ("resume", ME),
            ("cancel", ME), ("retry", ME), ("cancel", ME),
        ]  # fmt: skip
        assert done[0].before == {"priority": 0, "weight": 1.0, "concurrency": None}
        assert (done[6].trials, done[6].running, done[6].steps) == ((planned.trial(running),), 1, 0)
        assert (done[8].steps, done[8].running, done[8].reason) == (2, 0, "enough")

    def test_what_changes_nothing_leaves_no_row(self, store: Store) -> None:
        """Pausing twice, setting what is set, resuming what is active: the operation says that nothing changed."""
        planned = plan(store)
        assert not do(store, resume_sweep, planned.sweep_id).has_changed
        assert not do(store, set_limits, planned.sweep_id, priority=0, weight=1, concurrency=None).has_changed
        assert do(store, pause_sweep, planned.sweep_id).has_changed
        assert not do(store, pause_sweep, planned.sweep_id).has_changed
        assert len(stored(store)) == 1

    def test_the_row_and_the_change_are_one_transaction(self, store: Store) -> None:
        """Where the transaction fails, neither is there."""
        planned = plan(store)

        def broken() -> None:
            with store.write() as connection:
                cancel_sweep(connection, planned.sweep_id, actor=ME)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            broken()
        assert planned.state(planned.ids()[0]) == "ready"
        assert stored(store) == []

    def test_nobody_changes_anything_without_a_name(self, store: Store) -> None:
        """An actor without a name, or with one too long to show, is refused and changes nothing."""
        planned = plan(store)
        for actor in ("", "  ", "x" * 101):
            with pytest.raises(InputError):
                do(store, cancel_sweep, planned.sweep_id, actor=actor)
            assert planned.state(planned.ids()[0]) == "ready"

    def test_the_list_of_one_sweep(self, store: Store) -> None:
        """Operations on other sweeps are not in it, and no more than asked for."""
        one, two = plan(store, agent="one"), plan(store, agent="two")
        for planned in (one, two, one):
            do(store, pause_sweep, planned.sweep_id)
            do(store, resume_sweep, planned.sweep_id)
        with store.read() as connection:
            assert len(list_operations(connection, sweep_id=one.sweep_id)) == 4
            assert [each.sweep for each in list_operations(connection, limit=3)] == ["sweep-of-one"] * 2 + [
                "sweep-of-two"
            ]


class TestPausing:
    def test_a_pause_keeps_its_reason_until_it_is_over(self, store: Store) -> None:
        """For the sweep and for one agent in it."""
        planned = plan(store)
        do(store, pause_sweep, planned.sweep_id, reason="lunch")
        do(store, pause_build, planned.sweep_id, planned.build_id, reason="refused host api.example.com")
        with store.read() as connection:
            limits = read_limits(connection, planned.sweep_id)
        assert (limits.state, limits.paused_reason) == ("paused", "lunch")
        assert [(each.paused, each.paused_reason) for each in limits.builds] == [(True, "refused host api.example.com")]
        do(store, resume_sweep, planned.sweep_id)
        do(store, resume_sweep, planned.sweep_id, agent="minimal")
        with store.read() as connection:
            limits = read_limits(connection, planned.sweep_id)
        assert (limits.state, limits.paused_reason) == ("active", None)
        assert [(each.paused, each.paused_reason) for each in limits.builds] == [(False, None)]

    def test_resuming_a_paused_sweep_leaves_cancelled_trials_alone(self, store: Store) -> None:
        """They were cancelled for themselves."""
        planned = plan(store, pull_requests=2)
        cancelled, _ = planned.ids()
        do(store, cancel_trials, [planned.trial(cancelled)])
        do(store, pause_sweep, planned.sweep_id)
        assert do(store, resume_sweep, planned.sweep_id).steps == 0
        assert planned.state(cancelled) == "cancelled"

    def test_a_cancelled_sweep_is_not_paused(self, store: Store) -> None:
        """It is a sentence, and the sweep stays cancelled."""
        planned = plan(store)
        do(store, cancel_sweep, planned.sweep_id)
        with pytest.raises(InputError, match="is cancelled, so nothing of it runs"):
            do(store, pause_sweep, planned.sweep_id)

    def test_an_agent_that_the_sweep_does_not_have(self, store: Store) -> None:
        """Every operation on one agent names what is wrong."""
        planned = plan(store)
        for change in (pause_sweep, resume_sweep, cancel_sweep):
            with pytest.raises(InputError, match="has no agent 'other'"):
                do(store, change, planned.sweep_id, agent="other")
        with pytest.raises(InputError, match="There is no sweep named"):
            do(store, pause_sweep, "nothing")

    def test_why_a_sweep_rests(self, store: Store) -> None:
        """While something is in flight it does not; when all that is left is paused it does, with the reason."""
        planned = plan(store, pull_requests=2)
        first, second = planned.ids()
        taken = planned.take(first)

        def why() -> str | None:
            with store.read() as connection:
                return why_it_rests(connection, planned.sweep_id)

        do(store, pause_build, planned.sweep_id, planned.build_id, reason="refused host")
        assert why() is None
        with store.write() as connection:
            finish_attempt(connection, taken, outcome=Outcome.SUCCEEDED, detail="", values={}, limits=LIMITS)
        assert why() == "agent minimal is paused (refused host)"
        do(store, pause_sweep, planned.sweep_id, reason="lunch")
        assert why() == "it is paused (lunch)"
        do(store, resume_sweep, planned.sweep_id)
        do(store, resume_sweep, planned.sweep_id, agent="minimal")
        assert why() is None
        succeed(planned, second)


class TestCancelling:
    def test_one_agent(self, store: Store) -> None:
        """Its steps end or are asked to stop; the sweep goes on, and resuming the agent brings them back."""
        planned = plan(store, pull_requests=3)
        running, queued, ready = planned.ids()
        taken = planned.take(running)
        planned.queue(queued)
        done = do(store, cancel_sweep, planned.sweep_id, agent="minimal")
        assert (done.steps, done.running) == (2, 1)
        assert look(store, "w").cancelled == {(running, taken.fence)}
        with store.read() as connection:
            assert read_limits(connection, planned.sweep_id).state == "active"
        back = do(store, resume_sweep, planned.sweep_id, agent="minimal")
        assert (back.steps, back.running) == (2, 1)
        assert [planned.state(each) for each in (running, queued, ready)] == ["running", "ready", "ready"]
        assert look(store, "w").cancelled == frozenset()

    def test_one_trial(self, store: Store) -> None:
        """The others of its sweep are left alone; a retry brings it back, its cancelled attempt stays visible."""
        planned = plan(store, pull_requests=2)
        mine, other = planned.ids()
        taken = planned.take(mine)
        (done,) = do(store, cancel_trials, [planned.trial(mine)])
        assert (done.trials, done.running) == ((planned.trial(mine),), 1)
        with store.write() as connection:
            ended = finish_attempt(
                connection, taken, outcome=Outcome.CANCELLED, detail="cancelled", values={}, limits=LIMITS
            )
        assert ended is StepState.CANCELLED
        assert planned.state(other) == "ready"
        retry_all(store, TrialFilter(trial_ids=(planned.trial(mine),)))
        assert planned.take(mine).attempt_number == 2
        assert planned.attempts(mine) == [(1, "cancelled"), (2, None)]

    def test_a_retry_takes_a_cancel_back_that_has_not_happened_yet(self, store: Store) -> None:
        """The worker is not told to stop any more."""
        planned = plan(store)
        (step_id,) = planned.ids()
        planned.take(step_id)
        do(store, cancel_trials, [planned.trial(step_id)])
        assert len(look(store, "w").cancelled) == 1
        retry_all(store, TrialFilter(trial_ids=(planned.trial(step_id),)))
        assert look(store, "w").cancelled == frozenset()
        assert planned.state(step_id) == "running"

    def test_thousands_of_trials(self, store: Store) -> None:
        """No limit of a database on the values of a statement is a limit on how many are cancelled or tried again."""
        planned = plan(store, pull_requests=40, rounds=60)
        first = planned.trial(planned.ids()[0])
        numbers = list(range(first, first + 2400))
        (done,) = do(store, cancel_trials, numbers)
        assert (done.steps, len(done.trials)) == (2400, 2400)
        (again,) = retry_all(store, TrialFilter(sweep=planned.sweep_id, cancelled=True))
        assert again.steps == 2400

    def test_a_trial_that_does_not_exist(self, store: Store) -> None:
        """Nothing is cancelled, the others neither."""
        planned = plan(store)
        with pytest.raises(InputError, match="There is no trial 99"):
            do(store, cancel_trials, [planned.trial(planned.ids()[0]), 99])
        assert planned.state(planned.ids()[0]) == "ready"

    def test_a_cancelled_sweep_is_resumed_for_one_agent_only(self, store: Store) -> None:
        """The sweep is active again; what else was cancelled in it stays so."""
        planned = plan(store, pull_requests=1, agent="one", name="both")
        other = plan(store, pull_requests=1, agent="two", name="both")
        assert planned.sweep_id == other.sweep_id
        do(store, cancel_sweep, "both")
        do(store, resume_sweep, "both", agent="two")
        assert [planned.state(each) for each in planned.ids()] == ["cancelled", "ready"]
        assert planned.take(planned.ids()[1]).stage is Stage.REVIEW


class TestRetrying:
    def test_a_success_is_not_tried_again(self, store: Store) -> None:
        """Rule 17: named itself, or by its outcome."""
        planned = plan(store)
        (step_id,) = planned.ids()
        succeed(planned, step_id)
        with pytest.raises(InputError, match="succeeded, so it is not tried again"):
            retry_all(store, TrialFilter(trial_ids=(planned.trial(step_id),)))
        with pytest.raises(InputError, match="A trial that succeeded is not tried again"):
            retry_all(store, TrialFilter(outcome="succeeded"))
        assert planned.state(step_id) == "done"
        assert stored(store) == []

    def test_a_trial_that_has_not_ended(self, store: Store) -> None:
        """The sentence says where it is."""
        planned = plan(store)
        trial = planned.trial(planned.ids()[0])
        with pytest.raises(InputError, match=f"The review of trial {trial} is ready"):
            retry_all(store, TrialFilter(trial_ids=(trial,)))
        with pytest.raises(InputError, match="There is no trial 77"):
            retry_all(store, TrialFilter(trial_ids=(77,)))

    def test_by_outcome_round_pull_request_and_agent(self, store: Store) -> None:
        """Only what the filter leaves; failed and cancelled are told apart."""
        planned = plan(store, pull_requests=2, rounds=2)
        one, two, three, four = planned.ids()
        fail_review(planned, one, Outcome.TIMEOUT)
        fail_review(planned, two, Outcome.NONZERO_EXIT)
        fail_review(planned, three, Outcome.TIMEOUT)
        do(store, cancel_trials, [planned.trial(four)])

        def chosen(**wanted: Any) -> list[int]:
            with store.read() as connection:
                return [step.step_id for step in choose_retries(connection, TrialFilter(**wanted))]

        assert chosen(outcome="timeout") == [one, three]
        assert chosen(outcome="timeout", round=2) == [three]
        assert chosen(pull_request="pr-2", failed=True) == [two]
        assert chosen(failed=True) == [one, two, three]
        assert chosen(cancelled=True) == [four]
        assert chosen(agent="minimal") == [one, two, three, four]
        with pytest.raises(InputError, match="No trial that failed"):
            chosen(agent="other")
        with pytest.raises(InputError, match="is not among those that the filter leaves"):
            chosen(trial_ids=(planned.trial(one),), round=2)

    def test_failed_judge_steps_are_tried_again_without_a_container(self, store: Store) -> None:
        """The review stays done, with its one attempt; ``stages`` says which steps."""
        planned = plan(store, pull_requests=2)
        judged, failed = planned.ids()
        succeed(planned, judged)
        (match,) = planned.ids(Stage.MATCH)
        fail(store, planned.take(match), reason="the model refused", retryable=False, limit=3)
        fail_review(planned, failed)
        with store.read() as connection:
            found = choose_retries(connection, TrialFilter(failed=True))
            assert [(step.stage, step.judge) for step in found] == [("match", "offline"), ("review", None)]
        with pytest.raises(InputError, match="No score step that failed"):
            retry_all(store, TrialFilter(failed=True), (Stage.SCORE,))
        with pytest.raises(InputError, match="No match or score step of trial"):
            retry_all(store, TrialFilter(trial_ids=(planned.trial(failed),)), (Stage.MATCH, Stage.SCORE))
        retry_all(store, TrialFilter(trial_ids=(planned.trial(judged),)), (Stage.MATCH,))
        assert [planned.state(each) for each in (judged, match, failed)] == ["done", "ready", "failed"]
        assert planned.attempts(judged) == [(1, "succeeded")]
        # Its tries count anew.
        assert fail(store, planned.take(match), reason="busy", retryable=True, limit=2)
        assert planned.state(match) == "ready"

    def test_a_retry_makes_a_cancelled_sweep_active_for_it(self, store: Store) -> None:
        """What else was cancelled stays cancelled, so nothing but the wanted trial runs."""
        planned = plan(store, pull_requests=3)
        wanted, *others = planned.ids()
        do(store, cancel_sweep, planned.sweep_id)
        (done,) = retry_all(store, TrialFilter(trial_ids=(planned.trial(wanted),)))
        assert done.after == {"state": "active"}
        assert [planned.state(each) for each in others] == ["cancelled", "cancelled"]
        assert planned.take(wanted).attempt_number == 1

    def test_one_operation_for_each_sweep(self, store: Store) -> None:
        """A filter over all sweeps is written down with each of them."""
        one, two = plan(store, agent="one"), plan(store, agent="two")
        for planned in (one, two):
            for step_id in planned.ids():
                if planned.step(step_id).sweep_id == planned.sweep_id:
                    fail_review(planned, step_id)
        done = retry_all(store, TrialFilter(failed=True))
        assert [(each.sweep, each.steps) for each in done] == [("sweep-of-one", 1), ("sweep-of-two", 1)]


class TestLimits:
    def test_what_is_out_of_range_is_refused(self, store: Store) -> None:
        """A sentence, and nothing is changed, also not what was right in the same call."""
        planned = plan(store)
        refused: list[tuple[dict[str, Any], str]] = [
            ({"weight": 0.0, "priority": 9, "concurrency": 9}, "weight"),
            ({"weight": -1.0}, "weight"),
            ({"weight": float("nan")}, "weight"),
            ({"weight": float("inf")}, "weight"),
            ({"weight": True}, "weight"),
            ({"priority": 2_000_000}, "priority"),
            ({"concurrency": 0}, "concurrency of 0 would never go on"),
            ({"concurrency": -3}, "concurrency"),
            ({"concurrency": 10**9}, "concurrency"),
            ({}, "No limit is named"),
            ({"agent": "minimal", "priority": 1}, "belong to a sweep"),
            ({"agent": "minimal", "weight": 2.0, "concurrency": 1}, "belong to a sweep"),
        ]
        for values, says in refused:
            with pytest.raises(InputError, match=says):
                do(store, set_limits, planned.sweep_id, **values)
            with store.read() as connection:
                limits = read_limits(connection, planned.sweep_id)
            assert (limits.priority, limits.weight, limits.concurrency) == (0, 1.0, None)

    def test_a_limit_is_taken_away_by_none(self, store: Store) -> None:
        """None is no limit; what is not named stays."""
        planned = plan(store)
        do(store, set_limits, planned.sweep_id, priority=3, concurrency=2)
        do(store, set_limits, planned.sweep_id, concurrency=None)
        with store.read() as connection:
            limits = read_limits(connection, planned.sweep_id)
        assert (limits.priority, limits.concurrency) == (3, None)


class TestSlots:
    def _add(self, store: Store, name: str, **slots: int) -> None:
        with store.write() as connection:
            connection.execute(insert(workers).values(name=name, host="h", pid=1, beat=0, slots=slots, started_at="x"))

    def test_a_worker_hears_of_its_slots(self, store: Store) -> None:
        """By its name or a beginning that only it has; its look says so, those in force are its own to change."""
        self._add(store, "h-1-aa", review=2, match=1, score=1)
        self._add(store, "h-2-bb", match=1)
        done = do(store, set_worker_slots, "h-1", review=0, judge=5)
        assert (done.worker, done.before, done.after) == (
            "h-1-aa",
            {"review": 2, "match": 1, "score": 1},
            {"review": 0, "match": 5, "score": 5},
        )
        assert look(store, "h-1-aa").wanted_slots == {"review": 0, "match": 5, "score": 5}
        assert look(store, "h-2-bb").wanted_slots is None
        again = do(store, set_worker_slots, "h-1-aa", review=4)
        assert again.before == done.after

    def test_slots_that_cannot_be(self, store: Store) -> None:
        """A sentence, and no worker is asked."""
        self._add(store, "h-1-aa", review=2, match=1)
        self._add(store, "h-2-bb", match=1)
        refused: list[tuple[str, dict[str, int], str]] = [
            ("h-", {"review": 1}, "The workers h-1-aa, h-2-bb begin with"),
            ("x", {"review": 1}, "There is no worker named 'x'"),
            ("", {"review": 1}, "begin with ''"),
            ("h-2-bb", {"review": 1}, "runs no reviews"),
            ("h-3", {"judge": 1}, "There is no worker"),
            ("h-1", {"review": -1}, "review slots"),
            ("h-1", {"review": 513}, "review slots"),
            ("h-1", {"judge": 0}, "judge slots"),
            ("h-1", {}, "No slots are named"),
        ]
        for worker, values, says in refused:
            with pytest.raises(InputError, match=says):
                do(store, set_worker_slots, worker, **values)
            assert look(store, "h-1-aa").wanted_slots is None


def test_a_look_is_no_beat(store: Store) -> None:
    """It reads cancel flags and slots of one worker and keeps nothing alive."""
    planned = plan(store, pull_requests=2)
    mine, others = planned.ids()
    first, second = planned.take(mine, "w"), planned.take(others, "other")
    planned.set_state(SweepState.CANCELLED)
    assert look(store, "w").cancelled == {(mine, first.fence)}
    assert look(store, "other").cancelled == {(others, second.fence)}
    assert planned.step(mine).beat == 0
    assert beat(store, "w", [(mine, first.fence)])[0].cancel_requested


def test_a_lost_step_counts_its_losses(store: Store) -> None:
    """Each time it is given back, and not when a person stops it."""
    planned = plan(store)
    (step_id,) = planned.ids()
    for count in (1, 2):
        taken = planned.take(step_id)
        assert lose(store, step_id, fence=taken.fence, beat=0, limits=LIMITS)
        assert planned.step(step_id).losses == count
    planned.take(step_id)
    interrupt(store, LIMITS, deliberate=True)
    assert planned.step(step_id).losses == 2


def test_a_take_says_how_long_the_step_was_queued(store: Store) -> None:
    """From the publishing to the take; unknown where the two clocks make it negative."""
    planned = plan(store, pull_requests=2)
    one, two = planned.ids()
    for step_id, shift in ((one, -5), (two, 3600)):
        planned.queue(step_id)
        with store.write() as connection:
            connection.execute(
                update(steps).where(steps.c.id == step_id).values(published_at=steps.c.published_at + shift)
            )
    first, second = take(store, one, "w"), take(store, two, "w")
    assert first is not None
    assert second is not None
    assert first.queue_ms is not None
    assert first.queue_ms >= 5000
    assert second.queue_ms is None


def test_open_steps_of_trials(store: Store) -> None:
    """A trial with nothing that waits or runs has none."""
    planned = plan(store, pull_requests=2)
    one, _ = planned.ids()
    fail_review(planned, one)
    with store.read() as connection:
        assert [record["open_steps"] for record in list_trials(connection, TrialFilter())] == [0, 1]
        assert connection.execute(select(func.count()).select_from(actions)).scalar_one() == 0


def test_numbers_and_texts_that_no_database_can_hold(store: Store) -> None:
    """They name nothing, or are refused in a sentence; never an error of the database."""
    planned = plan(store)
    for number in (0, -1, 2**31, 2**63, 10**30):
        with pytest.raises(InputError, match=f"There is no trial {number}"):
            do(store, cancel_trials, [number])
        with pytest.raises(InputError, match=f"There is no trial {number}"):
            retry_all(store, TrialFilter(trial_ids=(number,)))
        with store.read() as connection:
            assert list_trials(connection, TrialFilter(round=number)) == []
    for text in ("a\0b", "\udcff"):
        with pytest.raises(InputError, match="no text"):
            do(store, pause_sweep, planned.sweep_id, reason=text)
        with pytest.raises(InputError, match="no text"):
            do(store, pause_sweep, planned.sweep_id, actor=text)
    assert stored(store) == []


def test_a_sweep_that_is_named_like_anothers_id(store: Store) -> None:
    """The id goes first."""
    planned = plan(store)
    plan(store, name=planned.sweep_id)
    assert do(store, pause_sweep, planned.sweep_id).sweep == "sweep-of-minimal"


class TestRetryingWhereAnAgentHasChanged:
    """``check_retries``: what may be tried again is, and the rest is named."""

    @staticmethod
    def failed(store: Store) -> tuple[Planned, Planned]:
        one, two = (plan(store, pull_requests=2, agent=agent, name="both") for agent in ("one", "two"))
        for step_id in one.ids():
            fail_review(one, step_id)
        return one, two

    @staticmethod
    def checked(store: Store, wanted: TrialFilter, *changed: Planned) -> Retriable:
        with store.read() as connection:
            chosen = choose_retries(connection, wanted)
            planned = planned_builds(connection, [(each.sweep_id, each.build) for each in chosen])
        asked: list[str] = []

        def check(found: Sequence[PlannedBuild]) -> Compared:
            asked.extend(each.build.build_id for each in found)
            keys = [(each.sweep_id, each.build_id) for each in changed]
            return Compared(refused={key: InputError("it is another build now") for key in keys if key[1] in asked})

        return check_retries(chosen, planned, check)

    def test_the_others_are_tried_again(self, store: Store) -> None:
        """The refused trials are named by build with the reason, stay as they are, and the log says so."""
        one, two = self.failed(store)
        checked = self.checked(store, TrialFilter(sweep="both", failed=True), one)
        assert {step.agent for step in checked.steps} == {"two"}
        assert [(each.agent, each.build, each.reason) for each in checked.refused] == [
            ("one", one.build_id, "it is another build now.")
        ]
        (done,) = do(store, retry, checked.steps, refused=checked.refused)
        assert done.reason == "the agent one is another build now, so 2 of its trials stay as they are"
        assert set(done.trials) == {step.trial for step in checked.steps}
        assert sorted(one.state(step_id) for step_id in one.ids()) == ["failed", "failed", "ready", "ready"]
        assert stored(store)[0] == done
        assert two.sweep_id == one.sweep_id

    def test_where_nothing_else_is_left_it_is_an_error(self, store: Store) -> None:
        """One named trial, or a filter that leaves only trials of changed agents."""
        one, two = self.failed(store)
        first = TrialFilter(trial_ids=(one.trial(one.ids()[0]),))
        for wanted, changed in ((first, (one,)), (TrialFilter(sweep="both", failed=True), (one, two))):
            with pytest.raises(InputError, match="another build now"):
                self.checked(store, wanted, *changed)

    def test_judge_steps_of_a_changed_agent_are_tried_again(self, store: Store) -> None:
        """No agent runs for them."""
        planned = plan(store)
        (step_id,) = planned.ids()
        succeed(planned, step_id)
        (match,) = planned.ids(Stage.MATCH)
        assert fail(store, planned.take(match), reason="no model", retryable=False, limit=1)
        checked = self.checked(store, TrialFilter(failed=True), planned)
        assert ([step.stage for step in checked.steps], checked.refused) == (["match"], ())


class TestPausedAgents:
    def test_what_a_paused_agent_has_found_is_judged(self, store: Store) -> None:
        """Its reviews wait; a message of its judge step that comes meanwhile is worked on. A paused sweep is not."""
        planned = plan(store, pull_requests=2)
        done, waiting = planned.ids()
        succeed(planned, done)
        (match,) = planned.ids(Stage.MATCH)
        planned.pause_build(True)
        planned.queue(waiting, match)
        assert take(store, waiting, "w") is None
        assert planned.state(waiting) == "ready"
        taken = take(store, match, "w")
        assert taken is not None
        with store.read() as connection:
            assert why_it_rests(connection, planned.sweep_id) is None
        assert fail(store, taken, reason="no model", retryable=False, limit=1)
        with store.read() as connection:
            assert why_it_rests(connection, planned.sweep_id) == "agent minimal is paused (for a test)"
        retry_all(store, TrialFilter(failed=True))
        do(store, pause_sweep, planned.sweep_id)
        planned.queue(match)
        assert take(store, match, "w") is None
        assert planned.state(match) == "ready"
