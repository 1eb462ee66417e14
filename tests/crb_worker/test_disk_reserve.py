"""Reviews pause before a disk is full, and go on by themselves when there is room again."""

from __future__ import annotations

from pathlib import Path

import pytest

from crb_core.errors import SettingsError
from crb_core.settings import load_settings
from crb_worker.disk_reserve import DiskReserve, disk_folders


def test_pause_and_resume_with_a_margin() -> None:
    """Below the reserve it pauses; it goes on only with a quarter more than the reserve, and says which disk."""
    free = {Path("/a"): 1000, Path("/b"): 1000}
    reserve = DiskReserve(list(free), 100, free_bytes=lambda folder: free[folder])
    assert reserve.reason() is None
    free[Path("/b")] = 100
    assert reserve.reason() is None
    free[Path("/b")] = 99
    assert "/b" in (reserve.reason() or "")
    free[Path("/b")] = 124
    assert "/b" in (reserve.reason() or "")
    free[Path("/b")] = 125
    assert reserve.reason() is None
    free[Path("/b")] = 124
    assert reserve.reason() is None


def test_a_folder_that_cannot_be_asked_pauses_nothing() -> None:
    """A folder that is gone says nothing about a disk."""

    def unknown(_: Path) -> int:
        raise FileNotFoundError

    assert DiskReserve([Path("/gone")], 10**30, free_bytes=unknown).reason() is None
    assert "is free" not in (DiskReserve([Path("/")], 10**30).reason() or "is free")


def test_no_reserve_never_pauses() -> None:
    """0 switches it off, also on a full disk."""
    assert DiskReserve([Path("/")], 0, free_bytes=lambda _: 0).reason() is None


def test_every_disk_that_is_written_to(tmp_path: Path) -> None:
    """Home, evidence and store, each by the nearest folder that exists."""
    (tmp_path / "evidence").mkdir()
    settings = load_settings(
        home=tmp_path / "home" / "deep",
        evidence_url=f"file://{tmp_path}/evidence/blobs",
        store_url=f"sqlite:///{tmp_path}/store/crb.sqlite",
    )
    folders = disk_folders(settings)
    assert {tmp_path, tmp_path / "evidence"} <= set(folders)
    assert all(folder.exists() for folder in folders)
    assert disk_folders(load_settings(home=tmp_path, evidence_url="s3://bucket/x", store_url="postgresql://h/d"))


@pytest.mark.parametrize(("text", "size"), [("2GiB", 2 * 1024**3), ("500MB", 500_000_000), ("0", 0)])
def test_sizes_in_words(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting is read as people write sizes."""
    monkeypatch.setenv("CRB_DISK_RESERVE", text)
    assert load_settings().disk_reserve == size


def test_a_size_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named with its variable."""
    monkeypatch.setenv("CRB_DISK_RESERVE", "plenty")
    with pytest.raises(SettingsError, match="CRB_DISK_RESERVE"):
        load_settings()
