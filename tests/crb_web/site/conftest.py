"""A site of a store whose texts attack, exported as a user does it, and the same store exported elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Update, select, update

from crb_core.evidence import FolderEvidence
from crb_core.store.tables import AttemptRow, PullRequestRow, SweepRow, core
from tests.crb_web.audit_store import add_candidate, imported_home, opened

SECRET = "value-of-a-secret-2718"
HOSTILE = '"></bdi><script>alert(1)</script><img src=x onerror=alert(2)>\u202etxt.exe ../../../etc/passwd'
SWEEP_NAME = '../../evil" <script>alert(1)</script>'
KEY = 'pr#2?x=1&y "<b>%2e'


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose sweep, pull request and findings have hostile names, and which tells a secret and its folder."""
    home = imported_home(tmp_path_factory.mktemp("site") / "home")
    add_candidate(home, 1, position=7, file="../../../x<y>.py", start_line=1, end_line=2, message=HOSTILE)
    told = FolderEvidence(home / "evidence").put(f"the key is {SECRET}\n".encode())
    binary = FolderEvidence(home / "evidence").put(b"\x00\x01<script>alert(1)</script>")
    attempts = core(AttemptRow)
    store = opened(home)
    with store.write() as connection:
        connection.execute(update(core(SweepRow)).values(name=SWEEP_NAME))
        keys = core(PullRequestRow).c.key
        connection.execute(update(core(PullRequestRow)).where(keys == "pr-2").values(key=KEY))
        for number, digest in ((1, told), (2, binary)):
            row = connection.execute(select(attempts.c.id, attempts.c.evidence).where(attempts.c.id == number)).one()
            changed = row.evidence | {"stdout": digest}
            connection.execute(update(attempts).where(attempts.c.id == number).values(evidence=changed))
        connection.execute(_details(home))
    store.close()
    return home


def _details(home: Path) -> Update:
    """An attempt's detail that tells a secret and a folder."""
    attempts = core(AttemptRow)
    return update(attempts).where(attempts.c.id == 1).values(detail=f"see {home}/crb.toml {SECRET}")


def export(home: Path, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``crb export site`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "crb_cli", "export", "site", str(folder), *arguments],
        env=os.environ | {"CRB_HOME": str(home), "EXAMPLE_API_KEY": SECRET} | environment,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture(scope="package")
def site(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported site; no test changes it."""
    folder = tmp_path_factory.mktemp("sites") / "one"
    done = export(home, folder, PYTHONHASHSEED="1")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="package")
def moved_home(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same store in another folder, which its texts name."""
    moved = tmp_path_factory.mktemp("elsewhere") / "farm"
    shutil.copytree(home, moved)
    store = opened(moved)
    with store.write() as connection:
        connection.execute(_details(moved))
    store.close()
    return moved
