"""Commands called in this process, as their caller sees them: what is printed, or the sentence of a refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from crb_core.errors import InputError

__all__ = ["Commands"]


class Commands:
    """The commands of one app."""

    def __init__(self, app: typer.Typer) -> None:
        self._app = app

    def run(self, *arguments: str) -> str:
        """The output of a command that ends well."""
        result = CliRunner().invoke(self._app, [*arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    def read(self, *arguments: str) -> Any:
        """The JSON that a command prints."""
        return json.loads(self.run(*arguments, "--json"))

    def refused(self, *arguments: str) -> str:
        """The text of the InputError with which a command ends."""
        with pytest.raises(InputError) as caught:
            CliRunner().invoke(self._app, [*arguments], catch_exceptions=False)
        return str(caught.value)
