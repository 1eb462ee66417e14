"""Settings: environment ``CRB_*``, then ``crb.toml`` in the current folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ByteSize, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings import SettingsError as UnreadableValueError

from crb_core.addresses import require_private
from crb_core.errors import SettingsError, UsageError, Where, first_problem

__all__ = ["MAX_SLOTS", "Settings", "load_settings"]

#: Steps of one kind that one worker may work on at once.
MAX_SLOTS = 512

#: A socket path longer than about 100 bytes cannot be bound (reference/celery.md), so sockets live elsewhere.
SETTINGS_FILE = "crb.toml"


class Settings(BaseSettings):
    """Everything that decides where crb keeps things and how much it does at once.

    Every field is the environment variable ``CRB_<FIELD>`` and the key ``<field>`` in ``crb.toml``. An empty variable
    is an unset one, as in a shell's ``${NAME:-}``.
    """

    model_config = SettingsConfigDict(
        env_prefix="CRB_", env_ignore_empty=True, toml_file=SETTINGS_FILE, extra="forbid", frozen=True
    )

    #: Folder of everything that a local run creates: database, evidence, snapshots, logs.
    home: Path = Path(".crb")
    #: SQLAlchemy URL; default is SQLite in ``home``.
    store_url: str | None = None
    #: Redis or Valkey URL; without one, a local run starts an embedded Valkey.
    broker_url: str | None = None
    #: fsspec URL; default is a folder in ``home``.
    evidence_url: str | None = None
    #: ``auto`` takes Docker where an engine and the base image are there, else the process runner.
    runner: Literal["auto", "docker", "process"] = "auto"
    #: Base image of the bundled agents' Dockerfiles.
    base_image: str | None = None
    #: Network mode of image builds; ``host`` where the package index answers only there.
    build_network: str | None = None
    #: Reviews at once on one worker; default is the number of cores.
    review_slots: Annotated[int, Field(ge=1, le=MAX_SLOTS)] | None = None
    #: Judge steps at once on one worker.
    judge_slots: Annotated[int, Field(ge=1, le=MAX_SLOTS)] = 2
    #: Model of the claude judge where its options name none.
    judge_model: str | None = None
    #: Where the claude judge's service is reached; default is the SDK's.
    judge_base_url: str | None = None
    #: Requests and tokens a minute of all judge workers of one broker; none is no limit of ours.
    judge_requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    judge_tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    #: Attempts that may fail by the agent's own fault before its trial fails.
    agent_attempts: Annotated[int, Field(ge=1, le=20)] = 2
    #: Attempts that may fail by the farm's fault (engine, lost worker, image) before its trial fails.
    farm_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    #: Seconds between two beats of a worker.
    beat_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    #: Seconds without a new beat after which a step counts as lost.
    lease_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    #: Seconds without a new beat after which a worker is no longer listed; at least the lease.
    forget_worker_seconds: Annotated[float, Field(gt=0, le=366 * 86_400)] = 86_400.0
    #: Folder with the values of secrets that agents declare as files: ``<folder>/<declared path>``.
    secrets_folder: Path | None = None
    #: Image of the proxy through which agents reach the hosts that they declare; `make egress-image` builds it.
    egress_image: str | None = None
    #: Addresses for the agents' own networks, cut into pieces of eight; at least a /28.
    egress_subnets: IPv4Network | None = None
    #: Network of the engine in which the proxies reach the hosts; by default a worker makes one.
    egress_network: str | None = None
    #: Names that the proxies know without asking: ``{"api.example.com": "203.0.113.7"}``.
    egress_addresses: dict[str, IPv4Address] = {}
    #: Name servers that the proxies ask; by default the engine's.
    egress_dns: tuple[IPv4Address, ...] = ()
    #: Private subnets in which a declared host may be, such as that of a model server in the same house.
    egress_reachable: tuple[IPv4Network, ...] = ()
    #: Reviews pause while a disk that crb writes to has less free; for example 2GiB. 0 never pauses.
    disk_reserve: Annotated[ByteSize, Field(ge=0)] = ByteSize(1024**3)
    #: Port on which a worker or scheduler serves its metrics; 0 is any free one, and without one it serves none.
    metrics_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    #: Address that metrics are served on.
    metrics_address: str = "127.0.0.1"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))

    @field_validator("egress_subnets")
    @classmethod
    def _subnets_hold_lanes(cls, value: IPv4Network | None) -> IPv4Network | None:
        if value is not None:
            require_private(value)
            if value.prefixlen > 28:
                raise ValueError(f"{value} is too small; it holds a network for the proxies and one for each agent")
        return value

    @cached_property
    def home_folder(self) -> Path:
        """``home`` as an absolute path."""
        return self.home.expanduser().absolute()

    @property
    def resolved_store_url(self) -> str:
        if self.store_url:
            return self.store_url
        if "?" in str(self.home_folder):
            # The rest of a URL would be options, and the database another file.
            raise SettingsError(
                f"The folder {self.home_folder} cannot hold the store: its name has a question mark",
                where=Where(field="home"),
                remedy="Set CRB_HOME to another folder, or CRB_STORE_URL to a database",
            )
        return f"sqlite:///{self.home_folder / 'crb.sqlite'}"

    @property
    def resolved_evidence_url(self) -> str:
        return self.evidence_url or (self.home_folder / "evidence").as_uri()

    @property
    def resolved_review_slots(self) -> int:
        return self.review_slots or os.cpu_count() or 1

    @property
    def snapshots_folder(self) -> Path:
        """Where frozen repositories are cached."""
        return self.home_folder / "snapshots"

    @property
    def disputes_folder(self) -> Path:
        """Where disputes about labels and matches are kept, unless a command names another folder."""
        return self.home_folder / "disputes"

    @property
    def workspace(self) -> Path:
        """Where attempts have their folders while they run."""
        return self.home_folder / "attempts"

    @property
    def farm(self) -> str:
        """Names this farm on containers and folders: the first 12 hex digits of its store URL's SHA-256."""
        return hashlib.sha256(self.resolved_store_url.encode()).hexdigest()[:12]

    def environment(self) -> dict[str, str]:
        """``CRB_*`` variables that give a child process these settings."""
        values = self.model_dump(mode="json", exclude_none=True) | {"home": str(self.home_folder)}
        return {
            f"CRB_{name.upper()}": json.dumps(value) if isinstance(value, dict | list) else str(value)
            for name, value in values.items()
        }


def load_settings(**overrides: Any) -> Settings:
    """Read the settings; SettingsError names the variable or key that is wrong."""
    try:
        if Path(SETTINGS_FILE).exists() and not Path(SETTINGS_FILE).is_file():
            raise SettingsError(
                f"{SETTINGS_FILE} is no file", where=Where(file=SETTINGS_FILE), remedy="Make it a TOML file"
            )
        return Settings(**{key: value for key, value in overrides.items() if value is not None})
    except ValidationError as error:
        place, message = first_problem(error)
        field = re.split(r"[.\[]", place)[0]
        known = field in Settings.model_fields
        variable = f"CRB_{field.upper()}"
        source = SETTINGS_FILE
        if overrides.get(field) is not None:
            source = f"--{field.replace('_', '-')}"
        elif known and os.environ.get(variable):
            source = variable
        problem = f"The setting {field} is wrong: {message}" if known else f"There is no setting named {field}"
        kind = UsageError if source.startswith("--") else SettingsError
        raise kind(
            problem,
            where=Where(file=source, field=field),
            remedy="Correct or remove it; docs/operators.md lists every setting",
        ) from None
    except UnreadableValueError as error:
        # Only its text says which field it was.
        found = re.search(r'field "(\w+)"', str(error))
        variable = f"CRB_{found[1].upper()}" if found else "an environment variable CRB_*"
        raise SettingsError(
            f"The value of {variable} is not JSON",
            where=Where(file=variable),
            remedy="Write a list or an object, as docs/operators.md shows it",
        ) from None
    except OSError as error:
        raise SettingsError(
            f"{SETTINGS_FILE} cannot be read: {error.strerror}", where=Where(file=SETTINGS_FILE)
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SettingsError(
            f"{SETTINGS_FILE} is not UTF-8: byte 0x{error.object[error.start]:02x} cannot be read",
            where=Where(file=SETTINGS_FILE, line=line),
            remedy="Save it as UTF-8",
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(
            f"{SETTINGS_FILE} is not valid TOML: {error}", where=Where(file=SETTINGS_FILE), remedy="Correct the file"
        ) from None
