"""Stores for the pages behind a number: diffs as evidence, findings at their lines, hostile texts, odd blobs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select, update

from benchmarks.filled_sweep import fill
from crb_core.evidence import FolderEvidence
from crb_core.store import Store, open_store
from crb_core.store.tables import AttemptRow, CandidateRow, PullRequestRow, TrialRow, core
from tests.crb_core.archived import make_store

#: Touches a.py (lines 1 to 13 at head), renames b.py and deletes c.py.
DIFF = b"""diff --git a/a.py b/a.py
index 1111111..2222222 100644
--- a/a.py
+++ b/a.py
@@ -1,9 +1,13 @@ def first():
 one
+two
+three
+\tfour <b>
 five
-six
+seven
 eight
 nine
 ten
 eleven
 twelve
 thirteen
+fourteen
\\ No newline at end of file
diff --git a/b.py b/renamed.py
similarity index 100%
rename from b.py
rename to renamed.py
diff --git a/c.py b/c.py
deleted file mode 100644
index 3333333..0000000
--- a/c.py
+++ /dev/null
@@ -1 +0,0 @@
-gone
"""


def new_file(path: str, lines: Iterable[str]) -> bytes:
    """The diff that adds one file."""
    written = [line.encode() for line in lines]
    name = path.encode()
    head = b"diff --git a/%b b/%b\nnew file mode 100644\n--- /dev/null\n+++ b/%b\n@@ -0,0 +1,%d @@\n"
    return head % (name, name, name, len(written)) + b"".join(b"+%b\n" % line for line in written)


def opened(home: Path) -> Store:
    return open_store(f"sqlite:///{home / 'crb.sqlite'}")


def with_diff(home: Path, diff: bytes, key: str = "pr-1", sweep: str | None = None) -> str:
    """Record a diff as what every reviewer of a pull request was shown; returns its digest."""
    digest = FolderEvidence(home / "evidence").put(diff)
    store = opened(home)
    attempts, trials, pull_requests = core(AttemptRow), core(TrialRow), core(PullRequestRow)
    with store.write() as connection:
        rows = connection.execute(
            select(attempts.c.id, attempts.c.evidence)
            .join(trials, trials.c.id == attempts.c.trial_id)
            .join(pull_requests, pull_requests.c.id == trials.c.pull_request_id)
            .where(pull_requests.c.key == key)
        ).all()
        for row in rows:
            changed = (row.evidence or {}) | {"diff": digest}
            connection.execute(update(attempts).where(attempts.c.id == row.id).values(evidence=changed))
    store.close()
    return digest


def imported_home(home: Path) -> Path:
    """The imported sweep of ``tests.crb_core.archived`` with a diff of pr-1."""
    make_store(home).close()
    with_diff(home, DIFF)
    return home


def big_home(home: Path, *, lines: int, builds: int, rounds: int = 3) -> Path:
    """A sweep whose first pull request adds a file of so many lines, with findings all over it."""
    store = opened(home)
    sweep_id, _ = fill(store, builds=builds, pull_requests=2, rounds=rounds)
    candidates, trials = core(CandidateRow), core(TrialRow)
    with store.write() as connection:
        for place, row in enumerate(connection.execute(select(candidates.c.trial_id, candidates.c.position)).all()):
            line = 1 + (place * 7919) % lines
            connection.execute(
                update(candidates)
                .where(candidates.c.trial_id == row.trial_id, candidates.c.position == row.position)
                .values(start_line=line, end_line=line)
            )
        assert connection.execute(select(trials.c.id).where(trials.c.sweep_id == sweep_id)).first() is not None
    store.close()
    text = (f"\tvalue_{number} = compute({number}, 'text of the line')  # & <why>" for number in range(lines))
    with_diff(home, new_file("src/module.py", text), key="pr-0")
    return home


def add_candidate(home: Path, trial: int, **values: Any) -> None:
    store = opened(home)
    with store.write() as connection:
        connection.execute(insert(core(CandidateRow)), [{"trial_id": trial, "producer": "x", **values}])
    store.close()
