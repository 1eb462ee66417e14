"""A small pull request in a temporary git repository, and a way to run an agent's entrypoint on it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crb_core.agent_source import AgentSource, load_agent

GIT_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.invalid",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.invalid",
}


@dataclass(frozen=True)
class Run:
    """What one run of an agent left."""

    status: int
    log: str
    out: Path

    @property
    def document(self) -> dict[str, Any]:
        return dict(json.loads(self.out.read_bytes()))

    @property
    def findings(self) -> list[tuple[str, int, int, str]]:
        return [
            (entry["file"], entry["start_line"], entry["end_line"], entry["message"])
            for entry in self.document["findings"]
        ]


@dataclass
class PullRequestFolder:
    """A repository with a base and a head commit, the diff between them, and the contract's environment for it."""

    root: Path
    nwo: str = "crb-showcase/ledger"
    number: int = 41
    base: str = ""
    head: str = ""
    diff_options: tuple[str, ...] = ()
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    def git(self, *arguments: str) -> bytes:
        done = subprocess.run(
            ["git", *arguments], cwd=self.repo, env=GIT_ENVIRONMENT, capture_output=True, check=True, timeout=60
        )
        return done.stdout

    def commit(self, base: Mapping[str, str | bytes | None], head: Mapping[str, str | bytes | None]) -> None:
        """Commit ``base``, then ``head`` over it; None deletes a file."""
        self.repo.mkdir(parents=True)
        self.git("init", "-q")
        self.base = self._commit({"README": "x\n", **base})
        self.head = self._commit(head)
        (self.root / "diff.patch").write_bytes(self.git("diff", *self.diff_options, f"{self.base}...{self.head}"))
        (self.root / "pr.json").write_text(
            json.dumps(
                {
                    "repo": f"https://github.com/{self.nwo}",
                    "pr_number": self.number,
                    "base": self.base,
                    "head": self.head,
                    "nwo": self.nwo,
                    "title": "A change",
                    "body": "What it is for.",
                }
            )
        )

    def _commit(self, files: Mapping[str, str | bytes | None]) -> str:
        for name, content in files.items():
            path = self.repo / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD").decode().strip()

    def environment(self, agent: AgentSource) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "RB_AGENT": agent.manifest.name,
            "RB_NWO": self.nwo,
            "RB_PR_NUMBER": str(self.number),
            "RB_BASE": self.base,
            "RB_HEAD": self.head,
            "RB_REPO": str(self.repo),
            "RB_DIFF": str(self.root / "diff.patch"),
            "RB_PR_JSON": str(self.root / "pr.json"),
            "RB_OUT": str(self.root / "out" / "findings.json"),
            "RB_ATTEMPT": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            **{entry.variable: entry.value for entry in agent.manifest.configuration},
            **self.extra,
        }

    def run(self, name: str, *, without: tuple[str, ...] = (), interpreter: str = "", **variables: str) -> Run:
        """Run a bundled agent as the process runner does, perhaps by another Python."""
        agent = load_agent(name)
        out = self.root / "out"
        out.mkdir(exist_ok=True)
        environment = {**self.environment(agent), **variables}
        for variable in without:
            del environment[variable]
        command = [interpreter or agent.process_argv[0], *agent.process_argv[1:]]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, check=False, timeout=120)
        left = {path.name for path in out.iterdir()}
        assert left <= {"findings.json"}, f"the agent left {left}"
        return Run(done.returncode, done.stderr.decode() + done.stdout.decode(), out / "findings.json")
