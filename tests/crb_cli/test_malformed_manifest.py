"""A manifest that is no JSON is named with line and column, whether its folder or the file itself is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.farm import crb


@pytest.mark.parametrize("command", [("import", "reviewbench"), ("validate",), ("snapshot",)])
@pytest.mark.parametrize("as_file", [False, True])
def test_the_place_is_named(command: tuple[str, ...], as_file: bool, tmp_path: Path) -> None:
    """Line 2, column 11: where the colon is missing."""
    manifest = tmp_path / "manifest.json"
    manifest.write_text('[\n  {"repo" 1}\n]\n')
    path = str(manifest if as_file else tmp_path)
    name = ("--name", "x") if command[0] == "import" else ()
    ran = crb("corpus", *command, path, *name, home=tmp_path / "home")
    said = " ".join((ran.stdout + ran.stderr).split())
    assert ran.returncode == 1
    assert "manifest.json, line 2, column 11)" in said
    assert "Traceback" not in said


def test_a_manifest_alone_is_no_corpus(tmp_path: Path) -> None:
    """It lists pull requests; without golden findings there is nothing to score against."""
    manifest = tmp_path / "manifest.json"
    manifest.write_text("[]")
    ran = crb("corpus", "validate", str(manifest), home=tmp_path / "home")
    assert ran.returncode == 1
    assert ran.stderr.startswith("crb: a file is no corpus")
