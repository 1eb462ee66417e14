"""The lanes and proxies of one process, made when they are needed and used again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from crb_worker.sandbox.contract import FARM_LABEL, WORKSPACE_LABEL
from crb_worker.sandbox.egress_options import EgressOptions
from crb_worker.sandbox.egress_parts import Lane, NoSubnetError, Proxy, Subnets, make_outside, remove_network
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import EngineFailureError, engine_calls
from crb_worker.sandbox.pool_lock import POOL_LABEL, PoolLock, pool_is_live
from crb_worker.sandbox.refusals import Refusals, read_refusals

__all__ = ["Lease", "Pool"]

log = structlog.get_logger(__name__)

#: Lanes that one proxy stands in. The engine takes longer for each further network of a container: 0.05 s for the
#: first ones, 1.2 s for the two hundredth.
LANES_PER_PROXY = 24
#: Proxies without an attempt that are kept for the next attempt of their set of hosts.
_IDLE_PROXIES = 8
#: Seconds after which what nobody uses is given up, so that other workers of the machine find a subnet.
IDLE_SECONDS = 60.0
#: Seconds after which a waiting attempt looks for a subnet that another process gave up.
_LOOK_SECONDS = 1.0


class Lease:
    """One attempt's use of a lane, from before its container is created until it is gone."""

    def __init__(self, pool: Pool, lane: Lane, proxy: Proxy) -> None:
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
        return read_refusals(lines, self.address, declared=self._proxy.hosts, complete=complete)

    def release(self, *, reuse: bool) -> None:
        """Give the lane back; ``reuse`` is False while the agent's container may still be in it."""
        self._pool.give_back(self._lane, self._proxy, reuse=reuse)


class Pool:
    """The pool of one farm and workspace."""

    def __init__(self, engine: Engine, options: EgressOptions, farm: str, workspace: Path) -> None:
        self._engine = engine
        self._options = options
        self._farm = farm
        self._pool_lock = PoolLock(workspace)
        self._labels = self._pool_lock.labels(farm)
        # Held while networks and proxies are made: the engine makes one network at a time anyway.
        self._changed = threading.Condition()
        self._subnets = Subnets(options.subnets)
        self._outside: str | None = options.network
        self._owns_outside = options.network is None
        self._idle: list[Lane] = []
        self._used: list[Lane] = []
        #: Lanes with a container in them that could not be removed.
        self._abandoned: list[Lane] = []
        self._proxies: dict[tuple[str, tuple[str, ...]], list[Proxy]] = {}
        self._serial = 0
        self._trimmer: threading.Timer | None = None

    def take(self, image_id: str, hosts: tuple[str, ...], is_stopped: Callable[[], bool]) -> Lease | None:
        """A lane to ``hosts``. Where every subnet is in use it waits for one; None once ``is_stopped``.

        EngineFailureError, also where no subnet will come free.
        """
        has_waited = False
        with self._changed:
            while not is_stopped():
                try:
                    proxy, lane = self._proxy_and_lane(image_id, hosts)
                except NoSubnetError as error:
                    self._make_room()
                    if not self._may_come_free():
                        raise
                    if not has_waited:
                        log.warning("attempt_waits_for_a_network", problem=error.problem)
                        has_waited = True
                    self._changed.wait(_LOOK_SECONDS)
                else:
                    proxy.users += 1
                    self._used.append(lane)
                    return Lease(self, lane, proxy)
        return None

    def give_back(self, lane: Lane, proxy: Proxy, *, reuse: bool) -> None:
        with self._changed:
            proxy.users -= 1
            proxy.used_at = lane.used_at = time.monotonic()
            self._used.remove(lane)
            (self._idle if reuse else self._abandoned).append(lane)
            unused = sorted((each for each in self._all_proxies() if not each.users), key=lambda each: each.used_at)
            for each in unused[: max(0, len(unused) - _IDLE_PROXIES)]:
                self._drop(each)
            self._trim_later()
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            if self._trimmer is not None:
                self._trimmer.cancel()
            self._drop_proxies()
            for lane in (*self._idle, *self._abandoned):
                lane.remove()
            self._idle, self._abandoned = [], []
            if self._owns_outside and self._outside is not None:
                remove_network(self._engine, self._outside)
            self._pool_lock.release()

    # Lanes

    def _proxy_and_lane(self, image_id: str, hosts: tuple[str, ...]) -> tuple[Proxy, Lane]:
        for proxy in list(self._proxies.get((image_id, hosts), ())):
            if not proxy.is_running():
                self._drop(proxy)
        proxies = self._proxies.get((image_id, hosts), [])
        self._idle.sort(key=lambda lane: lane.proxy in proxies)
        if self._idle and self._idle[-1].proxy in proxies:
            lane = self._idle.pop()
            assert lane.proxy is not None
            return lane.proxy, lane
        proxy = next((each for each in proxies if each.lanes < LANES_PER_PROXY), None) or self._start(image_id, hosts)
        return proxy, self._lane(proxy)

    def _lane(self, proxy: Proxy) -> Lane:
        """A lane that ``proxy`` is put into: an idle one, else a new one."""
        while self._idle:
            lane = self._idle.pop(0)
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

    def _make_room(self) -> None:
        """Give up what this process holds without need, so that two that wait never wait for each other."""
        self._abandoned = [lane for lane in self._abandoned if not lane.remove()]
        self._trim(everything=True)
        self._give_up_outside()

    def _may_come_free(self) -> bool:
        """Whether networks that nobody will give up leave as many subnets as an attempt needs. EngineFailureError."""
        with engine_calls("listing networks"):
            found = self._engine.api.networks()
        foreign = [
            str(subnet.get("Subnet", ""))
            for each in found
            if not self._is_in_use(each.get("Labels") or {})
            for subnet in (each.get("IPAM") or {}).get("Config") or ()
        ]
        return self._subnets.left_by(foreign) >= 1 + self._owns_outside

    def _is_in_use(self, labels: dict[str, str]) -> bool:
        """By a live process, or left by one of this farm, whose networks are reaped."""
        pool, workspace = labels.get(POOL_LABEL), labels.get(WORKSPACE_LABEL)
        if pool is None or workspace is None:
            return False
        return labels.get(FARM_LABEL) == self._farm or pool_is_live(Path(workspace), pool)

    def _trim_later(self) -> None:
        if self._trimmer is None:
            self._trimmer = threading.Timer(IDLE_SECONDS, self._trim_now)
            self._trimmer.daemon = True
            self._trimmer.start()

    def _trim_now(self) -> None:
        with self._changed:
            self._trimmer = None
            self._trim()
            if self._idle:
                self._trim_later()
            else:
                self._give_up_outside()

    def _trim(self, *, everything: bool = False) -> None:
        old = time.monotonic() - IDLE_SECONDS
        unused = [lane for lane in self._idle if everything or lane.used_at <= old]
        self._idle = [lane for lane in self._idle if lane not in unused]
        for lane in unused:
            lane.remove()

    def _give_up_outside(self) -> None:
        """It takes a subnet as well, and proxies are nowhere without it."""
        if self._owns_outside and self._outside is not None and not (self._used or self._idle or self._abandoned):
            self._drop_proxies()
            if remove_network(self._engine, self._outside):
                self._outside = None

    # Proxies

    def _start(self, image_id: str, hosts: tuple[str, ...]) -> Proxy:
        if self._outside is None:
            self._outside = make_outside(self._engine, f"{self._pool_lock.name}-out", self._subnets, self._labels)
        self._serial += 1
        proxy = Proxy(self._engine, f"{self._pool_lock.name}-proxy-{self._serial}", hosts)
        with self._undone(proxy):
            proxy.start(image_id, self._outside, self._options, self._labels)
        self._proxies.setdefault((image_id, hosts), []).append(proxy)
        return proxy

    @contextmanager
    def _undone(self, proxy: Proxy) -> Iterator[None]:
        try:
            yield
        except BaseException:
            proxy.remove()
            raise

    def _all_proxies(self) -> list[Proxy]:
        return [proxy for proxies in self._proxies.values() for proxy in proxies]

    def _drop_proxies(self) -> None:
        for proxy in self._all_proxies():
            self._drop(proxy)

    def _drop(self, proxy: Proxy) -> None:
        proxy.remove()
        self._proxies = {
            key: kept
            for key, proxies in self._proxies.items()
            if (kept := [each for each in proxies if each is not proxy])
        }
        for lane in (*self._idle, *self._used, *self._abandoned):
            lane.forget(proxy)
