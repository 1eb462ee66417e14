"""What every test shares: the marker ``docker``, and the services of tests/services.py."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from tests.chaos.reporting import pytest_runtest_logreport, pytest_terminal_summary
from tests.left_out import LeftOut
from tests.services import (
    docker_problem,
    migrated_postgres,
    migrated_sqlite,
    postgres_of_module,
    postgres_server,
    postgres_store_url,
    postgres_url,
    redis_server,
    redis_url,
)

__all__ = [
    "migrated_postgres",
    "migrated_sqlite",
    "postgres_of_module",
    "postgres_server",
    "postgres_store_url",
    "postgres_url",
    "pytest_runtest_logreport",
    "pytest_terminal_summary",
    "redis_server",
    "redis_url",
]

# These machines are noisy: how long an example takes says nothing about the rule.
settings.register_profile("crb", deadline=None)
settings.load_profile("crb")


def pytest_configure(config: pytest.Config) -> None:
    """Long tests are left out unless they are asked for."""
    config.pluginmanager.register(LeftOut(config))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test marked ``docker`` is skipped, with the reason, where no engine answers."""
    if item.get_closest_marker("docker") is not None and (problem := docker_problem()):
        pytest.skip(problem)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CRB_REQUIRE_DOCKER=1 a skipped test that is marked ``docker`` has failed: CI must not pass without them."""
    report = yield
    required = os.environ.get("CRB_REQUIRE_DOCKER", "") not in {"", "0"}
    if required and report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("docker"):
        reason: Any = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"CRB_REQUIRE_DOCKER is set, but this test was skipped: {reason}"
    return report
