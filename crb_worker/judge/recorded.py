"""The judge ``recorded``: replays stored answers by request hash, without a model (seed A 9).

``recorded:from=PATH`` reads a recording: one JSON file, or a folder of them. ``recorded:judge=j-...`` takes the answers
that a judge got in this store. The requests are made exactly as the recorded judge makes them, so a changed prompt,
model or finding has another hash and no stored answer, which is an error that names the request.

    {"format": "crb.judge-recording/1",
     "judge": {"name": "claude", "options": {...}, "fingerprint": "j-...", "description": {...}},
     "answers": [{"request_hash": "...", "label": "...", "ids": {"<id>": "candidate 0"}, "answer": {<message>}}]}
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from crb_core.corpus import canonical_json
from crb_core.errors import InputError, Where, first_problem
from crb_core.evidence import EvidenceStore, open_evidence
from crb_core.finding import CandidateFinding, GoldenFinding
from crb_core.formats.strict_json import load_json
from crb_core.matching import Classification, Correspondence
from crb_core.settings import load_settings
from crb_core.store import Store, open_store
from crb_core.store.judge_calls import answered_calls, find_answer
from crb_core.store.judgments import judge_document
from crb_worker.judge.base import JudgeWork, judge_fingerprint
from crb_worker.judge.claude import ClaudeSetup, read_setup
from crb_worker.judge.client import LOOPBACK_MODEL
from crb_worker.judge.quoting import Ids
from crb_worker.judge.requests import ModelAnswer, ModelRequest, stored_answer
from crb_worker.snapshot import Snapshot

__all__ = ["RECORDING_FORMAT", "Answers", "FileAnswers", "RecordedJudge", "StoreAnswers", "export_recording"]

RECORDING_FORMAT = "crb.judge-recording/1"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _JudgePart(_Part):
    name: str
    options: dict[str, str]
    fingerprint: str
    description: dict[str, Any]


class _AnswerPart(_Part):
    request_hash: str = Field(pattern=r"^[0-9a-f]{64}$")
    label: str
    ids: dict[str, str]
    answer: dict[str, Any]


class _Recording(_Part):
    format: str
    judge: _JudgePart
    answers: tuple[_AnswerPart, ...]


class Answers(Protocol):
    """Stored answers of one judge. ``source`` names them for people, ``options`` made the judge."""

    source: str
    options: dict[str, str]

    def find(self, request_hash: str) -> ModelAnswer | None: ...

    def identity(self) -> Any:
        """What decides which answers these are, as JSON."""


class FileAnswers:
    """The answers of a recording."""

    def __init__(self, path: Path) -> None:
        """Read a file, or every ``*.json`` of a folder. Each problem is an InputError with file and field."""
        files = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not files:
            raise InputError("the folder holds no recording", where=Where(file=str(path)), remedy="Name a *.json file")
        self.source = str(path)
        self._answers: dict[str, ModelAnswer] = {}
        judge: _JudgePart | None = None
        digest = hashlib.sha256()
        for file in files:
            recording = _read(file)
            if judge is not None and recording.judge.fingerprint != judge.fingerprint:
                raise InputError(
                    f"the recordings are of two judges, {judge.fingerprint} and {recording.judge.fingerprint}",
                    where=Where(file=str(file), field="judge.fingerprint"),
                    remedy="Keep one judge in a folder",
                )
            judge = recording.judge
            for position, part in enumerate(recording.answers):
                answer = ModelAnswer(request_hash=part.request_hash, message=part.answer, ids=part.ids)
                known = self._answers.get(part.request_hash)
                if known is not None and known.message != answer.message:
                    raise InputError(
                        f"request {part.request_hash} has two different answers",
                        where=Where(file=str(file), field=f"answers[{position}].request_hash"),
                        remedy="Keep one of them",
                    )
                self._answers[part.request_hash] = answer
        assert judge is not None
        self.options = judge.options
        self.recorded_fingerprint = judge.fingerprint
        for name in sorted(self._answers):
            digest.update(name.encode() + canonical_json(self._answers[name].message).encode("utf-8", "surrogatepass"))
        self._digest = digest.hexdigest()

    def find(self, request_hash: str) -> ModelAnswer | None:
        return self._answers.get(request_hash)

    def identity(self) -> Any:
        return {"of": self.recorded_fingerprint, "answers": self._digest}


class StoreAnswers:
    """The answers that a judge got in a store, whichever trial they were for."""

    def __init__(self, store: Store, evidence: EvidenceStore, judge_id: str) -> None:
        self.source = f"the calls of judge {judge_id}"
        self._store, self._evidence, self._judge_id = store, evidence, judge_id
        with store.read() as connection:
            row = judge_document(connection, judge_id)
        self.options = options_of(row.document)

    def find(self, request_hash: str) -> ModelAnswer | None:
        with self._store.read() as connection:
            found = find_answer(connection, self._judge_id, request_hash, trial_id=None, any_trial=True)
        if found is None:
            return None
        get = self._evidence.get
        return stored_answer(request_hash, get(found.request_digest), get(found.answer_digest))

    def identity(self) -> Any:
        return {"of": self._judge_id, "answers": "of this store"}


class _ReplayCalls:
    """Asks the recording instead of a model."""

    def __init__(self, answers: Answers) -> None:
        self.ids = Ids(b"replay")
        self._answers = answers

    def ask(self, request: ModelRequest) -> ModelAnswer:
        answer = self._answers.find(request.request_hash)
        if answer is None:
            raise InputError(
                f"There is no stored answer to request {request.request_hash} ({request.label}) in "
                f"{self._answers.source}",
                remedy="Record it with the judge claude; a changed prompt, model or finding is another request",
            )
        return answer

    def known(self, request: ModelRequest) -> bool:
        return self._answers.find(request.request_hash) is not None

    def reject(self, answers: Sequence[ModelAnswer], reason: str) -> None:
        """A recording is not changed."""

    def unit(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def finish(self) -> None:
        """Every answer is there."""


class RecordedJudge:
    """Matcher and classifier of a recorded judge. Only the classifier needs a step, for the snapshot.

    ``name`` says where the answers replayed are those of the scripted model.
    """

    classifies = True

    def __init__(self, answers: Answers, setup: ClaudeSetup, snapshot: Callable[[], Snapshot] | None = None) -> None:
        self._answers = answers
        self._setup = setup
        self._snapshot = snapshot
        self.name = "recorded-fake-model" if setup.model == LOOPBACK_MODEL else "recorded"
        self.fingerprint = judge_fingerprint(self.describe())

    @classmethod
    def load(cls, options: Mapping[str, str]) -> RecordedJudge:
        """The judge for ``from=PATH`` or ``judge=ID``; InputError where the recording cannot be used."""
        if len(options) != 1 or not options.keys() <= {"from", "judge"}:
            raise InputError(
                "the recorded judge takes one option",
                remedy="Write recorded:from=PATH for a recording, or recorded:judge=ID for calls of this store",
            )
        if "from" in options:
            answers: Answers = FileAnswers(Path(options["from"]))
        else:
            settings = load_settings()
            store = open_store(settings.resolved_store_url)
            answers = StoreAnswers(store, open_evidence(settings.resolved_evidence_url), options["judge"])
        return cls(answers, read_setup(answers.options))

    def describe(self) -> dict[str, Any]:
        """Whose answers are replayed, which they are, and how requests are made now."""
        return {
            "judge": "recorded",
            "recording": self._answers.identity(),
            "requests": self._setup.describe(),
            "fake_model": self._setup.describe()["fake_model"],
        }

    def for_step(self, work: JudgeWork) -> RecordedJudge:
        """The judge with the snapshot of one step."""
        return RecordedJudge(self._answers, self._setup, work.snapshot)

    def match(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],
        golden: Sequence[GoldenFinding],
        *,
        protocol: str,
    ) -> tuple[Correspondence, ...]:
        asker = _ReplayCalls(self._answers)
        return self._setup.match(asker, pull_request_key, candidates, golden, protocol=protocol)

    def classify(
        self,
        pull_request_key: str,
        candidates: Sequence[CandidateFinding],
        positions: Sequence[int],
        *,
        protocol: str,
    ) -> tuple[Classification, ...]:
        if self._snapshot is None:
            raise InputError(f"the recorded judge classifies {pull_request_key} inside a step, with its snapshot")
        asker = _ReplayCalls(self._answers)
        return self._setup.classify(asker, self._snapshot, candidates, positions, protocol=protocol)


def export_recording(
    store: Store, evidence: EvidenceStore, judge_id: str, *, sweep_id: str | None = None
) -> dict[str, Any]:
    """A recording of every usable answer that a judge got, the newest one a request; deterministic for one store."""
    with store.read() as connection:
        row = judge_document(connection, judge_id)
        found = answered_calls(connection, judge_id, sweep_id=sweep_id)
    newest = {call.request_hash: call for call in found}
    answers = []
    for name in sorted(newest):
        call = newest[name]
        answer = stored_answer(name, evidence.get(call.request_digest), evidence.get(call.answer_digest))
        answers.append(
            {"request_hash": name, "label": call.label, "ids": dict(answer.ids), "answer": dict(answer.message)}
        )
    return {
        "format": RECORDING_FORMAT,
        "judge": {
            "name": row.name,
            "options": options_of(row.document),
            "fingerprint": judge_id,
            "description": row.document["description"],
        },
        "answers": answers,
    }


def options_of(document: Mapping[str, Any]) -> dict[str, str]:
    """The options of a stored judge's spec, with the model that it really used."""
    from crb_worker.judge import judge_options

    name, options = judge_options(document["spec"])
    if name != "claude":
        raise InputError(f"the judge {name} makes no calls that could be replayed", remedy="Name a claude judge")
    # The base URL says where answers came from; a replay reaches nothing.
    kept = {key: value for key, value in options.items() if key not in {"base_url", "batch"}}
    return kept | {"model": document["description"]["matcher"]["model"]}


def _read(path: Path) -> _Recording:
    data = load_json(path)
    try:
        recording = _Recording.model_validate(data)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InputError(
            f"the recording is not valid: {problem}", where=Where(file=str(path), field=field or None)
        ) from None
    if recording.format != RECORDING_FORMAT:
        raise InputError(
            f"the format is {recording.format[:80]!r}",
            where=Where(file=str(path), field="format"),
            remedy=f"This version reads {RECORDING_FORMAT}",
        )
    return recording
