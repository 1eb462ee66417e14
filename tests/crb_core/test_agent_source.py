"""Agents are found by name or path, and their folders have one digest."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from crb_core.agent_source import AgentSource, list_agents, load_agent
from crb_core.bundled import bundled
from crb_core.errors import InputError


def write(folder: Path, manifest: str = "", *, dockerfile: bool = True) -> Path:
    folder.mkdir(parents=True)
    (folder / "agent.toml").write_text(f'name = "{folder.name}"\ndisplay_name = "x"\n{manifest}')
    if dockerfile:
        (folder / "Dockerfile").write_text("FROM scratch\n")
    return folder


def test_the_bundled_agents_are_whole() -> None:
    """Each has a manifest with roles and contacts, a Dockerfile, a README, and a command for the process runner."""
    agents = list_agents()
    assert [agent.manifest.name for agent in agents] == [
        "claude",
        "lint",
        "minimal",
        "recorded-careful",
        "recorded-eager",
    ]
    for agent in agents:
        assert agent.is_bundled
        assert agent.folder == bundled("agents") / agent.manifest.name
        assert agent.manifest.model_roles
        assert agent.manifest.contacts
        names = {file.name for file in agent.context_files()}
        prefix = f"{agent.manifest.name}/" if agent.manifest.shared_folders else ""
        assert {f"{prefix}{name}" for name in ("agent.toml", "Dockerfile", "README.md", "entrypoint")} <= names
        assert Path(agent.process_argv[0]).is_file()
        assert Path(agent.process_argv[-1]).is_file()


def test_an_agent_is_found_by_name_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is a bundled agent; a folder, its agent.toml, or a folder in the current one is an agent's path."""
    folder = write(tmp_path / "mine")
    expected = load_agent(folder)
    assert (expected.manifest.name, expected.folder, expected.is_bundled) == ("mine", folder, False)
    assert load_agent(str(folder)) == load_agent(folder / "agent.toml") == expected
    monkeypatch.chdir(tmp_path)
    assert load_agent("mine") == load_agent("./mine") == expected
    assert load_agent("lint") == load_agent(bundled("agents") / "lint")
    assert load_agent("lint").is_bundled


@pytest.mark.parametrize("name", ["nobody", "", "..", ".", "recorded", "contract"])
def test_an_unknown_name_is_told_the_known_ones(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a manifest is no agent."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="lint, minimal"):
        load_agent(name)


def test_broken_agents_are_told(tmp_path: Path) -> None:
    """Missing folders, agents without image and Dockerfile, and two agents of one name."""
    with pytest.raises(InputError, match="does not exist"):
        load_agent(tmp_path / "missing")
    with pytest.raises(InputError, match="names no image and has no Dockerfile"):
        load_agent(write(tmp_path / "imageless", dockerfile=False))
    assert load_agent(write(tmp_path / "ready", 'image = "a/b:1"\n', dockerfile=False)).manifest.image == "a/b:1"
    (tmp_path / "note.toml").write_text("")
    with pytest.raises(InputError, match="neither a folder"):
        load_agent(tmp_path / "note.toml")
    root = tmp_path / "agents"
    write(root / "one")
    write(root / "two")
    (root / "two" / "agent.toml").write_text((root / "one" / "agent.toml").read_text())
    with pytest.raises(InputError, match="two agents are called one"):
        list_agents(root)


def test_the_digest_follows_names_modes_and_contents(tmp_path: Path) -> None:
    """Copies have the same digest; caches do not count; each real change does."""
    first = load_agent(write(tmp_path / "a" / "same"))
    second = load_agent(write(tmp_path / "b" / "same"))
    digest = first.digest
    assert second.digest == digest
    assert second.folder is not None
    (second.folder / "__pycache__").mkdir()
    (second.folder / "__pycache__" / "x.pyc").write_text("x")
    (second.folder / ".git").mkdir()
    assert second.digest == digest
    seen = {digest}
    new = second.folder / "new"
    changes: list[Callable[[], object]] = [
        lambda: new.write_text("x"),
        lambda: new.write_text("y"),
        lambda: new.chmod(0o755),
        lambda: new.rename(new.with_name("newer")),
    ]
    for change in changes:
        change()
        assert second.digest not in seen
        seen.add(second.digest)


def test_a_shared_folder_counts_and_has_to_be_there(tmp_path: Path) -> None:
    """What an agent shares is part of its digest; what it does not name is not."""
    agent = load_agent(write(tmp_path / "sharer", 'shared_folders = ["shared"]\n'))
    with pytest.raises(InputError, match="shared folder shared is not beside"):
        agent.context_files()
    (tmp_path / "shared").mkdir()
    (tmp_path / "other").mkdir()
    before = agent.digest
    (tmp_path / "other" / "x").write_text("x")
    assert agent.digest == before
    (tmp_path / "shared" / "x").write_text("x")
    assert agent.digest != before
    assert agent.dockerfile == "sharer/Dockerfile"
    assert [file.name for file in agent.context_files()] == ["shared/x", "sharer/Dockerfile", "sharer/agent.toml"]


def test_the_command_of_the_process_runner(tmp_path: Path) -> None:
    """``python`` is this interpreter; a file of the folder becomes absolute; other words stay."""
    folder = write(tmp_path / "runner", 'process_command = ["python", "-B", "main", "python", "--x=main"]\n')
    (folder / "main").write_text("")
    agent = load_agent(folder)
    assert agent.process_argv == (sys.executable, "-B", str(folder / "main"), "python", "--x=main")
    assert load_agent(write(tmp_path / "none")).process_argv == ()
    with pytest.raises(InputError, match="no folder"):
        _ = AgentSource(manifest=agent.manifest, folder=None).digest
