"""``crb token``, and what ``crb serve`` refuses to open."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from crb_cli.main import app
from crb_core.errors import InputError


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command over an empty home; its output."""
    monkeypatch.setenv("CRB_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")

    def runs(*arguments):
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    return runs


def test_a_token_is_shown_once_and_can_be_revoked(run):
    """The list and its JSON have everything but the token."""
    secret = run("token", "create", "bo", "--role", "operator", "--expires", "30d").splitlines()[0]
    assert secret.startswith("crb_")
    listed = run("token", "list")
    assert secret not in listed
    assert "operator  valid" in listed
    assert all(len(line.rstrip()) <= 80 for line in listed.splitlines())
    run("token", "revoke", "bo")
    assert "was revoked already" in run("token", "revoke", "bo")
    (record,) = json.loads(run("token", "list", "--json"))["tokens"]
    assert record["state"] == "revoked"
    assert set(record) == {"name", "role", "created_at", "expires_at", "revoked_at", "state"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "0.0.0.0"), "in the clear"),
        (("--host", "192.0.2.1", "--public"), "in the clear"),
        (("--name", "crb.example.org"), "in the clear"),
        (("--host", "::", "--behind-proxy", "192.0.2.7"), "--name"),
        (("--behind-proxy", "proxy"), "no address of a reverse proxy"),
        (("--behind-proxy", "192.0.2.7", "--name", "http://x"), "no host name"),
        (("--host", "example.org"), "no address"),
        (("--public",), "nothing to make"),
        (("--tls-cert", "nothing.pem"), "needs both"),
        (("--tls-cert", "nothing.pem", "--tls-key", "nothing.pem"), "no file"),
    ],
)
def test_nothing_is_opened_beyond_this_machine_by_accident(run, arguments, said):
    """A sentence before anything listens."""
    with pytest.raises(InputError) as refused:
        run("serve", "--port", "0", *arguments)
    assert said in str(refused.value)
