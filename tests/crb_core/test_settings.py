"""Settings: an error names the place where the wrong value was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from crb_core.errors import SettingsError, UsageError
from crb_core.settings import load_settings


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell's ${NAME:-} leaves it: no home in the current folder, no broker without a name."""
    monkeypatch.setenv("CRB_HOME", "")
    monkeypatch.setenv("CRB_BROKER_URL", "")
    settings = load_settings()
    assert (settings.home, settings.broker_url) == (Path(".crb"), None)


@pytest.mark.parametrize("place", ["--runner", "CRB_RUNNER", "crb.toml"])
def test_a_wrong_value_is_named_with_its_place(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Option, environment variable or file, whichever it came from; the first is wrong usage."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRB_RUNNER", raising=False)
    if place == "CRB_RUNNER":
        monkeypatch.setenv(place, "kvm")
    if place == "crb.toml":
        Path(place).write_text('runner = "kvm"\n')
    with pytest.raises(UsageError if place == "--runner" else SettingsError) as caught:
        load_settings(runner="kvm" if place == "--runner" else None)
    assert caught.value.where is not None
    assert caught.value.exit_code == (2 if place == "--runner" else 1)
    assert (caught.value.where.file, caught.value.where.field) == (place, "runner")


def test_settings_that_are_no_file_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder or a pipe in its place is not passed over, as if nothing had been set."""
    monkeypatch.chdir(tmp_path)
    Path("crb.toml").mkdir()
    with pytest.raises(SettingsError, match=r"crb\.toml is no file"):
        load_settings()


def test_a_file_that_is_not_utf_8_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere else: a sentence with the place, no traceback."""
    monkeypatch.chdir(tmp_path)
    Path("crb.toml").write_bytes(b"# settings\nhome = '\xff'\n")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert caught.value.where is not None
    assert (caught.value.where.file, caught.value.where.line) == ("crb.toml", 2)


def test_lists_and_objects_reach_a_child_process_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A local run starts its worker with these variables."""
    monkeypatch.setenv("CRB_EGRESS_ADDRESSES", '{"api.example.com": "203.0.113.7"}')
    monkeypatch.setenv("CRB_EGRESS_DNS", '["127.0.0.1"]')
    monkeypatch.setenv("CRB_EGRESS_REACHABLE", '["10.1.0.0/16"]')
    monkeypatch.setenv("CRB_EGRESS_SUBNETS", "10.200.0.0/20")
    settings = load_settings()
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert load_settings().model_dump(exclude={"home"}) == settings.model_dump(exclude={"home"})
    assert {name: str(address) for name, address in settings.egress_addresses.items()} == {
        "api.example.com": "203.0.113.7"
    }


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("CRB_EGRESS_DNS", "127.0.0.1", "The value of CRB_EGRESS_DNS is not JSON"),
        ("CRB_EGRESS_DNS", '["ns.example.com"]', "The setting egress_dns is wrong"),
        ("CRB_EGRESS_ADDRESSES", '{"a.example.com": "b"}', "The setting egress_addresses is wrong"),
        ("CRB_EGRESS_SUBNETS", "10.0.0.0/29", "The setting egress_subnets is wrong: 10.0.0.0/29 is too small"),
        ("CRB_EGRESS_SUBNETS", "127.0.0.0/16", "The setting egress_subnets is wrong: 127.0.0.0/16 holds loopback"),
        (
            "CRB_EGRESS_SUBNETS",
            "169.254.0.0/16",
            "The setting egress_subnets is wrong: 169.254.0.0/16 holds link-local",
        ),
        ("CRB_EGRESS_SUBNETS", "0.0.0.0/16", "The setting egress_subnets is wrong: 0.0.0.0/16 holds unspecified"),
        ("CRB_EGRESS_SUBNETS", "239.1.0.0/16", "The setting egress_subnets is wrong: 239.1.0.0/16 holds multicast"),
        ("CRB_EGRESS_SUBNETS", "250.0.0.0/16", "The setting egress_subnets is wrong: 250.0.0.0/16 holds reserved"),
        ("CRB_EGRESS_SUBNETS", "8.8.0.0/16", "The setting egress_subnets is wrong: 8.8.0.0/16 holds public"),
        ("CRB_EGRESS_SUBNETS", "0.0.0.0/0", "The setting egress_subnets is wrong: 0.0.0.0/0 holds public"),
        ("CRB_EGRESS_SUBNETS", "10.0.0.0/7", "The setting egress_subnets is wrong: 10.0.0.0/7 holds public"),
        ("CRB_EGRESS_SUBNETS", "fd00::/64", "The setting egress_subnets is wrong"),
        ("CRB_EGRESS_REACHABLE", '["10.0.0.1/8"]', "The setting egress_reachable is wrong"),
    ],
)
def test_a_wrong_egress_setting_is_named(
    variable: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the variable holds a list or an object."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert str(caught.value).startswith(problem)
    assert caught.value.where is not None
    assert caught.value.where.file == variable


def test_a_home_that_no_url_can_name_is_refused(tmp_path: Path) -> None:
    """Behind a question mark a URL has options: the database would be another file, beside the folder."""
    settings = load_settings(home=tmp_path / "which?mode=one")
    with pytest.raises(SettingsError, match="its name has a question mark"):
        _ = settings.resolved_store_url
    assert load_settings(home=tmp_path / "which?", store_url="sqlite:////srv/x.sqlite").resolved_store_url
    assert load_settings(home=tmp_path / "100% of ours").resolved_store_url.endswith("/100% of ours/crb.sqlite")
