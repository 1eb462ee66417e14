"""Schema versions, by Alembic migrations."""

from __future__ import annotations

from pathlib import Path

from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from crb_core.errors import StoreError
from crb_core.store.session import Store

__all__ = ["head_revision", "stored_revision", "upgrade"]


def _scripts() -> tuple[Config, ScriptDirectory]:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config, ScriptDirectory.from_config(config)


def head_revision() -> str:
    """The schema revision that this version of crb writes."""
    revision = _scripts()[1].get_current_head()
    assert revision is not None
    return revision


def stored_revision(store: Store) -> str | None:
    """The revision of a store; None for an empty one."""
    with store.read() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade(store: Store) -> None:
    """Bring a store to this version's schema. StoreError when it is newer."""
    config, scripts = _scripts()
    head = head_revision()
    current = stored_revision(store)
    if current == head:
        return
    known = {script.revision for script in scripts.walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"The store {store.url} was written by a newer version of crb (schema {current}, this one knows {head})",
            remedy="Install that version, or set CRB_HOME to another folder",
        )

    with store.write() as connection:
        # Another process may have migrated while this one waited for the write lock.
        if MigrationContext.configure(connection).get_current_revision() == head:
            return

        def steps(revision: str, _context: MigrationContext) -> list[object]:
            return list(scripts._upgrade_revs(head, revision))

        with EnvironmentContext(config, scripts, fn=steps, destination_rev=head) as environment:
            _run(environment, connection)


def _run(environment: EnvironmentContext, connection: Connection) -> None:
    environment.configure(connection=connection, transactional_ddl=False, render_as_batch=True)
    environment.run_migrations()
