"""What an agent was given in confidence is in nothing that the farm wrote, sent or left."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import docker
import psutil
import pytest
from sqlalchemy import select

from crb_core.evidence import open_evidence
from crb_core.settings import Settings
from crb_core.store.tables import AttemptRow, CandidateRow, core
from crb_scheduler.broker import EmbeddedBroker
from crb_worker.app import BrokerClient
from tests.e2e.farm import Farm, wait_for

attempts = core(AttemptRow)
candidates = core(CandidateRow)

TOKEN = 'sk-Token_0123/4567+"89~<AbCdEf>&=zZ'
OWN_KEY = "sk-ant-own-KEY-of-the-agent-24680"
FILE_KEY = "file-key-Q1w2E3r4T5y6U7i8"
JUDGE_KEY = "sk-ant-judge-97531-never-given-Away"
MINE = (TOKEN, OWN_KEY, FILE_KEY)
#: Between the two alphabets of Base32.
_TO_HEX = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789ABCDEFGHIJKLMNOPQRSTUV")
LEAKY = Path(__file__).parents[1] / "images" / "leaky.py"


@dataclass
class SecretFarm(Farm):
    """A farm whose worker holds the secrets of an agent and the key of a judge."""

    runner: str = "docker"
    more: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"CRB_RUNNER": self.runner, "CRB_REVIEW_SLOTS": "2"} | self.more


@cache
def _forms(secret: str) -> frozenset[bytes]:
    """Forms that one can grep for, in lower case."""
    raw = secret.encode()
    forms = {raw, quote(secret, safe="").encode(), raw.hex().encode(), json.dumps(secret)[1:-1].encode()}
    forms.add("".join(f"\\u{ord(each):04x}" for each in secret).encode())
    forms |= {secret.encode("utf-16-le"), secret.encode("utf-16-be"), secret[::-1].encode()}
    forms |= {base64.b64encode(secret.encode("utf-16-le"))[:-4]}
    for shift in range(5):
        inner = base64.b32encode(b"x" * shift + raw)[-(-8 * shift // 5) : 8 * (shift + len(raw)) // 5]
        forms |= {inner, inner.translate(_TO_HEX)}
    for shift in range(3):
        inner = base64.b64encode(b"x" * shift + raw)[(0, 2, 3)[shift] :].rstrip(b"=")[:-1]
        forms.add(base64.b64encode(inner).rstrip(b"=")[:-1])
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            forms.add(encode(b"x" * shift + raw)[(0, 2, 3)[shift] :].rstrip(b"=")[:-1])
    return frozenset(form.lower() for form in forms)


@cache
def _found(data: bytes, secrets: tuple[str, ...]) -> tuple[str, ...]:
    """The secrets in ``data``, as it is, without line breaks or zeros, and with its escapes decoded."""
    views = {data, *(data.replace(each, b"") for each in (b"\n", b"\\n", b"\0")), unquote_to_bytes(data)}
    folded = {view.lower() for view in views}
    return tuple(secret for secret in secrets for form in _forms(secret) for view in folded if form in view)


def _leaks(root: Path, secrets: tuple[str, ...]) -> list[str]:
    """Files below ``root``, by name or content."""
    found = []
    for path in root.rglob("*"):
        if _found(str(path.relative_to(root)).encode(), secrets):
            found.append(f"name of {path}")
        if path.is_file() and not path.is_symlink() and (secret := _found(path.read_bytes(), secrets)):
            found.append(f"{path}: {secret}")
    return found


@contextlib.contextmanager
def _watched(broker_url: str) -> Iterator[tuple[list[bytes], set[str]]]:
    """Every command that reaches the broker, and every command line on this machine meanwhile."""
    commands: list[bytes] = []
    lines: set[str] = set()
    over = threading.Event()
    monitored = socket.socket(socket.AF_UNIX)
    monitored.connect(broker_url.removeprefix("redis+socket://"))
    monitored.settimeout(0.2)
    monitored.sendall(b"MONITOR\r\n")

    def monitor() -> None:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                commands.append(monitored.recv(1 << 20))

    def look() -> None:
        while not over.wait(0.1):
            for process in psutil.process_iter(["cmdline"]):
                lines.add("\0".join(process.info["cmdline"] or ()))

    threads = [threading.Thread(target=each, daemon=True) for each in (monitor, look)]
    for thread in threads:
        thread.start()
    try:
        yield commands, lines
    finally:
        over.set()
        for thread in threads:
            thread.join(10)
        monitored.close()


def _dump(broker_url: str) -> bytes:
    """Every key of the broker with its value."""
    client = BrokerClient(broker_url)
    try:
        keys = client.redis.keys("*")
        return b"\n".join(key + b" " + (client.redis.dump(key) or b"") for key in keys)
    finally:
        client.close()


def _agent(folder: Path) -> Path:
    folder.mkdir()
    (folder / "agent.toml").write_text(
        'name = "leaky"\ndisplay_name = "Leaky"\ncontacts = ["crb"]\npr_timeout_seconds = 120\n'
        '[secrets]\nenv = ["TOKEN", "ANTHROPIC_API_KEY"]\nfiles = ["/run/keys/api.txt"]\n'
        "[limits]\nmemory_mib = 128\npids = 64\nlog_mib = 2\n"
    )
    (folder / "Dockerfile").write_text(
        "ARG BASE_IMAGE=python:3.11-slim-bookworm\nFROM ${BASE_IMAGE}\nCOPY leaky.py /leaky.py\n"
        'ENTRYPOINT ["python3", "/leaky.py"]\n'
    )
    (folder / "leaky.py").write_bytes(LEAKY.read_bytes())
    return folder


@pytest.mark.docker
@pytest.mark.timeout(400)
def test_nothing_that_the_farm_wrote_holds_a_secret(tmp_path: Path) -> None:
    """Store, write-ahead log, evidence, logs, folders, broker, task arguments, command lines, images: 0 findings."""
    home, keys = tmp_path / "home", tmp_path / "keys"
    (keys / "run" / "keys").mkdir(parents=True)
    (keys / "run" / "keys" / "api.txt").write_text(f"{FILE_KEY}\n")
    secrets = {"CRB_SECRETS_FOLDER": str(keys), "TOKEN": TOKEN, "CRB_SECRET_ANTHROPIC_API_KEY": OWN_KEY}
    home.mkdir()
    with EmbeddedBroker(home / "broker-folder") as broker:
        farm = SecretFarm(home, broker, more={**secrets, "ANTHROPIC_API_KEY": JUDGE_KEY, "CRB_LOG_LEVEL": "debug"})
        try:
            with _watched(broker.url) as (commands, lines):
                planned = farm.crb(
                    "sweep", "start", "--agent", str(_agent(tmp_path / "agent")), "--rounds", "1", "--name", "leaky",
                    "--pr", "ledger-41", "--pr", "parcelmeter-9", "--pr", "mailroom-112",
                )  # fmt: skip
                assert planned.returncode == 0, planned.stderr
                farm.start("scheduler")
                farm.start("worker")
                store = farm.store
                wait_for(lambda: farm.progress(store, "leaky").finished, 240)
                dump = _dump(broker.url)
                while_running = _leaks(home, (*MINE, JUDGE_KEY))
            shown = [farm.crb("trial", "logs", "1").stdout, farm.crb("trial", "show", "1", "--json").stdout]
        finally:
            farm.close()
    with store.read() as connection:
        rows = connection.execute(select(attempts)).all()
        messages = connection.execute(select(candidates.c.message)).scalars().all()
    store.close()

    # The agent did what it could: it ran, and what it printed was kept.
    outcomes = [row.outcome for row in rows]
    assert outcomes.count("succeeded") == 3
    assert {"output_invalid", "nonzero_exit"} >= set(outcomes) - {"succeeded"}
    assert len(outcomes) == 6
    assert sum("[secret removed]" in message for message in messages) > 100
    evidence = open_evidence((home / "evidence").as_uri())
    printed = evidence.get(rows[0].evidence["stdout"])
    assert printed.count(b"[secret removed]") > 100
    assert b"'RB_ATTEMPT': '1'" in printed

    assert while_running == []
    assert _leaks(home, (*MINE, JUDGE_KEY)) == []
    assert _found("\n".join(shown).encode(), (*MINE, JUDGE_KEY)) == ()
    sent = b"".join(commands)
    assert sent.count(b"crb.review") >= 3
    assert _found(sent, (*MINE, JUDGE_KEY)) == ()
    assert _found(dump, (*MINE, JUDGE_KEY)) == ()
    assert any("crb_cli" in line for line in lines)
    assert _found("\n".join(lines).encode(), (*MINE, JUDGE_KEY)) == ()
    assert list((home / "attempts").iterdir()) == []
    assert _of_the_engine(Settings(home=home), {row.image_id for row in rows}) == []


def _of_the_engine(settings: Settings, image_ids: set[str]) -> list[str]:
    """Secrets in the images that ran, and containers that are left."""
    engine = docker.APIClient(version="auto")
    try:
        facts: list[Any] = [[engine.inspect_image(each), engine.history(each)] for each in image_ids]
        left = engine.containers(all=True, filters={"label": f"crb.farm={settings.farm}"})
    finally:
        engine.close()
    return [*_found(json.dumps(facts).encode(), (*MINE, JUDGE_KEY))] + [each["Id"] for each in left]


@pytest.mark.timeout(200)
def test_a_process_agent_is_not_handed_the_judge_s_key(tmp_path: Path) -> None:
    """Its environment has what the contract names and no more. What it cannot be kept from is said to users."""
    from crb_worker.sandbox.process import ProcessSandbox
    from tests.crb_worker.sandbox.support import EMPTY_REVIEW, IMAGES, Ground

    before = os.environ.get("ANTHROPIC_API_KEY")
    os.environ["ANTHROPIC_API_KEY"] = JUDGE_KEY
    try:
        sandbox = ProcessSandbox(agents=IMAGES)
        result = Ground(sandbox, sandbox.resolve("shell").image_id, tmp_path).run("env; " + EMPTY_REVIEW)
    finally:
        if before is None:
            del os.environ["ANTHROPIC_API_KEY"]
        else:
            os.environ["ANTHROPIC_API_KEY"] = before
    assert result.stdout
    assert JUDGE_KEY not in result.stdout.decode()
    assert any("the judge's API key" in line for line in sandbox.limitations)
