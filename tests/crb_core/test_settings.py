"""Settings: an error names the place where the wrong value was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from crb_core.errors import SettingsError
from crb_core.settings import load_settings


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell's ${NAME:-} leaves it: no home in the current folder, no broker without a name."""
    monkeypatch.setenv("CRB_HOME", "")
    monkeypatch.setenv("CRB_BROKER_URL", "")
    settings = load_settings()
    assert (settings.home, settings.broker_url) == (Path(".crb"), None)


@pytest.mark.parametrize("place", ["--runner", "CRB_RUNNER", "crb.toml"])
def test_a_wrong_value_is_named_with_its_place(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Option, environment variable or file, whichever it came from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRB_RUNNER", raising=False)
    if place == "CRB_RUNNER":
        monkeypatch.setenv(place, "kvm")
    if place == "crb.toml":
        Path(place).write_text('runner = "kvm"\n')
    with pytest.raises(SettingsError) as caught:
        load_settings(runner="kvm" if place == "--runner" else None)
    assert caught.value.where is not None
    assert (caught.value.where.file, caught.value.where.field) == (place, "runner")


def test_a_file_that_is_not_utf_8_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere else: a sentence with the place, no traceback."""
    monkeypatch.chdir(tmp_path)
    Path("crb.toml").write_bytes(b"# settings\nhome = '\xff'\n")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert caught.value.where is not None
    assert (caught.value.where.file, caught.value.where.line) == ("crb.toml", 2)
