"""The command itself: quick to list, plain when it fails."""

from __future__ import annotations

import subprocess
import sys

from typer.testing import CliRunner

from crb_cli.main import COMMANDS, app

HEAVY = ("anthropic", "sqlmodel", "sqlalchemy", "docker", "celery", "numpy", "alembic")


def test_help_imports_nothing_heavy() -> None:
    """`crb --help` needs the names of the commands and none of their libraries."""
    code = (
        "import sys\nsys.argv = ['crb', '--help']\nfrom crb_cli.main import run\n"
        "try:\n    run()\nexcept SystemExit:\n    pass\n"
        f"print('heavy:', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines()[-1] == "heavy: []", ran.stdout + ran.stderr


def test_every_command_has_its_help() -> None:
    """Each listed command can be imported and explains itself."""
    for name in COMMANDS:
        ran = CliRunner().invoke(app, [name, "--help"], prog_name="crb", catch_exceptions=False)
        assert ran.exit_code == 0, f"{name}: {ran.output}"
        assert "Usage: crb" in ran.output


def test_an_unknown_command_is_a_usage_error() -> None:
    """Exit status 2 and the name, no traceback."""
    ran = subprocess.run([sys.executable, "-m", "crb_cli", "nonsense"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "nonsense" in ran.stderr
    assert "Traceback" not in ran.stderr
