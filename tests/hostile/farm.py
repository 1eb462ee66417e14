"""A farm with one worker, a repository with a secret future, and everything that an escaped agent would touch."""

from __future__ import annotations

import contextlib
import secrets
import socket
import statistics
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest
from sqlalchemy import select

from crb_core.agent import AgentBuild, ConfigurationEntry, Limits, Outcome
from crb_core.corpus import Corpus, CorpusEntry
from crb_core.finding import GoldenFinding
from crb_core.pull_request import PullRequest
from crb_core.settings import Settings
from crb_core.store import open_store
from crb_core.store.corpora import pull_request_ids, save_corpus
from crb_core.store.steps import mark_queued
from crb_core.store.sweeps import JudgePlan, SweepPlan, plan_sweep
from crb_core.store.tables import AttemptRow, CandidateRow, JudgmentRow, ScoreRow, Stage, StepRow, TrialRow, core
from crb_worker.context import WorkerContext
from crb_worker.judge import load_judge
from crb_worker.sandbox.contract import ATTEMPT_LABEL, FARM_LABEL
from crb_worker.snapshot import Snapshot, source_for
from crb_worker.tasks.match import match_step
from crb_worker.tasks.review import review_step
from crb_worker.tasks.score import score_step
from tests.crb_worker.sandbox.support import tree
from tests.e2e.farm import processes_with
from tests.hostile.attacks import ATTACKS, Attack

__all__ = ["HostileFarm", "Outside", "Trial", "outside"]

attempts, candidates, scores = core(AttemptRow), core(CandidateRow), core(ScoreRow)
judgments, steps, trials = core(JudgmentRow), core(StepRow), core(TrialRow)

#: Calm trials before the first attack: one to make the snapshot, the others to compare with.
BASELINE = 4
#: How often each attack can be run.
ROUNDS = 3
_GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")


@dataclass(frozen=True)
class Trial:
    """What the store and the evidence hold of one trial."""

    number: int
    outcome: Outcome
    detail: str
    review_ms: float | None
    stdout: bytes
    stderr: bytes
    findings: tuple[tuple[Any, ...], ...]
    score: Any

    @property
    def result(self) -> tuple[Any, ...]:
        """What must not depend on the trial before."""
        return self.outcome, self.detail, self.stdout, self.stderr, self.findings, self.score


@dataclass
class Outside:
    """What lies outside of every container: a word that no agent may find, a folder to leave alone, listeners."""

    word: str
    canary: Path
    listeners: str
    abstract: str
    connections: list[str]


@contextmanager
def outside(engine: docker.APIClient) -> Iterator[Outside]:
    """Opens listeners on this machine's own addresses; each connection is noted."""
    word = secrets.token_hex(12)
    gateway = engine.inspect_network("bridge")["IPAM"]["Config"][0].get("Gateway")
    connections: list[str] = []
    with contextlib.ExitStack() as closing:
        # Short, since a configuration value has 64 characters.
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="crb-")))
        (folder / "canary").mkdir()
        (folder / "word").write_text(word)
        closing.enter_context(pytest.MonkeyPatch.context()).setenv("HOSTILE_TESTS_WORD", word)
        abstract = f"crb-{word[:8]}"
        places = []
        for family, address in (
            (socket.AF_INET, ("127.0.0.1", 0)),
            *([(socket.AF_INET, (gateway, 0))] if gateway else []),
            (socket.AF_UNIX, f"\0{abstract}"),
        ):
            listener = closing.enter_context(socket.socket(family))
            try:
                listener.bind(address)
            except OSError:
                # The engine's bridge has its address only where the engine runs on this machine.
                continue
            listener.listen()
            # close alone does not wake a thread that waits in accept.
            closing.callback(listener.shutdown, socket.SHUT_RDWR)
            threading.Thread(target=_note, args=(listener, connections), daemon=True).start()
            if family == socket.AF_INET:
                places.append("{}:{}".format(*listener.getsockname()))
        yield Outside(word, folder / "canary", " ".join(places), abstract, connections)


def _note(listener: socket.socket, connections: list[str]) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, peer = listener.accept()
            connections.append(repr(peer))
            connection.close()


def _git(folder: Path, *words: str) -> str:
    return subprocess.run([*_GIT, "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout.strip()


def make_repository(folder: Path, word: str) -> tuple[str, str, str]:
    """A repository whose future, stash, notes and reflog hold the word. Base, head and the later commit."""
    folder.mkdir()
    _git(folder, "init", "-q")
    (folder / "src").mkdir()
    (folder / "src" / "app.py").write_text("def ratio(a, b):\n    return a // b\n")
    (folder / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (folder / "link").symlink_to("/etc/hostname")
    _git(folder, "add", ".")
    _git(folder, "commit", "-qm", "base")
    base = _git(folder, "rev-parse", "HEAD")
    (folder / "src" / "app.py").write_text("def ratio(a, b):\n    return a / b\n")
    _git(folder, "commit", "-qam", "head")
    head = _git(folder, "rev-parse", "HEAD")
    (folder / "src" / "app.py").write_text(f"def ratio(a, b):\n    return a / b if b else None  # {word}\n")
    _git(folder, "commit", "-qam", f"later {word}")
    later = _git(folder, "rev-parse", "HEAD")
    _git(folder, "tag", "-a", "v1", "-m", word)
    _git(folder, "notes", "add", "-m", word, head)
    (folder / "src" / "app.py").write_text(f"# {word}\n")
    _git(folder, "stash")
    return base, head, later


class HostileFarm:
    """One worker that runs attacks and calm trials in turn, through the store, as tasks from the queue would."""

    def __init__(
        self, folder: Path, image_id: str, broker_url: str, engine: docker.APIClient, outside: Outside
    ) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.outside = outside
        self._engine = engine
        self._image_id = image_id
        self.mark = f"mark-{secrets.token_hex(8)}"
        base, head, self._later = make_repository(folder / "upstream", outside.word)
        self.pull_request = PullRequest(
            key="tiny-7", repo="https://github.com/acme/tiny", number=7, base=base, head=head, title="Divide"
        )
        self.corpus = _corpus(self.pull_request, outside.word, str(folder / "upstream"))
        self._source = {"kind": "mirror", "template": str(folder / "upstream")}
        self.store = open_store(f"sqlite:///{self.home / 'crb.sqlite'}")
        settings = Settings(home=self.home, agent_attempts=1, farm_attempts=1, beat_seconds=0.5)
        self.settings = settings
        self._judge = load_judge("offline", corpus=self.corpus)
        self._calm = self._plan("calm", [self.build(Attack("calm", Outcome.SUCCEEDED))], len(ATTACKS) + 3 * BASELINE)
        planned = self._plan("attacks", [self.build(attack) for attack in ATTACKS], ROUNDS)
        self._attacks = {attack.name: planned[place * ROUNDS :][:ROUNDS] for place, attack in enumerate(ATTACKS)}
        self.context = WorkerContext(settings, self.store, broker_url, "attacked", 3)
        self.context.watcher.start()
        self._calm_ms: deque[float] = deque(maxlen=5)
        self.snapshot: Snapshot = self.context.snapshots.get(
            source_for("mirror", self._source["template"]), self.pull_request
        )
        self._shared = tree(self.snapshot.folder)
        measured = [self.calm() for _ in range(BASELINE)][1:]
        self.normal = measured[0]
        assert self.normal.outcome is Outcome.SUCCEEDED, self.normal
        assert all(trial.result == self.normal.result for trial in measured)

    def build(self, attack: Attack) -> AgentBuild:
        told = {
            "attack": attack.name,
            "mark": self.mark,
            "hunt": self.outside.word[::-1],
            "later": self._later[::-1],
            "canary": str(self.outside.canary),
            "listeners": self.outside.listeners,
            "abstract": self.outside.abstract,
        }
        return AgentBuild(
            agent=attack.name,
            display_name=attack.name,
            provider="tests",
            image="crb/test-hostile",
            image_id=self._image_id,
            runner="docker",
            configuration=tuple(ConfigurationEntry(key=key, value=value) for key, value in told.items()),
            limits=Limits(**attack.limits),
        )

    def _plan(self, name: str, builds: list[AgentBuild], rounds: int) -> list[int]:
        """The review steps of a new sweep, by build and round."""
        judge = JudgePlan(
            judge_id=self._judge.fingerprint,
            name=self._judge.name,
            classifies=self._judge.classifies,
            document={"spec": "offline", "description": self._judge.describe()},
        )
        with self.store.write() as connection:
            ids = pull_request_ids(connection, save_corpus(connection, self.corpus))
            sweep_id, _ = plan_sweep(
                connection,
                SweepPlan(
                    name=name,
                    corpus_id=save_corpus(connection, self.corpus),
                    rounds=rounds,
                    builds=builds,
                    pull_requests=list(ids.values()),
                    judges=[judge],
                    snapshot_source=self._source,
                ),
            )
            found = connection.execute(
                select(steps.c.id, steps.c.build_id)
                .join(trials, trials.c.id == steps.c.trial_id)
                .where(steps.c.sweep_id == sweep_id, steps.c.stage == Stage.REVIEW.value)
                .order_by(trials.c.round)
            ).all()
        return [row.id for build in builds for row in found if row.build_id == build.build_id]

    def attack(self, name: str) -> Trial:
        return self._run(self._attacks[name].pop(0))

    def calm(self) -> Trial:
        """The next trial of the agent that means no harm."""
        trial = self._run(self._calm.pop(0))
        if trial.review_ms is not None:
            self._calm_ms.append(trial.review_ms)
        return trial

    @property
    def usual_ms(self) -> float:
        """The median review time of the last calm trials: what else the machine does changes within minutes."""
        return statistics.median(self._calm_ms)

    def _run(self, step_id: int) -> Trial:
        with self.store.write() as connection:
            assert mark_queued(connection, [step_id]) == [step_id]
        review_step(self.context, step_id)
        with self.store.read() as connection:
            trial_id = connection.execute(select(steps.c.trial_id).where(steps.c.id == step_id)).scalar_one()
        for stage, run in ((Stage.MATCH, match_step), (Stage.SCORE, score_step)):
            with self.store.write() as connection:
                following = connection.execute(
                    select(steps.c.id).where(steps.c.trial_id == trial_id, steps.c.stage == stage.value)
                ).scalars()
                queued = mark_queued(connection, list(following))
            for each in queued:
                run(self.context, each)
        return self._read(trial_id)

    def _read(self, trial_id: int) -> Trial:
        with self.store.read() as connection:
            (attempt,) = connection.execute(select(attempts).where(attempts.c.trial_id == trial_id)).all()
            found = connection.execute(
                select(
                    candidates.c.file,
                    candidates.c.start_line,
                    candidates.c.end_line,
                    candidates.c.message,
                    candidates.c.producer,
                    candidates.c.in_diff,
                )
                .where(candidates.c.trial_id == trial_id)
                .order_by(candidates.c.position)
            ).all()
            scored = connection.execute(
                select(scores.c.document)
                .join(judgments, judgments.c.id == scores.c.judgment_id)
                .where(judgments.c.trial_id == trial_id)
            ).scalars()
            score = list(scored)
        evidence = attempt.evidence or {}
        return Trial(
            number=trial_id,
            outcome=Outcome(attempt.outcome),
            detail=attempt.detail,
            review_ms=attempt.review_ms,
            stdout=self.context.evidence.get(evidence["stdout"]) if "stdout" in evidence else b"",
            stderr=self.context.evidence.get(evidence["stderr"]) if "stderr" in evidence else b"",
            findings=tuple(tuple(row) for row in found),
            score=score,
        )

    def left_behind(self) -> list[str]:
        """Containers, volumes, networks, folders and processes of attempts, and changes to what trials share."""
        ours = {"label": f"{FARM_LABEL}={self.settings.farm}"}
        left = [f"container {each['Names']}" for each in self._engine.containers(all=True, filters=ours)]
        left += [f"volume {each['Name']}" for each in self._engine.volumes(filters=ours)["Volumes"] or []]
        left += [
            f"network {each['Name']}"
            for each in self._engine.networks(filters=ours)
            if (each.get("Labels") or {}).get(ATTEMPT_LABEL)
        ]
        left += [f"folder {path}" for path in self.context.workspace.iterdir()]
        left += [f"process {pid}" for pid in processes_with(self.mark)]
        left += [f"touched {path}" for path in self.outside.canary.iterdir()]
        left += [f"connected {peer}" for peer in self.outside.connections]
        if tree(self.snapshot.folder) != self._shared:
            left.append("the shared snapshot was changed")
        return left

    def close(self) -> None:
        self.context.close()
        self.store.close()


def _corpus(pull_request: PullRequest, word: str, template: str) -> Corpus:
    golden = {
        "file": "src/app.py",
        "start_line": 2,
        "end_line": 2,
        "message": f"Division by zero when b is 0. {word}",
        "producer": "a person",
        "label": {"tp_fp": "tp", "severity": "high", "category": "correctness"},
    }
    return Corpus(
        name="hostile",
        version="1",
        title="One pull request that agents attack",
        source="mirror",
        source_template=template,
        entries=(CorpusEntry(pull_request=pull_request, golden=(GoldenFinding.model_validate(golden),)),),
    )
