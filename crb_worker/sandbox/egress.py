"""How agents reach the hosts that they declare, and nothing else.

An agent with declared hosts runs in a network of its own, a *lane*, which holds nothing but the agent and a proxy. The
lane leads nowhere, and the machine that runs the engine has no address in it. The proxy (docker/egress) serves one set
of hosts, and stands in the lanes of attempts that may reach that set. Lanes and proxies are pooled and used again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from crb_core.agent import AgentBuild
from crb_core.errors import UnavailableError
from crb_worker.sandbox.egress_options import EgressOptions
from crb_worker.sandbox.egress_pool import Lease, Pool
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.images import Images

__all__ = ["Egress", "Lease", "declared_hosts", "proxy_variables"]


def declared_hosts(build: AgentBuild) -> tuple[str, ...]:
    """The hosts that a build may reach: its egress and its model API's, sorted."""
    model = urlsplit(build.model_api_url).hostname if build.model_api_url is not None else None
    return tuple(sorted({*build.egress, *([model] if model else [])}))


def proxy_variables(address: str) -> dict[str, str]:
    """The variables that tell an agent's tools of the proxy (facts A5)."""
    url, direct = f"http://{address}", "localhost,127.0.0.1"
    return {
        "HTTP_PROXY": url,
        "HTTPS_PROXY": url,
        "NO_PROXY": direct,
        "http_proxy": url,
        "https_proxy": url,
        "no_proxy": direct,
        "NODE_USE_ENV_PROXY": "1",
    }


class Egress:
    """The lanes and proxies of a process, one pool a farm and workspace. Nothing is made before the first lease."""

    def __init__(self, engine: Engine, images: Images, options: EgressOptions) -> None:
        self._engine = engine
        self._images = images
        self._options = options
        self._lock = threading.Lock()
        self._pools: dict[tuple[str, Path], Pool] = {}
        self._had_image = False

    def image_id(self) -> str | None:
        """The proxy image's id; None where it is not here. EngineFailureError."""
        try:
            return self._images.resolve(self._options.image, pull=False).image_id
        except UnavailableError:
            self._engine.check()
            return None

    @property
    def absence(self) -> str:
        """Why agents have no network although they declare hosts."""
        return f"containers have no network here: the egress image {self._options.image} is not on this machine"

    def lease(
        self, farm: str, workspace: Path, hosts: tuple[str, ...], is_stopped: Callable[[], bool] = lambda: False
    ) -> Lease | None:
        """A lane to ``hosts``; None where there is no proxy image, or once ``is_stopped``.

        Waits while every subnet is in use. Raises EngineFailureError, and UnavailableError where the image has gone
        since an attempt had a lane: those that follow are not run without a network for it.
        """
        image_id = self.image_id()
        if image_id is None:
            if self._had_image:
                raise UnavailableError(
                    f"the egress image {self._options.image} has gone from this machine", remedy="make egress-image"
                )
            return None
        self._had_image = True
        key = (farm, workspace)
        with self._lock:
            if key not in self._pools:
                self._pools[key] = Pool(self._engine, self._options, farm, workspace)
            pool = self._pools[key]
        return pool.take(image_id, hosts, is_stopped)

    def close(self) -> None:
        """Remove lanes and proxies. What an attempt still uses is left to the reaper."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.close()
