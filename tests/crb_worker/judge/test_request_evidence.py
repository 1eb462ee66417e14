"""The long texts of requests are blobs of their own, and stay as long as a call that names their request."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from crb_core.formats.judge_request import parts_of
from crb_core.store.backup import write_backup
from crb_worker.housekeeping import evidence_things
from crb_worker.judge.loopback import AnthropicServer
from crb_worker.judge.requests import unfolded
from tests.crb_worker.judge.claude_support import Desk, finding, golden
from tests.crb_worker.judge.test_claude_calls import good


def test_gc_and_backup_keep_what_a_request_names(desk: Desk, tmp_path: Path) -> None:
    """Every blob of a judgment is named, also those that only a request names, and the request can be put together."""
    with AnthropicServer([good]) as server:
        desk.judge(server).match("pr", [finding("a")], [golden("a")], protocol="reviewbench")
        (sent,) = server.requests
    things = evidence_things(desk.store, desk.evidence).things
    assert len(things) > 2
    assert [thing.name for thing in things if thing.kept_because is None] == []
    desk.evidence.put(b"nobody names this")
    things = evidence_things(desk.store, desk.evidence).things
    assert len([thing for thing in things if thing.kept_because is None]) == 1
    backup = write_backup(desk.store, desk.evidence, tmp_path / "backup.tar")
    assert backup.blobs == len(things) - 1
    (row,) = desk.calls()
    with tarfile.open(tmp_path / "backup.tar") as archive:

        def blob(digest: str) -> bytes:
            member = archive.extractfile(f"evidence/{digest}")
            assert member is not None
            return member.read()

        body = json.loads(blob(row.request_digest))["body"]
        assert unfolded(body, blob) == sent.body


def test_parts_of_what_is_no_request() -> None:
    """Only objects of exactly this form name a blob; nothing else harms."""
    digest = "a" * 64
    assert parts_of(json.dumps({"body": [{"x": {"$sha256": digest}}]}).encode()) == {digest}
    for other in (b"", b"\xff", b"[" * 5000, b'{"$sha256": "../x"}', json.dumps({"$sha256": digest, "y": 1}).encode()):
        assert parts_of(other) == frozenset()
