"""Secrets are taken by name, from where an operator puts them, and never from what the farm needs itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from crb_core.agent import AgentBuild, Secrets
from crb_core.errors import InputError
from crb_core.settings import Settings
from crb_worker.agent_secrets import MAX_SECRET_BYTES, agent_secrets


def build(*env: str, files: tuple[str, ...] = ()) -> AgentBuild:
    return AgentBuild(
        agent="a",
        display_name="A",
        provider="p",
        image="crb/a",
        image_id="sha256:" + "0" * 64,
        runner="docker",
        secrets=Secrets(env=env, files=files),
    )


def found(*env: str, folder: Path | None = None, files: tuple[str, ...] = (), **environment: str) -> dict[str, str]:
    return agent_secrets(build(*env, files=files), Settings(secrets_folder=folder), environment)


def test_only_what_is_declared_and_there() -> None:
    """Undeclared ones are not looked at; a missing one is left to the sandbox, which names it."""
    assert found("TOKEN", "OTHER", TOKEN="token-value", SECOND="second-value") == {"TOKEN": "token-value"}


def test_the_own_variable_comes_first_then_the_file(tmp_path: Path) -> None:
    """CRB_SECRET_NAME, then the secrets folder, then NAME."""
    (tmp_path / "TOKEN").write_text("from-a-file\n")
    assert found("TOKEN", folder=tmp_path, TOKEN="plain-value", CRB_SECRET_TOKEN="own-value") == {"TOKEN": "own-value"}
    assert found("TOKEN", folder=tmp_path, TOKEN="plain-value") == {"TOKEN": "from-a-file"}


def test_a_blank_value_is_none(tmp_path: Path) -> None:
    """It is looked for in the next place, and missing where all are blank; no agent starts with an empty key."""
    for blank in ("", " ", "\n"):
        (tmp_path / "TOKEN").write_text(blank)
        assert found("TOKEN", folder=tmp_path, CRB_SECRET_TOKEN=blank, TOKEN="plain-value") == {"TOKEN": "plain-value"}
        assert found("TOKEN", folder=tmp_path, files=("/TOKEN",), CRB_SECRET_TOKEN=blank, TOKEN=blank) == {}


@pytest.mark.parametrize(
    "name",
    ["ANTHROPIC_API_KEY", "anthropic_api_key", "ANTHROPIC_AUTH_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD"],
)
def test_the_farm_s_own_keys_are_never_given_away(name: str) -> None:
    """A manifest that declares the judge's key by its name does not get the judge's key, but one of its own."""
    assert found(name, **{name: "the-judge-s-key"}) == {}
    assert found(name, **{name: "the-judge-s-key", f"CRB_SECRET_{name}": "the-agent-s-key"}) == {
        name: "the-agent-s-key"
    }


def test_files_come_from_the_folder_as_they_are(tmp_path: Path) -> None:
    """A declared file keeps its line break; without a folder there is none."""
    (tmp_path / "run" / "keys").mkdir(parents=True)
    (tmp_path / "run" / "keys" / "api.json").write_text('{"key": "0123456789"}\n')
    path = "/run/keys/api.json"
    assert found(files=(path,), folder=tmp_path) == {path: '{"key": "0123456789"}\n'}
    assert found(files=(path,)) == {}


def test_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    """What is elsewhere on the machine is no secret of an agent."""
    (tmp_path / "outside").write_text("password of somebody")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "TOKEN").symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="TOKEN is outside of the secrets folder"):
        found("TOKEN", folder=tmp_path / "folder")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfe0123456", "is not UTF-8"),
        (b"x" * (MAX_SECRET_BYTES + 1), "is larger than"),
        (b"short", "is shorter"),
        (b"0123\x00456", "zero byte"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_without_being_shown(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    """One sentence, the name, and nothing of the value."""
    (tmp_path / "TOKEN").write_bytes(content)
    with pytest.raises(InputError, match=problem) as caught:
        found("TOKEN", folder=tmp_path)
    assert "TOKEN" in str(caught.value)
    assert "short," not in str(caught.value)
    assert "xxx" not in str(caught.value)
