"""The bundled agents as images: built once from their folders, and reviewing in a container."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crb_core.agent_source import AgentSource, list_agents, load_agent
from crb_core.bundled import bundled
from crb_core.errors import InputError, UnavailableError
from crb_core.settings import load_settings
from crb_worker.sandbox.build import ImageBuilder, ImageBuildError
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.images import Images
from tests.agents.support import PullRequestFolder
from tests.fakes.anthropic_server import AnthropicServer, Reply, tool_use

pytestmark = pytest.mark.docker

#: Agents of these tests that get an image, which is removed afterwards.
TEST_AGENTS = ("once", "sharer", "raced")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Engine(2)
    yield engine
    for name in TEST_AGENTS:
        for image in engine.api.images(filters={"label": f"crb.agent={name}"}):
            engine.api.remove_image(image["Id"], force=True)
    engine.close()


@pytest.fixture
def builder(engine: Engine) -> ImageBuilder:
    return ImageBuilder(engine, Images(engine), network_mode=load_settings().build_network)


def write_agent(folder: Path, dockerfile: str, manifest: str = "") -> AgentSource:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agent.toml").write_text(f'name = "{folder.name}"\ndisplay_name = "Test"\n{manifest}')
    (folder / "Dockerfile").write_text("ARG BASE_IMAGE=none\nFROM ${BASE_IMAGE}\n" + dockerfile)
    return load_agent(folder)


def run_in_container(
    reference: str, pull_request: PullRequestFolder, agent: AgentSource, *, network: str = "none", **variables: str
) -> int:
    """Run an image as the contract says, with the command line client."""
    out = pull_request.root / "out"
    out.mkdir(exist_ok=True)
    environment = {
        **pull_request.environment(agent),
        "RB_REPO": "/work/repo",
        "RB_DIFF": "/work/pr/diff.patch",
        "RB_PR_JSON": "/work/pr/pr.json",
        "RB_OUT": "/work/out/findings.json",
        **variables,
    }
    del environment["PATH"]
    (pull_request.root / "pr").mkdir(exist_ok=True)
    for name in ("diff.patch", "pr.json"):
        shutil.copy(pull_request.root / name, pull_request.root / "pr" / name)
    command = ["docker", "run", "--rm", "--network", network]
    command += ["-v", f"{pull_request.repo}:/work/repo", "-v", f"{pull_request.root}/pr:/work/pr:ro"]
    command += ["-v", f"{out}:/work/out"]
    command += [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
    return subprocess.run([*command, reference], check=False, timeout=120).returncode


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("name", [agent.manifest.name for agent in list_agents() if agent.manifest.name != "claude"])
def test_a_bundled_agent_reviews_in_its_container(
    builder: ImageBuilder, pull_request: PullRequestFolder, name: str
) -> None:
    """The image and the process runner's entrypoint write the same findings."""
    agent = load_agent(name)
    image = builder.build(agent)
    pull_request.commit({}, {"a.py": "import os  # TODO\n", "b.sh": "rm -rf $1/*\n", "c.ts": "export {};debugger\n"})
    pull_request.extra = {"CRB_ROUND": "1"} if agent.manifest.kind == "replay" else {}
    assert run_in_container(image.reference, pull_request, agent) == 0
    found = json.loads((pull_request.root / "out" / "findings.json").read_bytes())
    assert found["findings"]
    (pull_request.root / "out" / "findings.json").unlink()
    assert pull_request.run(name).document == found


@pytest.mark.slow
@pytest.mark.network
def test_the_claude_agent_reviews_in_its_container(builder: ImageBuilder, pull_request: PullRequestFolder) -> None:
    """With nothing but its image, its key and the API's address."""
    agent = load_agent("claude")
    image = builder.build(agent)
    pull_request.commit({}, {"a.py": "import os\n"})
    finding = {"file": "a.py", "start_line": 1, "end_line": 1, "message": "It is not used."}
    script = [
        Reply([tool_use("search", {"pattern": "os"})]),
        Reply([tool_use("report_findings", {"findings": [finding]})]),
    ]
    with AnthropicServer(script) as server:
        settings = {"RB_MODEL_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "test-key"}
        assert run_in_container(image.reference, pull_request, agent, network="host", **settings) == 0
    found = json.loads((pull_request.root / "out" / "findings.json").read_bytes())
    assert found["findings"] == [{"producer": "claude", **finding}]
    assert found["usage"]["total_tokens"] == 220


def test_the_same_folder_is_built_once(builder: ImageBuilder, tmp_path: Path) -> None:
    """Tag and image stay until a byte of the folder changes; compiled Python does not count."""
    agent = write_agent(tmp_path / "once", f"RUN echo {os.urandom(8).hex()}\n")
    lines: list[str] = []
    first = builder.build(agent, progress=lines.append)
    assert (first.was_there, first.reference.split(":")[0]) == (False, "crb/agent-once")
    assert any(line.startswith("Step ") for line in lines)
    (tmp_path / "once" / "__pycache__").mkdir()
    (tmp_path / "once" / "__pycache__" / "x.pyc").write_bytes(b"x")
    again = builder.build(agent)
    assert (again.was_there, again.image_id) == (True, first.image_id)
    (tmp_path / "once" / "new").write_text("x")
    assert builder.reference(agent, first.base) != first.reference


def test_a_failing_step_is_told_with_its_last_lines(builder: ImageBuilder, tmp_path: Path) -> None:
    """Step, reason and what the step printed; no image remains."""
    agent = write_agent(tmp_path / "broken", "RUN for n in $(seq 20); do echo line $n; done; exit 7\n")
    with pytest.raises(ImageBuildError) as caught:
        builder.build(agent)
    assert caught.value.step.startswith("Step 3/")
    assert caught.value.lines == tuple(f"line {number}" for number in range(13, 21))
    assert "returned a non-zero code: 7" in str(caught.value)
    assert "broken/Dockerfile" in str(caught.value)
    with pytest.raises(ImageBuildError):
        builder.build(agent)


def test_a_dockerfile_that_cannot_be_read_is_told(builder: ImageBuilder, tmp_path: Path) -> None:
    """The engine's own sentence, and the file."""
    with pytest.raises(ImageBuildError, match=r"(?i)unknown instruction"):
        builder.build(write_agent(tmp_path / "odd", "NONSENSE 1\n"))


class LosingEngine:
    """The engine's API, whose first ``losses`` builds end as they do where another image is removed meanwhile."""

    def __init__(self, api: Any, losses: int) -> None:
        self._api = api
        self._losses = losses
        #: Builds that were asked for.
        self.builds = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def build(self, **options: Any) -> Any:
        """The real build, or the engine's words when it lost an image that it was looking at."""
        self.builds += 1
        if self.builds <= self._losses:
            return iter([{"stream": "Step 1/3 : FROM x"}, {"error": f'unable to find image "sha256:{"0" * 64}"'}])
        return self._api.build(**options)


@pytest.mark.parametrize("losses", [1, 4, 5])
def test_a_build_that_a_removal_elsewhere_broke_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losses: int
) -> None:
    """Engine 20.10 fails a build whose cache lookup meets an image that goes: 2 of 240 builds among four threads."""
    with closing(Engine(1)) as engine:
        losing = LosingEngine(engine.api, losses)
        monkeypatch.setattr(engine, "_api", losing)
        builder = ImageBuilder(engine, Images(engine), network_mode=load_settings().build_network)
        agent = write_agent(tmp_path / "raced", f"LABEL n={os.urandom(8).hex()}\n")
        if losses < 5:
            assert not builder.build(agent).was_there
            assert losing.builds == losses + 1
        else:
            with pytest.raises(ImageBuildError, match="unable to find image"):
                builder.build(agent)
            assert losing.builds == 5


def test_a_base_image_that_cannot_be_had_is_told(builder: ImageBuilder, tmp_path: Path) -> None:
    """Neither here nor pullable: UnavailableError that says what to do."""
    agent = write_agent(tmp_path / "baseless", "")
    with pytest.raises(UnavailableError, match=r"crb/base:missing"):
        builder.build(agent, base="crb/base:missing")
    with pytest.raises(UnavailableError, match=r"registry\.invalid/base:1"):
        builder.build(agent, base="registry.invalid/base:1")


def test_an_engine_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """UnavailableError, not the SDK's traceback."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    engine = Engine(1)
    with pytest.raises(UnavailableError, match="no Docker engine answers"):
        ImageBuilder(engine, Images(engine)).build(write_agent(tmp_path / "lonely", ""))


def test_shared_folders_are_in_the_context_and_their_neighbours_are_not(builder: ImageBuilder, tmp_path: Path) -> None:
    """The parent is the context's root, holding the agent's folder and those that it names."""
    for name in ("shared", "private"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    agent = write_agent(
        tmp_path / "sharer",
        f"COPY . /all\nRUN test -f /all/shared/file -a ! -e /all/private # {tmp_path.name}\n",
        'shared_folders = ["shared"]\n',
    )
    assert not builder.build(agent).was_there


def test_a_link_in_an_agents_folder_is_refused(builder: ImageBuilder, tmp_path: Path) -> None:
    """What a link points to is no part of the agent, and would be part of its image."""
    agent = write_agent(tmp_path / "linked", "")
    (tmp_path / "linked" / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="link or a special file"):
        builder.build(agent)


def test_every_dockerfile_takes_the_base_image() -> None:
    """A closed network builds all agents on its own base."""
    for agent in list_agents():
        text = (bundled("agents") / agent.manifest.name / "Dockerfile").read_text()
        assert "ARG BASE_IMAGE=python:3.11-slim-bookworm\nFROM ${BASE_IMAGE}\n" in text
