"""git, called so that neither this machine's settings nor a repository's content decide what happens (facts A14)."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from crb_core.errors import CrbError, UnavailableError, Where

__all__ = ["ATTRIBUTES", "DIFF_OPTIONS", "Git", "GitError", "init_repository"]

#: Seconds that one local command may take.
LOCAL_TIMEOUT = 600.0
#: Seconds that one transfer from a remote repository may take.
TRANSFER_TIMEOUT = 3600.0
_KILL_GRACE = 5.0
_MAX_MESSAGE = 300

#: For ``info/attributes``, which wins over every ``.gitattributes`` of a reviewed repository: files are checked out
#: byte for byte, no filter runs, and no attribute hides a file from the diff.
ATTRIBUTES = "* -text -ident -filter !eol !working-tree-encoding !diff !merge !export-ignore !export-subst\n"

#: One diff for everyone, whatever git's version or settings: three lines of context, renames found as git's own
#: default does (similarity 50%, limit 1000), no external or text converting driver, no colour.
DIFF_OPTIONS = (
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--full-index",
    "--unified=3",
    "--inter-hunk-context=0",
    "--diff-algorithm=myers",
    "--indent-heuristic",
    "--find-renames=50%",
    "-l1000",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--submodule=short",
    "--ignore-submodules=none",
    "--no-relative",
)

_ENVIRONMENT = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_DEFAULT_HASH": "sha1",
    "GIT_DEFAULT_REF_FORMAT": "files",
    "GIT_PAGER": "cat",
    "GIT_ADVICE": "0",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_ALLOW_PROTOCOL": "file:https:http:ssh:git",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
}
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.quotePath": "true",
    "core.commitGraph": "false",
    "core.logAllRefUpdates": "false",
    "diff.suppressBlankEmpty": "false",
    "apply.whitespace": "nowarn",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "pack.threads": "2",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "transfer.credentialsInUrl": "die",
    "protocol.ext.allow": "never",
}
#: What a transfer needs from the operator's environment beyond PATH.
_TRANSFER_VARIABLES = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "SSH_AUTH_SOCK",
)
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


_NO_SPACE = os.strerror(errno.ENOSPC).encode()


class GitError(CrbError):
    """A git command failed; ``status`` is its exit status (negative for a signal), ``message`` its last words."""

    def __init__(self, command: str, status: int, message: str, *, where: Where | None = None) -> None:
        super().__init__(f"git {command} failed: {message}", where=where)
        self.status = status
        self.message = message


class Git:
    """One repository.

    Without ``work_tree`` every command sees it as bare. The environment is built from nothing but PATH: no HOME, no
    system or user configuration, no prompts, no hooks, no lazy fetching, no replaced objects.
    """

    def __init__(self, git_dir: Path, *, work_tree: Path | None = None) -> None:
        self.git_dir = git_dir
        self.work_tree = work_tree

    def run(
        self,
        *arguments: str,
        stdin: bytes | IO[bytes] = b"",
        output: IO[bytes] | None = None,
        index: Path | None = None,
        transfer: bool = False,
        allowed: Sequence[int] = (0,),
        timeout: float | None = None,
    ) -> bytes:
        """Run ``git arguments`` and return its standard output (empty if ``output`` takes it).

        ``stdin`` is given as bytes or as an open file. ``index`` is the index file to use, ``transfer`` passes on the
        proxy and certificate variables and gives an hour instead of ten minutes, ``allowed`` are the exit statuses that
        are no error, ``timeout`` gives other seconds. Raises GitError, and UnavailableError where git is missing or
        does not end in time.
        """
        command = ["git"]
        settings = _SETTINGS | {"core.bare": "true" if self.work_tree is None else "false"}
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        command += arguments
        if timeout is None:
            timeout = TRANSFER_TIMEOUT if transfer else LOCAL_TIMEOUT
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if isinstance(stdin, bytes) else stdin,
                stdout=output or subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment(index, transfer=transfer),
                cwd=self.work_tree or self.git_dir,
                umask=0o022,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise UnavailableError("git is not installed", remedy="Install git 2.30 or newer") from None
        try:
            stdout, stderr = process.communicate(stdin if isinstance(stdin, bytes) else None, timeout=timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            raise UnavailableError(f"git {arguments[0]} did not end within {timeout:.0f} seconds") from None
        except BaseException:
            _end(process)
            raise
        if process.returncode not in allowed:
            if _NO_SPACE in stderr:
                # Not the repository's fault: the same command will do once there is room.
                raise UnavailableError(
                    f"git {arguments[0]} failed, because the disk is full", remedy="Free space on the disk of CRB_HOME"
                )
            raise GitError(arguments[0], process.returncode, _last_words(stderr))
        return stdout or b""

    def text(self, *arguments: str, stdin: bytes = b"", index: Path | None = None) -> str:
        """The standard output as text without the final newline."""
        return self.run(*arguments, stdin=stdin, index=index).decode("utf-8", "surrogateescape").rstrip("\n")

    def kinds(self, objects: Sequence[str]) -> list[str]:
        """The kind of each object: ``commit``, ``tree``, ``blob``, ``tag`` or ``missing``."""
        answer = self.run(
            "cat-file", "--batch-check=%(objecttype)", stdin="".join(f"{name}\n" for name in objects).encode()
        )
        return [line.split(" ")[-1] for line in answer.decode().splitlines()]

    def _environment(self, index: Path | None, *, transfer: bool) -> Mapping[str, str]:
        environment = dict(_ENVIRONMENT)
        environment["PATH"] = os.environ.get("PATH", os.defpath)
        environment["GIT_DIR"] = str(self.git_dir)
        if self.work_tree is not None:
            environment["GIT_WORK_TREE"] = str(self.work_tree)
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        if transfer:
            environment |= {name: os.environ[name] for name in _TRANSFER_VARIABLES if name in os.environ}
        return environment


def init_repository(git_dir: Path) -> Git:
    """An empty bare repository without hooks, templates or description, its attributes set to ``ATTRIBUTES``."""
    git_dir.mkdir(parents=True)
    git = Git(git_dir)
    git.run("init", "--quiet", "--template=")
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info" / "attributes").write_text(ATTRIBUTES, encoding="ascii")
    return git


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop git with the helpers that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.communicate(timeout=_KILL_GRACE)
            break
        except (subprocess.TimeoutExpired, ValueError):
            continue


def _last_words(stderr: bytes) -> str:
    """The line of git's messages that says most, without credentials or control characters, at most 300 characters."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    spoken = [line for line in lines if line.startswith(("fatal:", "error:", "remote:"))] or lines
    line = spoken[0] if spoken else "it gave no reason"
    line = _CREDENTIALS.sub("", "".join(character for character in line if character.isprintable()))
    line = line.removeprefix("fatal: ").removeprefix("error: ")
    return line if len(line) <= _MAX_MESSAGE else line[:_MAX_MESSAGE] + "..."
