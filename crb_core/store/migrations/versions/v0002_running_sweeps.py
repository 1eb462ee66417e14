"""Shares and limits of running sweeps, refused hosts, what workers say of themselves, access tokens and actions."""

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
    op.add_column("sweep_build", sa.Column("paused_reason", sa.Text(), nullable=True))
    op.add_column("step", sa.Column("losses", sa.Integer(), server_default="0", nullable=False))
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
