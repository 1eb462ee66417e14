"""A text corpus is sealed once, and every later change that breaks it is named with file and field."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crb_core.errors import InputError
from crb_core.formats.showcase import read_showcase
from crb_worker.corpus_check import Counts, check_corpus, seal_corpus
from crb_worker.git import init_repository
from tests.crb_worker.text_corpora import BASE_TREE, KEY, PATCH, RECORDING, write_corpus, write_json


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = write_corpus(tmp_path / "corpus")
    seal_corpus(folder)
    return folder


def object_id(kind: str, data: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data).hexdigest()


def tree_id(files: dict[str, tuple[bytes, bool]]) -> str:
    entries: dict[str, bytes] = {}
    folders: dict[str, dict[str, tuple[bytes, bool]]] = {}
    for name, (content, executable) in files.items():
        first, _, rest = name.partition("/")
        if rest:
            folders.setdefault(first, {})[rest] = (content, executable)
        else:
            mode = "100755" if executable else "100644"
            entries[first] = f"{mode} {first}\0".encode() + bytes.fromhex(object_id("blob", content))
    for name, inner in folders.items():
        entries[f"{name}/"] = f"40000 {name}\0".encode() + bytes.fromhex(tree_id(inner))
    return object_id("tree", b"".join(entries[name] for name in sorted(entries)))


def commit_id(tree: str, parent: str | None, message: str, seconds: int) -> str:
    who = f"crb showcase <showcase@crb.invalid> {seconds} +0000"
    line = f"parent {parent}\n" if parent else ""
    return object_id("commit", f"tree {tree}\n{line}author {who}\ncommitter {who}\n\n{message}\n".encode())


def added(name: str, line: str, mode: str = "100644") -> str:
    """A patch that adds a file of one line."""
    return f"diff --git a/{name} b/{name}\nnew file mode {mode}\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+{line}\n"


def pull_request(corpus: Path) -> Path:
    return corpus / "pull_requests" / KEY


def edit_json(path: Path, change: Callable[[Any], Any]) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    write_json(path, value)


def places(corpus: Path) -> set[tuple[str, str | None]]:
    return {
        (Path(problem.where.file or "").relative_to(corpus).as_posix(), problem.where.field)
        for problem in check_corpus(corpus).problems
        if problem.where
    }


class TestSeal:
    def test_the_same_text_gives_the_same_commits_everywhere(self, corpus: Path) -> None:
        """Recomputed with hashlib alone. A change would orphan every stored score of every text corpus."""
        files = {name: (content.encode(), name == "run.sh") for name, content in BASE_TREE.items()}
        base = commit_id(tree_id(files), None, "Before: Bigger widgets", 1767225600)
        files["src/widget.py"] = (
            b"def size(a):\n    b = a\n    return b + 1\n\n\ndef area(a):\n    return a * a\n",
            False,
        )
        files["tools/check.sh"] = (b"true\n", True)
        head = commit_id(tree_id(files), base, "Bigger widgets", 1767312000)
        entry = read_showcase(corpus).entries[0].pull_request
        assert (entry.base, entry.head) == (base, head)
        assert base == "308af3122e4fe1efa1e4dce71ef735abaa3b28c9"

    def test_modes_and_times_of_the_files_on_disk_do_not_matter(self, corpus: Path) -> None:
        """Archives and checkouts change them; what counts is the list of executables."""
        for path in (pull_request(corpus) / "base").rglob("*"):
            if path.is_file():
                path.chmod(0o777)
                os.utime(path, (0, 0))
        assert check_corpus(corpus).problems == ()

    def test_settings_of_the_user_do_not_matter(self, corpus: Path, tmp_path: Path, monkeypatch: Any) -> None:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / ".gitconfig").write_text(
            "[core]\nautocrlf = true\nhooksPath = /nowhere\n[i18n]\ncommitEncoding = latin1\n"
            "[apply]\nwhitespace = error\n[init]\ndefaultObjectFormat = sha256\n[diff]\nnoprefix = true\n"
        )
        for name, value in (
            ("HOME", str(tmp_path / "home")),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "core.autocrlf"),
            ("GIT_CONFIG_VALUE_0", "true"),
            ("GIT_DEFAULT_HASH", "sha256"),
            ("GIT_AUTHOR_DATE", "1999-01-01"),
            ("GIT_DIR", "/nowhere"),
            ("GIT_INDEX_FILE", "/nowhere"),
            ("TZ", "Asia/Tokyo"),
        ):
            monkeypatch.setenv(name, value)
        assert check_corpus(corpus).problems == ()

    def test_sealing_again_changes_nothing(self, corpus: Path) -> None:
        before = {path: path.read_bytes() for path in corpus.rglob("*") if path.is_file()}
        assert seal_corpus(corpus) == ()
        assert {path: path.read_bytes() for path in corpus.rglob("*") if path.is_file()} == before

    def test_positions_become_ids(self, corpus: Path) -> None:
        reference = json.loads((corpus / "reference" / "careful" / f"{KEY}.json").read_text())
        finding = read_showcase(corpus).entries[0].golden[0]
        assert reference["judgments"][0]["matches"] == [finding.finding_id(KEY)]
        assert [judgment["finding"][:2] for judgment in reference["judgments"]] == ["c-", "c-"]

    def test_a_pull_request_with_problems_is_left_alone(self, tmp_path: Path) -> None:
        folder = write_corpus(tmp_path)
        edit_json(pull_request(folder) / "golden.json", lambda text: text["findings"][0].update(severity="huge"))
        assert seal_corpus(folder) == ()

    def test_an_unsealed_corpus_is_refused_with_the_way_to_seal_it(self, tmp_path: Path) -> None:
        folder = write_corpus(tmp_path)
        with pytest.raises(InputError, match=r"commit id is missing.*--seal"):
            read_showcase(folder)
        assert {field for _, field in places(folder)} >= {"base", "lines_added", "findings[0].provenance", "judgments"}


class TestReport:
    def test_a_sealed_corpus_has_no_problems_and_its_counts(self, corpus: Path) -> None:
        report = check_corpus(corpus)
        assert report.problems == ()
        assert report.fingerprint == read_showcase(corpus).fingerprint
        assert report.total == Counts(pull_requests=1, tp=1, fp=1)
        assert report.groups["language"] == {"Python": Counts(pull_requests=1, tp=1, fp=1)}
        assert report.groups["severity"] == {
            "high": Counts(pull_requests=1, tp=1, fp=0),
            "low": Counts(pull_requests=1, tp=0, fp=1),
        }

    def test_the_bundled_showcase_is_sound(self) -> None:
        """At least 12 pull requests, 5 languages, 70 goldens; changes of 30 to 300 lines; a smoke subset of 4."""
        folder = Path(__file__).parents[2] / "corpus" / "showcase"
        report = check_corpus(folder)
        assert [str(problem) for problem in report.problems] == []
        assert report.total.pull_requests >= 12
        assert report.total.tp + report.total.fp >= 70
        assert report.total.fp > 0
        assert len(report.groups["language"]) >= 5
        assert len(report.groups["change_type"]) == 8
        corpus = read_showcase(folder)
        assert len(corpus.subsets["smoke"]) == 4
        for entry in corpus.entries:
            traits = entry.pull_request.traits
            assert 30 <= (traits.lines_added or 0) + (traits.lines_removed or 0) <= 300, entry.pull_request.key

    def test_a_folder_that_is_no_corpus_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no corpus"):
            check_corpus(tmp_path)
        with pytest.raises(InputError, match="does not exist"):
            check_corpus(tmp_path / "nowhere")


GOLDEN = f"pull_requests/{KEY}/golden.json"
SETTINGS = f"pull_requests/{KEY}/pull_request.toml"
PATCHED = f"pull_requests/{KEY}/change.patch"


class TestGoldenProblems:
    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"file": "src/gone.py"}, "findings[0].file"),
            ({"file": "data"}, "findings[0].file"),
            ({"end_line": 8}, "findings[0].end_line"),
            ({"start_line": 10**12, "end_line": 10**12}, "findings[0].start_line"),
            ({"category": "style"}, "findings[0].category"),
            ({"difficulty": "impossible"}, "findings[0].difficulty"),
            ({"actionability": None}, "findings[0].actionability"),
            ({"producer": "llm:unlisted"}, "findings[0].producer"),
            ({"provenance": {"mood": "human"}}, "findings[0].provenance"),
            ({"message": "Nit."}, "findings[1]"),
        ],
    )
    def test_each_is_named(self, corpus: Path, changes: dict[str, Any], field: str) -> None:
        edit_json(pull_request(corpus) / "golden.json", lambda text: text["findings"][0].update(changes))
        assert (GOLDEN, field) in places(corpus)

    def test_the_last_line_counts_without_a_newline(self, corpus: Path) -> None:
        changes = {"file": "docs/no-newline.txt", "start_line": 1, "end_line": 1}
        edit_json(pull_request(corpus) / "golden.json", lambda text: text["findings"][1].update(changes))
        assert places(corpus) == set()

    def test_a_pull_request_without_tp_is_a_problem(self, corpus: Path) -> None:
        edit_json(pull_request(corpus) / "golden.json", lambda text: text["findings"][0].update(tp_fp="fp"))
        assert (GOLDEN, "findings") in places(corpus)

    def test_problems_of_several_files_are_all_reported(self, corpus: Path) -> None:
        edit_json(pull_request(corpus) / "golden.json", lambda text: text["findings"][0].update(severity="x"))
        (pull_request(corpus) / "base" / "README.md").write_text("changed\n")
        assert {(GOLDEN, "findings[0].severity"), (SETTINGS, "base")} <= places(corpus)


class TestRepositoryProblems:
    @pytest.mark.parametrize("name", list(BASE_TREE))
    def test_a_changed_byte_changes_the_commit(self, corpus: Path, name: str) -> None:
        path = pull_request(corpus) / "base" / name
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n", 1) + b"\n")
        assert places(corpus) & {(SETTINGS, "base"), (PATCHED, None)}

    def test_a_patch_that_does_not_apply(self, corpus: Path) -> None:
        (pull_request(corpus) / "change.patch").write_text(PATCH.replace("-    return a\n", "-    return other\n"))
        assert places(corpus) == {(PATCHED, None)}
        assert "does not apply" in str(check_corpus(corpus).problems[0])

    @pytest.mark.parametrize(
        "patch",
        [
            "",
            "no patch at all\n",
            added("x", "/etc/passwd", mode="120000"),
            added(".git/config", "x"),
            added("../x", "x"),
            added("sub", "Subproject commit " + "a" * 40, mode="160000"),
        ],
        ids=["empty", "prose", "link", "git", "climbing", "submodule"],
    )
    def test_patches_that_are_no_text_change_are_refused(self, corpus: Path, patch: str) -> None:
        (pull_request(corpus) / "change.patch").write_text(patch)
        assert places(corpus) == {(PATCHED, None)}

    def test_links_in_the_base_tree_are_refused_and_not_followed(self, corpus: Path) -> None:
        (pull_request(corpus) / "base" / "link").symlink_to("/etc/passwd")
        (pull_request(corpus) / "base" / "folder").symlink_to("/etc")
        assert places(corpus) == {(f"pull_requests/{KEY}/base/{name}", None) for name in ("link", "folder")}

    @pytest.mark.parametrize(
        "name", [".gitattributes", "a:b", "a\\b", "new\nline", "bidi\u202e", " blank", "README.MD", "x.pyc", "e\u0301"]
    )
    def test_odd_names_in_the_base_tree_are_refused(self, corpus: Path, name: str) -> None:
        (pull_request(corpus) / "base" / name).write_text("x\n")
        assert places(corpus) != set()

    def test_binary_fifo_and_empty_folder_are_refused(self, corpus: Path) -> None:
        base = pull_request(corpus) / "base"
        (base / "blob").write_bytes(b"\xff\xfe")
        (base / "empty").mkdir()
        os.mkfifo(base / "fifo")
        assert places(corpus) == {(f"pull_requests/{KEY}/base/{name}", None) for name in ("blob", "empty", "fifo")}

    @pytest.mark.parametrize("name", ["golden.json", "pull_request.toml", "change.patch"])
    def test_a_pipe_in_place_of_a_file_is_refused_without_waiting(self, corpus: Path, name: str) -> None:
        (pull_request(corpus) / name).unlink()
        os.mkfifo(pull_request(corpus) / name)
        assert places(corpus) == {(f"pull_requests/{KEY}/{name}", None)}

    def test_a_missing_pull_request_is_one_problem(self, corpus: Path) -> None:
        shutil.rmtree(pull_request(corpus))
        assert places(corpus) == {(f"pull_requests/{KEY}", None)}

    def test_a_folder_that_is_not_listed(self, corpus: Path) -> None:
        shutil.copytree(pull_request(corpus), corpus / "pull_requests" / "other-2")
        assert places(corpus) == {("pull_requests/other-2", None)}


class TestSettingsProblems:
    @pytest.mark.parametrize(
        ("old", "new", "field"),
        [
            ('"feature"', '"whim"', "change_type"),
            ("number = 1", "number = 0", "number"),
            ("number = 1", 'number = "1"', "number"),
            ("acme/widget", "acme/../x", "repo"),
            ('["run.sh"]', '["gone.sh"]', "executable[0]"),
            ("lines_added = 3", "lines_added = 4", "lines_added"),
            ('"Bigger widgets"', '"two\\nlines"', "title"),
            ('language = "Python"\n', "", "language"),
            ("number = 1", "number = 1\nmood = 2", "mood"),
        ],
    )
    def test_each_is_named(self, corpus: Path, old: str, new: str, field: str) -> None:
        path = pull_request(corpus) / "pull_request.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        assert (SETTINGS, field) in places(corpus)

    def test_a_broken_toml_file_is_named_by_line(self, corpus: Path) -> None:
        (pull_request(corpus) / "pull_request.toml").write_text('repo = "x"\nnumber = = 1\n')
        (problem,) = check_corpus(corpus).problems
        assert problem.where is not None
        assert (problem.where.line, problem.where.column) == (2, 10)

    @pytest.mark.parametrize(
        ("old", "new", "field"),
        [
            ('pull_requests = ["widget-1"]', 'pull_requests = ["widget-1", "widget-1"]', "pull_requests[1]"),
            ('pull_requests = ["widget-1"]', 'pull_requests = ["../widget-1"]', "pull_requests[0]"),
            ('smoke = ["widget-1"]', 'smoke = ["widget-2"]', "subsets.smoke[0]"),
            ('smoke = ["widget-1"]', "smoke = []", "subsets.smoke"),
            ('protocol = "reviewbench"', 'protocol = "mine"', "protocol"),
            ('protocol = "reviewbench"', 'protocol = "golden-comments"', "protocol"),
            ('name = "tiny"', 'name = "Tiny Corpus"', "name"),
            ('licence = "MIT"\n', "", "licence"),
            ('version = "1"\n\n[[rec', "\n[[rec", "producers[0].version"),
        ],
    )
    def test_corpus_settings(self, corpus: Path, old: str, new: str, field: str) -> None:
        text = (corpus / "corpus.toml").read_text()
        assert old in text
        (corpus / "corpus.toml").write_text(text.replace(old, new, 1))
        assert ("corpus.toml", field) in places(corpus)

    def test_a_text_corpus_can_be_an_answer_key(self, corpus: Path) -> None:
        text = (corpus / "corpus.toml").read_text()
        (corpus / "corpus.toml").write_text(text.replace('protocol = "reviewbench"', 'protocol = "answer-key"', 1))
        report = check_corpus(corpus)
        assert report.problems == ()
        assert read_showcase(corpus).protocol == "answer-key"


class TestRecordings:
    def test_an_edited_golden_leaves_its_judgment_behind(self, corpus: Path) -> None:
        edit_json(pull_request(corpus) / "golden.json", lambda text: text["findings"][0].update(message="Reworded."))
        assert places(corpus) == {(f"reference/careful/{KEY}.json", "judgments[0].matches[0]")}

    def test_an_edited_recording_leaves_its_judgment_behind(self, corpus: Path) -> None:
        path = corpus / "recordings" / "careful" / f"{KEY}.json"
        edit_json(path, lambda text: text["findings"][0].update(start_line=2))
        assert places(corpus) == {
            (f"reference/careful/{KEY}.json", "judgments[0].finding"),
            (f"reference/careful/{KEY}.json", "judgments"),
        }

    def test_a_missing_recording_or_reference_is_named(self, corpus: Path) -> None:
        (corpus / "reference" / "careful" / f"{KEY}.json").unlink()
        assert places(corpus) == {(f"reference/careful/{KEY}.json", None)}
        (corpus / "recordings" / "careful" / f"{KEY}.json").unlink()
        assert places(corpus) == {(f"recordings/careful/{KEY}.json", None)}

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"rounds": [[0], [2]]}, "rounds[1][0]"),
            ({"rounds": [[0, 0], [1]]}, "rounds[0]"),
            ({"rounds": [[0]]}, "findings[1]"),
            ({"rounds": []}, "rounds"),
            ({"reviewer": "eager"}, "reviewer"),
            ({"pull_request": "other-1"}, "pull_request"),
            ({"findings": [RECORDING["findings"][0]] * 2}, "findings[1]"),
        ],
    )
    def test_a_wrong_recording_is_named(self, corpus: Path, changes: dict[str, Any], field: str) -> None:
        edit_json(corpus / "recordings" / "careful" / f"{KEY}.json", lambda text: text.update(changes))
        assert (f"recordings/careful/{KEY}.json", field) in places(corpus)

    def test_a_match_across_files_is_refused(self, corpus: Path) -> None:
        path = corpus / "reference" / "careful" / f"{KEY}.json"
        edit_json(path, lambda text: text["judgments"][1].update(matches=[golden_id(corpus)]))
        assert places(corpus) == {(f"reference/careful/{KEY}.json", "judgments[1].matches[0]")}

    def test_a_finding_judged_twice_and_one_not_judged(self, corpus: Path) -> None:
        path = corpus / "reference" / "careful" / f"{KEY}.json"
        edit_json(path, lambda text: text["judgments"].__setitem__(1, text["judgments"][0]))
        assert {field for _, field in places(corpus)} == {"judgments[1].finding", "judgments"}


def golden_id(corpus: Path) -> str:
    return read_showcase(corpus).entries[0].golden[0].finding_id(KEY)


def test_no_template_of_the_machine_enters_a_repository(tmp_path: Path) -> None:
    """No hooks, no description, nothing that a user's template would bring."""
    init_repository(tmp_path / "r.git")
    assert sorted(path.name for path in (tmp_path / "r.git").iterdir()) == ["HEAD", "config", "info", "objects", "refs"]
