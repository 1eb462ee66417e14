"""A retry is refused where its agent has become another build, and the sentence says what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from crb_cli.builds import resolve_builds
from crb_cli.unchanged import compare_with_now
from crb_core.agent import AgentBuild, Limits
from crb_core.agent_source import load_agent
from crb_core.settings import Settings
from crb_core.store.retries import Compared, PlannedBuild


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", runner="process")


def planned(build: AgentBuild, source: str | None = "minimal") -> PlannedBuild:
    return PlannedBuild(sweep="a sweep", sweep_id="s-1", build=build, agent_source=source)


def minimal(settings: Settings) -> AgentBuild:
    (build,) = resolve_builds([load_agent("minimal")], settings).builds
    return build


def test_an_agent_that_is_as_it_was(settings: Settings) -> None:
    """Nothing to say."""
    assert compare_with_now([planned(minimal(settings))], settings) == Compared()


def test_an_agent_that_has_changed(settings: Settings) -> None:
    """Each difference is in the sentence, and what to do instead."""
    build = minimal(settings)
    before = build.model_copy(
        update={"limits": Limits(timeout_seconds=7), "image_id": "sha256:" + "0" * 64, "model_api_url": None}
    )
    compared = compare_with_now([planned(build), planned(before)], settings)
    assert list(compared.refused) == [("s-1", before.build_id)]
    said = str(compared.refused["s-1", before.build_id])
    assert f"minimal of sweep a sweep is another build now than {before.build_id}" in said
    assert f"limits.timeout_seconds was 7 and is {build.limits.timeout_seconds}" in said
    assert "folder was sha256:000000000000 and is sha256:" in said
    assert "--force" in said


def test_an_agent_that_is_gone(settings: Settings, tmp_path: Path) -> None:
    """Nobody can say whether it is the same, so it is refused."""
    (error,) = compare_with_now([planned(minimal(settings), str(tmp_path / "gone"))], settings).refused.values()
    assert "cannot be loaded from" in str(error)


def test_an_agent_of_unknown_origin(settings: Settings) -> None:
    """A sweep of an earlier version did not record it: the retry goes on, and says that nothing was compared."""
    compared = compare_with_now([planned(minimal(settings), None)], settings)
    assert compared.refused == {}
    (note,) = compared.notes
    assert "not recorded what agent minimal was loaded from" in note
