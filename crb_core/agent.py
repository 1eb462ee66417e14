"""Agents and agent builds: what is measured.

The agent manifest (``agent.toml``) follows the fields of the public ReviewBench agent manifest (facts A6) and adds
``kind``, ``model_roles`` and ``limits``. A build is an agent resolved to an image digest, configuration and limits.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from crb_core.corpus import fingerprint
from crb_core.finding import Record
from crb_core.runners import RUNNERS

__all__ = [
    "HARNESS",
    "AgentBuild",
    "AgentManifest",
    "ConfigurationEntry",
    "Limits",
    "ModelRole",
    "Outcome",
    "RunnerKind",
    "Secrets",
]

#: Version of contract and scoring, not of the package, so a rolling upgrade does not split a sweep (rule 13).
HARNESS = "crb.contract/1"

RunnerKind = Literal["docker", "process", "imported"]

_HOST = re.compile(r"(?=.{1,253}\Z)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]")
#: Set aside for loopback and for names that are none (RFC 6761); the egress proxy uses one of them itself.
_NO_HOSTS = frozenset({"invalid", "localhost"})
_MODEL_API_PATH = re.compile(r"(/[A-Za-z0-9._~%-]*)*")
_IMAGE = re.compile(
    r"(sha256:[0-9a-f]{64}"
    r"|([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?/)?"
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?)"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
#: Places that the contract itself fills: a secret written there would be lost or seen by the wrong reader.
_CONTRACT_FOLDERS = ("/work/repo", "/work/pr", "/work/out")
#: Variables that the contract sets; a secret of that name would overwrite them.
_CONTRACT_VARIABLES = re.compile(r"(RB_.*|CRB_.*|GIT_CONFIG_.*|(HTTPS?|NO)_PROXY|PATH|HOME|LD_.*)", re.IGNORECASE)


def _one_line(value: str) -> str:
    if _CONTROL.search(value):
        raise ValueError("the text holds a line break or a control character")
    return value


def _name(value: str) -> str:
    if not value or value != value.strip():
        raise ValueError("the text is blank or has blanks at its ends")
    return value


#: One line of text that a table, a log or an environment variable can hold.
OneLine = Annotated[str, AfterValidator(_one_line)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_one_line), AfterValidator(_name)]
GithubUser = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9](-?[A-Za-z0-9]){0,38}$")]


class Outcome(StrEnum):
    """How an attempt ended."""

    #: Exit status 0 and a valid findings file (an empty array is a review that found nothing).
    SUCCEEDED = "succeeded"
    NONZERO_EXIT = "nonzero_exit"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_MISSING = "output_missing"
    OUTPUT_INVALID = "output_invalid"
    OUTPUT_TOO_LARGE = "output_too_large"
    WRONG_PULL_REQUEST = "wrong_pull_request"
    IMAGE_UNAVAILABLE = "image_unavailable"
    ENGINE_ERROR = "engine_error"
    #: The worker that held the step was not heard of for the lease time.
    LOST = "lost"
    CANCELLED = "cancelled"

    @property
    def is_farms_fault(self) -> bool:
        """Whether the failure has the farm's own attempt limit and never counts against the agent."""
        return self in {Outcome.ENGINE_ERROR, Outcome.LOST, Outcome.IMAGE_UNAVAILABLE}


class ConfigurationEntry(Record):
    """One configuration value, given to the container as ``RB_CONFIG_<KEY>``."""

    key: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,31}$")]
    value: Annotated[str, StringConstraints(max_length=64), AfterValidator(_one_line)]
    display_value: Annotated[str, StringConstraints(max_length=64), AfterValidator(_one_line)] | None = None

    @property
    def variable(self) -> str:
        return "RB_CONFIG_" + re.sub(r"[^A-Z0-9]", "_", self.key.upper())


class Secrets(Record):
    """Names of secrets that the agent needs; never their values."""

    env: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...],
        Field(max_length=16),
    ] = ()
    files: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^/[^\x00\r\n]+$")], ...], Field(max_length=8)
    ] = ()

    @field_validator("env")
    @classmethod
    def _env_leaves_the_contract_alone(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if _CONTRACT_VARIABLES.fullmatch(name):
                raise ValueError(f"{name} is a variable of the container contract, so it cannot be a secret")
        return value

    @field_validator("files")
    @classmethod
    def _files_are_plain_paths(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for path in value:
            if any(part in {"", ".", ".."} for part in path[1:].split("/")):
                raise ValueError(f"{path!r} is not a plain absolute path of a file")
            if any(path == folder or path.startswith(folder + "/") for folder in _CONTRACT_FOLDERS):
                raise ValueError(f"{path!r} is inside a folder of the container contract")
        return value


class ModelRole(Record):
    """A model that the agent uses and what for, for example ``reviewer: claude-sonnet-5``."""

    role: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
    model: Annotated[str, StringConstraints(min_length=1, max_length=128), AfterValidator(_one_line)]


class Limits(Record):
    """What one container may use. Memory and sizes in MiB, time in seconds."""

    memory_mib: Annotated[int, Field(ge=16, le=1_048_576)] = 2048
    cpus: Annotated[float, Field(gt=0, le=256)] = 1.0
    pids: Annotated[int, Field(ge=8, le=65_536)] = 512
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 900
    findings_mib: Annotated[int, Field(ge=1, le=64)] = 4
    log_mib: Annotated[int, Field(ge=1, le=64)] = 4
    disk_mib: Annotated[int, Field(ge=1, le=1_048_576)] = 2048


class AgentManifest(Record):
    """``agent.toml``: who the agent is and what it needs."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{1,63}$")]
    display_name: Name
    provider: Name | None = None
    #: An image reference; absent when the folder's Dockerfile is to be built.
    image: str | None = None
    #: ``private``: its digest may be published with results, where it lies may not.
    image_visibility: Literal["public", "private"] = "public"
    #: ``replay`` marks an agent that replays recorded reviews; tables say so and it cannot be submitted.
    kind: Literal["reviewer", "replay"] = "reviewer"
    configuration: Annotated[tuple[ConfigurationEntry, ...], Field(max_length=6)] = ()
    secrets: Secrets = Secrets()
    egress: Annotated[tuple[str, ...], Field(max_length=32)] = ()
    model_api_url: Annotated[str, StringConstraints(max_length=200)] | None = None
    model_roles: tuple[ModelRole, ...] = ()
    pr_timeout_seconds: Annotated[int, Field(ge=60, le=3600)] = 900
    limits: Limits | None = None
    contacts: Annotated[tuple[GithubUser, ...], Field(max_length=8)] = ()
    notes: Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$")] = ""
    #: Command for the process runner, run in the agent's folder: ``python`` is the interpreter that runs the farm,
    #: every other word is taken as it is. Bundled agents only.
    process_command: tuple[OneLine, ...] = ()
    #: Folders beside the agent's own that its Dockerfile copies from. When there are any, the build context is the
    #: parent folder, holding only the agent's folder and these.
    shared_folders: Annotated[
        tuple[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")], ...],
        Field(max_length=8),
    ] = ()

    @field_validator("image")
    @classmethod
    def _image_is_a_reference(cls, value: str | None) -> str | None:
        if value is not None and (len(value) > 512 or not _IMAGE.fullmatch(value)):
            raise ValueError(f"{value[:120]!r} is not an image reference")
        return value

    @field_validator("egress")
    @classmethod
    def _egress_are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for host in value:
            if not _HOST.fullmatch(host):
                raise ValueError(f"{host!r} is not a lower-case host name with at least two labels")
            if host.rpartition(".")[2] in _NO_HOSTS:
                raise ValueError(f"{host!r} is a name that no host of the internet has")
        return value

    @field_validator("model_api_url")
    @classmethod
    def _model_api_is_plain_https(cls, value: str | None) -> str | None:
        if value is None:
            return None
        rest = value.removeprefix("https://")
        host, slash, path = rest.partition("/")
        if rest == value or not _HOST.fullmatch(host) or not _MODEL_API_PATH.fullmatch(slash + path):
            raise ValueError("model_api_url must be https:// with a DNS host name, without port, query or user")
        return value

    @model_validator(mode="after")
    def _configuration_keys_are_unique(self) -> AgentManifest:
        variables = [entry.variable for entry in self.configuration]
        for variable in variables:
            if variables.count(variable) > 1:
                raise ValueError(f"two configuration keys give the same variable {variable}")
        return self

    @property
    def effective_limits(self) -> Limits:
        limits = self.limits or Limits()
        if "timeout_seconds" not in (self.limits.model_fields_set if self.limits else set()):
            limits = limits.model_copy(update={"timeout_seconds": self.pr_timeout_seconds})
        return limits


class AgentBuild(Record):
    """What was measured: agent, image digest, resolved configuration, limits, runner and adapter.

    ``image_id`` is the engine's id of the image that ran (``sha256:...``) or, for the process runner, the SHA-256 of
    the agent's folder; ``repo_digest`` is the registry's, absent for images that were never pulled. Of a private image
    it is the digest alone, without the repository; ``image``, which says where that is, never leaves the farm.
    """

    agent: str
    display_name: str
    provider: str
    kind: Literal["reviewer", "replay"] = "reviewer"
    image: str
    image_id: str
    repo_digest: str | None = None
    configuration: tuple[ConfigurationEntry, ...] = ()
    model_roles: tuple[ModelRole, ...] = ()
    limits: Limits = Limits()
    secrets: Secrets = Secrets()
    egress: tuple[str, ...] = ()
    model_api_url: str | None = None
    runner: RunnerKind
    adapter: str = "container"
    harness: str = HARNESS

    @property
    def isolated(self) -> bool:
        """Whether a container stood between the agent and the host."""
        return self.runner in RUNNERS and RUNNERS[self.runner].isolated

    @property
    def is_image_private(self) -> bool:
        """Whether nobody outside may learn where its image lies."""
        return self.repo_digest is not None and self.repo_digest.startswith("sha256:")

    @property
    def published(self) -> AgentBuild:
        """The build as an archive holds it: of a private image the id stands for the reference. It has the same id."""
        return self.model_copy(update={"image": self.image_id}) if self.is_image_private else self

    @property
    def configuration_fingerprint(self) -> str:
        """SHA-256 of the resolved configuration: entries, limits, egress and model API."""
        return fingerprint(
            {
                "configuration": {entry.key: entry.value for entry in self.configuration},
                "limits": self.limits.model_dump(mode="json"),
                "egress": sorted(self.egress),
                "model_api_url": self.model_api_url,
            }
        )

    @property
    def build_id(self) -> str:
        """``b-`` and 12 hex digits of the SHA-256 over everything above except the display fields."""
        return (
            "b-"
            + fingerprint(self.model_dump(mode="json", exclude={"display_name", "provider", "image", "secrets"}))[:12]
        )
