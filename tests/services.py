"""Real services for tests: the Docker engine, Redis and PostgreSQL, each with the reason when it is not there.

Images come from ``CRB_TEST_REDIS_IMAGE`` and ``CRB_TEST_POSTGRES_IMAGE``; docker/test-services builds some where no
registry answers. A test that uses one of these fixtures is marked ``docker``.
"""

from __future__ import annotations

import functools
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url

from crb_core.store import open_store

__all__ = [
    "docker_problem",
    "frozen",
    "migrated_postgres",
    "migrated_sqlite",
    "packets_dropped",
    "postgres_of_module",
    "postgres_server",
    "postgres_store_url",
    "postgres_url",
    "redis_server",
    "redis_url",
    "start_container",
]

#: On every container that tests start through this module; ``make clean`` removes what a killed run left.
LABEL = {"crb.tests": "service"}


@functools.cache
def docker_problem() -> str | None:
    """Why tests cannot use a Docker engine; None when one answers."""
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=10)
        try:
            client.ping()
        finally:
            client.close()
    except (DockerException, OSError) as error:
        return f"no Docker engine answers: {str(error).splitlines()[0][:200]}"
    return None


def start_container(container: Any) -> Any:
    """Start a testcontainer; skips, with the reason, where its image cannot be had."""
    import docker
    from docker.errors import DockerException, ImageNotFound

    if problem := docker_problem():
        pytest.skip(problem)
    client = docker.from_env()
    try:
        client.images.get(container.image)
    except ImageNotFound:
        try:
            client.images.pull(container.image)
        except DockerException as error:
            pytest.skip(f"the image {container.image} is not here and cannot be pulled: {str(error)[:200]}")
    finally:
        client.close()
    try:
        return container.with_kwargs(labels=LABEL).start()
    except BaseException:
        # A server that was created but never answered is not left behind.
        container.stop()
        raise


@contextmanager
def _container_at(url: str) -> Iterator[Any]:
    """The container of ours that serves ``url``."""
    import docker

    client = docker.from_env()
    port = str(make_url(url).port)
    try:
        (found,) = (
            each
            for each in client.containers.list(filters={"label": [f"{name}={value}" for name, value in LABEL.items()]})
            if any(way["HostPort"] == port for ways in each.ports.values() for way in ways or ())
        )
        yield found
    finally:
        client.close()


@contextmanager
def frozen(url: str) -> Iterator[None]:
    """Stop all processes of the service at ``url`` where they are: connections stay open, and nothing answers."""
    with _container_at(url) as container:
        container.pause()
        try:
            yield
        finally:
            container.unpause()


@contextmanager
def packets_dropped(url: str, client_port: int) -> Iterator[None]:
    """Drop one client's packets in the network of the service at ``url``, both ways. Needs root."""
    rules = [["INPUT", "-p", "tcp", "--sport", str(client_port)], ["OUTPUT", "-p", "tcp", "--dport", str(client_port)]]
    with _container_at(url) as container:
        inside = ["nsenter", "-t", str(container.attrs["State"]["Pid"]), "-n", "iptables"]
        for rule in rules:
            subprocess.run([*inside, "-I", *rule, "-j", "DROP"], check=True)
        try:
            yield
        finally:
            for rule in rules:
                subprocess.run([*inside, "-D", *rule, "-j", "DROP"], check=True)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The URL of a Redis server that lives as long as the test session."""
    from testcontainers.community.redis import RedisContainer
    from testcontainers.core.config import testcontainers_config

    # Its clean-up container is one more image to have; the fixture itself stops what it starts.
    testcontainers_config.ryuk_disabled = True
    # Its port may be open to the machine's neighbours, so it has a password.
    password = secrets.token_hex(8)
    container = start_container(
        RedisContainer(os.environ.get("CRB_TEST_REDIS_IMAGE", "redis:7-alpine"), password=password)
    )
    try:
        yield f"redis://:{password}@{container.get_container_host_ip()}:{container.get_exposed_port(6379)}/0"
    finally:
        container.stop()


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """The URL of an empty Redis database."""
    import redis

    client = redis.Redis.from_url(redis_server)
    client.flushall()
    client.close()
    return redis_server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server that lives as long as the test session."""
    from testcontainers.community.postgres import PostgresContainer
    from testcontainers.core.config import testcontainers_config

    testcontainers_config.ryuk_disabled = True
    container = start_container(
        PostgresContainer(
            os.environ.get("CRB_TEST_POSTGRES_IMAGE", "postgres:16-alpine"),
            username="crb",
            password=secrets.token_hex(8),
            dbname="crb",
            driver="psycopg",
        )
    )
    try:
        yield str(container.get_connection_url())
    finally:
        container.stop()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of an empty PostgreSQL database."""
    with _database(postgres_server, "template0") as (_, url):
        yield url


@pytest.fixture(scope="module")
def postgres_of_module(postgres_server: str) -> Iterator[str]:
    """The URL of an empty PostgreSQL database that the tests of one module share."""
    with _database(postgres_server, "template0") as (_, url):
        yield url


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: str) -> Iterator[str]:
    """The name of a database that holds an empty store: making one by migrations costs more than most tests."""
    with _database(postgres_server, "template0") as (name, url):
        open_store(url).close()
        yield name


@pytest.fixture
def postgres_store_url(postgres_server: str, migrated_postgres: str) -> Iterator[str]:
    """The URL of a PostgreSQL database that holds an empty store."""
    with _database(postgres_server, migrated_postgres) as (_, url):
        yield url


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with an empty store, to be copied."""
    path: Path = tmp_path_factory.mktemp("migrated") / "crb.sqlite"
    store = open_store(f"sqlite:///{path}")
    with store.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    return path


@contextmanager
def _database(server: str, template: str) -> Iterator[tuple[str, str]]:
    """The name and URL of a new database. Its texts sort by language, as on most servers, unlike SQLite's."""
    name = f"test_{secrets.token_hex(6)}"
    locale = "LOCALE_PROVIDER icu ICU_LOCALE 'en-US'" if template == "template0" else ""
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template} {locale}")
    try:
        yield name, make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        engine.dispose()
