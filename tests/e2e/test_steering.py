"""A running farm is steered: cancels, pauses, limits and slots take effect within seconds, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from crb_core.store import Store
from crb_core.store.tables import AttemptRow, StepRow, core
from tests.e2e.farm import Farm, wait_for
from tests.e2e.test_docker import REVIEW, _agent, docker_running

attempts = core(AttemptRow)
steps = core(StepRow)

pytestmark = [pytest.mark.docker, pytest.mark.timeout(400)]

#: Waits for minutes at its first attempt, so that only a cancel ends it.
STUBBORN = f'[ "$RB_ATTEMPT" = 1 ] && sleep 600\n{REVIEW}'


def _start(farm: Farm, name: str, folders: list[Path], *more: str) -> None:
    agents = [word for folder in folders for word in ("--agent", str(folder))]
    planned = farm.crb("sweep", "start", *agents, "--subset", "smoke", "--runner", "docker", "--name", name, *more)
    assert planned.returncode == 0, planned.stderr


def _json(farm: Farm, *arguments: str) -> Any:
    ran = farm.crb(*arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def _outcomes(store: Store) -> list[tuple[int, int, str | None]]:
    with store.read() as connection:
        rows = connection.execute(
            select(attempts.c.trial_id, attempts.c.number, attempts.c.outcome).order_by(
                attempts.c.trial_id, attempts.c.number
            )
        )
        return [tuple(row) for row in rows]


@pytest.mark.thorough
def test_cancels_end_containers_and_what_was_cancelled_is_resumed(farm: Farm, tmp_path: Path) -> None:
    """One trial, one agent, the whole sweep: each ends its own containers and no other; then everything is resumed."""
    folders = [_agent(tmp_path / name, STUBBORN, name=name, seconds=900) for name in ("slow-a", "slow-b")]
    _start(farm, "long", folders, "--rounds", "1", "--limit", "2")
    store = farm.store
    farm.start("scheduler")
    farm.start("worker", "--slots", "4")
    wait_for(lambda: len(docker_running(farm.home)) == 4)

    def cancel(*arguments: str, left: int) -> None:
        ran = farm.crb(*arguments)
        assert ran.returncode == 0, ran.stderr
        wait_for(lambda: len(docker_running(farm.home)) == left)

    cancel("trial", "cancel", "1", left=3)
    cancel("sweep", "cancel", "long", "--agent", "slow-b", left=1)
    assert farm.progress(store, "long").state == "active"
    cancel("sweep", "cancel", "long", left=0)
    wait_for(lambda: farm.progress(store, "long").finished)
    assert _outcomes(store) == [(trial, 1, "cancelled") for trial in range(1, 5)]

    # One trial, then one agent, then the rest.
    for arguments, scored in ((("trial", "retry", "1"), 1), (("sweep", "resume", "long", "--agent", "slow-b"), 3)):
        assert farm.crb(*arguments).returncode == 0
        wait_for(lambda scored=scored: farm.progress(store, "long").by_state.get("scored") == scored)
        assert farm.progress(store, "long").by_state == {"scored": scored, "cancelled": 4 - scored}
    assert farm.crb("sweep", "resume", "long").returncode == 0
    wait_for(lambda: farm.progress(store, "long").by_state == {"scored": 4})
    expected = [each for trial in range(1, 5) for each in ((trial, 1, "cancelled"), (trial, 2, "succeeded"))]
    assert _outcomes(store) == expected
    assert docker_running(farm.home) == []
    actions = [each["action"] for each in _json(farm, "sweep", "show", "long")["operations"]]
    assert actions == ["resume", "resume", "retry", "cancel", "cancel", "cancel"]
    store.close()


def test_slots_limits_and_pauses_of_a_running_farm(farm: Farm, tmp_path: Path) -> None:
    """Slots up, to none and up again; an agent's limit; a pause with its reason: each holds while the sweep runs."""
    folder = _agent(tmp_path / "brief", f"sleep 1\n{REVIEW}", name="brief")
    _start(farm, "many", [folder], "--rounds", "100")
    store = farm.store
    farm.start("scheduler")
    farm.start("worker", "--slots", "1")
    name = wait_for(lambda: [each["worker"] for each in _json(farm, "workers", "list", "--no-wait")["workers"]])[0]

    def in_flight(*states: str) -> int:
        with store.read() as connection:
            return int(
                connection.execute(
                    select(func.count()).where(
                        steps.c.stage == "review", steps.c.state.in_(states or ("queued", "running"))
                    )
                ).scalar_one()
            )

    def slots() -> Any:
        (worker,) = _json(farm, "workers", "list", "--no-wait")["workers"]
        return worker["slots"]["review"]

    wait_for(lambda: len(docker_running(farm.home)) == 1)
    assert _json(farm, "workers", "set", name, "--review-slots", "4")["after"]["review"] == 4
    wait_for(lambda: len(docker_running(farm.home)) >= 3, every=0.02)
    assert slots() == 4

    assert farm.crb("sweep", "set", "many", "--agent", "brief", "--concurrency", "1").returncode == 0
    wait_for(lambda: in_flight() <= 1)
    ended = farm.progress(store, "many").ended
    while farm.progress(store, "many").ended < ended + 2:
        assert in_flight() <= 1
    assert farm.crb("sweep", "set", "many", "--agent", "brief", "--concurrency", "none").returncode == 0
    wait_for(lambda: in_flight() > 2, every=0.02)

    assert _json(farm, "workers", "set", name[:-2], "--review-slots", "0")["after"]["review"] == 0
    wait_for(lambda: slots() == 0 and docker_running(farm.home) == [] and in_flight("running") == 0)
    ended = farm.progress(store, "many").ended

    assert farm.crb("sweep", "pause", "many", "--agent", "brief", "--reason", "a rate limit").returncode == 0
    assert _json(farm, "workers", "set", name, "--review-slots", "3")["after"]["review"] == 3
    wait_for(lambda: slots() == 3)
    shown = farm.crb("sweep", "show", "many").stdout
    assert "agent brief: paused (a rate limit)" in shown
    assert "paused (a rate limit)" in farm.crb("sweep", "list").stdout
    assert in_flight("running") == 0

    assert farm.crb("sweep", "resume", "many", "--agent", "brief").returncode == 0
    wait_for(lambda: farm.progress(store, "many").ended >= ended + 2)
    assert farm.crb("sweep", "cancel", "many").returncode == 0
    wait_for(lambda: farm.progress(store, "many").finished)
    made = _outcomes(store)
    assert [number for _, number, _ in made] == [1] * len(made)
    assert {outcome for _, _, outcome in made} <= {"succeeded", "cancelled"}
    with store.read() as connection:
        phases = connection.execute(select(attempts.c.phases_ms).where(attempts.c.outcome == "succeeded")).scalars()
        for each in phases:
            assert {"queue", "snapshot", "prepare", "collect", "teardown"} <= set(each or {})
    store.close()
