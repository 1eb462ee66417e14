"""Wrong usage ends with 2 and what is not there with 1, each in a sentence; mistakes that nobody foresaw too."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from crb_cli import main
from crb_cli.main import app
from crb_core.errors import CrbError
from crb_core.store import open_store
from crb_core.store.sweeps import SweepPlan, plan_sweep


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CRB_BROKER_URL", raising=False)
    return tmp_path / "home"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments], prog_name="crb", catch_exceptions=False)


def refused(*arguments: str) -> CrbError:
    with pytest.raises(CrbError) as caught:
        run(*arguments)
    return caught.value


@pytest.mark.parametrize(
    "arguments",
    [
        ("sweep", "start"),
        ("sweep", "start", "--agent", "minimal", "--runner", "vm"),
        ("sweep", "start", "--agent", "minimal", "--agent-concurrency", "minimal"),
        ("sweep", "set", "any", "--concurrency", "many"),
        ("trial", "retry"),
        ("trial", "retry", "--stage", "guess"),
        ("trial", "list", "--outcome", "luck"),
        ("trial", "logs", "1", "--stream", "video"),
        ("token", "create", "olga", "--role", "king"),
        ("token", "create", "olga", "--role", "reader", "--expires", "soon"),
        ("corpus", "import", "floppy", ".", "--name", "mine"),
        ("export", "csv", "any", "--out", "x", "--table", "chairs"),
        ("export", "sweep", "any", "--out", "-"),
        ("export", "sweep", "any", "--out", "."),
        ("gc", "--older-than", "ages"),
        ("serve", "--host", "192.0.2.10"),
        ("worker", "--queue", "post"),
        ("worker", "--slots", "0"),
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    """As an unknown option does, whatever the store holds."""
    assert refused(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("trial", "list", "--sweep", "typo"), "There is no sweep named typo"),
        (("trial", "retry", "--sweep", "typo"), "There is no sweep named typo"),
        (("trial", "cancel", "--sweep", "typo"), "There is no sweep named typo"),
        (("sweep", "show", ""), "There is no sweep named ''"),
        (("trial", "show", "99999999999999999999"), "There is no trial 99999999999999999999"),
        (("trial", "logs", "99999999999999999999"), "There is no trial 99999999999999999999"),
        (("corpus", "show", "/"), "this is no corpus"),
        (("corpus", "snapshot", "absent"), "the folder does not exist"),
        (("verify", "absent"), "there is no such file or folder"),
    ],
)
def test_what_is_not_there_ends_with_1(arguments: tuple[str, ...], says: str) -> None:
    """A name that is mistyped is no empty list, and a number that no column holds is no trial."""
    error = refused(*arguments)
    assert (error.exit_code, says in str(error)) == (1, True), error


@pytest.mark.parametrize("name", ["", " ", "a/b", "../x", "-x", "a\nb", "\x1b[31m", "x" * 101, "tail "])
def test_a_new_sweeps_name_is_checked(name: str, home: Path) -> None:
    """It is an argument, a part of addresses and a cell of tables; an empty one is not the default."""
    store = open_store(f"sqlite:///{home}/crb.sqlite")
    with pytest.raises(CrbError, match="no usable name for a sweep") as caught, store.write() as connection:
        plan_sweep(
            connection,
            SweepPlan(name=name, corpus_id=1, rounds=1, builds=[], pull_requests=[], judges=[], snapshot_source={}),
        )
    assert caught.value.exit_code == 2
    store.close()


def test_groups_install_nothing() -> None:
    """`crb corpus --install-completion` would write a completion that cannot work into somebody's shell."""
    for name in ("corpus", "sweep", "leaderboard"):
        assert "completion" not in run(name, "--help").output


def test_evidence_that_cannot_be_kept_is_said_before_a_row_is_written(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the worker, with a sweep of trials planned that nobody can run."""
    monkeypatch.setenv("CRB_EVIDENCE_URL", "nowhere://x")
    error = refused("sweep", "start", "--agent", "minimal", "--runner", "process")
    assert "The evidence URL nowhere://x cannot be used" in str(error)
    assert not (home / "crb.sqlite").exists()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_store_in_memory_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next command would find nothing of it."""
    monkeypatch.setenv("CRB_STORE_URL", url)
    assert "would be forgotten" in str(refused("sweep", "list"))


def test_the_doctor_examines_a_home_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names what is wrong with it, and a variable that is nearly a setting, and goes on."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CRB_HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setenv("CRB_REVEIW_SLOTS", "4")
    done = run("doctor")
    said = " ".join(done.output.split())
    assert done.exit_code == 1
    assert "Set CRB_HOME to a folder that can be written" in said
    assert "CRB_REVEIW_SLOTS is no setting, so it does nothing. Is CRB_REVIEW_SLOTS meant?" in said
    assert "agents" in said


def test_what_nobody_foresaw_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With its place; the whole story is there where the log level asks for it."""

    def broken(*_: object, **__: object) -> None:
        raise KeyError("unheard of")

    monkeypatch.setattr(main, "app", broken)
    for level, has_story in (("info", False), ("debug", True)):
        monkeypatch.setenv("CRB_LOG_LEVEL", level)
        with pytest.raises(SystemExit) as caught:
            main.run()
        said = capsys.readouterr()
        assert (caught.value.code, said.out) == (1, "")
        assert "crb: This is a mistake in crb: KeyError: 'unheard of' (" in said.err
        assert ("Traceback" in said.err) is has_story
