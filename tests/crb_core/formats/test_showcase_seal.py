"""Sealing adds what is computed and leaves every other byte of meaning alone."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from crb_core.errors import InputError
from crb_core.formats.showcase_seal import sealed_golden, sealed_settings

PATH = Path("pull_request.toml")
VALUES: dict[str, str | int] = {
    "base": "a" * 40,
    "head": "b" * 40,
    "lines_added": 1,
    "lines_removed": 2,
    "files_changed": 3,
}


class TestSealedSettings:
    @pytest.mark.parametrize(
        "text",
        [
            'title = "x"\n',
            'title = "x"',
            '# why\ntitle = "x"  # a comment\nbase = "old"\n\nhead = "old"\n',
            'body = """\nbase = "not a key"\nhead = 1\n"""\nbase = "old"\n',
            "body = '''\nhead = 1\n'''\n",
            'body = """one line"""\nhead = "old"\n',
            'body = """\nquotes \'\'\' inside\nhead = 1\n"""\n',
        ],
    )
    def test_fields_are_set_and_the_rest_stays(self, text: str) -> None:
        """Lines inside a body that look like a field are no field."""
        sealed = sealed_settings(text, VALUES, PATH)
        rest = {name: value for name, value in tomllib.loads(text).items() if name not in VALUES}
        assert tomllib.loads(sealed) == rest | VALUES
        assert sealed_settings(sealed, VALUES, PATH) == sealed
        assert all(line in sealed for line in text.splitlines() if line.startswith("#"))

    def test_a_layout_that_cannot_be_extended_is_refused(self) -> None:
        """A table at the end would swallow the fields."""
        with pytest.raises(InputError, match="by hand"):
            sealed_settings('title = "x"\n[traits]\na = 1\n', VALUES, PATH)


class TestSealedGolden:
    def test_hand_labelled_axes_become_human(self) -> None:
        """Only axes that have a value, only where no provenance is stated, only for producers who work by hand."""
        raw = {
            "findings": [
                {
                    "producer": "authors:x",
                    "tp_fp": "tp",
                    "severity": "low",
                    "provenance": {"severity": "human-corrected"},
                },
                {"producer": "llm:y", "tp_fp": "fp"},
            ]
        }
        assert sealed_golden(raw) == {
            "findings": [
                {
                    "producer": "authors:x",
                    "tp_fp": "tp",
                    "severity": "low",
                    "provenance": {"tp_fp": "human", "severity": "human-corrected"},
                },
                {"producer": "llm:y", "tp_fp": "fp"},
            ]
        }
