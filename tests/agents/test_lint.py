"""The lint agent: each violation on a changed line is a finding, and no tool fails unseen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.agents.support import PullRequestFolder

CLEAN = "def f(x):\n    return x\n"


def test_each_tool_reports_what_it_finds_on_changed_lines(pull_request: PullRequestFolder) -> None:
    """Tool and rule id stand in the message; file and line order; the envelope is the contract's."""
    pull_request.commit(
        {"old.py": "import os\n"},
        {
            "a.py": "import os\n",
            "run.sh": "#!/bin/sh\nrm -rf $1/*\n",
            "web/a.ts": "export const isOne = (a: number) => a === NaN;\n",
            "ci.yaml": "a: 1\na: 2\n",
            "Dockerfile": "FROM debian\n",
            "notes.md": "We recieve it.\n",
        },
    )
    run = pull_request.run("lint")
    assert run.status == 0, run.log
    assert run.document["pr"] == {
        "repo": "https://github.com/crb-showcase/ledger",
        "pr_number": 41,
        "base": pull_request.base,
        "head": pull_request.head,
    }
    assert run.document["agent"] == "lint"
    assert {entry["producer"] for entry in run.document["findings"]} == {"lint"}
    found = [(file, start, message.split(":")[0]) for file, start, _end, message in run.findings]
    assert found == [
        ("Dockerfile", 1, "hadolint DL3006"),
        ("a.py", 1, "ruff F401"),
        ("ci.yaml", 2, "yamllint key-duplicates"),
        ("notes.md", 1, "codespell misspelling"),
        ("run.sh", 2, "shellcheck SC2086"),
        ("run.sh", 2, "shellcheck SC2115"),
        ("web/a.ts", 1, "oxlint eslint(use-isnan)"),
    ]


def test_lines_that_the_pull_request_did_not_change_are_not_reported(pull_request: PullRequestFolder) -> None:
    """A violation counts only where its lines meet added lines."""
    pull_request.commit({"a.py": "import os\n" + CLEAN}, {"a.py": "import os\n" + CLEAN + "import sys\n"})
    run = pull_request.run("lint")
    assert {(file, start) for file, start, *_ in run.findings} == {("a.py", 4)}


def test_the_configuration_of_the_repository_is_not_used(pull_request: PullRequestFolder) -> None:
    """Neither changed nor unchanged configuration files of the reviewed repository switch a rule off."""
    silence = {
        "pyproject.toml": '[tool.ruff]\nexclude = ["*"]\n[tool.codespell]\nskip = "*"\n',
        "ruff.toml": 'exclude = ["*"]\n',
        ".codespellrc": "[codespell]\nskip = *\n",
        "setup.cfg": "[codespell]\nskip = *\n",
        ".shellcheckrc": "disable=all\n",
        ".yamllint": "rules: {}\n",
        ".hadolint.yaml": "ignored: [DL3006]\n",
        ".oxlintrc.json": '{"rules": {"use-isnan": "off"}}\n',
        ".eslintignore": "*\n",
        ".gitignore": "ignored*\n",
    }
    change = {
        "a.py": "import os  # recieve\n",
        "run.sh": "#!/bin/sh\nrm -rf $1/*\n",
        "a.js": "export const f = (a) => a === NaN;\n",
        "a.yaml": "a: 1\na: 2\n",
        "Dockerfile": "FROM debian\n",
    }
    pull_request.commit(silence, {**{name: text + "\n" for name, text in silence.items()}, **change})
    run = pull_request.run("lint")
    tools = {message.split()[0] for *_, message in run.findings}
    assert tools == {"ruff", "shellcheck", "oxlint", "yamllint", "hadolint", "codespell"}


def test_the_same_pull_request_gives_the_same_bytes(pull_request: PullRequestFolder) -> None:
    """Two runs write the same file, whatever order the tools report in."""
    names = {
        f"m{number}.py": "import os, sys\nx = eval('1')\ntry:\n    pass\nexcept:\n    pass\n" for number in range(9)
    }
    pull_request.commit({}, names)
    first = pull_request.run("lint").out.read_bytes()
    assert pull_request.run("lint").out.read_bytes() == first
    assert first.count(b'"message"') >= 9 * 3


def test_a_review_that_finds_nothing_is_an_empty_list(pull_request: PullRequestFolder) -> None:
    """Deleted, renamed, binary, linked and empty changes are a review with no findings, not a failure."""
    pull_request.commit(
        {"gone.py": "import os\n", "moved.py": CLEAN},
        {"gone.py": None, "moved.py": None, "kept/moved.py": CLEAN, "logo.bin": b"\0\1\2", "empty.py": ""},
    )
    (pull_request.repo / "link.py").symlink_to("/etc/passwd")
    pull_request.git("add", "-A")
    pull_request.git("commit", "-qm", "link")
    pull_request.head = pull_request.git("rev-parse", "HEAD").decode().strip()
    (pull_request.root / "diff.patch").write_bytes(pull_request.git("diff", pull_request.base, pull_request.head))
    run = pull_request.run("lint")
    assert run.status == 0, run.log
    assert run.document["findings"] == []


@pytest.mark.parametrize("quoted", ["true", "false"])
def test_odd_names_are_read_from_the_diff(pull_request: PullRequestFolder, quoted: str) -> None:
    """Blanks, quotes, leading hyphens, other alphabets work; what a findings file cannot carry is named in the log."""
    names = ["a b.py", "-rf.py", 'q"t.py', "naïve/模块.py", "back\\slash.py", "co:lon.py", "li\nne.py"]
    pull_request.commit({}, dict.fromkeys(names, "import os\n"))
    pull_request.git("config", "core.quotePath", quoted)
    (pull_request.root / "diff.patch").write_bytes(pull_request.git("diff", pull_request.base, pull_request.head))
    run = pull_request.run("lint")
    assert run.status == 0, run.log
    assert {file for file, *_ in run.findings} == {"a b.py", "-rf.py", 'q"t.py', "naïve/模块.py"}
    assert run.log.count("not reviewed") == 3


def test_a_file_that_quotes_a_diff_is_one_file(pull_request: PullRequestFolder) -> None:
    """Lines inside a hunk that look like headers do not start another file."""
    patch = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+import os\n"
    pull_request.commit({"a.patch": "-- a\n++ b\n"}, {"a.patch": patch, "b.py": "import os\n"})
    run = pull_request.run("lint")
    assert {file for file, *_ in run.findings} == {"b.py"}


def test_text_that_is_no_text_is_named_in_the_log(pull_request: PullRequestFolder) -> None:
    """A Latin-1 file and a file above the size limit are left out, and the log says so."""
    pull_request.commit({}, {"a.py": "x = 'é'\n".encode("latin-1"), "big.py": "import os\n" * 300_000})
    run = pull_request.run("lint")
    assert run.document["findings"] == []
    assert run.log.count("not reviewed") == 2


def test_a_checkout_that_lacks_a_file_of_the_diff_is_a_failure(pull_request: PullRequestFolder) -> None:
    """A file that the diff names, missing or replaced by a link, ends the agent with status 2 and no file."""
    pull_request.commit({}, {"a.py": "import os\n"})
    (pull_request.repo / "a.py").unlink()
    (pull_request.repo / "a.py").symlink_to("/etc/hostname")
    run = pull_request.run("lint")
    assert (run.status, run.out.exists()) == (2, False)
    assert "'a.py'" in run.log


@pytest.mark.parametrize(
    "hostile",
    [
        {"a.yaml": "[" * 5_000 + "\n"},
        {"a.yaml": "a: &a [x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n" * 50},
        {"a.py": "x = " + "(" * 5_000 + "\n"},
        {"a.js": "{" * 5_000 + "\n"},
        {"a.sh": "$(" * 500 + "\n"},
        {"Dockerfile": "RUN " + "\\\n" * 5_000},
        {"a.md": "\x1b[31mrecieve\x07\u202e\n"},
        {"a.py": "# noqa\n# ruff: noqa\nimport os\n"},
    ],
)
def test_hostile_text_gives_a_review_or_a_failure(pull_request: PullRequestFolder, hostile: dict[str, str]) -> None:
    """Whatever the changed files hold: a valid file and status 0, or a sentence and no file; never a traceback."""
    pull_request.commit({}, dict(hostile))
    run = pull_request.run("lint", RB_CONFIG_TOOL_SECONDS="60")
    assert run.status in {0, 1}, run.log
    assert run.out.exists() == (run.status == 0)
    # A tool's own last words may be told, the agent's may not.
    assert run.status == 1 or "Traceback" not in run.log
    if run.status == 0:
        assert all("\x1b" not in message and "\u202e" not in message for *_, message in run.findings)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exit 3", "ruff ended with status 3"),
        ("echo '{\"a\": 1}'", "report of ruff cannot be read"),
        ("echo nonsense", "report of ruff cannot be read"),
        ("echo '[{}]'", "report of ruff cannot be read"),
        ("kill -9 $$", "ruff ended with status -9"),
        ("exec sleep 60", "ruff took more than 1 s"),
    ],
)
def test_a_tool_that_fails_fails_the_agent(
    pull_request: PullRequestFolder, tmp_path: Path, script: str, problem: str
) -> None:
    """No findings file is written when a tool crashes, hangs or says something unreadable."""
    # A second interpreter folder, so that the broken tool stands where the agent looks first.
    tools = tmp_path / "venv" / "bin"
    tools.mkdir(parents=True)
    ruff = tools / "ruff"
    ruff.write_text(f"#!/bin/sh\n{script}\n")
    ruff.chmod(0o755)
    (tools / "python").symlink_to(sys.executable)
    pull_request.commit({}, {"a.py": "import os\n"})
    run = pull_request.run("lint", interpreter=str(tools / "python"), RB_CONFIG_TOOL_SECONDS="1")
    assert (run.status, run.out.exists()) == (1, False)
    assert problem in run.log
    assert "Traceback" not in run.log


@pytest.mark.parametrize("variable", ["RB_AGENT", "RB_NWO", "RB_PR_NUMBER", "RB_BASE", "RB_HEAD", "RB_DIFF", "RB_OUT"])
@pytest.mark.parametrize("agent", ["lint", "minimal", "recorded-careful"])
def test_a_missing_variable_ends_with_status_2(pull_request: PullRequestFolder, agent: str, variable: str) -> None:
    """The log names the variable."""
    pull_request.commit({}, {"a.py": "x = 1\n"})
    run = pull_request.run(agent, without=(variable,), CRB_ROUND="1")
    assert (run.status, run.out.exists()) == (2, False)
    assert variable in run.log


@pytest.mark.parametrize("diff", [b"garbage\n", b"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,9 +1,9 @@\n x\n"])
def test_a_diff_that_cannot_be_read_is_a_failure(pull_request: PullRequestFolder, diff: bytes) -> None:
    """A cut or foreign diff ends the agent with status 2 instead of a short review."""
    pull_request.commit({}, {"a.py": "import os\n"})
    (pull_request.root / "diff.patch").write_bytes(diff)
    run = pull_request.run("lint")
    assert (run.status, run.out.exists()) == (2, False)
    assert "the diff cannot be read" in run.log
