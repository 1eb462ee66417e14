"""``crb dispute``: submitted by anyone, decided with reasons, applied, fed back and followed (seed A 11)."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from crb_cli.main import app
from crb_core.corpus import Corpus
from crb_core.dispute import Decision, Dispute, Outcome
from crb_core.errors import InputError
from crb_core.formats.dispute_files import DisputeFolder
from crb_core.formats.human_labels import read_labels
from crb_core.formats.recordings import candidate_id
from crb_core.store import open_store
from crb_core.store.corpora import find_corpus, load_corpus
from tests.crb_cli.commands import Commands
from tests.crb_cli.forecasts import assert_as_forecast, golden_id
from tests.crb_core.archived import SWEEP, make_store, reviews

commands = Commands(app)
run = commands.run
read = commands.read
refused = commands.refused


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a corpus of three pull requests and a sweep over it."""
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    make_store(tmp_path / "home").close()
    return tmp_path / "home"


def stored(home: Path, name: str) -> Corpus:
    store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with store.read() as connection:
        corpus = load_corpus(connection, find_corpus(connection, name))
    store.close()
    return corpus


def submit(place: int, axis: str, proposed: str, *more: str, pull_request: str = "pr-1") -> dict[str, Any]:
    found: dict[str, Any] = read(
        "dispute", "submit", "--corpus", "little", "--pr", pull_request, "--finding", golden_id(place, pull_request),
        "--axis", axis, "--proposed", proposed, "--rationale", f"the {axis} is {proposed}", *more,
    )  # fmt: skip
    return found


def decide(dispute: str, outcome: str, *labels: str) -> dict[str, Any]:
    given = [part for label in labels for part in ("--label", label)]
    found: dict[str, Any] = read(
        "dispute", "decide", dispute, "--outcome", outcome, "--rationale", "because", "--by", "group", *given
    )
    return found


def test_a_submission_cites_finding_pull_request_axis_and_who_labelled_it(home: Path) -> None:
    """Anyone may submit, named or not; what is not disputed is recorded with it, and so are the guidelines."""
    made = submit(0, "severity", "low")
    about = made["submission"]
    assert (about["pull_request"], about["finding"], about["axis"]) == ("pr-1", golden_id(0), "severity")
    assert (about["current"], about["proposed"], about["labelled_by"]) == ("high", "low", "j-0123456789ab")
    assert (about["submitted_by"], about["guidelines"]["version"], made["decision"]) == (None, 1, None)
    assert about["labels"] == {"tp_fp": "tp", "severity": "high", "category": "security"}
    assert json.loads(Path(made["file"]).read_text()) == {name: made[name] for name in made if name != "file"}
    assert Path(made["file"]) == home / "disputes" / f"{made['id']}.json"
    text = run("dispute", "list")
    assert "high → low" in text
    assert max(map(len, text.splitlines())) <= 80
    # A label that the finding lacks can be proposed too.
    assert submit(0, "scope", "pre-existing")["submission"]["current"] is None
    assert len(read("dispute", "list", "--state", "open", "--corpus", "little")["disputes"]) == 2
    assert read("dispute", "list", "--pr", "pr-2")["disputes"] == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"--pr": "pr-9"}, "no pull request 'pr-9'"),
        ({"--finding": "g-000000000000"}, "pr-1 has no golden finding 'g-000000000000'"),
        ({"--axis": "beauty"}, "'beauty' is no axis of a label"),
        ({"--proposed": "urgent"}, "'urgent' is no value of severity"),
        ({"--proposed": "high"}, "there is nothing to dispute: the severity is high already"),
        ({"--rationale": " \t"}, "The rationale is empty"),
        ({"--rationale": "\udcff"}, "The rationale holds characters that are no text"),
        ({"--rationale": "x" * 20_001}, "has 20001 characters"),
        ({"--candidate": "c-1"}, "--candidate is for disputes about a match"),
        ({"--axis": "match", "--proposed": "match"}, "a dispute about a match needs --candidate"),
    ],
)
def test_a_submission_that_says_nothing_is_refused(home: Path, changes: dict[str, str], sentence: str) -> None:
    """With the place and what to do; nothing is written."""
    options = {
        "--corpus": "little",
        "--pr": "pr-1",
        "--finding": golden_id(0),
        "--axis": "severity",
        "--proposed": "low",
        "--rationale": "why",
    } | changes
    assert sentence in refused("dispute", "submit", *(part for pair in options.items() for part in pair))
    assert not (home / "disputes").exists()


def test_a_wrong_choice_ends_with_2() -> None:
    """What no store could make right is wrong usage; a finding that is not there is not."""
    decision = ("decide", "d-1", "--outcome", "maybe", "--rationale", "x", "--by", "y")
    for arguments in (("list", "--state", "lost"), decision):
        with pytest.raises(InputError) as caught:
            run("dispute", *arguments)
        assert caught.value.exit_code == 2
    with pytest.raises(InputError) as caught:
        run("dispute", "show", "d-000000000000")
    assert caught.value.exit_code == 1


def test_the_same_dispute_is_open_once() -> None:
    """Another answer to the same question is another dispute, and after a decision it can be asked again."""
    first = submit(0, "severity", "low")["id"]
    with pytest.raises(InputError, match=f"the dispute {first} asks for the same and is open"):
        submit(0, "severity", "low")
    assert submit(0, "severity", "medium")["id"] != first
    decide(first, "declined")
    assert submit(0, "severity", "low")["id"] != first


def test_outcomes() -> None:
    """Upheld takes the proposal or what the group says, partially upheld another axis, declined nothing (seed A 11)."""
    upheld, other, partial, declined = (
        submit(place, "severity", proposed)["id"]
        for place, proposed in ((0, "low"), (0, "medium"), (1, "high"), (2, "low"))
    )
    assert decide(upheld, "upheld")["decision"]["corrections"] == {"severity": "low"}
    assert decide(other, "upheld", "severity=low", "category=testing")["decision"]["corrections"] == {
        "severity": "low",
        "category": "testing",
    }
    for labels, sentence in (
        ((), "names the axis that changes"),
        (("severity=high",), "changes another axis than the severity"),
        (("category=security",), "the category is security already"),
        (("beauty=high",), "'beauty' is no axis"),
        (("category",), "not of the form AXIS=VALUE"),
        (("match=match",), "a match is corrected by a dispute about it"),
    ):
        with pytest.raises(InputError, match=sentence):
            decide(partial, "partially-upheld", *labels)
    assert decide(partial, "partially-upheld", "category=testing")["decision"]["outcome"] == "partially-upheld"
    with pytest.raises(InputError, match="a declined dispute changes no label"):
        decide(declined, "declined", "severity=low")
    with pytest.raises(InputError, match="'maybe' is no outcome"):
        decide(declined, "maybe")
    assert decide(declined, "declined")["decision"]["corrections"] == {}
    with pytest.raises(InputError, match=r"was decided at .*: declined"):
        decide(declined, "upheld")
    assert "because" in run("dispute", "show", declined)
    with pytest.raises(InputError, match="there is no dispute 'd-nobody'"):
        decide("d-nobody", "declined")


def test_decisions_correct_a_corpus_and_its_sweeps(home: Path) -> None:
    """Provenance and version change, the old corpus stays, and the forecast is what the corrected corpus gives."""
    decide(submit(1, "tp_fp", "fp")["id"], "upheld")
    decide(submit(0, "severity", "medium")["id"], "upheld")
    # The later decision on one axis counts.
    decide(submit(0, "severity", "low")["id"], "upheld")
    submit(0, "category", "testing")
    before = stored(home, "little")
    said = read("dispute", "apply", "little", "--save", "little-2")
    assert [(each["axis"], each["before"], each["after"]) for each in said["corrections"]] == [
        ("severity", "high", "low"),
        ("tp_fp", "tp", "fp"),
    ]
    after = stored(home, "little-2")
    assert (stored(home, "little"), said["saved_fingerprint"]) == (before, after.fingerprint)
    assert after.version.startswith("1+golden.")
    label = after.entry("pr-1").golden[1].label
    assert (label.tp_fp, label.provenance["tp_fp"]) == ("fp", "human-corrected")
    assert label.provenance["severity"] == "j-0123456789ab"
    assert label.tp_fp_justification is not None
    assert "d-" in label.tp_fp_justification
    assert after.entry("pr-1").golden[1].finding_id("pr-1") == before.entry("pr-1").golden[1].finding_id("pr-1")
    assert after.entry("pr-2") == before.entry("pr-2")
    assert read("dispute", "apply", "little-2")["corrections"] == []
    with pytest.raises(InputError, match="nothing to save"):
        read("dispute", "apply", "little-2", "--save", "little-3")
    with pytest.raises(InputError, match="cannot take its own place"):
        read("dispute", "apply", "little", "--save", "little")

    forecast = read("dispute", "effect", SWEEP)
    assert_as_forecast(commands, home, "little-2", forecast)
    assert "ranks nobody" in run("dispute", "effect", SWEEP)


def test_decisions_are_labels_to_calibrate_against(tmp_path: Path) -> None:
    """Label and match disputes alike; of a match, everything that the candidate truly matches."""
    candidate = reviews()[0].candidates[1].finding
    known = candidate_id("pr-1", candidate)
    about = ("--candidate", known, "--sweep", SWEEP, "--judge", "people")
    said = submit(1, "match", "match", *about)
    # Round 2 matches it to this golden finding and the others do not.
    assert said["submission"]["current"] is None
    assert said["submission"]["matches"] == sorted(golden_id(place) for place in (0, 1, 2))
    decide(said["id"], "upheld")
    decide(submit(2, "match", "no-match", *about)["id"], "upheld")
    decide(submit(0, "severity", "low")["id"], "upheld")
    decide(submit(1, "category", "testing")["id"], "declined")
    out = tmp_path / "upheld.json"
    assert read("dispute", "labels", "--corpus", "little", "--out", str(out)) == {"file": str(out), "labels": 2}
    assert read_labels(out).labels == {
        ("pr-1", known): {"matches": " ".join(sorted([golden_id(0), golden_id(1)]))},
        ("pr-1", golden_id(0)): {"severity": "low"},
    }
    assert "the file is already there" in refused("dispute", "labels", "--corpus", "little", "--out", str(out))
    with pytest.raises(InputError, match="no upheld dispute about other"):
        read("dispute", "labels", "--corpus", "other", "--out", str(tmp_path / "x.json"))
    with pytest.raises(InputError, match=r"candidate 'c-000000000000' was matched by people"):
        submit(1, "match", "match", "--candidate", "c-000000000000", "--sweep", SWEEP)


def test_the_rate_of_upheld_disputes_is_by_version_of_the_labels() -> None:
    """Upheld among decided, null where none is decided; an open one is in no rate (seed A 11, item 5)."""
    decide(submit(0, "severity", "low")["id"], "upheld")
    decide(submit(1, "severity", "high")["id"], "declined")
    decide(submit(2, "severity", "low")["id"], "partially-upheld", "category=testing")
    submit(0, "severity", "medium")
    submit(0, "tp_fp", "fp")
    submit(0, "category", "testing")
    found = {each["labelled_by"]: each for each in read("dispute", "rates")["rates"]}
    judge = found["j-0123456789ab"]
    assert [judge[name] for name in ("submitted", "open", "decided", "upheld", "partially_upheld", "declined")] == [
        4, 1, 3, 1, 1, 1,
    ]  # fmt: skip
    assert (judge["upheld_rate"], judge["changed_rate"]) == (1 / 3, 2 / 3)
    assert (found["human"]["submitted"], found["human"]["upheld_rate"]) == (1, None)
    assert found[None]["open"] == 1
    assert "33%" in run("dispute", "rates")
    assert read("dispute", "rates", "--corpus", "other")["rates"] == []


def test_decisions_are_published_and_texts_of_people_are_no_markup(tmp_path: Path) -> None:
    """Open disputes are not in the document; every line of a rationale is indented, so none is a heading or markup."""
    first = submit(0, "severity", "low")["id"]
    with pytest.raises(InputError, match="no dispute is decided yet"):
        read("dispute", "publish", "--out", str(tmp_path / "none.md"))
    read(
        "dispute", "decide", first, "--outcome", "declined", "--by", "group",
        "--rationale", "# not a heading\n<script>alert(1)</script>\n\ncafé",
    )  # fmt: skip
    still_open = submit(1, "severity", "high")["id"]
    out = tmp_path / "decisions.md"
    read("dispute", "publish", "--out", str(out))
    text = out.read_text(encoding="utf-8")
    assert first in text
    assert still_open not in text
    assert "    # not a heading\n    <script>alert(1)</script>\n    \n    café\n" in text


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda text: text[:-20], "is not valid JSON"),
        (lambda text: text.replace('"low"', '"medium"'), "the id of this submission is d-"),
        (lambda text: text.replace('"rationale": "the severity is low"', '"rationale": ""'), "cannot be used"),
        (lambda text: text.replace('"decision": null', '"decision": 3'), "cannot be used"),
        (lambda text: text.replace('"format"', '"more": 1, "format"'), "cannot be used"),
        (lambda text: "[" * 200 + text, "nested deeper"),
    ],
)
def test_a_damaged_dispute_is_named(damage: Any, sentence: str) -> None:
    """A file that was changed, cut or made up is refused with its name; what people said is never taken from it."""
    path = Path(submit(0, "severity", "low")["file"])
    path.write_text(damage(path.read_text()))
    said = refused("dispute", "list")
    assert path.name in said
    assert sentence in said


def test_a_dispute_is_decided_once() -> None:
    """Of two that decide at the same time one wins, and the other is told."""
    made = submit(0, "severity", "low")
    folder = DisputeFolder(Path(made["file"]).parent)
    at = "2026-01-01T00:00:00.000Z"
    decided = [
        Dispute(
            id=made["id"],
            submission=folder.read(made["id"]).submission,
            decision=Decision(outcome=Outcome.DECLINED, corrections={}, rationale=name, decided_by=name, decided_at=at),
        )
        for name in ("one", "two", "three")
    ]
    refusals: list[InputError] = []

    def write(each: Any) -> None:
        try:
            folder.decide(each)
        except InputError as error:
            refusals.append(error)

    threads = [threading.Thread(target=write, args=(each,)) for each in decided]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [str(each).startswith(f"the dispute {made['id']} was decided meanwhile") for each in refusals] == [True] * 2
    assert folder.read(made["id"]).decision in [each.decision for each in decided]
    assert [path.name for path in folder.path.iterdir()] == [f"{made['id']}.json"]
