"""Sweeps in real containers: kills, interruptions, cancels, retries and agents that break the contract."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
from contextlib import closing
from pathlib import Path

import docker
import pytest

from crb_core.settings import Settings
from crb_core.store import open_store
from crb_core.store.sweep_limits import why_no_reviews
from crb_scheduler.broker import EmbeddedBroker
from tests.crb_worker.sandbox.support import Relay
from tests.crb_worker.test_engine_watch import AWAY
from tests.e2e.farm import check_every_trial_is_whole, crb, start, wait_for
from tests.e2e.parts import check_every_part_is_measured

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]

REVIEW = """
printf '{"pr":{"repo":"https://github.com/%s","pr_number":%s,"base":"%s","head":"%s"},"agent":"t","findings":[%s]}' \\
    "$RB_NWO" "$RB_PR_NUMBER" "$RB_BASE" "$RB_HEAD" "$FINDINGS" > "$RB_OUT"
"""


def _agent(folder: Path, script: str, *, name: str = "scripted", seconds: int = 60) -> Path:
    """An agent folder whose container runs ``script``."""
    folder.mkdir()
    (folder / "agent.toml").write_text(
        f'name = "{name}"\ndisplay_name = "Scripted"\ncontacts = ["crb"]\n'
        f"pr_timeout_seconds = 60\n[limits]\nmemory_mib = 64\npids = 64\ntimeout_seconds = {seconds}\n"
    )
    (folder / "Dockerfile").write_text(
        "ARG BASE_IMAGE=python:3.11-slim-bookworm\nFROM ${BASE_IMAGE}\nCOPY entrypoint /entrypoint\n"
        'ENTRYPOINT ["/bin/sh", "/entrypoint"]\n'
    )
    (folder / "entrypoint").write_text(script)
    return folder


def _left(home: Path) -> list[str]:
    """Containers, volumes and attempt folders of the farm of a CRB_HOME."""
    farm = Settings(home=home).farm
    client = docker.from_env()
    try:
        found = [c.name for c in client.containers.list(all=True, filters={"label": f"crb.farm={farm}"})]
        found += [v.name for v in client.volumes.list(filters={"label": f"crb.farm={farm}"})]
        return found + [path.name for path in (home / "attempts").iterdir()]
    finally:
        client.close()


def _sweep(agent: Path, *more: str) -> tuple[str, ...]:
    return ("sweep", "start", "--agent", str(agent), "--pr", "ledger-41", "--runner", "docker", *more)


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
def test_a_killed_run_leaves_no_container_after_the_next_start(tmp_path: Path, number: signal.Signals) -> None:
    """After kill -9 the next start removes the container and runs the trial again; after Ctrl-C it is gone at once."""
    home = tmp_path / "home"
    agent = _agent(tmp_path / "agent", f'[ "$RB_ATTEMPT" = 1 ] && sleep 50\n{REVIEW}')
    process = start(*_sweep(agent, "--rounds", "1"), home=home, log=tmp_path / "log")
    wait_for(lambda: (home / "attempts").exists() and any(docker_running(home)))
    process.send_signal(number)
    process.wait(timeout=60)
    if number is signal.SIGINT:
        assert _left(home) == []
    again = crb(*_sweep(agent, "--rounds", "1", "--json"), home=home)
    assert again.returncode == 0, again.stdout + again.stderr
    assert _left(home) == []
    trial = json.loads(crb("trial", "show", "1", "--json", home=home).stdout)
    outcome = "lost" if number is signal.SIGKILL else "cancelled"
    assert [(each["number"], each["outcome"]) for each in trial["attempts"]] == [(1, outcome), (2, "succeeded")]
    assert trial["attempts"][0]["review_ms"] is None
    assert 0 < trial["attempts"][1]["review_ms"] < 50_000


def docker_running(home: Path) -> list[str]:
    """Names of the farm's running containers."""
    client = docker.from_env()
    try:
        return [c.name for c in client.containers.list(filters={"label": f"crb.farm={Settings(home=home).farm}"})]
    finally:
        client.close()


def test_failures_are_named_and_single_trials_are_retried(tmp_path: Path) -> None:
    """Exit status 3 when trials failed; a retry keeps the earlier attempts; a success cannot be retried."""
    home = tmp_path / "home"
    agent = _agent(tmp_path / "agent", f'[ "$RB_ATTEMPT" -le 2 ] && {{ echo no luck >&2; exit 7; }}\n{REVIEW}')
    failed = crb(*_sweep(agent, "--rounds", "1"), home=home)
    assert failed.returncode == 3, failed.stderr
    assert "nonzero_exit" in failed.stdout
    assert "exit code 7" in failed.stdout
    logs = crb("trial", "logs", "1", home=home)
    assert "no luck" in logs.stdout
    retried = crb("trial", "retry", "--failed", home=home)
    assert retried.returncode == 0, retried.stdout + retried.stderr
    trial = json.loads(crb("trial", "show", "1", "--json", home=home).stdout)
    assert [each["outcome"] for each in trial["attempts"]] == ["nonzero_exit", "nonzero_exit", "succeeded"]
    again = crb("trial", "retry", "1", home=home)
    assert again.returncode == 1
    assert "Trial 1 succeeded, so it is not tried again" in again.stderr
    with closing(open_store(f"sqlite:///{home / 'crb.sqlite'}")) as store:
        check_every_part_is_measured(store)


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("exit 0", "output_missing"),
        ('ln -s /etc/passwd "$RB_OUT"', "output_invalid"),
        ('mkfifo "$RB_OUT"', "output_invalid"),
        ('head -c 1000000000 /dev/zero > "$RB_OUT"', "output_too_large"),
        ("FINDINGS=NaN\n" + REVIEW, "output_invalid"),
        (
            'FINDINGS=\'{"producer":"t","file":"../x","start_line":1,"end_line":1,"message":"m"}\'\n' + REVIEW,
            "output_invalid",
        ),
        (
            'FINDINGS=\'{"producer":"t","file":"x","start_line":2,"end_line":1,"message":"m"}\'\n' + REVIEW,
            "output_invalid",
        ),
        ("RB_PR_NUMBER=1\n" + REVIEW, "wrong_pull_request"),
    ],
)
def test_try_explains_what_breaks_the_contract(tmp_path: Path, script: str, outcome: str) -> None:
    """Each breach has its outcome, a sentence and advice, exit status 1, and leaves nothing behind."""
    home = tmp_path / "home"
    agent = _agent(tmp_path / "agent", script)
    ran = crb("agent", "try", str(agent), "--pr", "ledger-41", "--runner", "docker", "--json", home=home)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    verdict = json.loads(ran.stdout)
    assert verdict["outcome"] == outcome
    assert verdict["detail"]
    assert verdict["advice"]
    assert "Traceback" not in ran.stderr
    assert not list(home.glob("try-*"))


def test_a_missing_image_is_said_in_one_sentence(tmp_path: Path) -> None:
    """Neither an agent nor an image: exit status 1, one line."""
    ran = crb("agent", "try", "crb/no-such-image:1", "--runner", "docker", home=tmp_path / "home")
    assert ran.returncode == 1
    assert len(ran.stderr.strip().splitlines()) == 1
    assert "crb/no-such-image:1" in ran.stderr


def test_a_forced_runner_that_is_not_there(tmp_path: Path) -> None:
    """--runner docker without an engine is an error with the way to mend it; auto says it in one line and goes on."""
    nowhere = {"DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    arguments = ("demo", "--subset", "smoke", "--rounds", "1")
    forced = crb(*arguments, "--runner", "docker", home=tmp_path / "one", **nowhere)
    assert forced.returncode == 1
    assert "Docker" in forced.stderr
    auto = crb(*arguments, home=tmp_path / "two", **nowhere)
    assert auto.returncode == 0, auto.stderr
    assert "Not isolated" in auto.stdout
    assert auto.stdout.count("not isolated (") == 2


def test_cancel_stops_a_running_container_within_seconds(tmp_path: Path) -> None:
    """A cancel from another process ends a container that would run for a minute."""
    home = tmp_path / "home"
    agent = _agent(tmp_path / "agent", "sleep 55\n" + REVIEW)
    process = start(*_sweep(agent, "--rounds", "1", "--name", "long"), home=home, log=tmp_path / "log")
    wait_for(lambda: (home / "attempts").exists() and any(docker_running(home)))
    assert crb("sweep", "cancel", "long", home=home).returncode == 0
    process.wait(timeout=30)
    assert _left(home) == []


@pytest.mark.thorough
def test_a_worker_whose_engine_is_away_takes_no_reviews(tmp_path: Path) -> None:
    """It would fail one after the other, which others could do; what it had tried is tried again, and succeeds."""
    home = tmp_path / "home"
    agent = _agent(tmp_path / "agent", REVIEW)
    relay = Relay(Path(tempfile.mkdtemp()) / "engine.sock")
    relay.cut()
    with EmbeddedBroker(tmp_path / "broker") as broker:
        settings = {"CRB_BROKER_URL": broker.url, "CRB_FARM_ATTEMPTS": "4", "CRB_BEAT_SECONDS": "0.5"}
        begun = crb(*_sweep(agent, "--rounds", "3", "--name", "patient"), home=home, **settings)
        assert begun.returncode == 0, begun.stdout + begun.stderr
        settings["DOCKER_HOST"] = f"unix://{relay.path}"
        processes = [start(name, home=home, log=tmp_path / "log", **settings) for name in ("scheduler", "worker")]
        try:
            with closing(open_store(f"sqlite:///{home / 'crb.sqlite'}")) as store:

                def why() -> str | None:
                    with store.read() as connection:
                        return why_no_reviews(connection)

                assert wait_for(why, 60) == AWAY
                # Four attempts in a row would have failed in 21 s.
                time.sleep(22)
                relay.mend()
                ended = crb("sweep", "watch", "patient", home=home, **settings)
                assert ended.returncode == 0, ended.stdout + ended.stderr
                assert why() is None
                check_every_trial_is_whole(store)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(60)
            relay.cut()
            shutil.rmtree(relay.path.parent)
