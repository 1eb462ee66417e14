"""A sweep whose agent asks for a host that it does not declare: recorded, named, and paused after its first trial."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from sqlalchemy import select

from crb_core.settings import Settings
from crb_core.store import open_store
from crb_core.store.tables import AttemptRow, OperatorActionRow, SweepBuildRow, core
from tests.e2e.farm import crb
from tests.e2e.parts import check_every_part_is_measured
from tests.egress_support import Internet, own_internet, require_egress_image

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

attempts = core(AttemptRow)
actions = core(OperatorActionRow)
sweep_builds = core(SweepBuildRow)

REFUSAL = {"host": "telemetry.example.org", "port": 443, "why": "not_declared", "count": 1}

ASKS = """
for host in api.example.com telemetry.example.org; do
    bash -c 'exec 3<>"/dev/tcp/${HTTPS_PROXY_HOST%:*}/${HTTPS_PROXY_HOST#*:}"
        printf "CONNECT %s:443 HTTP/1.1\\r\\n\\r\\n" "$1" >&3; head -n 1 <&3' - "$host"
done
printf '{"pr":{"repo":"https://github.com/%s","pr_number":%s,"base":"%s","head":"%s"},"agent":"t","findings":[]}' \\
    "$RB_NWO" "$RB_PR_NUMBER" "$RB_BASE" "$RB_HEAD" > "$RB_OUT"
"""


@pytest.fixture(scope="module")
def internet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    require_egress_image()
    engine = docker.APIClient(version="auto")
    try:
        base = engine.inspect_image("crb/base:bookworm")["Id"]
        with own_internet(engine, base, tmp_path_factory.mktemp("internet")) as found:
            yield found
    finally:
        engine.close()


def _agent(folder: Path) -> Path:
    folder.mkdir()
    (folder / "agent.toml").write_text(
        'name = "talkative"\ndisplay_name = "Talkative"\ncontacts = ["crb"]\negress = ["api.example.com"]\n'
        "pr_timeout_seconds = 60\n[limits]\nmemory_mib = 64\npids = 64\n"
    )
    (folder / "Dockerfile").write_text(
        "ARG BASE_IMAGE=python:3.11-slim-bookworm\nFROM ${BASE_IMAGE}\nCOPY entrypoint /entrypoint\n"
        'ENTRYPOINT ["/bin/sh", "/entrypoint"]\n'
    )
    (folder / "entrypoint").write_text('export HTTPS_PROXY_HOST="${HTTPS_PROXY#http://}"\n' + ASKS)
    return folder


def _paused_reason(home: Path) -> str | None:
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    try:
        with store.read() as connection:
            row = connection.execute(select(sweep_builds.c.paused, sweep_builds.c.paused_reason)).one()
    finally:
        store.close()
    return row.paused_reason if row.paused else None


def _begun(home: Path, folder: Path, internet: Internet) -> dict[str, str]:
    """The settings of a farm whose sweep was begun and is paused."""
    options = internet.options()
    settings = {
        "CRB_EGRESS_NETWORK": internet.network,
        "CRB_EGRESS_ADDRESSES": json.dumps(options.addresses),
        "CRB_EGRESS_DNS": '["127.0.0.1"]',
        "CRB_REVIEW_SLOTS": "1",
    }
    agent = _agent(folder)
    prs = ("--pr", "ledger-41", "--rounds", "3", "--name", "telling", "--runner", "docker")
    begun = crb("sweep", "start", "--agent", str(agent), *prs, home=home, **settings)
    assert begun.returncode == 1, begun.stdout + begun.stderr
    reason = _paused_reason(home)
    assert reason is not None
    assert reason.startswith(
        "The egress proxy refused telemetry.example.org:443 (not declared in agent.toml) on the first trial (trial "
    )
    assert reason in begun.stderr
    assert "--agent talkative" in reason
    return settings


def test_a_refused_host_on_the_first_trial_pauses_the_build(tmp_path: Path, internet: Internet) -> None:
    """Named in the verdict and recorded."""
    home = tmp_path / "home"
    _begun(home, tmp_path / "agent", internet)
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.read() as connection:
        (first, *_) = connection.execute(select(attempts).order_by(attempts.c.id)).all()
    check_every_part_is_measured(store)
    store.close()
    assert first.outcome == "succeeded"
    assert first.refused_hosts == [REFUSAL]
    assert "refused telemetry.example.org:443 (not declared in agent.toml)" in first.detail


@pytest.mark.thorough
def test_a_paused_build_goes_on_once_a_person_says_so(tmp_path: Path, internet: Internet) -> None:
    """It is not paused again, and nothing is left behind."""
    home = tmp_path / "home"
    settings = _begun(home, tmp_path / "agent", internet)
    resumed = crb("sweep", "resume", "telling", "--agent", "talkative", home=home, **settings)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert _paused_reason(home) is None
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.read() as connection:
        rows = connection.execute(select(attempts).order_by(attempts.c.id)).all()
        done = connection.execute(select(actions.c.actor, actions.c.action).order_by(actions.c.id)).all()
    store.close()
    assert [row.outcome for row in rows] == ["succeeded"] * 3
    assert [row.refused_hosts for row in rows] == [[REFUSAL]] * 3
    assert all("refused telemetry.example.org:443 (not declared in agent.toml)" in row.detail for row in rows)
    assert [tuple(row) for row in done] == [("farm", "pause"), ("command line", "resume")]
    engine = docker.APIClient(version="auto")
    try:
        label = {"label": f"crb.farm={Settings(home=home).farm}"}
        assert engine.networks(filters=label) == []
        assert engine.containers(all=True, filters=label) == []
        assert list((home / "attempts").iterdir()) == []
    finally:
        engine.close()
