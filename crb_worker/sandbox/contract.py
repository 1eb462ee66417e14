"""What a sandbox is given, what it answers, and what every sandbox must keep to.

One attempt is one container invocation of a trial. The agent in it sees three folders (``repo``, writable and its own;
``pr``, read-only; ``out``) and the variables of the public container contract (facts A5); nothing else of the farm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from crb_core.agent import AgentBuild, Outcome
from crb_core.errors import InputError, Where
from crb_core.finding import CandidateFinding
from crb_core.pull_request import PullRequest
from crb_worker.sandbox.refusals import RefusedHost

__all__ = [
    "ATTEMPT_LABEL",
    "FARM_LABEL",
    "STOP_OUTCOMES",
    "USAGE_KEYS",
    "WORKSPACE_LABEL",
    "AgentView",
    "AttemptRequest",
    "AttemptResult",
    "InDiff",
    "LiveAttempts",
    "ResolvedImage",
    "Sandbox",
    "agent_environment",
    "declared_secrets",
]

#: Labels on every container, volume and network of the farm.
FARM_LABEL = "crb.farm"
ATTEMPT_LABEL = "crb.attempt"
#: The folder that holds the attempt's folder, so that a reaper finds it from the container alone.
WORKSPACE_LABEL = "crb.workspace"

#: The outcomes that ``stop`` can give an attempt from another thread.
STOP_OUTCOMES = frozenset({Outcome.TIMEOUT, Outcome.CANCELLED, Outcome.LOST})

#: The usage figures that an agent may report, all optional (facts A13); with them ``models``, those that they count.
USAGE_KEYS = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "time_in_ms", "cost_usd")

#: ``in_diff(file, start_line, end_line)``: whether the lines touch the diff under review.
InDiff = Callable[[str, int, int], bool]

#: The ids of live attempts, or a function that reads them.
LiveAttempts = Collection[str] | Callable[[], Collection[str]]

_ATTEMPT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class AttemptRequest:
    """One attempt to run.

    ``attempt_id`` names folder, container and labels, so it must be unique and unguessable. ``repo`` is the cached
    snapshot checkout and ``pr_files`` the folder with ``diff.patch`` and ``pr.json``: both are shared by many attempts
    and never changed. ``workspace`` (mode 0700) is the folder under which the attempt's own folder is made.
    ``secrets`` maps the names that the build declares (variables, absolute file paths) to their values; undeclared
    ones are not given to the agent. ``round`` and ``attempt_number`` count from 1.
    """

    attempt_id: str
    attempt_number: int
    round: int
    pull_request: PullRequest
    build: AgentBuild
    repo: Path
    pr_files: Path
    workspace: Path
    farm: str
    in_diff: InDiff
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not _ATTEMPT_ID.fullmatch(self.attempt_id):
            raise InputError(
                f"the attempt id {self.attempt_id[:120]!r} cannot name a container",
                where=Where(field="attempt_id"),
                remedy="Use 1 to 100 letters, digits, dots, hyphens and underscores, a letter or digit first",
            )
        for name, value in (("attempt_number", self.attempt_number), ("round", self.round)):
            if value < 1:
                raise InputError(f"{name} counts from 1, not {value}", where=Where(field=name))
        if not self.farm.strip():
            raise InputError("the farm has no name", where=Where(field="farm"))


@dataclass(frozen=True, kw_only=True)
class AttemptResult:
    """How an attempt ended and everything it left.

    ``detail`` explains the verdict in one sentence. ``findings`` is empty unless the attempt succeeded;
    ``findings_bytes`` is what the agent wrote (at most the limit), None where nothing could be read. ``stdout`` and
    ``stderr`` hold at most ``limits.log_mib`` each; where ``*_truncated`` is set, the beginning is what is missing.
    ``review_ms`` is the monotonic wall time of create, start and wait, None where the agent never started, and where an
    engine that hung told of its end late; a container may wait for its slot between the first two, which does not
    count;
    ``engine_ms`` the engine's own StartedAt..FinishedAt, None where it has none or, as happens for containers of a few
    milliseconds, noted the end before the start. ``phases`` holds milliseconds of
    prepare, slot and permit (waiting for leave to run and to start), egress (making or finding a way to the declared
    hosts), pull, create, start, wait, collect and teardown, as far as they were reached.
    ``refused_hosts`` are what the egress proxy refused, None where there was no proxy. ``concurrent`` counts this
    sandbox's running attempts at the start, this one included.
    """

    outcome: Outcome
    detail: str
    findings: tuple[CandidateFinding, ...] = ()
    usage: dict[str, Any] | None = None
    findings_bytes: bytes | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    exit_code: int | None = None
    review_ms: float | None = None
    engine_ms: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    image_id: str
    concurrent: int
    host: str
    started_at: datetime
    refused_hosts: tuple[RefusedHost, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ResolvedImage:
    """What a reference stands for now.

    ``image_id`` (``sha256:...``) is what runs; ``repo_digest`` (``name@sha256:...``) is the registry's name for it,
    None for an image that was built here. ``architecture`` is the image's own, such as ``amd64``.
    """

    reference: str
    image_id: str
    repo_digest: str | None = None
    architecture: str | None = None


class Sandbox(Protocol):
    """A way to run attempts. One object serves all threads of a process."""

    #: ``docker`` or ``process``: the build's ``runner``.
    name: str
    #: Whether the agent is kept from the host, the network and other attempts.
    isolated: bool
    #: What this sandbox cannot give, one plain sentence each, shown to users.
    limitations: tuple[str, ...]

    def check(self) -> None:
        """Raise UnavailableError with the way to mend it if attempts cannot run here."""

    def resolve(self, reference: str, *, pull: bool = True) -> ResolvedImage:
        """What ``reference`` stands for; UnavailableError if it is neither here nor to be had."""

    def run(self, request: AttemptRequest) -> AttemptResult:
        """Run one attempt to its end, blocking. Failures of agent and farm are outcomes, not exceptions."""

    def stop(self, attempt_id: str, outcome: Outcome) -> bool:
        """End a running attempt, from any thread; its ``run`` then returns ``outcome``. False if it does not run here.

        ``outcome`` is TIMEOUT, CANCELLED or LOST. The first stop decides.
        """

    def resize(self, slots: int) -> None:
        """Let so many agents run at once from now on. Those that run already are left to end."""

    def reap(self, farm: str, live_attempt_ids: LiveAttempts) -> list[str]:
        """Remove what attempts of ``farm`` left that are not live; one line for each thing that was removed.

        Where other workers of the farm may start attempts meanwhile, give a function: it is asked after everything
        has been listed, so that an attempt that started in between is not taken for a leftover. Attempts that run in
        this process are always live.
        """

    def close(self) -> None:
        """Release connections. Attempts that still run are not waited for."""


@dataclass(frozen=True, kw_only=True)
class AgentView:
    """The paths of the contract as the agent sees them: fixed in a container, real ones in the process runner."""

    repo: str = "/work/repo"
    pr: str = "/work/pr"
    out: str = "/work/out"

    @property
    def findings(self) -> str:
        return f"{self.out}/findings.json"


def agent_environment(request: AttemptRequest, view: AgentView) -> dict[str, str]:
    """The variables of the container contract (facts A5), without secrets.

    ``CRB_ROUND`` is for agents that replay recordings only: a reviewer is never told the round.
    """
    pull_request, build = request.pull_request, request.build
    environment = {
        "RB_NWO": pull_request.nwo,
        "RB_PR_NUMBER": str(pull_request.number),
        "RB_BASE": pull_request.base,
        "RB_HEAD": pull_request.head,
        "RB_AGENT": build.agent,
        "RB_REPO": view.repo,
        "RB_DIFF": f"{view.pr}/diff.patch",
        "RB_PR_JSON": f"{view.pr}/pr.json",
        "RB_OUT": view.findings,
        "RB_ATTEMPT": str(request.attempt_number),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    if build.model_api_url is not None:
        environment["RB_MODEL_BASE_URL"] = build.model_api_url
    for entry in build.configuration:
        environment[entry.variable] = entry.value
    if build.kind == "replay":
        environment["CRB_ROUND"] = str(request.round)
    return environment


def declared_secrets(request: AttemptRequest) -> tuple[dict[str, str], dict[str, str]]:
    """The declared secrets: variables and files (absolute path in the container), each with its value.

    Raises InputError for a declared one without a value. No error shows a value.
    """
    declared = request.build.secrets
    for name in (*declared.env, *declared.files):
        if name not in request.secrets:
            raise InputError(
                f"the agent declares the secret {name}, but the farm was given no value for it",
                remedy=f"Put a file {name} into CRB_SECRETS_FOLDER"
                if name.startswith("/")
                else f"Set CRB_SECRET_{name} for the worker, or put a file {name} into CRB_SECRETS_FOLDER",
            )
        if "\0" in request.secrets[name]:
            raise InputError(f"the value of the secret {name} holds a NUL character")
    return (
        {name: request.secrets[name] for name in declared.env},
        {name: request.secrets[name] for name in declared.files},
    )
