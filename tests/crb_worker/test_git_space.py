"""What git says of a full disk is about the machine, not about the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from crb_core.errors import UnavailableError
from crb_worker.git import Git


def test_a_full_disk_is_worth_another_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that meets it is the farm's failure and is tried again; as bad input it would have been final."""
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\necho 'fatal: write error: No space left on device' >&2\nexit 128\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(UnavailableError, match="git checkout-index failed, because the disk is full"):
        Git(tmp_path).run("checkout-index", "--all")
