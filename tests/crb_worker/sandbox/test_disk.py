"""Which limit an agent that wrote too much has passed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from crb_core.agent import Outcome
from crb_worker.sandbox.disk import DiskWatch

_MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("in_out", "elsewhere", "outcome", "said"),
    [
        (1, 2, None, ""),
        (5, 0, Outcome.OUTPUT_TOO_LARGE, "more than 4 MiB into its output folder"),
        (3, 3, Outcome.OUTPUT_TOO_LARGE, "more than 4 MiB to disk, most of it into its output folder"),
        (1, 5, Outcome.NONZERO_EXIT, "more than 4 MiB to disk (checkout"),
        (0, 5, Outcome.NONZERO_EXIT, "more than 4 MiB to disk (checkout"),
    ],
)
def test_what_was_written_most_is_the_reason(
    tmp_path: Path, in_out: int, elsewhere: int, outcome: Outcome | None, said: str
) -> None:
    """The limit is on everything; the output folder is to blame where it holds more than half of what is allowed."""
    out, checkout = tmp_path / "out", tmp_path / "repo"
    for folder, mib in ((out, in_out), (checkout, elsewhere)):
        folder.mkdir()
        (folder / "data").write_bytes(b"x" * (mib * _MIB))
    watch = DiskWatch(4, out, [checkout])
    assert watch.check() is None, "it measured before its time"
    time.sleep(watch.seconds_to_next())
    stop = watch.check()
    assert (stop and stop.outcome) == outcome
    assert said in (stop.detail if stop else "")
