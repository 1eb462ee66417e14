"""The recorded judge gives what the claude judge gave, without a model; what is missing is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from crb_core.errors import InputError
from crb_core.prompts import PromptSet, bundled_prompts, read_prompt, read_prompts
from crb_core.store.judge_versions import judge_versions
from crb_core.store.judgments import judges
from crb_worker.judge import judge_names, load_judge
from crb_worker.judge.claude import ClaudeJudge
from crb_worker.judge.client import LOOPBACK_MODEL
from crb_worker.judge.loopback import AnthropicServer, ReadingModel
from crb_worker.judge.recorded import FileAnswers, RecordedJudge, StoreAnswers, export_recording
from tests.crb_worker.judge.claude_support import MODEL, Desk, finding, golden

CANDIDATES = (
    finding("Lock of the pool is held while the retry loop sleeps."),
    finding("list_refunds pastes reason into the statement."),
    finding("Zyxw qwertz uiopu."),
)
GOLDEN = (golden("The retry loop sleeps while it holds the pool lock, so one slow host blocks all workers."),)


def record(desk: Desk) -> tuple[str, Any, Any, dict[str, Any]]:
    """Judge once with the loopback model; judge id, matches, labels and the recording."""
    with AnthropicServer(ReadingModel()) as server:
        judge = desk.judge(server)
        matches = judge.match("pr", CANDIDATES, GOLDEN, protocol="reviewbench")
        labels = judge.classify("pr", CANDIDATES, (1, 2), protocol="reviewbench")
    with desk.store.write() as connection:
        document = {"spec": f"claude:model={MODEL}", "description": judge.describe()}
        connection.execute(
            insert(judges).values(id=judge.fingerprint, name=judge.name, classifies=True, document=document)
        )
    return judge.fingerprint, matches, labels, export_recording(desk.store, desk.evidence, judge.fingerprint)


@pytest.fixture
def recorded(desk: Desk) -> tuple[Desk, str, Any, Any, dict[str, Any]]:
    return (desk, *record(desk))


def test_a_recording_replays_matches_and_labels(recorded: Any, tmp_path: Path) -> None:
    """No server is there; labels keep the fingerprint of the judge that made them."""
    desk, judge_id, matches, labels, recording = recorded
    path = tmp_path / "recording.json"
    path.write_text(json.dumps(recording))
    judge = RecordedJudge.load({"from": str(path)})
    assert judge.match("pr", CANDIDATES, GOLDEN, protocol="reviewbench") == matches
    bound = judge.for_step(desk.work(judge.fingerprint))
    assert bound.classify("pr", CANDIDATES, (1, 2), protocol="reviewbench") == labels
    assert labels[0].label.provenance["tp_fp"] == judge_id
    assert bound.fingerprint == judge.fingerprint


def test_a_recording_is_deterministic_and_holds_no_key(recorded: Any) -> None:
    """The same store gives the same recording."""
    desk, judge_id, _, _, recording = recorded
    assert export_recording(desk.store, desk.evidence, judge_id) == recording
    assert "test-key" not in json.dumps(recording)
    assert len(recording["answers"]) == 1 + 2 * 2


def test_a_store_is_a_recording_too(recorded: Any) -> None:
    """Answers are found by request hash, whichever trial they were for."""
    desk, judge_id, matches, _, _ = recorded
    answers = StoreAnswers(desk.store, desk.evidence, judge_id)
    judge = RecordedJudge(answers, ClaudeJudge.load(answers.options).setup)
    assert judge.match("another-key", CANDIDATES, GOLDEN, protocol="reviewbench") == matches


@pytest.mark.parametrize(("model", "name"), [(MODEL, "recorded"), (LOOPBACK_MODEL, "recorded-fake-model")])
def test_a_replay_of_the_scripted_model_says_so(recorded: Any, model: str, name: str) -> None:
    """Every table shows the name, so a replay is not taken for a real model's."""
    desk, judge_id, *_ = recorded
    answers = StoreAnswers(desk.store, desk.evidence, judge_id)
    assert RecordedJudge(answers, ClaudeJudge.load({"model": model}).setup).name == name


def test_a_missing_answer_names_the_request(recorded: Any, tmp_path: Path) -> None:
    """Hash, pull request, file and chunk are in the sentence; nothing is taken for "no match"."""
    _, _, _, _, recording = recorded
    path = tmp_path / "recording.json"
    path.write_text(json.dumps(recording))
    judge = RecordedJudge.load({"from": str(path)})
    changed = (*CANDIDATES[:2], finding("Something else."))
    with pytest.raises(InputError) as error:
        judge.match("ledger-41", changed, GOLDEN, protocol="reviewbench")
    assert "match ledger-41 ledger/api.py: candidates 0,1,2, golden 0" in str(error.value)
    assert len([word for word in str(error.value).split() if len(word) == 64]) == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda value: value.update(format="x"), "the format is 'x'"),
        (lambda value: value.pop("judge"), "Field required"),
        (lambda value: value["answers"][0].update(request_hash="x"), "answers[0].request_hash"),
        (lambda value: value["answers"][0].update(note=1), "answers[0].note"),
        (
            lambda value: value["answers"].append(value["answers"][0] | {"answer": {"content": []}}),
            "two different answers",
        ),
        (lambda value: value["judge"]["options"].update(model="no model"), "is no model id"),
    ],
)
def test_a_broken_recording_is_located(recorded: Any, tmp_path: Path, change: Any, problem: str) -> None:
    """File and field are named."""
    recording = recorded[-1]
    change(recording)
    path = tmp_path / "recording.json"
    path.write_text(json.dumps(recording))
    with pytest.raises(InputError) as error:
        RecordedJudge.load({"from": str(path)})
    assert problem in str(error.value)


def test_a_folder_holds_one_judges_recordings(recorded: Any, tmp_path: Path) -> None:
    """Parts of one judge are read together; two judges are refused, and so is a folder without any."""
    _, _, matches, _, recording = recorded
    folder = tmp_path / "parts"
    folder.mkdir()
    with pytest.raises(InputError, match="holds no recording"):
        FileAnswers(folder)
    for number in range(len(recording["answers"])):
        part = recording | {"answers": recording["answers"][number : number + 1]}
        (folder / f"{number}.json").write_text(json.dumps(part))
    judge = RecordedJudge.load({"from": str(folder)})
    assert judge.match("pr", CANDIDATES, GOLDEN, protocol="reviewbench") == matches
    other = recording | {"judge": recording["judge"] | {"fingerprint": "j-other"}}
    (folder / "x.json").write_text(json.dumps(other))
    with pytest.raises(InputError, match="two judges"):
        FileAnswers(folder)


@pytest.mark.parametrize("options", [{}, {"from": "a", "judge": "b"}, {"to": "a"}])
def test_the_options_are_one_of_two(options: dict[str, str]) -> None:
    """A recording or a judge of this store."""
    with pytest.raises(InputError, match="takes one option"):
        RecordedJudge.load(options)


def test_a_judge_that_the_store_does_not_have_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers cannot be replayed, and the refusal says whose were asked for."""
    monkeypatch.setenv("CRB_HOME", str(tmp_path))
    with pytest.raises(InputError, match="no judge 'j-000000000000'"):
        RecordedJudge.load({"judge": "j-000000000000"})


def test_the_registry_knows_both(showcase_corpus: Any) -> None:
    """claude and recorded are judges like others; a wrong option is named."""
    assert {"claude", "recorded"} <= set(judge_names())
    judge = load_judge("claude:model=claude-opus-5,turns=4", corpus=showcase_corpus)
    assert (judge.name, judge.classifies) == ("claude:claude-opus-5", True)
    assert judge.fingerprint != load_judge("claude", corpus=showcase_corpus).fingerprint
    for spec in (
        "claude:temperature=0",
        "claude:turns=0",
        "claude:effort_match=much",
        "claude:base_url=ftp://x",
        "claude:batch=1",
    ):
        with pytest.raises(InputError):
            load_judge(spec, corpus=showcase_corpus)


def test_where_answers_are_fetched_is_no_part_of_the_judge(
    showcase_corpus: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address from the environment and the batch service leave the fingerprint alone; a named address does not."""
    plain = load_judge("claude", corpus=showcase_corpus)
    assert load_judge("claude:batch=true", corpus=showcase_corpus).fingerprint == plain.fingerprint
    named = load_judge("claude:base_url=https://gateway.example", corpus=showcase_corpus)
    assert named.fingerprint != plain.fingerprint
    monkeypatch.setenv("CRB_JUDGE_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("CRB_JUDGE_MODEL", "claude-sonnet-5")
    assert load_judge("claude", corpus=showcase_corpus).fingerprint == plain.fingerprint


def test_a_new_version_of_the_guidelines_makes_judgments_stale(recorded: Any, tmp_path: Path) -> None:
    """The fingerprint changes, and the store's judge is shown with old and new version."""
    desk, judge_id, _, _, _ = recorded
    with desk.store.read() as connection:
        (same,) = [each for each in judge_versions(connection) if each.judge_id == judge_id]
    assert not same.is_stale
    changed = tmp_path / "guidelines.md"
    changed.write_text("---\nname: guidelines\nversion: 2\npurpose: Another.\n---\nAll is well.\n")
    prompts = PromptSet({**bundled_prompts().by_name, "guidelines": read_prompt(changed)})
    with desk.store.read() as connection:
        (stale,) = [each for each in judge_versions(connection, prompts) if each.judge_id == judge_id]
    assert (stale.is_stale, stale.stale_classifying, stale.stale_matching) == (True, True, False)
    (guidelines,) = [prompt for prompt in stale.prompts if prompt.is_stale]
    assert (guidelines.name, guidelines.version, guidelines.now) == ("guidelines", 1, 2)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("text only\n", "has no header"),
        ("---\nname: x\nversion: 1\n---\ntext\n", "has no purpose"),
        ("---\nname: x\nversion: one\npurpose: p\n---\ntext\n", "not a positive integer"),
        ("---\nname: y\nversion: 1\npurpose: p\n---\ntext\n", "named 'y'"),
        ("---\nname: x\nversion: 1\npurpose: p\nauthor: me\n---\ntext\n", "line 5"),
        ("---\nname: x\nversion: 1\npurpose: p\n---\n \n", "has no text"),
    ],
)
def test_a_prompt_without_its_header_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    """Name, version and purpose are there, or the file is named."""
    path = tmp_path / "x.md"
    path.write_text(content)
    with pytest.raises(InputError) as error:
        read_prompt(path)
    assert problem in str(error.value)
    assert "x.md" in str(error.value)


def test_every_prompt_of_the_judge_is_needed(tmp_path: Path) -> None:
    """A missing file is named."""
    with pytest.raises(InputError, match="No such file"):
        read_prompts(tmp_path)
