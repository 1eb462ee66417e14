from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.support import PullRequestFolder


@pytest.fixture
def pull_request(tmp_path: Path) -> PullRequestFolder:
    """A folder in which a test commits its own small pull request."""
    return PullRequestFolder(tmp_path)
