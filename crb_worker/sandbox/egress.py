"""How agents reach the hosts that they declare, and nothing else.

An agent with declared hosts runs in a network of its own, a *lane*, which holds nothing but the agent and a proxy. The
lane leads nowhere, and the machine that runs the engine has no address in it. The proxy (docker/egress) serves one set
of hosts, and stands in the lanes of all attempts that may reach that set. Lanes and proxies are pooled and used again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from crb_core.agent import AgentBuild
from crb_core.errors import UnavailableError
from crb_worker.sandbox.egress_options import EgressOptions
from crb_worker.sandbox.egress_parts import Lane, Proxy, Subnets, make_outside, remove_network
from crb_worker.sandbox.engine import Engine, EngineFailureError
from crb_worker.sandbox.images import Images
from crb_worker.sandbox.pool_lock import PoolLock
from crb_worker.sandbox.refusals import Refusals, read_refusals

__all__ = ["Egress", "Lease", "declared_hosts", "proxy_variables"]

#: Proxies without an attempt that are kept for the next attempt of their set of hosts.
_IDLE_PROXIES = 8


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


class Lease:
    """One attempt's use of a lane, from before its container is created until it is gone."""

    def __init__(self, pool: _Pool, lane: Lane, proxy: Proxy) -> None:
        self._pool = pool
        self._lane = lane
        self._proxy = proxy
        self.network = lane.name
        self.address = lane.next_agent_address()
        self.proxy_address = lane.proxy_address

    def refusals(self) -> Refusals:
        """What the proxy refused. Ask once the agent has ended. EngineFailureError where the proxy is gone."""
        lines, complete = self._proxy.log_until_now(self._lane.seen)
        self._lane.seen = self._proxy.last_mark
        return read_refusals(lines, self.address, complete=complete)

    def release(self, *, reuse: bool) -> None:
        """Give the lane back; ``reuse`` is False while the agent's container may still be in it."""
        self._pool.give_back(self._lane, self._proxy, reuse=reuse)


class Egress:
    """The lanes and proxies of a process, one pool a farm and workspace. Nothing is made before the first lease."""

    def __init__(self, engine: Engine, images: Images, options: EgressOptions) -> None:
        self._engine = engine
        self._images = images
        self._options = options
        self._lock = threading.Lock()
        self._pools: dict[tuple[str, Path], _Pool] = {}

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

    def lease(self, farm: str, workspace: Path, hosts: tuple[str, ...]) -> Lease | None:
        """A lane to ``hosts``; None where there is no proxy image. Raises EngineFailureError, UnavailableError."""
        image_id = self.image_id()
        if image_id is None:
            return None
        key = (farm, workspace)
        with self._lock:
            if key not in self._pools:
                self._pools[key] = _Pool(self._engine, self._options, farm, workspace)
            pool = self._pools[key]
        return pool.take(image_id, hosts)

    def close(self) -> None:
        """Remove lanes and proxies. What an attempt still uses is left to the reaper."""
        with self._lock:
            pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.close()


class _Pool:
    def __init__(self, engine: Engine, options: EgressOptions, farm: str, workspace: Path) -> None:
        self._engine = engine
        self._options = options
        self._pool_lock = PoolLock(workspace)
        self._labels = self._pool_lock.labels(farm)
        # Held while networks and proxies are made: the engine makes one network at a time anyway.
        self._lock = threading.Lock()
        self._subnets = Subnets(options.subnets)
        self._outside: str | None = options.network
        self._owns_outside = options.network is None
        self._idle: list[Lane] = []
        #: Lanes with a container in them that could not be removed.
        self._abandoned: list[Lane] = []
        self._proxies: dict[tuple[str, tuple[str, ...]], Proxy] = {}
        self._serial = 0

    def take(self, image_id: str, hosts: tuple[str, ...]) -> Lease:
        with self._lock:
            proxy = self._proxy(image_id, hosts)
            lane = self._lane(proxy)
            proxy.users += 1
            return Lease(self, lane, proxy)

    def give_back(self, lane: Lane, proxy: Proxy, *, reuse: bool) -> None:
        with self._lock:
            proxy.users -= 1
            proxy.used_at = time.monotonic()
            (self._idle if reuse else self._abandoned).append(lane)
            unused = sorted((each for each in self._proxies.values() if not each.users), key=lambda each: each.used_at)
            for each in unused[: max(0, len(unused) - _IDLE_PROXIES)]:
                self._drop(each)

    def close(self) -> None:
        with self._lock:
            for proxy in list(self._proxies.values()):
                self._drop(proxy)
            for lane in (*self._idle, *self._abandoned):
                lane.remove()
            self._idle, self._abandoned = [], []
            if self._owns_outside and self._outside is not None:
                remove_network(self._engine, self._outside)
            self._pool_lock.release()

    def _proxy(self, image_id: str, hosts: tuple[str, ...]) -> Proxy:
        found = self._proxies.get((image_id, hosts))
        if found is not None:
            if found.is_running():
                return found
            self._drop(found)
        if self._outside is None:
            self._outside = make_outside(self._engine, f"{self._pool_lock.name}-out", self._subnets, self._labels)
        self._serial += 1
        proxy = Proxy(self._engine, f"{self._pool_lock.name}-proxy-{self._serial}", hosts)
        with self._undone(proxy):
            proxy.start(image_id, self._outside, self._options, self._labels)
        self._proxies[(image_id, hosts)] = proxy
        return proxy

    @contextmanager
    def _undone(self, proxy: Proxy) -> Iterator[None]:
        try:
            yield
        except BaseException:
            proxy.remove()
            raise

    def _lane(self, proxy: Proxy) -> Lane:
        """A lane that ``proxy`` stands in: one that it stands in already, else another idle one, else a new one."""
        self._idle.sort(key=lambda lane: lane.proxy is proxy)
        while self._idle:
            lane = self._idle.pop()
            try:
                lane.attach(proxy)
            except EngineFailureError as error:
                if error.status is None:
                    raise
                # Somebody removed it, or something else is in it.
                lane.remove()
            else:
                return lane
        self._serial += 1
        lane = Lane.make(self._engine, f"{self._pool_lock.name}-{self._serial}", self._subnets, self._labels)
        try:
            lane.attach(proxy)
        except EngineFailureError:
            lane.remove()
            raise
        return lane

    def _drop(self, proxy: Proxy) -> None:
        proxy.remove()
        self._proxies = {key: each for key, each in self._proxies.items() if each is not proxy}
        for lane in (*self._idle, *self._abandoned):
            lane.forget(proxy)
