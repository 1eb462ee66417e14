"""What a diff says of a pull request whose corpus does not."""

from __future__ import annotations

import pytest

from crb_core.diff_traits import DiffTraits, language_of, traits_of_diff
from crb_core.dimensions import KnownDimensions, computed_dimensions
from tests.crb_web.audit_store import DIFF, new_file


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("src/a.py", "Python"),
        ("b/C.GO", "Go"),
        ("x.tsx", "TypeScript"),
        ("x.jsx", "JavaScript"),
        ("include/x.h", "C"),
        ("x.hpp", "C++"),
        ("script.pl", "Perl"),
        ("query.sql", "SQL"),
        ("Makefile", "Makefile"),
        ("deep/CMakeLists.txt", None),
        ("go.mod", None),
        ("LICENSE", None),
        ("notes.txt", None),
        ("strange.\udcff", None),
        ("", None),
    ],
)
def test_a_name_stands_for_the_language_that_people_mean(path: str, language: str | None) -> None:
    """Not for the first of a table; text and what has no language stand for none."""
    assert language_of(path) == language


def test_lines_and_languages_of_changed_and_deleted_files() -> None:
    """A renamed and a deleted file count by their names; every language of the change is one of its languages."""
    data = DIFF + new_file("web/app.ts", ["a", "b"]) + new_file("README", ["c"])
    assert traits_of_diff(data) == DiffTraits(lines_added=8, lines_removed=2, languages=("Python", "TypeScript"))


def test_what_is_no_diff_has_no_traits() -> None:
    """It is not an empty one."""
    assert traits_of_diff(b"@@ -1 +1 @@\n-a\n+b\n") is None


def test_only_what_the_corpus_does_not_say_is_computed() -> None:
    """What people recorded is never replaced, and an empty diff gives a size but no language."""
    diff = DiffTraits(lines_added=20, lines_removed=9, languages=("Go", "Shell"))
    assert computed_dimensions({}, diff) == {"language": ("Go", "Shell"), "size": ("S: 10 to 29",)}
    assert computed_dimensions({"language": ("Rust",)}, diff) == {"size": ("S: 10 to 29",)}
    empty = DiffTraits(lines_added=0, lines_removed=0, languages=())
    assert computed_dimensions({}, empty) == {"size": ("XS: under 10 lines",)}


def test_how_many_were_computed_is_counted_by_dimension() -> None:
    """For those that are asked about, or for all."""
    known = KnownDimensions({"a": {}}, {"size": frozenset({"a", "b"}), "language": frozenset({"a"}), "x": frozenset()})
    assert known.computed_counts() == {"language": 1, "size": 2}
    assert known.computed_counts(["size"]) == {"size": 2}
