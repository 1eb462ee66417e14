"""What only containers give: isolation, limits that hold against hostile agents, and the engine's own failures."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from crb_core.agent import Outcome, Secrets
from crb_core.errors import InputError, UnavailableError
from crb_worker.sandbox.contract import ATTEMPT_LABEL, FARM_LABEL, AttemptRequest, AttemptResult
from crb_worker.sandbox.docker import DockerSandbox
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import EngineFailureError
from crb_worker.sandbox.images import Images
from tests.crb_worker.sandbox.support import EMPTY_REVIEW, FLOOD, Ground, Relay, build_image, with_secrets

pytestmark = pytest.mark.docker

SHELL = b"FROM crb/test-shell\n"


@pytest.fixture
def image(engine: docker.APIClient, shell_image: str) -> Iterator[Any]:
    """Builds images on top of the shell image from Dockerfile lines, and removes them."""
    made = []

    def build(lines: str) -> str:
        made.append(build_image(engine, f"crb/test-{len(made)}-{os.getpid()}", {"Dockerfile": SHELL + lines.encode()}))
        return made[-1]

    yield build
    for image_id in made:
        engine.remove_image(image_id, force=True)


def container_of(engine: docker.APIClient, ground: Ground) -> str:
    """The id of the ground's running container, waited for."""
    until = time.monotonic() + 60
    while True:
        found = engine.containers(filters={"label": f"{FARM_LABEL}={ground.farm}", "status": "running"})
        if found:
            return str(found[0]["Id"])
        assert time.monotonic() < until, "no container was started"
        time.sleep(0.05)


def meanwhile(ground: Ground, script: str, do: Any, **changes: Any) -> AttemptResult:
    """Run an attempt, and call ``do`` while it runs."""
    results: list[AttemptResult] = []
    thread = threading.Thread(target=lambda: results.append(ground.run(script, **changes)))
    thread.start()
    do()
    thread.join(120)
    return results[0]


class TestIsolation:
    def test_gives_no_network_and_few_rights(self, docker_ground: Ground) -> None:
        """Loopback only, five capabilities, no new privileges, the limits of the build."""
        script = """
        ls /sys/class/net; grep -E 'CapBnd|NoNewPrivs' /proc/self/status; ulimit -f
        ls /var/run/docker.sock /work; mknod /tmp/dev b 8 0 2>&1; touch "$RB_DIFF.x" 2>&1
        """
        result = docker_ground.run(script + EMPTY_REVIEW)
        said = result.stdout.decode()
        assert said.startswith("lo\n")
        assert "NoNewPrivs:\t1" in said
        # CHOWN, DAC_OVERRIDE, FOWNER, SETGID and SETUID are bits 0, 1, 3, 6 and 7.
        assert "CapBnd:\t00000000000000cb" in said
        assert "\nout\npr\nrepo\n" in said
        assert "mknod: /tmp/dev: Operation not permitted" in said
        assert "Read-only file system" in said
        assert result.outcome is Outcome.SUCCEEDED

    def test_says_that_a_declared_host_cannot_be_reached(self, docker_ground: Ground) -> None:
        """An agent that fails for want of the network it declares is told so."""
        result = docker_ground.run("exit 4", egress=("api.example.com",))
        assert result.detail == (
            "The agent ended with exit code 4; see its stderr."
            " The agent declares api.example.com, but containers have no network here: the egress image"
            " crb/no-such-proxy:1 is not on this machine."
        )

    def test_shows_other_attempts_nothing(self, docker_ground: Ground, engine: docker.APIClient) -> None:
        """Labels name farm and attempt; the container has three mounts and no more of the host."""
        seen: list[dict[str, Any]] = []
        request = docker_ground.request("sleep 1;" + EMPTY_REVIEW)
        thread = threading.Thread(target=docker_ground.sandbox.run, args=(request,))
        thread.start()
        seen.append(engine.inspect_container(container_of(engine, docker_ground)))
        thread.join()
        facts = seen[0]
        assert facts["Config"]["Labels"][ATTEMPT_LABEL] == request.attempt_id
        assert sorted(mount["Destination"] for mount in facts["Mounts"]) == ["/work/out", "/work/pr", "/work/repo"]
        assert facts["HostConfig"]["NetworkMode"] == "none"
        assert facts["HostConfig"]["Memory"] == facts["HostConfig"]["MemorySwap"] == 128 * 1024 * 1024
        assert facts["HostConfig"]["NanoCpus"] == 1_000_000_000
        assert facts["HostConfig"]["PidsLimit"] == 64
        assert facts["HostConfig"]["Privileged"] is False

    def test_puts_secret_files_where_they_are_declared(self, docker_ground: Ground) -> None:
        """A declared file is there, readable by any user, and gone with the attempt."""
        request = with_secrets(
            docker_ground,
            "cat /run/key/api.txt; " + EMPTY_REVIEW,
            Secrets(files=("/run/key/api.txt",)),
            {"/run/key/api.txt": "k-file\n"},
        )
        result = docker_ground.sandbox.run(request)
        assert result.stdout == b"k-file\n"
        assert "k-file" not in repr(request)

    def test_hides_later_commits(self, docker_ground: Ground, base_image: str, image: Any, tmp_path: Path) -> None:
        """A snapshot without a later commit shows none, however the agent looks for it in .git."""
        upstream, git = tmp_path / "upstream", ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C"]
        for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "head"]):
            upstream.mkdir(exist_ok=True)
            subprocess.run([*git, str(upstream), *command], check=True, capture_output=True)
        fetch = ["fetch", "-q", f"file://{upstream}", "HEAD"]
        subprocess.run([*git, str(docker_ground.repo), *fetch], check=True, capture_output=True)
        subprocess.run(
            [*git, str(upstream), "commit", "-q", "--allow-empty", "-m", "later"], check=True, capture_output=True
        )
        later = subprocess.run(
            ["git", "-C", str(upstream), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        ).stdout.strip()
        script = f"""
        cd "$RB_REPO"; git cat-file -e {later} && echo FOUND
        git cat-file --batch-all-objects --batch-check; git fsck --lost-found 2>&1; git fetch {upstream} 2>&1
        """
        docker_ground.image_id = base_image
        request = docker_ground.request(script + EMPTY_REVIEW)
        built = build_with_shell_entrypoint(image, base_image)
        result = docker_ground.sandbox.run(replace(request, build=request.build.model_copy(update={"image_id": built})))
        assert result.outcome is Outcome.SUCCEEDED
        assert b"FOUND" not in result.stdout
        assert later.encode() not in result.stdout.replace(script.encode(), b"")


def build_with_shell_entrypoint(image: Any, base_image: str) -> str:
    """The base image with the entrypoint of the shell agent."""
    # Each FROM starts anew, so the last one decides.
    return str(
        image(f'FROM {base_image}\nCOPY --from=0 /entrypoint /entrypoint\nENTRYPOINT ["/bin/sh", "/entrypoint"]\n')
    )


class TestHostileAgents:
    def test_ends_a_fork_bomb(self, docker_ground: Ground) -> None:
        """Processes are limited, the attempt ends by its deadline, and the next one is not affected."""
        result = docker_ground.run("bomb() { bomb | bomb & }; bomb; sleep 60", timeout_seconds=3)
        assert result.outcome in {Outcome.TIMEOUT, Outcome.NONZERO_EXIT}
        assert docker_ground.run(EMPTY_REVIEW).outcome is Outcome.SUCCEEDED

    @pytest.mark.parametrize("size", [24_000_000, pytest.param(1_000_000_000, marks=pytest.mark.thorough)])
    def test_survives_a_flood_on_stdout(self, docker_ground: Ground, size: int) -> None:
        """The end of it is kept, marked as cut, once the engine has thrown away log files, and of a gigabyte too."""
        result = docker_ground.run(
            FLOOD + f"| head -c {size};" + EMPTY_REVIEW,
            log_mib=1,
            timeout_seconds=240,
        )
        assert result.stdout_truncated
        assert len(result.stdout) == 1024 * 1024
        assert result.outcome is Outcome.SUCCEEDED

    def test_refuses_a_sparse_gigabyte(self, docker_ground: Ground) -> None:
        """A huge file that takes no space is still too large, and is not read."""
        result = docker_ground.run('truncate -s 1G "$RB_OUT"', disk_mib=2048)
        assert result.outcome is Outcome.OUTPUT_TOO_LARGE

    def test_refuses_a_socket(self, docker_ground: Ground) -> None:
        """A socket named findings.json is no file."""
        result = docker_ground.run('nc -lU "$RB_OUT" & sleep 0.5; ls -l "$RB_OUT"; kill %1; exit 0')
        assert result.outcome in {Outcome.OUTPUT_INVALID, Outcome.OUTPUT_MISSING}
        if b"srw" in result.stdout or result.stdout.startswith(b"s"):
            assert "a socket" in result.detail

    def test_ends_a_disk_bomb_in_the_containers_own_layer(self, docker_ground: Ground) -> None:
        """/tmp counts as well."""
        script = "i=0; while :; do head -c 4000000 /dev/zero > /tmp/bomb$i; i=$((i+1)); sleep 0.05; done"
        result = docker_ground.run(script, disk_mib=16, timeout_seconds=60)
        assert result.outcome is Outcome.NONZERO_EXIT
        assert "16 MiB to disk" in result.detail

    def test_tells_memory_from_other_kills(self, docker_ground: Ground) -> None:
        """An agent that survives the death of a child is judged by its output; one that kills itself is no victim."""
        survived = docker_ground.run("tail /dev/zero; echo survived; " + EMPTY_REVIEW, memory_mib=32)
        assert (survived.outcome, survived.stdout) == (Outcome.SUCCEEDED, b"survived\n")
        killed = docker_ground.run("sh -c 'kill -9 $PPID'; exit 137")
        assert (killed.outcome, killed.exit_code) == (Outcome.NONZERO_EXIT, 137)
        assert "SIGKILL" in killed.detail

    def test_reads_what_another_user_locked(self, docker_ground: Ground, image: Any) -> None:
        """An image may run as any user and with any umask."""
        user = image("USER 1234:1234\n")
        result = docker_ground.run('id -u; umask 077; touch "$RB_REPO/mine"; ' + EMPTY_REVIEW, image_id=user)
        assert (result.outcome, result.stdout) == (Outcome.SUCCEEDED, b"1234\n")


class TestEngineFailures:
    def test_knows_when_a_container_was_removed(self, docker_ground: Ground, engine: docker.APIClient) -> None:
        """Removed from outside: not a verdict on the agent."""
        result = meanwhile(
            docker_ground,
            "sleep 60",
            lambda: engine.remove_container(container_of(engine, docker_ground), force=True),
        )
        assert result.outcome is Outcome.ENGINE_ERROR
        assert "from outside" in result.detail

    @pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGTERM"])
    def test_knows_when_a_container_was_killed(
        self, docker_ground: Ground, engine: docker.APIClient, signal_name: str
    ) -> None:
        """Killed through the engine: the same."""
        result = meanwhile(
            docker_ground,
            "trap 'exit 143' TERM; while :; do sleep 0.1; done",
            lambda: engine.kill(container_of(engine, docker_ground), signal_name),
        )
        assert result.outcome is Outcome.ENGINE_ERROR
        assert "from outside" in result.detail

    def test_says_that_the_engine_is_away(self, docker_ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
        """No engine: check says how to mend it, run gives an outcome that is the farm's."""
        monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
        sandbox = DockerSandbox(slots=1)
        with pytest.raises(UnavailableError, match="Start the Docker engine"):
            sandbox.check()
        result = sandbox.run(docker_ground.request(EMPTY_REVIEW))
        assert result.outcome is Outcome.ENGINE_ERROR
        assert "no Docker engine answers" in result.detail

    @pytest.mark.parametrize(
        ("away", "outcome"),
        [(0.0, Outcome.SUCCEEDED), (1.0, Outcome.SUCCEEDED), (4.0, Outcome.ENGINE_ERROR)],
    )
    def test_outlasts_a_broken_connection(
        self,
        docker_ground: Ground,
        engine: docker.APIClient,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        away: float,
        outcome: Outcome,
    ) -> None:
        """An engine that comes back while the agent runs costs nothing; whoever ended meanwhile is not judged."""
        relay = Relay(Path(tempfile.mkdtemp()) / "engine.sock")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{relay.path}")
        docker_ground.sandbox = DockerSandbox(slots=1)

        def cut() -> None:
            container_of(engine, docker_ground)
            relay.cut()
            time.sleep(away)
            relay.mend()

        result = meanwhile(docker_ground, "sleep 3; " + EMPTY_REVIEW, cut)
        assert result.outcome is outcome, result.detail
        monkeypatch.delenv("DOCKER_HOST")
        shutil.rmtree(relay.path.parent)

    def test_calls_share_a_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever they ask for; also after the engine was away, when the old one is of no use."""
        relay = Relay(Path(tempfile.mkdtemp()) / "engine.sock")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{relay.path}")
        engine = Engine(1)
        assert engine.api.ping()
        for _ in range(2):
            before = relay.accepted
            for number in range(5):
                with pytest.raises(EngineFailureError, match="No such container"):
                    engine.inspect(f"crb-nothing-{number}")
            assert relay.accepted - before <= 1
            relay.cut()
            with pytest.raises(EngineFailureError, match="cannot be reached"):
                engine.inspect("crb-nothing")
            relay.mend()
        engine.close()
        relay.cut()
        shutil.rmtree(relay.path.parent)

    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            ('ENTRYPOINT ["/nowhere/agent"]', "no such file"),
            ('ENTRYPOINT ["/bin"]', "permission denied"),
            ("USER nobody-at-all", "nobody-at-all"),
            ("ENTRYPOINT []\nCMD []", "ENTRYPOINT or CMD"),
        ],
    )
    def test_blames_the_image_that_cannot_start(self, docker_ground: Ground, image: Any, lines: str, said: str) -> None:
        """An image whose command does not exist fails as an agent, with the engine's reason."""
        result = docker_ground.run(EMPTY_REVIEW, image_id=image(lines + "\n"))
        assert result.outcome is Outcome.NONZERO_EXIT, result.detail
        assert said in result.detail

    def test_refuses_more_cores_than_there_are(self, docker_ground: Ground) -> None:
        """The engine's refusal is the farm's fault, in its words."""
        result = docker_ground.run(EMPTY_REVIEW, cpus=255.0)
        assert result.outcome is Outcome.ENGINE_ERROR
        assert "CPUs" in result.detail


class TestAhead:
    """A container is created before its slot is free, so that a slot only has to start it."""

    @pytest.fixture
    def waiting(self, docker_ground: Ground, engine: docker.APIClient) -> Iterator[Waiting]:
        """An attempt whose container waits for the one slot, which another attempt holds."""
        waiting = Waiting(docker_ground, engine)
        yield waiting
        waiting.close()

    def test_the_wait_for_a_slot_is_no_part_of_the_review(self, waiting: Waiting) -> None:
        """review_ms is create, start and wait, however much lies between the first two."""
        while not waiting.has_waited(1000):
            time.sleep(0.1)
        waiting.free_the_slot()
        result = waiting.result()
        assert result.outcome is Outcome.SUCCEEDED
        assert result.review_ms is not None
        inside = sum(result.phases[name] for name in ("create", "start", "wait"))
        assert inside <= result.review_ms < inside + result.phases["slot"]
        assert result.concurrent == 1
        assert waiting.ground.leftovers() == []

    def test_a_container_that_was_tidied_up_is_made_again(self, waiting: Waiting) -> None:
        """``docker container prune`` costs an attempt that waits nothing but another creation."""
        waiting.engine.remove_container(waiting.created)
        waiting.free_the_slot()
        assert waiting.result().outcome is Outcome.SUCCEEDED
        assert waiting.ground.leftovers() == []

    def test_a_stopped_attempt_is_not_started(self, waiting: Waiting) -> None:
        """It ends at once, without waiting for the slot, and its container goes."""
        waiting.ground.sandbox.stop(waiting.second.attempt_id, Outcome.CANCELLED)
        result = waiting.result()
        assert (result.outcome, result.review_ms, result.exit_code) == (Outcome.CANCELLED, None, None)
        assert "start" not in result.phases
        waiting.free_the_slot()
        assert waiting.ground.leftovers() == []


class Waiting:
    """Two attempts on a sandbox with one slot: the first runs until it is stopped, the second waits, created."""

    def __init__(self, ground: Ground, engine: docker.APIClient) -> None:
        self.ground, self.engine = ground, engine
        ground.sandbox.resize(1)
        script = '[ "$RB_ATTEMPT" = 1 ] && sleep 600; ' + EMPTY_REVIEW
        self._first = ground.request(script)
        self.second = replace(self._first, attempt_id=uuid.uuid4().hex, attempt_number=2)
        self._results: list[AttemptResult] = []
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in (self._first, self.second)]
        self._threads[0].start()
        container_of(engine, ground)
        self._threads[1].start()
        self.created = self._created()
        self._since = time.monotonic()

    def _run(self, request: AttemptRequest) -> None:
        result = self.ground.sandbox.run(request)
        if request is self.second:
            self._results.append(result)

    def _created(self) -> str:
        filters = {"label": f"{ATTEMPT_LABEL}={self.second.attempt_id}", "status": "created"}
        until = time.monotonic() + 60
        while not (found := self.engine.containers(all=True, filters=filters)):
            assert time.monotonic() < until, "no container was created ahead"
            time.sleep(0.05)
        return str(found[0]["Id"])

    def has_waited(self, milliseconds: float) -> bool:
        return (time.monotonic() - self._since) * 1000 > milliseconds

    def free_the_slot(self) -> None:
        self.ground.sandbox.stop(self._first.attempt_id, Outcome.CANCELLED)
        self._threads[0].join(60)

    def result(self) -> AttemptResult:
        """What the second attempt came to."""
        self._threads[1].join(60)
        return self._results[0]

    def close(self) -> None:
        for request in (self._first, self.second):
            self.ground.sandbox.stop(request.attempt_id, Outcome.CANCELLED)
        for thread in self._threads:
            thread.join(60)


class TestCopies:
    def test_copies_where_it_cannot_overlay(self, docker_ground: Ground) -> None:
        """Without an overlay the checkout is a plain copy, with the same promises; a large one is not charged."""
        sandbox = docker_ground.sandbox
        assert isinstance(sandbox, DockerSandbox)
        assert sandbox.has_overlay(docker_ground.workspace)
        (docker_ground.repo / "large.bin").write_bytes(os.urandom(20_000_000))
        strange = docker_ground.root / "a,b"
        docker_ground.repo.rename(strange)
        docker_ground.repo = strange
        result = docker_ground.run(
            'cat "$RB_REPO/src/app.py"; rm -rf "$RB_REPO/.git"; sleep 1; ' + EMPTY_REVIEW, disk_mib=16
        )
        assert (result.outcome, result.stdout) == (Outcome.SUCCEEDED, b"print('one')\n")
        assert (strange / ".git" / "HEAD").exists()


class TestImages:
    def test_resolves_to_what_runs(self, docker_ground: Ground, shell_image: str) -> None:
        """A tag and an id give the same image; one that was built here has no digest of a registry."""
        by_tag = docker_ground.sandbox.resolve("crb/test-shell")
        assert (by_tag.image_id, by_tag.repo_digest) == (shell_image, None)
        assert docker_ground.sandbox.resolve(shell_image).image_id == shell_image

    def test_takes_an_image_that_is_here_after_all(self, docker_ground: Ground, shell_image: str) -> None:
        """An engine says 404 of other things as well, such as a volume that was pruned while it was made."""
        engine = Engine(1)
        Images(engine).restore(shell_image)
        engine.close()

    @pytest.mark.parametrize("reference", ["crb/no-such-agent", "crb/base:none", "sha256:" + "1" * 64])
    def test_never_asks_a_registry_for_what_is_built_here(self, docker_ground: Ground, reference: str) -> None:
        """An id and a name of crb's own are not looked for elsewhere; the error says how to build them."""
        with pytest.raises(UnavailableError, match="crb agent build"):
            docker_ground.sandbox.resolve(reference)

    def test_says_what_to_pull(self, docker_ground: Ground) -> None:
        """Without leave to pull, a missing image is named."""
        with pytest.raises(UnavailableError, match=r"docker pull registry\.invalid/agent:1"):
            docker_ground.sandbox.resolve("registry.invalid/agent:1", pull=False)

    @pytest.mark.parametrize("reference", ["", "../containers", "a b", "x\n", "-v", "a//b", "a" * 500])
    def test_refuses_what_is_no_reference(self, docker_ground: Ground, reference: str) -> None:
        """A reference becomes part of a request to the engine, so it is checked first."""
        with pytest.raises(InputError, match="not an image reference"):
            docker_ground.sandbox.resolve(reference)


class TestKilledFarm:
    def test_cleans_up_after_kill_9(self, docker_ground: Ground, engine: docker.APIClient) -> None:
        """A farm that is killed leaves a container and a folder; the next start removes them and nothing else."""
        second = docker_ground.root / "second"
        program = f"""
        from pathlib import Path
        from tests.crb_worker.sandbox.support import Ground
        from crb_worker.sandbox.docker import DockerSandbox
        second = Path({str(second)!r})
        second.mkdir()
        Ground(DockerSandbox(slots=1), {docker_ground.image_id!r}, second, {docker_ground.farm!r}).run("sleep 600")
        """
        farm = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], cwd=Path(__file__).parents[3])
        try:
            container = container_of(engine, docker_ground)
        finally:
            farm.send_signal(signal.SIGKILL)
            farm.wait()
        assert docker_ground.sandbox.reap("another farm", ()) == []
        attempt = engine.inspect_container(container)["Config"]["Labels"][ATTEMPT_LABEL]
        assert docker_ground.sandbox.reap(docker_ground.farm, [attempt]) == []
        removed = docker_ground.sandbox.reap(docker_ground.farm, ())
        assert [line.split()[0] for line in removed] == ["container", "folder"]
        assert list((second / "attempts").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests of this file are this test when they do not run as root")
class TestFarmWithoutRoot:
    def test_reads_and_removes_what_belongs_to_root(self, docker_ground: Ground, base_image: str) -> None:
        """A farm that is not root gets the findings through the engine, and removes the rest with a container."""
        assert base_image
        locked = 'umask 077; mkdir "$RB_REPO/a"; touch "$RB_REPO/a/b"; chmod 0 "$RB_REPO/a"; chmod 700 /work/out; '
        folder = Path(tempfile.mkdtemp())
        folder.chmod(0o755)
        requests = []
        for number, script in enumerate((locked + EMPTY_REVIEW, locked + 'ln -s /etc/passwd "$RB_OUT"', locked)):
            request = docker_ground.request(script)
            for name in ("repo", "pr"):
                shutil.copytree(docker_ground.root / name, folder / f"{name}{number}", symlinks=True)
            requests.append(
                replace(
                    request,
                    repo=folder / f"repo{number}",
                    pr_files=folder / f"pr{number}",
                    workspace=folder / "attempts",
                )
            )
        said = as_nobody(folder, requests)
        shutil.rmtree(folder)
        assert [line.split()[:2] for line in said] == [
            ["succeeded", "0"],
            ["output_invalid", "0"],
            ["output_missing", "0"],
        ], said


def as_nobody(folder: Path, requests: list[AttemptRequest]) -> list[str]:
    """Run the requests as the user nobody who may reach the engine: outcome, what is left, detail, a line each."""
    socket_group = Path("/var/run/docker.sock").stat().st_gid
    os.chown(folder, 65534, 65534)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        # Nothing but _exit may end this process: it is a copy of the test run.
        try:
            os.setgroups([socket_group])
            os.setgid(65534)
            os.setuid(65534)
            sandbox = DockerSandbox(slots=1)
            for request in requests:
                result = sandbox.run(request)
                left = len(list(request.workspace.iterdir()))
                os.write(write, f"{result.outcome.value} {left} {result.detail}\n".encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as said:
        return said.read().splitlines()
