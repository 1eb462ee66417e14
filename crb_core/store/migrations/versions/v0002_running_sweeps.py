"""Shares and limits of running sweeps, refused hosts, what workers say of themselves, access tokens and actions; and a

log of changes to what leaderboards had been computed from. A later migration that makes one of its tables anew (a batch
operation on SQLite) has to make its triggers again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sweep", sa.Column("weight", sa.Float(), server_default="1.0", nullable=False))
    op.add_column("sweep", sa.Column("concurrency", sa.Integer(), nullable=True))
    op.add_column("sweep", sa.Column("paused_reason", sa.Text(), nullable=True))
    op.add_column("sweep_build", sa.Column("paused_reason", sa.Text(), nullable=True))
    op.add_column("sweep_build", sa.Column("agent_source", sa.Text(), nullable=True))
    op.add_column("step", sa.Column("losses", sa.Integer(), server_default="0", nullable=False))
    op.add_column("step", sa.Column("queue_ms", sa.Float(), nullable=True))
    op.add_column("step", sa.Column("work_ms", sa.Float(), nullable=True))
    op.add_column("attempt", sa.Column("refused_hosts", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("worker", sa.Column("wanted_slots", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("worker", sa.Column("status", sa.JSON(none_as_null=True), nullable=True))
    op.create_table(
        "access_token",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("expires_at", sa.String(), nullable=True),
        sa.Column("revoked_at", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("sha256"),
    )
    op.create_table(
        "operator_action",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("sweep_id", sa.String(), nullable=True),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_operator_action_sweep_id"), "operator_action", ["sweep_id"], unique=False)
    op.create_table("content_change", sa.Column("id", sa.String(), nullable=False), sa.PrimaryKeyConstraint("id"))
    if op.get_bind().dialect.name == "sqlite":
        _log_changes_in_sqlite()
    else:
        _log_changes_in_postgresql()


#: Tables of which a row that is changed or deleted is logged, with the condition on a changed one: running sweeps fill
#: the columns of attempts, judgments and steps one after the other.
_LOGGED = {
    "agent_build": None,
    "attempt": "OLD.outcome IS NOT NULL",
    "candidate_finding": None,
    "classification": None,
    "corpus": None,
    "correspondence": None,
    "golden_finding": None,
    "import_record": None,
    "judge": None,
    "judgment": "OLD.scored_at IS NOT NULL",
    "pull_request": None,
    "step": "OLD.state IN ('failed', 'cancelled')",
    "sweep_judge": None,
    "trial": None,
}
#: Tables of which a new row is logged where a score is already there, with that condition.
_LATE = {
    "candidate_finding": "EXISTS (SELECT 1 FROM judgment WHERE trial_id = NEW.trial_id AND scored_at IS NOT NULL)",
    "classification": "EXISTS (SELECT 1 FROM judgment WHERE id = NEW.judgment_id AND scored_at IS NOT NULL)",
    "correspondence": "EXISTS (SELECT 1 FROM judgment WHERE id = NEW.judgment_id AND scored_at IS NOT NULL)",
}


def _log_changes_in_sqlite() -> None:
    action = "BEGIN INSERT INTO content_change (id) VALUES (lower(hex(randomblob(16)))); END"
    for table, condition in _LOGGED.items():
        when = f" WHEN {condition}" if condition else ""
        op.execute(f"CREATE TRIGGER {table}_changed AFTER UPDATE ON {table}{when} {action}")
        op.execute(f"CREATE TRIGGER {table}_deleted AFTER DELETE ON {table} {action}")
    for table, condition in _LATE.items():
        op.execute(f"CREATE TRIGGER {table}_late AFTER INSERT ON {table} WHEN {condition} {action}")


def _log_changes_in_postgresql() -> None:
    log = "INSERT INTO content_change (id) VALUES (gen_random_uuid()::text)"
    op.execute(
        f"CREATE FUNCTION log_content_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {log}; RETURN NULL; END $$"
    )
    for table, condition in _LOGGED.items():
        when = f" WHEN ({condition})" if condition else ""
        call = "FOR EACH ROW{} EXECUTE FUNCTION log_content_change()"
        op.execute(f"CREATE TRIGGER {table}_changed AFTER UPDATE ON {table} {call.format(when)}")
        op.execute(f"CREATE TRIGGER {table}_deleted AFTER DELETE ON {table} {call.format('')}")
    for table, condition in _LATE.items():
        # A condition of a trigger may not look into other tables there.
        op.execute(
            f"CREATE FUNCTION log_late_{table}() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN IF {condition} THEN {log}; END IF; RETURN NULL; END $$"
        )
        op.execute(
            f"CREATE TRIGGER {table}_late AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION log_late_{table}()"
        )
