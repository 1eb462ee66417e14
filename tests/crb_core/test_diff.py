"""A finding is in the diff where a hunk shows one of its lines."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crb_core.diff import DiffFile, DiffIndex
from crb_core.errors import InputError

CHANGE = b"""diff --git a/app.py b/app.py
index 1111111..2222222 100644
--- a/app.py
+++ b/app.py
@@ -2,4 +2,5 @@ def f():
 two
-three
+THREE
+3b
 four
 five
@@ -20,3 +21,2 @@
 twenty
---- a/fake.py
 twentytwo
"""


class TestInDiff:
    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [(1, 1, False), (2, 2, True), (1, 2, True), (6, 9, True), (7, 20, False), (21, 21, True), (22, 99, True)],
    )
    def test_any_shown_line_counts_context_included(self, start: int, end: int, expected: bool) -> None:
        """Hunks at head are lines 2 to 6 and 21 to 22."""
        assert DiffIndex.parse(CHANGE).in_diff("app.py", start, end) is expected

    def test_other_files_are_not_in_the_diff(self) -> None:
        assert not DiffIndex.parse(CHANGE).in_diff("fake.py", 1, 99)

    def test_lines_beyond_any_file_are_not_in_the_diff(self) -> None:
        assert not DiffIndex.parse(CHANGE).in_diff("app.py", 10**300, 10**300)

    def test_an_inverted_range_is_not_in_the_diff(self) -> None:
        assert not DiffIndex.parse(CHANGE).in_diff("app.py", 6, 2)


class TestParse:
    def test_hunks_added_and_removed_lines(self) -> None:
        """A removed line that looks like a file header is content, because the hunk's counts say so."""
        assert DiffIndex.parse(CHANGE).files == {
            "app.py": DiffFile(
                old="app.py", new="app.py", hunks=((2, 6), (21, 22)), added=(3, 4), lines_removed=2, binary=False
            )
        }

    def test_new_deleted_renamed_binary_and_mode_changes(self) -> None:
        data = b"""diff --git a/new.txt b/new.txt
new file mode 100755
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+x
\\ No newline at end of file
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1,2 +0,0 @@
-x
-y
diff --git a/old name.txt b/new name.txt
similarity index 100%
rename from old name.txt
rename to new name.txt
diff --git a/logo.png b/logo.png
index 1111111..2222222 100644
Binary files a/logo.png and b/logo.png differ
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/empty b/empty
new file mode 100644
index 0000000..e69de29
"""
        index = DiffIndex.parse(data)
        assert {name: (file.old, file.hunks, file.binary) for name, file in index.files.items()} == {
            "new.txt": (None, ((1, 1),), False),
            "new name.txt": ("old name.txt", (), False),
            "logo.png": ("logo.png", (), True),
            "run.sh": ("run.sh", (), False),
            "empty": (None, (), False),
        }
        assert list(index.deleted) == ["gone.txt"]
        assert (index.files_changed, index.lines_added, index.lines_removed) == (6, 1, 2)

    @pytest.mark.parametrize(
        ("header", "path"),
        [
            (b"diff --git a/a b.py b/a b.py\n--- a/a b.py\t\n+++ b/a b.py\t\n", "a b.py"),
            (b'diff --git "a/\\303\\251.py" "b/\\303\\251.py"\n--- "a/\\303\\251.py"\n+++ "b/\\303\\251.py"\n', "é.py"),
            (b'diff --git "a/q\\"\\t.py" "b/q\\"\\t.py"\n--- "a/q\\"\\t.py"\n+++ "b/q\\"\\t.py"\n', 'q"\t.py'),
            (b"diff --git a/x b/y b/x b/y\n--- a/x b/y\t\n+++ b/x b/y\t\n", "x b/y"),
            (b'diff --git "a/\\377.py" "b/\\377.py"\n--- "a/\\377.py"\n+++ "b/\\377.py"\n', "\udcff.py"),
        ],
    )
    def test_odd_paths(self, header: bytes, path: str) -> None:
        """Blanks, quotes, escapes and bytes that are not UTF-8 are read as git writes them."""
        index = DiffIndex.parse(header + b"@@ -1 +1 @@\n-a\n+b\n")
        assert list(index.files) == [path]
        assert index.in_diff(path, 1, 1)

    def test_carriage_returns_and_a_stripped_blank_context_line_are_content(self) -> None:
        data = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\r\n\n-b\r\n+c\r\n"
        assert DiffIndex.parse(data).files["f"].added == (3,)

    def test_an_empty_diff_shows_nothing(self) -> None:
        assert DiffIndex.parse(b"") == DiffIndex({}, {})

    @pytest.mark.parametrize(
        ("data", "line"),
        [
            (b"@@ -1 +1 @@\n-a\n+b\n", 1),
            (b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n", 5),
            (b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,1 @@\n-a\n+b\n+c\n", 7),
            (b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -x +1 @@\n-a\n", 4),
            (b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n?a\n", 5),
            (b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -9 +9 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b\n", 7),
            (b"diff --git x/f y/f\n--- x/f\n+++ y/f\n@@ -1 +1 @@\n-a\n+b\n", 1),
            (b"diff --cc f\n@@@ -1,1 -1,1 +1,1 @@@\n", 1),
        ],
    )
    def test_what_is_no_diff_is_refused_with_its_line(self, data: bytes, line: int) -> None:
        with pytest.raises(InputError) as caught:
            DiffIndex.parse(data, "change.patch")
        assert caught.value.where is not None
        assert (caught.value.where.file, caught.value.where.line) == ("change.patch", line)

    @given(
        st.lists(
            st.sampled_from(
                [
                    b"diff --git a/f b/f",
                    b'diff --git "a/\\3" b/f',
                    b"diff --git ",
                    b"--- a/f",
                    b"--- /dev/null",
                    b"+++ b/f",
                    b'+++ "b/f',
                    b"new file mode 100644",
                    b"deleted file mode 100644",
                    b"rename from ",
                    b"rename to x",
                    b"Binary files a/f and b/f differ",
                    b"@@ -1 +1 @@",
                    b"@@ -0,0 +1,9999999999 @@",
                    b"@@ -3,2 +3,0 @@",
                    b"+x",
                    b"-x",
                    b" x",
                    b"",
                    b"\\ No newline at end of file",
                    b"\xff\x00",
                ]
            )
            | st.binary(max_size=12),
            max_size=12,
        )
    )
    def test_anything_else_is_read_or_refused_in_a_sentence(self, lines: list[bytes]) -> None:
        with contextlib.suppress(InputError):
            index = DiffIndex.parse(b"\n".join(lines))
            for name, file in index.files.items():
                assert all(index.in_diff(name, start, end) for start, end in file.hunks)
