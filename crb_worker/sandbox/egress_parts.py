"""One lane, one proxy, and the subnets that lanes are made from."""

from __future__ import annotations

import contextlib
import secrets
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Network
from itertools import islice

from docker.types import IPAMConfig, IPAMPool, LogConfig, Ulimit

from crb_worker.sandbox.egress_options import LANE_PREFIX, EgressOptions, lane_count, lanes_in, own_subnets
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import EngineFailureError, engine_calls

__all__ = ["PROXY_PORT", "Lane", "NoSubnetError", "Proxy", "Subnets", "make_outside", "remove_network"]

PROXY_PORT = 3128
_MIB = 1024 * 1024
_PROXY_MEMORY = 256 * _MIB
#: Of two files: what the proxy refused is kept for a while, and no agent fills a disk with it.
_PROXY_LOG = 8 * _MIB
#: Seconds that the proxy may take to start and to answer.
_READY_SECONDS = 30.0
#: Seconds that a line of the proxy may take to reach the engine's log.
_LOG_SECONDS = 10.0
_LOG_INTERVAL = 0.02
#: The user of Debian's squid.
_PROXY_USER = 13


class NoSubnetError(EngineFailureError):
    """Every subnet of the pool is in use."""


class Subnets:
    """Hands out subnets that no network of the engine has and this machine has no route into.

    Where others use the pool too, it looks further. ``routed`` is asked each time: ways to other networks come and go.
    """

    def __init__(self, pool: IPv4Network, routed: Callable[[], Iterable[IPv4Network]] = own_subnets) -> None:
        self._pool = pool
        self._routed = routed
        self._count = lane_count(pool)
        # Elsewhere than other workers of this machine start to look.
        self._next = secrets.randbelow(self._count)

    def left_by(self, networks: Iterable[str]) -> int:
        """How many subnets are neither routed to nor touched by ``networks``, as the engine writes their addresses."""
        taken = list(self._routed())
        for text in networks:
            with contextlib.suppress(ValueError):
                taken.append(IPv4Network(text))
        return self._count - lanes_in(self._pool, taken)

    def make_network(self, engine: Engine, name: str, labels: dict[str, str], *, internal: bool) -> IPv4Network:
        """Make a network in the next free subnet, and give that. NoSubnetError where none is, EngineFailureError."""
        options = {"com.docker.network.bridge.enable_icc": "false"}
        if internal:
            options = {
                # Else the engine's machine has an address in the network, and its services could be reached there.
                "com.docker.network.bridge.inhibit_ipv4": "true",
                # Nothing leaves the network, so nothing needs a rule that gives it another address.
                "com.docker.network.bridge.enable_ip_masquerade": "false",
            }
        routed = list(self._routed())
        for _ in range(self._count):
            subnet = next(islice(self._pool.subnets(new_prefix=LANE_PREFIX), self._next, None))
            self._next = (self._next + 1) % self._count
            # The engine does not ask: what the route leads to would vanish behind the new network.
            if any(subnet.overlaps(each) for each in routed):
                continue
            try:
                with engine_calls("making a network"):
                    engine.api.create_network(
                        name,
                        driver="bridge",
                        options=options,
                        ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))]),
                        internal=internal,
                        labels=labels,
                        check_duplicate=True,
                    )
            except EngineFailureError as error:
                if "overlap" not in error.problem:
                    raise
            else:
                return subnet
        hidden = lanes_in(self._pool, routed)
        raise NoSubnetError(
            f"No subnet is free in {self._pool} (CRB_EGRESS_SUBNETS): {self._count - hidden} of size /{LANE_PREFIX}"
            " are in use" + (f", and {hidden} are where this machine has a route to" if hidden else "")
        )


def make_outside(engine: Engine, name: str, subnets: Subnets, labels: dict[str, str]) -> str:
    """A network in which proxies reach the world, and not each other."""
    subnets.make_network(engine, name, labels, internal=False)
    return name


def remove_network(engine: Engine, name: str) -> bool:
    """Remove a network; False where it is still there."""
    try:
        with engine_calls("removing a network"):
            engine.api.remove_network(name)
    except EngineFailureError as error:
        return error.status == 404
    return True


class Proxy:
    """A proxy container for one set of hosts."""

    def __init__(self, engine: Engine, name: str, hosts: tuple[str, ...]) -> None:
        self._engine = engine
        self._name = name
        self.hosts = hosts
        self._container: str | None = None
        #: Networks of agents that it stands in.
        self.lanes = 0
        #: Attempts that use it now, and when the last one ended (monotonic).
        self.users = 0
        self.used_at = 0.0
        #: The newest mark in its log.
        self.last_mark = ""

    @property
    def id(self) -> str:
        assert self._container is not None, "the proxy was started"
        return self._container

    def start(self, image_id: str, outside: str, options: EgressOptions, labels: dict[str, str]) -> None:
        """Create it and wait until it answers. EngineFailureError."""
        api = self._engine.api
        with engine_calls("starting the egress proxy"):
            host_config = api.create_host_config(
                network_mode=outside,
                read_only=True,
                tmpfs={"/run/crb": f"mode=0700,uid={_PROXY_USER},gid={_PROXY_USER},size=8m"},
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                # It stands in several networks and must not be a way from one into another.
                sysctls={"net.ipv4.ip_forward": "0"},
                mem_limit=_PROXY_MEMORY,
                memswap_limit=_PROXY_MEMORY,
                pids_limit=64,
                ulimits=[Ulimit(name="nofile", soft=16384, hard=16384), Ulimit(name="core", soft=0, hard=0)],
                extra_hosts=options.addresses,
                dns=list(options.dns) or None,
                log_config=LogConfig(type="json-file", config={"max-size": str(_PROXY_LOG), "max-file": "2"}),
            )
            self._container = api.create_container(
                image_id,
                command=list(self.hosts),
                name=self._name,
                environment={"CRB_EGRESS_REACHABLE": " ".join(options.reachable)},
                labels=labels,
                host_config=host_config,
                use_config_proxy=False,
            )["Id"]
            api.start(self._container)
        if self._execute(["ready"]) != 0:
            raise EngineFailureError(f"The egress proxy does not answer within {_READY_SECONDS:.0f} seconds")
        self._mark()

    def is_running(self) -> bool:
        try:
            return bool(self._engine.inspect(self.id)["State"].get("Running"))
        except EngineFailureError as error:
            if error.status == 404:
                return False
            raise

    def log_until_now(self, since: str) -> tuple[list[str], bool]:
        """What it refused after the mark ``since``, and whether that mark was still there. EngineFailureError."""
        mark = self._mark()
        until = time.monotonic() + _LOG_SECONDS
        while True:
            lines = self._lines()
            places = {line.rpartition("/")[2].partition(" ")[0]: number for number, line in self._marks(lines)}
            if mark in places:
                begin = places.get(since)
                return lines[0 if begin is None else begin + 1 : places[mark]], begin is not None
            if time.monotonic() > until:
                raise EngineFailureError("The egress proxy does not write its log")
            time.sleep(_LOG_INTERVAL)

    def remove(self) -> None:
        """Remove it; what is left is the reaper's."""
        with contextlib.suppress(EngineFailureError), engine_calls("removing the egress proxy"):
            self._engine.api.remove_container(self._container or self._name, v=True, force=True)

    def _mark(self) -> str:
        """Have it log a refusal of our own: everything it refused before is in the log before that."""
        mark = uuid.uuid4().hex
        if self._execute(["mark", mark]) != 0:
            raise EngineFailureError("The egress proxy ended while an agent used it")
        self.last_mark = mark
        return mark

    @staticmethod
    def _marks(lines: list[str]) -> Iterator[tuple[int, str]]:
        """Only the proxy's own container can ask from loopback."""
        return ((number, line) for number, line in enumerate(lines) if " 127.0.0.1 not_https http://mark." in line)

    def _lines(self) -> list[str]:
        output = b"".join(chunk for stream, chunk in self._engine.logs(self.id) if stream == 1)
        return output.decode("utf-8", "replace").split("\n")

    def _execute(self, command: list[str]) -> int:
        """The exit status of a command in it. EngineFailureError where it does not run."""
        api = self._engine.api
        with engine_calls("asking the egress proxy"):
            started = api.exec_create(self.id, command, stdout=True, stderr=True)["Id"]
            api.exec_start(started)
            return int(api.exec_inspect(started)["ExitCode"] or 0)


class Lane:
    """A network for one agent at a time and the proxy that it may use."""

    def __init__(self, engine: Engine, name: str, subnet: IPv4Network) -> None:
        self._engine = engine
        self.name = name
        _, proxy, *agents = (str(address) for address in subnet.hosts())
        self._proxy_ip = proxy
        self._agent_ips = agents
        self._turn = 0
        self.proxy: Proxy | None = None
        #: The mark in the proxy's log after which everything from this lane is the present agent's.
        self.seen = ""
        #: When its last attempt ended (monotonic).
        self.used_at = 0.0

    @classmethod
    def make(cls, engine: Engine, name: str, subnets: Subnets, labels: dict[str, str]) -> Lane:
        """A new lane. EngineFailureError."""
        return cls(engine, name, subnets.make_network(engine, name, labels, internal=True))

    @property
    def proxy_address(self) -> str:
        """Address and port of the proxy."""
        return f"{self._proxy_ip}:{PROXY_PORT}"

    def next_agent_address(self) -> str:
        """Another one than the last agent had, so that nothing that was meant for it arrives."""
        self._turn = (self._turn + 1) % len(self._agent_ips)
        return self._agent_ips[self._turn]

    def attach(self, proxy: Proxy) -> None:
        """Put ``proxy`` into the lane, in place of the one that is in it. EngineFailureError."""
        if self.proxy is proxy:
            return
        api = self._engine.api
        if self.proxy is not None:
            with engine_calls("taking a proxy out of its network"):
                api.disconnect_container_from_network(self.proxy.id, self.name, force=True)
            self.forget(self.proxy)
        with engine_calls("putting a proxy into its network"):
            api.connect_container_to_network(proxy.id, self.name, ipv4_address=self._proxy_ip)
        self.proxy = proxy
        proxy.lanes += 1
        self.seen = proxy.last_mark

    def forget(self, proxy: Proxy) -> None:
        """``proxy`` is no longer in the lane."""
        if self.proxy is proxy:
            self.proxy = None
            proxy.lanes -= 1

    def remove(self) -> bool:
        """Remove the network; False where something is still in it, and the reaper has it."""
        if self.proxy is not None:
            with contextlib.suppress(EngineFailureError), engine_calls("taking a proxy out of its network"):
                self._engine.api.disconnect_container_from_network(self.proxy.id, self.name, force=True)
            self.forget(self.proxy)
        return remove_network(self._engine, self.name)
