"""A PostgreSQL server of a test's own, in a container, that comes back at the same address."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from tests.chaos.broker import free_port
from tests.e2e.farm import wait_for
from tests.services import start_container

__all__ = ["OwnPostgres", "postgres_server_of_our_own"]


class OwnPostgres:
    """The server in a started container."""

    def __init__(self, container: Any, url: str) -> None:
        self._container = container.get_wrapped_container()
        self.url = url

    def kill(self) -> None:
        """kill -9."""
        self._container.kill()

    def start(self) -> None:
        """Start it again with its data and wait until it answers."""
        self._container.start()
        engine = create_engine(self.url)

        def answers() -> bool:
            try:
                with engine.connect():
                    return True
            except OperationalError:
                return False

        wait_for(answers, seconds=60)
        engine.dispose()


@pytest.fixture
def postgres_server_of_our_own() -> Iterator[OwnPostgres]:
    """A server that nobody else uses."""
    from testcontainers.community.postgres import PostgresContainer
    from testcontainers.core.config import testcontainers_config

    testcontainers_config.ryuk_disabled = True
    # A port that Docker chose would be another one after a restart.
    container = PostgresContainer(
        os.environ.get("CRB_TEST_POSTGRES_IMAGE", "postgres:16-alpine"),
        username="crb",
        # Its port may be open to the machine's neighbours.
        password=secrets.token_hex(8),
        dbname="crb",
        driver="psycopg",
    ).with_bind_ports(5432, free_port())
    started = start_container(container)
    try:
        yield OwnPostgres(started, str(started.get_connection_url()))
    finally:
        started.stop()
