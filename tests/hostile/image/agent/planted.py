"""Planted: what would run on the farm's side, or wait for the next trial."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from pathlib import Path

from acts import OUT, PR, REPO, attack, refused, write_review

#: The names of githooks(5).
_HOOKS = """
applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit
pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update
reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman post-index-change
"""
_SETTINGS = """[core]
\tfsmonitor = {run}
\thooksPath = {hooks}
\tpager = {run}
\teditor = {run}
\taskPass = {run}
\tsshCommand = {run}
\tgitProxy = {run}
\talternateRefsCommand = {run}
\tattributesFile = {attributes}
[diff]
\texternal = {run}
[diff "evil"]
\tcommand = {run}
\ttextconv = {run}
[merge "evil"]
\tdriver = {run}
[filter "evil"]
\tclean = {run}
\tsmudge = {run}
\tprocess = {run}
\trequired = true
[uploadpack]
\tpackObjectsHook = {run}
[credential]
\thelper = {run}
[gpg]
\tprogram = {run}
[alias]
\tstatus = !{run}
\tdiff = !{run}
[remote "origin"]
\turl = ext::{run}
\tuploadpack = {run}
\tpromisor = true
"""


@attack
def planted_git() -> None:
    """Hooks, filters and settings of every kind; each would leave a mark on whoever runs git here."""
    run = f"touch {os.environ['RB_CONFIG_CANARY']}/git"
    git = REPO / ".git"
    for hooks in (git / "hooks", REPO / "hooks", OUT / "hooks"):
        hooks.mkdir(exist_ok=True)
        for name in _HOOKS.split():
            (hooks / name).write_text(f"#!/bin/sh\n{run}\n")
            (hooks / name).chmod(0o755)
    settings = _SETTINGS.format(run=run, hooks=git / "hooks", attributes=REPO / ".gitattributes")
    for path in (
        git / "config",
        git / "included",
        git / "config.worktree",
        OUT / ".gitconfig",
        Path("/root/.gitconfig"),
    ):
        with path.open("a") as file:
            file.write(settings)
    with (git / "config").open("a") as file:
        file.write(f"[include]\n\tpath = {git / 'included'}\n")
    for path in (REPO / ".gitattributes", git / "info" / "attributes"):
        path.write_text("* filter=evil diff=evil merge=evil\n")
    (REPO / ".gitmodules").write_text(
        f'[submodule "x"]\n\tpath = x\n\turl = -u./x\n\tupdate = !{run}\n\tfetchRecurseSubmodules = yes\n'
    )
    (git / "objects" / "info" / "alternates").write_text("/\n/etc\n")
    (OUT / ".git").write_text("gitdir: /work/repo/.git\n")
    write_review()


@attack
def planted_code() -> None:
    """Files that tools run or read without being asked."""
    touch = f"open('{os.environ['RB_CONFIG_CANARY']}/python', 'w')\n"
    for folder in (OUT, REPO, Path("/tmp")):
        for name in ("sitecustomize.py", "usercustomize.py", "conftest.py", "setup.py", "json.py", "os.py"):
            (folder / name).write_text(touch)
        (folder / "crb.toml").write_text('store_url = "sqlite:////tmp/other"\n')
        (folder / ".env").write_text("CRB_HOME=/tmp\n")
        (folder / "findings.json.lock").write_text("")
    write_review()


@attack
def notes_for_the_next() -> None:
    """Marks wherever the next trial might look: it says what it finds, and must find nothing."""
    for folder in (REPO, REPO / "src", REPO / ".git", OUT, Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path("/")):
        (folder / "note").write_text("from the last trial")
    (REPO / "src" / "app.py").write_text("spoiled\n")
    subprocess.run(["git", "-C", REPO, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qam", "x"], check=False)
    subprocess.run(["git", "-C", REPO, "tag", "note"], check=False)
    for path in (PR / "diff.patch", PR / "pr.json", PR / "note"):
        with refused(f"writing {path}"):
            path.write_text("from the last trial")
        with refused(f"changing {path}"):
            path.chmod(0o777)
    with refused("removing the diff"):
        (PR / "diff.patch").unlink()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmget(0x1234, 4096, 0o1666)
    with contextlib.suppress(OSError):
        Path("/dev/mqueue/note").write_text("")
    write_review()
