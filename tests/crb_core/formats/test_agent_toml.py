"""Agent manifests are read strictly, and every error says where."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from crb_core.agent import AgentManifest, ConfigurationEntry, Limits, ModelRole, Secrets
from crb_core.errors import InputError
from crb_core.formats.agent_toml import (
    load_agent_toml,
    load_manifest,
    load_reviewbench_agent,
    parse_agent_toml,
    parse_reviewbench_agent,
)

WHOLE = """\
name = "my-agent"
display_name = "My agent"
provider = "Me"
image = "ghcr.io/me/agent@sha256:0000000000000000000000000000000000000000000000000000000000000000"
image_visibility = "private"
egress = ["api.example.com"]
model_api_url = "https://model.example.com/v1"
pr_timeout_seconds = 600
contacts = ["me", "some-one"]
notes = "One line.\\nAnother."
process_command = ["python", "entrypoint"]
shared_folders = ["contract"]

[[configuration]]
key = "effort"
value = "high"

[[configuration]]
key = "max-turns"
value = "4"
display_value = "four"

[secrets]
env = ["API_KEY"]
files = ["/run/secrets/key"]

[[model_roles]]
role = "reviewer"
model = "model-1"

[limits]
memory_mib = 512
cpus = 2
"""


def test_every_field_is_read() -> None:
    """The whole manifest, field by field."""
    assert parse_agent_toml(WHOLE.encode()) == AgentManifest(
        name="my-agent",
        display_name="My agent",
        provider="Me",
        image="ghcr.io/me/agent@sha256:" + "0" * 64,
        image_visibility="private",
        egress=("api.example.com",),
        model_api_url="https://model.example.com/v1",
        pr_timeout_seconds=600,
        contacts=("me", "some-one"),
        notes="One line.\nAnother.",
        process_command=("python", "entrypoint"),
        shared_folders=("contract",),
        configuration=(
            ConfigurationEntry(key="effort", value="high"),
            ConfigurationEntry(key="max-turns", value="4", display_value="four"),
        ),
        secrets=Secrets(env=("API_KEY",), files=("/run/secrets/key",)),
        model_roles=(ModelRole(role="reviewer", model="model-1"),),
        limits=Limits(memory_mib=512, cpus=2.0),
    )


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "problem"),
    [
        ("provider =", "providr =", 3, "providr", "did you mean provider"),
        ("memory_mib", "memory_mb", 32, "limits.memory_mb", "did you mean memory_mib"),
        ('display_value = "four"', "shown = 4", 21, "configuration[1].shown", "the fields here are key, value"),
        ("[secrets]", "[secret]", 23, "secret", "did you mean secrets"),
        ('display_name = "My agent"\n', "", None, "display_name", "display_name is missing"),
        ('value = "4"\n', "", 18, "configuration[1].value", "value is missing"),
        ("pr_timeout_seconds = 600", 'pr_timeout_seconds = "600"', 8, "pr_timeout_seconds", "not a whole number"),
        ("pr_timeout_seconds = 600", "pr_timeout_seconds = 600.0", 8, "pr_timeout_seconds", "not a whole number"),
        ("pr_timeout_seconds = 600", "pr_timeout_seconds = true", 8, "pr_timeout_seconds", "not a whole number"),
        ("pr_timeout_seconds = 600", "pr_timeout_seconds = 59", 8, "pr_timeout_seconds", "greater than or equal to 60"),
        (
            "pr_timeout_seconds = 600",
            "pr_timeout_seconds = 3601",
            8,
            "pr_timeout_seconds",
            "less than or equal to 3600",
        ),
        ("cpus = 2", "cpus = nan", 33, "limits.cpus", "not a finite number"),
        ("cpus = 2", "cpus = inf", 33, "limits.cpus", "not a finite number"),
        ("cpus = 2", "cpus = 0", 33, "limits.cpus", "greater than 0"),
        ('provider = "Me"', "provider = 2026-01-01", 3, "provider", "a date or a time"),
        ('provider = "Me"', "provider = 7", 3, "provider", "text in quotes"),
        ('provider = "Me"', 'provider = " "', 3, "provider", "blank"),
        ('provider = "Me"', 'provider = "a\\u001b[31m"', 3, "provider", "control character"),
        ('name = "my-agent"', 'name = "My Agent"', 1, "name", "does not match"),
        ('"api.example.com"', '"localhost"', 6, "egress", "at least two labels"),
        ('"api.example.com"', '"API.example.com"', 6, "egress", "lower-case"),
        ('"api.example.com"', '"https://api.example.com"', 6, "egress", "host name"),
        ('"api.example.com"', '"api.example.com:443"', 6, "egress", "host name"),
        ('"api.example.com"', '"10.0.0.1"', 6, "egress", "host name"),
        ('"api.example.com"', '"*.example.com"', 6, "egress", "host name"),
        ('"api.example.com"', '"api.example.com\\n"', 6, "egress", "host name"),
        ('egress = ["api.example.com"]', 'egress = "api.example.com"', 6, "egress", "a list in square brackets"),
        ("https://model", "http://model", 7, "model_api_url", "https://"),
        ("https://model", "https://user@model", 7, "model_api_url", "https://"),
        ("model.example.com/v1", "model.example.com:8443/v1", 7, "model_api_url", "https://"),
        ("model.example.com/v1", "model.example.com/v1?x=1", 7, "model_api_url", "https://"),
        ("model.example.com/v1", "10.0.0.1/v1", 7, "model_api_url", "https://"),
        ("ghcr.io/me/agent", "ghcr.io/me/ag ent", 4, "image", "not an image reference"),
        ("ghcr.io/me/agent", "--privileged/me", 4, "image", "not an image reference"),
        ('"private"', '"secret"', 5, "image_visibility", "'public' or 'private'"),
        ('"API_KEY"', '"API-KEY"', 24, "secrets.env[0]", "does not match"),
        ('"API_KEY"', '"API_KEY=abc"', 24, "secrets.env[0]", "does not match"),
        ('"API_KEY"', '"RB_OUT"', 24, "secrets.env", "container contract"),
        ('"API_KEY"', '"LD_PRELOAD"', 24, "secrets.env", "container contract"),
        ('"/run/secrets/key"', '"run/secrets/key"', 25, "secrets.files[0]", "does not match"),
        ('"/run/secrets/key"', '"/run/../etc/passwd"', 25, "secrets.files", "plain absolute path"),
        ('"/run/secrets/key"', '"/work/out/findings.json"', 25, "secrets.files", "container contract"),
        ('"me", "some-one"', '"me", "@some-one"', 9, "contacts[1]", "does not match"),
        ('"max-turns"', '"effort"', None, None, "two configuration keys"),
        ('shared_folders = ["contract"]', 'shared_folders = ["../.."]', 12, "shared_folders[0]", "does not match"),
        ('role = "reviewer"', "role = 1", 28, "model_roles[0].role", "text in quotes"),
        ("[limits]", "[limits", 31, None, "not valid TOML"),
        ('name = "my-agent"', 'name = "my-agent"\nname = "x"', 2, None, "not valid TOML"),
        ('model = "model-1"', 'model = "model-1', 29, None, "not valid TOML"),
    ],
)
def test_an_error_names_file_line_and_field(
    old: str, new: str, line: int | None, field: str | None, problem: str
) -> None:
    """One change to a good manifest, one error at that place."""
    assert old in WHOLE
    with pytest.raises(InputError) as caught:
        parse_agent_toml(WHOLE.replace(old, new, 1).encode(), "agents/x/agent.toml")
    where = caught.value.where
    assert where is not None
    assert (where.file, where.line, where.field) == ("agents/x/agent.toml", line, field)
    assert problem.lower() in str(caught.value).lower()
    assert "pydantic" not in str(caught.value)


def test_several_problems_are_counted() -> None:
    """The first is told; the rest is not kept quiet."""
    text = WHOLE.replace("600", "1").replace('"my-agent"', '"X Y"')
    with pytest.raises(InputError, match="There are 1 more problems"):
        parse_agent_toml(text.encode())


def test_long_values_are_shortened() -> None:
    """A hostile manifest cannot fill the screen or colour it."""
    with pytest.raises(InputError) as caught:
        parse_agent_toml(f'name = "{"A" * 100_000}\\u001b[0m"\ndisplay_name = "x"'.encode())
    assert len(str(caught.value)) < 400
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\xef\xbb\xbf" + WHOLE.encode(), "byte-order mark"),
        (b'name = "\xff"', "not UTF-8"),
        (b"", "missing"),
        (b"a = " + b"[" * 100_000, "not valid TOML"),
        (b"x = " + b"9" * 10_000, "."),
        (b"\0", "not valid TOML"),
    ],
)
def test_text_that_is_no_manifest_is_refused(data: bytes, problem: str) -> None:
    """Never a traceback."""
    with pytest.raises(InputError, match=problem):
        parse_agent_toml(data)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """Missing, special and oversized files, and folders without a manifest."""
    with pytest.raises(InputError, match=r"does not exist \(.*agent\.toml\)"):
        load_agent_toml(tmp_path)
    os.mkfifo(tmp_path / "agent.toml")
    with pytest.raises(InputError, match="not a regular file"):
        load_agent_toml(tmp_path)
    (tmp_path / "agent.toml").unlink()
    (tmp_path / "agent.toml").write_text("#" * 300_000)
    with pytest.raises(InputError, match="larger than"):
        load_agent_toml(tmp_path)


REVIEWBENCH: dict[str, Any] = {
    "name": "some-agent",
    "display_name": "Some agent",
    "image": "ghcr.io/some/agent@sha256:" + "a" * 64,
    "contacts": ["someone"],
    "egress": ["api.example.com"],
    "configuration": [{"key": "model", "value": "m-1"}],
    "secrets": {"env": ["KEY"], "files": ["/run/key.pem"]},
    "pr_timeout_seconds": 1200,
}


def test_a_reviewbench_manifest_is_read(tmp_path: Path) -> None:
    """The public schema's fields become the same record; the suffix chooses the reader."""
    file = tmp_path / "some-agent.json"
    file.write_text(json.dumps(REVIEWBENCH, indent=2))
    manifest = load_manifest(file)
    assert manifest == load_reviewbench_agent(file)
    assert manifest.image == REVIEWBENCH["image"]
    assert manifest.secrets == Secrets(env=("KEY",), files=("/run/key.pem",))
    assert manifest.kind == "reviewer"
    assert manifest.effective_limits.timeout_seconds == 1200


@pytest.mark.parametrize(
    ("change", "line", "field", "problem"),
    [
        ({"kind": "replay"}, 21, "kind", "not a field"),
        ({"process_command": ["sh"]}, 21, "process_command", "not a field"),
        ({"imge": "x"}, 21, "imge", "Did you mean image?"),
        ({"image": "ghcr.io/some/agent:latest"}, 4, "image", "not pinned"),
        ({"image": "docker.io/some/agent@sha256:" + "a" * 64}, 4, "image", "not pinned"),
        ({"contacts": []}, 5, "contacts", "no contact"),
        ({"egress": []}, None, None, "neither model_api_url nor"),
        ({"pr_timeout_seconds": "900"}, 20, "pr_timeout_seconds", "not a whole number"),
        ({"egress": ["a.com"] * 33}, 6, "egress", "at most 32"),
        ({"configuration": [{"key": "k", "value": "v", "x": 1}]}, 7, "configuration[0].x", "not a field"),
    ],
)
def test_a_reviewbench_manifest_keeps_to_its_schema(
    change: dict[str, Any], line: int | None, field: str | None, problem: str
) -> None:
    """crb's own fields are unknown there, and its demands on image, contacts and hosts hold."""
    text = json.dumps({**REVIEWBENCH, "egress": REVIEWBENCH["egress"], **change}, indent=2)
    # Short lists on one line keep the line numbers of this test readable.
    text = text.replace('[\n    "someone"\n  ]', '["someone"]').replace('[\n    "api.example.com"\n  ]', '["a.bc"]')
    with pytest.raises(InputError) as caught:
        parse_reviewbench_agent(text.encode(), "m.json")
    where = caught.value.where
    assert where is not None
    assert (where.file, where.field) == ("m.json", field)
    if line is not None:
        assert where.line is not None
        assert f'"{str(field).split("[")[0]}"' in text.splitlines()[where.line - 1]
    assert problem in str(caught.value)


@pytest.mark.parametrize("missing", ["name", "display_name", "image", "contacts"])
def test_required_fields_of_a_reviewbench_manifest(missing: str) -> None:
    """Each missing one is named."""
    fields = {key: value for key, value in REVIEWBENCH.items() if key != missing}
    with pytest.raises(InputError, match=f"{missing} is missing"):
        parse_reviewbench_agent(json.dumps(fields).encode())


@pytest.mark.parametrize("text", ["[]", "null", '{"name": 1, "name": 2}', '{"name": NaN}', "{", ""])
def test_json_that_is_no_manifest_is_refused(text: str) -> None:
    """Located errors from the strict reader, never a traceback."""
    with pytest.raises(InputError):
        parse_reviewbench_agent(text.encode())
