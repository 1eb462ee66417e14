"""What holds after any fault: nothing lost, nothing twice, nothing left, and the totals of an undisturbed run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from sqlalchemy import select

from crb_core.settings import Settings
from crb_core.store import Store
from tests.chaos.farm import ChaosFarm
from tests.e2e.farm import (
    attempts,
    check_every_trial_is_whole,
    crb,
    processes_with,
    trials,
    wait_for,
)

__all__ = ["check_end", "check_nothing_is_left", "check_sweep", "left_in_engine", "totals"]

#: What differs between two runs of the same sweep by right: names of the run, what its clock said, and what is told of
#: attempts that failed, as they do under faults.
_OF_THE_RUN = {"sweep_id", "duration", "failed_attempts"}


def totals(home: Path, sweep: str, **environment: str) -> dict[str, Any]:
    """A sweep's leaderboards, with every round's and pull request's score, without what belongs to one run only."""
    ran = crb("leaderboard", sweep, "--json", home=home, **environment)
    assert ran.returncode == 0, ran.stderr
    return dict(_without_the_run(json.loads(ran.stdout)))


def _without_the_run(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_the_run(each) for key, each in value.items() if key not in _OF_THE_RUN}
    if isinstance(value, list):
        return [_without_the_run(each) for each in value]
    return value


def check_end(farm: ChaosFarm, *, containers: bool = False) -> None:
    """Everything that must hold of a farm whose sweep has nothing left to do; ends the farm."""
    check_sweep(farm)
    check_nothing_is_left(farm, containers=containers)


def check_sweep(farm: ChaosFarm) -> None:
    """Every trial is whole, and the totals are those of an undisturbed run."""
    check_every_trial_is_whole(farm.store)
    environment = farm.environment
    shown = crb("leaderboard", farm.sweep, "--json", home=farm.home, **environment)
    assert shown.returncode == 0, shown.stderr
    boards = json.loads(shown.stdout)
    assert _without_the_run(boards) == farm.undisturbed()
    _check_durations(farm.store, boards)


def _check_durations(store: Store, boards: dict[str, Any]) -> None:
    """Each round's mean duration is that of the attempts that succeeded, and of no other attempt."""
    with store.read() as connection:
        rows = connection.execute(
            select(trials.c.build_id, trials.c.round, attempts.c.review_ms)
            .join(trials, trials.c.id == attempts.c.trial_id)
            .where(attempts.c.outcome == "succeeded")
        ).all()
    measured: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        measured.setdefault((row.build_id, row.round), []).append(row.review_ms)
    for board in boards["leaderboards"]:
        for line in board["rows"]:
            for number, duration in enumerate(line["duration"]["rounds"], start=1):
                mine = measured[line["build"], number]
                assert duration["measured"] == len(mine)
                assert math.isclose(duration["mean_ms"], sum(mine) / len(mine))


def left_in_engine(farm: str, engine: str | None) -> list[str]:
    """Containers, volumes and networks that carry a farm's label, in the engine at that address or the usual one."""
    import docker

    client = docker.from_env() if engine is None else docker.DockerClient(base_url=engine)
    ours = {"label": f"crb.farm={farm}"}
    try:
        return [
            *(
                f"container {thing.name}"
                for thing in client.containers.list(all=True, filters=ours, ignore_removed=True)
            ),
            *(f"volume {thing.name}" for thing in client.volumes.list(filters=ours)),
            *(f"network {thing.name}" for thing in client.networks.list(filters=ours)),
        ]
    finally:
        client.close()


def left_in_home(home: Path) -> list[str]:
    """Folders of attempts, and what a snapshot's builder left."""
    found = [f"attempt {path.name}" for path in (home / "attempts").iterdir()]
    # Of a hidden folder's names only .locks is not a builder's.
    unfinished = [path.name for path in (home / "snapshots").glob(".*") if path.name.count(".") > 1]
    return found + [f"snapshot {name}" for name in unfinished]


def check_nothing_is_left(farm: ChaosFarm, *, containers: bool = False) -> None:
    """Nothing of an attempt is left while the farm runs on, and no process once it has been stopped."""
    settings = Settings(home=farm.home, store_url=farm.settings.get("CRB_STORE_URL"))

    engine = farm.settings.get("DOCKER_HOST")

    def left() -> list[str]:
        return left_in_home(farm.home) + (left_in_engine(settings.farm, engine) if containers else [])

    wait_for(lambda: not left(), seconds=90)
    farm.close()
    assert left() == []
    wait_for(lambda: not processes_with(str(farm.home)), seconds=60)
