"""What a container is given: its folders, its variables, its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docker.types import LogConfig, Mount, NetworkingConfig, Ulimit

from crb_worker.sandbox.contract import (
    ATTEMPT_LABEL,
    FARM_LABEL,
    WORKSPACE_LABEL,
    AgentView,
    AttemptRequest,
    agent_environment,
    declared_secrets,
)
from crb_worker.sandbox.egress import Lease, proxy_variables
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import engine_calls
from crb_worker.sandbox.folder import AttemptFolder, copy_pr_files, copy_tree, disk_usage, require_snapshot
from crb_worker.sandbox.logs import log_options
from crb_worker.sandbox.mounts import bind_mount, overlay_mount

__all__ = ["VIEW", "Preparation"]

_MIB = 1024 * 1024
VIEW = AgentView()
#: Given back after all are dropped: what a contract image that changes owner or user needs.
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")


class Preparation:
    """The attempt's folder and the container made from it.

    The checkout is an overlay over the cached snapshot where the engine can mount one, else a plain copy.
    """

    def __init__(self, request: AttemptRequest, engine: Engine) -> None:
        self._request = request
        self._engine = engine
        self._secret_environment: dict[str, str] = {}
        self._secret_mounts: list[Mount] = []
        self._overlay = False
        self.folder = AttemptFolder(request)
        #: Whether this attempt made the folder, and so may remove it.
        self.owns_folder = False
        #: Bytes of a copied checkout, which are not charged to the agent.
        self.baseline = 0
        self.name = f"crb-{request.attempt_id}"
        self.labels = {
            FARM_LABEL: request.farm,
            ATTEMPT_LABEL: request.attempt_id,
            WORKSPACE_LABEL: str(request.workspace),
        }

    @property
    def written(self) -> Path:
        """The folder of this machine that holds what the agent writes into its checkout."""
        return self.folder.upper if self._overlay else self.folder.repo

    def prepare(self) -> None:
        """Make the folders. Raises InputError for a request that cannot be run, OSError, and EngineFailureError."""
        request, folder = self._request, self.folder
        self._secret_environment, files = declared_secrets(request)
        require_snapshot(request)
        self._overlay = self._engine.can_overlay(request.workspace, request.repo)
        folder.create()
        self.owns_folder = True
        copy_pr_files(request.pr_files, folder.pr)
        for number, (path, value) in enumerate(files.items()):
            folder.secrets.mkdir(mode=0o755, exist_ok=True)
            secret = folder.secrets / str(number)
            secret.write_text(value, encoding="utf-8")
            secret.chmod(0o444)
            self._secret_mounts.append(bind_mount(path, secret, read_only=True))
        if self._overlay:
            folder.open_folder(folder.upper)
            folder.layer.mkdir()
        else:
            folder.open_folder(folder.repo)
            copy_tree(request.repo, folder.repo)
            folder.repo.chmod(0o777)
            self.baseline = disk_usage(folder.repo, limit=2**62)

    def create(self, lease: Lease | None) -> str:
        """Create the container and give its id. EngineFailureError with status 404 if the image is not here.

        Without a ``lease`` it has no network.
        """
        request, limits, api = self._request, self._request.build.limits, self._engine.api
        if self._overlay:
            repo = overlay_mount(VIEW.repo, request.repo, self.folder.upper, self.folder.layer, self.labels)
        else:
            repo = bind_mount(VIEW.repo, self.folder.repo)
        with engine_calls("creating a container"):
            host_config = api.create_host_config(
                mounts=[
                    repo,
                    bind_mount(VIEW.pr, self.folder.pr, read_only=True),
                    bind_mount(VIEW.out, self.folder.out),
                    *self._secret_mounts,
                ],
                network_mode="none" if lease is None else lease.network,
                # The engine's own name server would ask others, on some engines from the host's network.
                dns=None if lease is None else ["127.0.0.1"],
                dns_opt=None if lease is None else ["timeout:1", "attempts:1"],
                cap_drop=["ALL"],
                cap_add=list(_CAPABILITIES),
                security_opt=["no-new-privileges"],
                mem_limit=limits.memory_mib * _MIB,
                memswap_limit=limits.memory_mib * _MIB,
                nano_cpus=round(limits.cpus * 1_000_000_000),
                pids_limit=limits.pids,
                # When the whole host runs out of memory, an agent goes before the farm does.
                oom_score_adj=500,
                ulimits=[
                    Ulimit(name="fsize", soft=limits.disk_mib * _MIB, hard=limits.disk_mib * _MIB),
                    Ulimit(name="core", soft=0, hard=0),
                ],
                log_config=LogConfig(type="json-file", config=log_options(limits.log_mib * _MIB)),
            )
            networking = None
            if lease is not None:
                # The library's stubs want one endpoint; it and the engine want them by network.
                endpoints: Any = {lease.network: api.create_endpoint_config(ipv4_address=lease.address)}
                networking = NetworkingConfig(endpoints)
            created = api.create_container(
                request.build.image_id,
                name=self.name,
                environment={
                    **self._secret_environment,
                    **agent_environment(request, VIEW),
                    **({} if lease is None else proxy_variables(lease.proxy_address)),
                },
                networking_config=networking,
                labels=self.labels,
                healthcheck={"Test": ["NONE"]},
                host_config=host_config,
                use_config_proxy=False,
            )
        return str(created["Id"])
