"""The hook of tests/conftest.py: with CRB_REQUIRE_DOCKER=1 a skipped Docker test has failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")

TESTS = """
import pytest

@pytest.mark.docker
def test_skips_itself():
    pytest.skip("the base image is missing")

@pytest.mark.docker
@pytest.mark.skipif(True, reason="not here")
def test_is_skipped_by_a_mark():
    pass

@pytest.mark.docker
@pytest.mark.xfail(reason="known")
def test_fails_as_expected():
    assert False

@pytest.mark.docker
def test_passes():
    pass

def test_needs_nothing():
    pytest.skip("for a reason of its own")
"""


def run(folder: Path, environment: dict[str, str]) -> str:
    """pytest's output for TESTS under this repository's conftest."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = docker: x\naddopts = -p no:cacheprovider\n")
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "test_some.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rfs", str(folder)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(CONFTEST.parent.parent), "CRB_REQUIRE_DOCKER": ""} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.docker
def test_a_skipped_docker_test_is_a_failure_when_docker_is_required(tmp_path: Path) -> None:
    """Whatever skipped it, and only then: other skips stay skips, and an expected failure stays one."""
    free = run(tmp_path, {})
    assert "1 passed, 3 skipped, 1 xfailed" in free
    required = run(tmp_path, {"CRB_REQUIRE_DOCKER": "1"})
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error" in required
    assert "CRB_REQUIRE_DOCKER is set, but this test was skipped: Skipped: the base image is missing" in required


@pytest.mark.thorough
def test_without_an_engine_docker_tests_are_skipped_or_fail(tmp_path: Path) -> None:
    """The reason names the engine; with CRB_REQUIRE_DOCKER=1 all four are errors."""
    nobody = {"DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"}
    free = run(tmp_path, nobody)
    assert "no Docker engine answers" in free
    assert "5 skipped" in free
    assert "1 skipped, 4 errors" in run(tmp_path, nobody | {"CRB_REQUIRE_DOCKER": "1"})
