"""Schema versions, by Alembic migrations.

Alembic is imported only where a store is not at ``HEAD``: its import costs as much as most commands.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, inspect, select, text

from crb_core.errors import StoreError
from crb_core.store.session import Store

if TYPE_CHECKING:
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

__all__ = ["HEAD", "stored_revision", "upgrade"]

#: The schema revision that this version of crb writes; a test holds it against the migrations.
HEAD = "0002"
#: Number of the advisory lock of those who migrate a PostgreSQL database: "crb" and 2.
MIGRATION_LOCK = 0x63726202


def stored_revision(store: Store) -> str | None:
    """The revision of a store; None for an empty one."""
    with store.read() as connection:
        return _revision(connection)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def upgrade(store: Store, target: str = HEAD) -> None:
    """Bring a store to this version's schema, or to an earlier ``target``. StoreError when it is newer."""
    current = stored_revision(store)
    if current == target:
        return
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    scripts = ScriptDirectory.from_config(config)
    _require_known(store, scripts, current)
    _require_known(store, scripts, target)
    if current is None:
        _require_empty(store)
    with store.write() as connection:
        if not store.is_sqlite:
            # The processes of a new farm are started together; SQLite's write transaction is alone in any case.
            connection.execute(select(func.pg_advisory_xact_lock(MIGRATION_LOCK)))
        # Another process may have migrated while this one waited for the write lock.
        current = _revision(connection)
        if current == target:
            return
        _require_known(store, scripts, current)
        with EnvironmentContext(
            config,
            scripts,
            fn=lambda revision, _context: list(scripts._upgrade_revs(target, revision)),
            destination_rev=target,
        ) as environment:
            _run(environment, connection)


def _require_empty(store: Store) -> None:
    with store.read() as connection:
        # One question: another crb may be making the tables right now.
        names = inspect(connection).get_table_names()
        foreign = [] if "alembic_version" in names else names
    if foreign:
        raise StoreError(
            f"{store.url} is no store of crb: it holds a table named {foreign[0]}",
            remedy="Set CRB_HOME or CRB_STORE_URL to a place of crb's own",
        )


def _require_known(store: Store, scripts: ScriptDirectory, current: str | None) -> None:
    if current is not None and current not in {script.revision for script in scripts.walk_revisions()}:
        raise StoreError(
            f"The store {store.url} was written by a newer version of crb (schema {current}, this one knows {HEAD})",
            remedy="Install that version, or set CRB_HOME to another folder",
        )


def _run(environment: EnvironmentContext, connection: Connection) -> None:
    environment.configure(connection=connection, transactional_ddl=False, render_as_batch=True)
    environment.run_migrations()
