"""The showcase and one of its frozen snapshots, made once; a desk for a judge's step, made for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crb_core.corpus import Corpus
from crb_worker.snapshot import Snapshot
from tests.crb_worker.judge.claude_support import KEY, Desk, open_desk, showcase, snapshot_of


@pytest.fixture(scope="session")
def showcase_corpus() -> Corpus:
    return showcase()


@pytest.fixture(scope="session")
def ledger_snapshot(showcase_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return snapshot_of(tmp_path_factory.mktemp("snapshots"), showcase_corpus.entry(KEY).pull_request)


@pytest.fixture
def desk(
    tmp_path: Path, showcase_corpus: Corpus, ledger_snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    with open_desk(tmp_path, showcase_corpus, ledger_snapshot) as opened:
        yield opened
