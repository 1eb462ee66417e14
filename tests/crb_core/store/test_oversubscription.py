"""Durations of containers that shared cores are told from those that had their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from crb_core.agent import Outcome
from crb_core.store import open_store
from crb_core.store.results import oversubscribed_builds
from crb_core.store.steps import finish_attempt
from tests.crb_core.store.planned import LIMITS, plan


@pytest.mark.parametrize(
    ("concurrent", "cpus", "cores", "shared"),
    [(2, 1.0, 2, False), (3, 1.0, 2, True), (1, 4.0, 2, True), (1, 1.0, None, False)],
)
def test_a_build_is_marked_when_limits_pass_the_cores(
    tmp_path: Path, concurrent: int, cpus: float, cores: int | None, shared: bool
) -> None:
    """Containers at the start times their CPU limit, against the host's cores; unknown cores mark nothing."""
    store = open_store(f"sqlite:///{tmp_path / 'crb.sqlite'}")
    planned = plan(store)
    taken = planned.take(planned.ids()[0])
    with store.write() as connection:
        values = {"concurrent": concurrent, "cpus": cpus, "cores": cores}
        finish_attempt(connection, taken, outcome=Outcome.SUCCEEDED, detail="", values=values, limits=LIMITS)
    with store.read() as connection:
        assert oversubscribed_builds(connection, planned.sweep_id) == (
            frozenset({planned.build_id}) if shared else frozenset()
        )
    store.close()
