"""The documents say what the code does: settings, commands, options, links, and no place of one machine."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crb_cli.main import app
from crb_core.settings import Settings

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
#: ``crb word word --option`` in code, up to what ends a command.
COMMAND = re.compile(r"(?:^ {4}|`|  +)(crb [a-z][^`#\n]*)", re.MULTILINE)


@cache
def help_of(*command: str) -> str | None:
    """What ``crb COMMAND --help`` prints; None when there is no such command."""
    # Set and not given: typer asks for the width where it draws, not where it is called.
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COLUMNS", "200")
        environment.setenv("NO_COLOR", "1")
        done = CliRunner().invoke(app, [*command, "--help"], terminal_width=200)
    return done.output if done.exit_code == 0 else None


def commands(document: Path) -> list[str]:
    found = []
    for text in COMMAND.findall(document.read_text()):
        found += [part.strip() for part in re.split(r"\s{3,}|\|\|?|&&", text) if part.strip().startswith("crb ")]
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_in_a_document_exists_with_its_options(document: Path) -> None:
    """Each is asked for its help, and every option that the document gives it is in there."""
    for text in commands(document):
        words = shlex.split(text)[1:]
        names = [word for word in words if re.fullmatch(r"[a-z-]+", word) and not word.startswith("-")][:2]
        printed = help_of(names[0])
        if printed is not None and "Commands" in printed:
            # `crb leaderboard` alone, or with a sweep's name, is `crb leaderboard show`.
            default = help_of("leaderboard", "show") if names[0] == "leaderboard" else None
            printed = help_of(*names) or default if len(names) == 2 else default or printed
        assert printed is not None, f"{document.name} names `{text}`, which crb does not have"
        for option in (word.split("=")[0] for word in words if word.startswith("--") and word != "--help"):
            assert re.search(rf"{option}\b", printed), (
                f"{document.name} gives `{text}` {option}, which it does not have"
            )


def test_every_setting_is_described_with_its_bounds_in_the_operators_page() -> None:
    """One row a setting, none for a setting that does not exist."""
    rows = re.findall(r"^\| `CRB_([A-Z_]+)` \|", (ROOT / "docs" / "operators.md").read_text(), re.MULTILINE)
    assert sorted(name.lower() for name in rows) == sorted(Settings.model_fields)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_inside_the_repository_lead_somewhere(document: Path) -> None:
    """Every relative link names a file or folder."""
    for target in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
        if not target.startswith(("http:", "https:")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_make_targets_in_documents_exist() -> None:
    """Every ``make target`` that is written as code is in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        for target in re.findall(r"(?:`|^ {4})make ([a-z-]+)", document.read_text(), re.MULTILINE):
            assert target in targets, f"{document.name} names make {target}"


def test_every_test_that_a_document_names_exists() -> None:
    """`tests/x.py::test_y` is a function of that file, in a class or not."""
    named = {
        (document.name, file, test)
        for document in DOCUMENTS
        for file, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", document.read_text())
    }
    assert named
    missing = [
        each
        for each in sorted(named)
        if not (ROOT / each[1]).is_file()
        or not re.search(rf"^ *(?:async )?def {each[2]}\(", (ROOT / each[1]).read_text(), re.MULTILINE)
    ]
    assert missing == []
