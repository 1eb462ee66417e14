"""What of a later commit can be pointed at: lines that it replaced or removed, and the neighbours of added ones."""

from __future__ import annotations

from crb_core.diff_lines import DiffText
from crb_core.follow_ups import ModifiedFile, modified_files

DIFF = b"""\
diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,7 +1,7 @@ def f():
 one
-two
+TWO
 three
 four
+between
 five
-six
 seven
@@ -20,3 +20,4 @@
 twenty
 last
 end
+more
diff --git a/new.py b/new.py
new file mode 100644
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+x
diff --git a/top.py b/top.py
--- a/top.py
+++ b/top.py
@@ -1,2 +1,3 @@
+first
 one
 two
diff --git a/pic.png b/pic.png
index 1..2 100644
Binary files a/pic.png and b/pic.png differ
"""


def test_modified_files() -> None:
    """New and binary files hold nothing that was reviewed; text is shown with the numbers before the commit."""
    first, top = modified_files(DiffText(DIFF))
    assert (first.path, sorted(first.anchors)) == ("a.py", [2, 4, 5, 6, 22])
    assert first.changed == "two\nTWO\nbetween\nsix\nmore"
    assert first.text.splitlines()[:5] == [
        "@@ def f():",
        "     1   one",
        "     2 - two",
        "       + TWO",
        "     3   three",
    ]
    assert top == ModifiedFile(
        path="top.py",
        anchors=frozenset({1}),
        text="@@\n       + first\n     1   one\n     2   two",
        changed="first",
    )
