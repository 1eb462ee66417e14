"""An agent reaches the hosts that it declares, over HTTPS, and nothing else; what was refused is known."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.types import IPAMConfig, IPAMPool

from crb_core.agent import Outcome
from crb_worker.sandbox import egress_pool
from crb_worker.sandbox.contract import FARM_LABEL, AttemptRequest, AttemptResult
from crb_worker.sandbox.docker import DockerSandbox
from crb_worker.sandbox.egress import Egress, declared_hosts
from crb_worker.sandbox.egress_parts import Lane, Subnets
from crb_worker.sandbox.egress_pool import Lease
from crb_worker.sandbox.engine import Engine, EngineFailureError
from crb_worker.sandbox.images import Images
from crb_worker.sandbox.pool_lock import POOL_LABEL
from tests.crb_worker.sandbox.support import EMPTY_REVIEW, Ground, build_image
from tests.egress_support import LABELS, NET, Internet, own_internet, require_egress_image

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]

API = ("api.example.com",)
#: Declared, and resolved to addresses inside.
INSIDE = ("private", "loopback", "metadata", "machine")


@pytest.fixture(scope="module")
def internet(engine: docker.APIClient, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    """The tests' own internet."""
    require_egress_image()
    with own_internet(engine, base_image, tmp_path_factory.mktemp("internet")) as found:
        yield found


@pytest.fixture(scope="module")
def python_image(engine: docker.APIClient, base_image: str) -> str:
    """The base image, running the script that a test puts into the checkout."""
    del base_image
    dockerfile = b'FROM crb/base:bookworm\nENTRYPOINT ["/bin/sh", "/work/repo/.agent.sh"]\n'
    return build_image(engine, "crb/test-net", {"Dockerfile": dockerfile})


class Net(Ground):
    """Ground whose agents try what their network gives."""

    def tries(self, *tries: tuple[Any, ...], more: str = "", **changes: Any) -> tuple[dict[str, str], AttemptResult]:
        """Run one attempt that tries ``(name, function of client.py, arguments...)``."""
        result = self.run(_script(tries) + more + EMPTY_REVIEW, **({"egress": API} | changes))
        assert result.outcome is Outcome.SUCCEEDED, (result.detail, result.stderr)
        found: dict[str, str] = json.loads(result.stdout.decode().splitlines()[0])
        return found, result


def _script(tries: tuple[tuple[Any, ...], ...]) -> str:
    return f"python3 $RB_REPO/client.py {shlex.quote(json.dumps(tries))}\n"


def _ground(internet: Internet, image_id: str, root: Path, *, slots: int = 4, **options: Any) -> Net:
    ground = Net(DockerSandbox(slots=slots, egress=internet.options(**options)), image_id, root)
    shutil.copy(NET / "client.py", ground.repo)
    (ground.repo / "ca.pem").write_text(internet.certificate)
    return ground


@pytest.fixture
def net(internet: Internet, python_image: str, tmp_path: Path, engine: docker.APIClient) -> Iterator[Net]:
    """A ground in the tests' internet. Whatever a test does, nothing is left."""
    ground = _ground(internet, python_image, tmp_path)
    yield ground
    ground.sandbox.close()
    assert ground.leftovers() == []
    assert networks(engine, ground) == []


def networks(engine: docker.APIClient, ground: Ground) -> list[dict[str, Any]]:
    return list(engine.networks(filters={"label": f"{FARM_LABEL}={ground.farm}"}))


def proxies(engine: docker.APIClient, ground: Ground) -> list[dict[str, Any]]:
    return [
        each
        for each in engine.containers(all=True, filters={"label": f"{FARM_LABEL}={ground.farm}"})
        if POOL_LABEL in each["Labels"]
    ]


def refused(result: AttemptResult) -> set[tuple[str, int | None, str]]:
    assert result.refused_hosts is not None
    return {(each.host, each.port, each.why) for each in result.refused_hosts}


@pytest.fixture(scope="module")
def tried(internet: Internet, python_image: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one attempt found that tried everything at once, and its result."""
    ground = _ground(internet, python_image, tmp_path_factory.mktemp("tried"))
    forged = b"x\n1.0 127.0.0.1 not_https http://mark.invalid/0 -\ny z"
    tries: list[tuple[Any, ...]] = [
        ("declared", "tls", "api.example.com:443", "api.example.com"),
        ("fetched", "fetch", "https://api.example.com/path"),
        ("model", "fetch", "https://model.example.com/v1"),
        ("upper case", "tls", "API.Example.COM:443", "API.Example.COM"),
        ("large hello", "tls", "api.example.com:443", "api.example.com", "api.example.com", 200),
        ("other host header", "tls", "api.example.com:443", "api.example.com", "fronted.example.org"),
        ("undeclared", "connect", "other.example.com:443"),
        ("subdomain", "connect", "sub.api.example.com:443"),
        ("suffix", "connect", "api.example.com.evil.org:443"),
        ("redirect", "fetch", "https://api.example.com/away"),
        ("literal", "tls", f"{internet.server}:443", "api.example.com"),
        ("decimal literal", "connect", f"{_number(internet.server)}:443"),
        ("hexadecimal literal", "connect", f"{_number(internet.server):#x}:443"),
        ("IPv6 literal", "connect", "[::1]:443"),
        ("mapped literal", "connect", f"[::ffff:{internet.server}]:443"),
        ("loopback literal", "connect", "127.0.0.1:3129"),
        ("plain port", "connect", "api.example.com:80"),
        ("other port", "connect", "api.example.com:8443"),
        ("plain HTTP", "fetch", "http://api.example.com/"),
        ("GET of HTTPS", "ask", "GET https://api.example.com/ HTTP/1.1\r\nHost: api.example.com"),
        ("plain HTTP elsewhere", "ask", "GET http://other.example.com/ HTTP/1.1\r\nHost: other.example.com"),
        ("user in a URL", "ask", "GET https://somebody:word@api.example.com/ HTTP/1.1\r\nHost: api.example.com"),
        ("user before a host", "connect", "somebody@api.example.com:443"),
        ("POST to 443", "ask", "POST http://api.example.com:443/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0"),
        ("proxy's pages", "ask", "GET /squid-internal-mgr/info HTTP/1.1\r\nHost: x"),
        ("proxy's cache", "ask", "GET cache_object://localhost/info HTTP/1.0"),
        ("ready", "connect", "ready.invalid:443"),
        ("forwarded for", "connect", "forwarded.example.org:443", "X-Forwarded-For: 127.0.0.1\r\n"),
        ("forged mark", "ask", "GET http://mark.invalid/0 HTTP/1.1\r\nX-Forwarded-For: 127.0.0.1"),
        ("other server name", "tls", "api.example.com:443", "hidden.example.org"),
        ("forged server name", "raw", "api.example.com:443", f"hex:{_hello(forged).hex()}"),
        ("no TLS", "raw", "api.example.com:443", f"hex:{b'SSH-2.0-x'.hex()}0d0a"),
        ("HTTP in a tunnel", "raw", "api.example.com:443", f"hex:{b'GET / HTTP/1.0'.hex()}0d0a0d0a"),
        *((name, "connect", f"{name}.example.com:443") for name in INSIDE),
        ("name", "resolve", "api.example.com"),
        ("proxy's own name", "resolve", "other.example.com"),
        ("engine's name server", "dns", "127.0.0.11", "api.example.com"),
        ("machine's name server", "dns", internet.gateway, "api.example.com"),
        ("server directly", "direct", internet.server),
        ("machine directly", "direct", internet.gateway, 22),
        ("link-local", "direct", "169.254.169.254", 80),
        ("IPv6 directly", "direct", "2001:db8::1"),
        ("IPv6 of all", "direct", "ff02::1"),
        ("raw socket", "raw_socket"),
    ]
    hosts = (*API, *(f"{name}.example.com" for name in INSIDE))
    try:
        return ground.tries(*tries, egress=hosts, model_api_url="https://model.example.com/v1")
    finally:
        ground.sandbox.close()


def _number(address: str) -> int:
    return int.from_bytes(bytes(int(part) for part in address.split(".")), "big")


def _hello(server_name: bytes) -> bytes:
    scope: dict[str, Any] = {}
    source = (NET / "client.py").read_text().partition("if __name__")[0]
    exec(compile(source, "client.py", "exec"), scope)
    made: bytes = scope["hello"](server_name)
    return made


class TestReach:
    def test_reaches_what_is_declared(self, tried: Any) -> None:
        """Hosts of egress and of the model API, by hand and with a common library, through the proxy."""
        found, _ = tried
        assert found["declared"] == "served api.example.com/"
        assert found["fetched"] == "served api.example.com/path"
        assert found["model"] == "served model.example.com/v1"
        assert found["upper case"] == "served api.example.com/"

    def test_a_hello_of_many_packets_passes(self, tried: Any) -> None:
        """Looking at the server's name does not depend on how the client's first message is cut."""
        assert tried[0]["large hello"] == "served api.example.com/"

    def test_the_host_header_inside_tls_is_not_seen(self, tried: Any) -> None:
        """What the proxy cannot hold: a declared host that serves other names can be asked for them."""
        assert tried[0]["other host header"] == "served fronted.example.org/"

    def test_the_contract_s_variables(self, net: Net) -> None:
        """Both cases of every proxy variable, and Node's."""
        result = net.run("env; " + EMPTY_REVIEW, egress=API)
        said = dict(line.partition("=")[::2] for line in result.stdout.decode().splitlines())
        names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
        assert len({said[name] for name in names}) == 1
        assert said["HTTPS_PROXY"].startswith("http://10.231.")
        assert said["NO_PROXY"] == said["no_proxy"] == "localhost,127.0.0.1"
        assert said["NODE_USE_ENV_PROXY"] == "1"


REFUSED = [
    ("undeclared", "403", ("other.example.com", 443), "not_declared"),
    ("subdomain", "403", ("sub.api.example.com", 443), "not_declared"),
    ("suffix", "403", ("api.example.com.evil.org", 443), "not_declared"),
    ("IPv6 literal", "403", ("[::1]", 443), "address"),
    ("loopback literal", "403", ("127.0.0.1", 3129), "address"),
    ("plain port", "403", ("api.example.com", 80), "port"),
    ("other port", "403", ("api.example.com", 8443), "port"),
    ("ready", "403", ("ready.invalid", 443), "not_declared"),
    ("forwarded for", "403", ("forwarded.example.org", 443), "not_declared"),
    ("other server name", "cut", ("hidden.example.org", 443), "server_name"),
    *((name, "403", (f"{name}.example.com", 443), "inside") for name in INSIDE),
]


class TestRefused:
    @pytest.mark.parametrize(("name", "answer", "host", "why"), REFUSED, ids=[each[0] for each in REFUSED])
    def test_is_refused_and_recorded(self, tried: Any, name: str, answer: str, host: tuple[str, int], why: str) -> None:
        """Other hosts, other ports, addresses instead of names, and names that stand for addresses inside."""
        found, result = tried
        assert found[name].startswith(answer)
        assert (*host, why) in refused(result)

    @pytest.mark.parametrize("name", ["literal", "decimal literal", "hexadecimal literal", "mapped literal"])
    def test_an_address_is_no_name(self, tried: Any, internet: Internet, name: str) -> None:
        """Not even the address of a declared host, in any notation: whose name it has is not asked."""
        found, result = tried
        assert found[name] == "403"
        assert (internet.server, 443, "address") in refused(result)

    @pytest.mark.parametrize("name", ["GET of HTTPS", "POST to 443", "proxy's pages", "proxy's cache", "forged mark"])
    def test_everything_but_a_tunnel_is_refused(self, tried: Any, name: str) -> None:
        """No request that the proxy would make itself, and none of its own pages."""
        assert tried[0][name] == "403"

    def test_plain_http_is_refused(self, tried: Any) -> None:
        """Also to a declared host."""
        found, result = tried
        assert "403" in found["plain HTTP"]
        assert ("api.example.com", 80, "not_https") in refused(result)

    def test_a_redirect_to_another_host_ends_there(self, tried: Any) -> None:
        """The client follows it, and the proxy refuses the new host."""
        found, result = tried
        assert "403" in found["redirect"]
        assert ("elsewhere.example.com", 443, "not_declared") in refused(result)

    def test_a_tunnel_carries_tls_only(self, tried: Any) -> None:
        """Anything else is cut before the host sees it."""
        found, result = tried
        assert found["no TLS"].startswith("cut")
        assert found["HTTP in a tunnel"].startswith("cut")
        assert ("api.example.com", 443, "not_tls") in refused(result)

    @pytest.mark.parametrize("name", ["user in a URL", "user before a host"])
    def test_a_user_in_a_url_is_named(self, tried: Any, name: str) -> None:
        """It is neither a host that is not declared nor only plain HTTP; the name and the word are not shown."""
        found, result = tried
        assert found[name] == "403"
        assert ("api.example.com", 443, "user_info") in refused(result)
        assert "somebody" not in json.dumps([each.document() for each in result.refused_hosts])

    def test_plain_http_to_an_undeclared_host_is_undeclared_first(self, tried: Any) -> None:
        """HTTPS would not help."""
        found, result = tried
        assert found["plain HTTP elsewhere"] == "403"
        assert ("other.example.com", 80, "not_declared") in refused(result)

    def test_a_server_name_forges_no_log_line(self, tried: Any) -> None:
        """Line breaks and blanks in what the agent sends stay inside one field."""
        found, result = tried
        assert found["forged server name"].startswith("cut")
        assert any(host.startswith("x?1.0 127.0.0.1") or "mark.invalid" in host for host, _, _ in refused(result))

    @pytest.mark.parametrize("name", ["name", "proxy's own name"])
    def test_no_name_is_resolved(self, tried: Any, name: str) -> None:
        """The agent needs no name server, and a question to one would carry data out."""
        assert tried[0][name] == "unknown"

    @pytest.mark.parametrize("name", ["engine's name server", "machine's name server"])
    def test_no_name_server_answers(self, tried: Any, name: str) -> None:
        """Nor when it is asked by hand: the engine's own one asks nobody."""
        assert tried[0][name] in {"no answer", "0 answers"}

    @pytest.mark.parametrize(
        "name", ["server directly", "machine directly", "link-local", "IPv6 directly", "IPv6 of all"]
    )
    def test_there_is_no_other_way(self, tried: Any, name: str) -> None:
        """Past the proxy there is nothing: no route, no machine, no IPv6."""
        assert tried[0][name] == "unreachable"

    def test_no_packet_is_made_by_hand(self, tried: Any) -> None:
        """No raw sockets, so no address of another's."""
        assert tried[0]["raw socket"] == "not permitted"

    def test_the_verdict_names_them(self, tried: Any) -> None:
        """Three by name with the reason, and how many more."""
        _, result = tried
        assert result.detail.startswith(
            "The agent reviewed the pull request and found nothing. The egress proxy refused "
            "other.example.com:443 (not declared in agent.toml), "
        )
        assert " more." in result.detail


class TestSeparation:
    def test_attempts_do_not_reach_each_other(self, net: Net, engine: docker.APIClient) -> None:
        """Neither directly nor through the proxy, which serves both."""
        first = net.request("exec python3 -m http.server 443 --bind 0.0.0.0\n", egress=API, timeout_seconds=120)
        thread = threading.Thread(target=net.sandbox.run, args=(first,))
        thread.start()
        address = _address(engine, first.attempt_id)
        found, result = net.tries(("directly", "direct", address), ("through the proxy", "connect", f"{address}:443"))
        net.sandbox.stop(first.attempt_id, Outcome.CANCELLED)
        thread.join()
        assert found == {"directly": "unreachable", "through the proxy": "403"}
        assert len(proxies(engine, net)) == 1, "attempts of the same hosts share a proxy"
        assert refused(result) == {(address, 443, "address")}

    def test_hosts_are_of_one_build_only(self, net: Net, engine: docker.APIClient) -> None:
        """An attempt with other hosts has another proxy, in the same network where that is free."""
        one, first = net.tries(("mine", "connect", "api.example.com:443"), ("its", "connect", "other.example.com:443"))
        two, second = net.tries(
            ("its", "connect", "api.example.com:443"),
            ("mine", "connect", "other.example.com:443"),
            egress=("other.example.com",),
        )
        assert one == {"mine": "200", "its": "403"}
        assert two == {"mine": "200", "its": "403"}
        assert refused(first) == {("other.example.com", 443, "not_declared")}
        assert refused(second) == {("api.example.com", 443, "not_declared")}
        assert len(proxies(engine, net)) == 2
        assert len(networks(engine, net)) == 1

    def test_an_agent_without_hosts_has_no_network_and_no_cost(self, net: Net, engine: docker.APIClient) -> None:
        """No lane and no proxy is made for it."""
        result = net.run("ls /sys/class/net; " + EMPTY_REVIEW)
        assert result.stdout == b"lo\n"
        assert result.refused_hosts is None
        assert "egress" not in result.phases
        assert networks(engine, net) == []

    def test_setting_up_is_no_part_of_the_review(self, net: Net) -> None:
        """The proxy starts before the clock does."""
        _, result = net.tries(("declared", "connect", "api.example.com:443"))
        assert result.review_ms is not None
        measured = sum(result.phases[name] for name in ("create", "start", "wait"))
        assert result.phases["egress"] > 0
        assert result.review_ms < measured + result.phases["egress"]

    def test_without_the_image_there_is_no_network_and_the_verdict_says_so(
        self, internet: Internet, python_image: str, tmp_path: Path, engine: docker.APIClient
    ) -> None:
        """Never an open network instead."""
        ground = _ground(internet, python_image, tmp_path, image="crb/no-such-proxy:1")
        result = ground.run("ls /sys/class/net; " + EMPTY_REVIEW, egress=API)
        ground.sandbox.close()
        assert result.stdout == b"lo\n"
        assert result.refused_hosts is None
        assert result.detail == (
            "The agent reviewed the pull request and found nothing. The agent declares api.example.com, but"
            " containers have no network here: the egress image crb/no-such-proxy:1 is not on this machine."
        )
        assert networks(engine, ground) == []

    def test_a_private_subnet_can_be_opened(self, internet: Internet, python_image: str, tmp_path: Path) -> None:
        """For a model server in the same house: the proxy tries to connect; loopback stays closed."""
        ground = _ground(
            internet,
            python_image,
            tmp_path,
            reachable=("10.11.12.0/24", "127.0.0.0/8"),
        )
        hosts = ("private.example.com", "loopback.example.com", "metadata.example.com")
        found, _ = ground.tries(*((name, "connect", f"{name}:443") for name in hosts), egress=hosts)
        ground.sandbox.close()
        assert found == {
            "private.example.com": "200",
            "loopback.example.com": "403",
            "metadata.example.com": "403",
        }


def _address(engine: docker.APIClient, attempt_id: str) -> str:
    until = time.monotonic() + 60
    while True:
        try:
            facts = engine.inspect_container(f"crb-{attempt_id}")
        except docker.errors.NotFound:
            facts = {"State": {"Running": False}}
        if facts["State"]["Running"]:
            ((_, endpoint),) = facts["NetworkSettings"]["Networks"].items()
            return str(endpoint["IPAddress"])
        assert time.monotonic() < until, "the attempt was not started"
        time.sleep(0.05)


class TestPool:
    def test_networks_and_proxies_are_used_again(
        self, internet: Internet, python_image: str, tmp_path: Path, engine: docker.APIClient
    ) -> None:
        """A pool of two subnets serves six attempts, two at a time; each has its own refusals and address."""
        ground = _ground(internet, python_image, tmp_path, slots=2, subnets=IPv4Network("10.232.77.0/28"))
        results: list[AttemptResult] = []

        def run(number: int) -> None:
            result = ground.sandbox.run(replace(shared, attempt_id=f"pooled-{number}", attempt_number=number))
            assert refused(result) == {(f"host-{number}.example.org", 443, "not_declared")}
            results.append(result)

        trying = """python3 $RB_REPO/client.py '[["it", "connect", "host-'$RB_ATTEMPT'.example.org:443"]]'\n"""
        shared = ground.request(trying + EMPTY_REVIEW, egress=API)
        for first in (1, 3, 5):
            threads = [threading.Thread(target=run, args=(first + each,)) for each in (0, 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        made = networks(engine, ground)
        running = len(proxies(engine, ground))
        ground.sandbox.close()
        assert len(results) == 6
        assert 1 <= len(made) <= 2
        assert running == 1
        assert networks(engine, ground) == []

    def test_attempts_wait_for_a_network_and_not_in_a_slot(
        self, internet: Internet, python_image: str, tmp_path: Path, engine: docker.APIClient
    ) -> None:
        """Of one network for four slots: who needs it waits, who needs none goes on, and a stopped one leaves."""
        ground = _ground(internet, python_image, tmp_path, subnets=IPv4Network("10.232.78.0/29"))
        results: dict[str, AttemptResult] = {}

        def run(name: str, request: AttemptRequest) -> threading.Thread:
            thread = threading.Thread(target=lambda: results.update({name: ground.sandbox.run(request)}))
            thread.start()
            return thread

        has_it = ground.request("sleep 600; " + EMPTY_REVIEW, egress=API, timeout_seconds=600)
        holding = run("has it", has_it)
        _address(engine, has_it.attempt_id)
        gives_up = ground.request(EMPTY_REVIEW, egress=API)
        leaving = run("gives up", gives_up)
        waiting = run("waits", ground.request(EMPTY_REVIEW, egress=API))
        results["needs none"] = ground.run(EMPTY_REVIEW)
        ground.sandbox.stop(gives_up.attempt_id, Outcome.CANCELLED)
        leaving.join()
        assert {name: each.outcome for name, each in results.items()} == {
            "needs none": Outcome.SUCCEEDED,
            "gives up": Outcome.CANCELLED,
        }
        ground.sandbox.stop(has_it.attempt_id, Outcome.CANCELLED)
        holding.join()
        waiting.join()
        ground.sandbox.close()
        assert results["waits"].outcome is Outcome.SUCCEEDED
        assert results["waits"].started_at > results["needs none"].started_at
        assert results["waits"].phases["egress"] > results["waits"].phases.get("slot", 0)
        assert results["gives up"].review_ms is None
        assert ground.leftovers() == []

    @pytest.mark.thorough
    def test_two_processes_share_what_there_is(
        self, internet: Internet, python_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two subnets are one for a process's proxies and one for its agents: each has them in turn."""
        monkeypatch.setattr(egress_pool, "IDLE_SECONDS", 0.2)
        shared: dict[str, Any] = {"subnets": IPv4Network("10.232.78.16/28"), "network": None, "addresses": {}}
        grounds = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            grounds.append(_ground(internet, python_image, tmp_path / name, **shared))
        results: list[AttemptResult] = []

        def run(ground: Net) -> None:
            results.append(ground.run("sleep 1; " + EMPTY_REVIEW, egress=API))

        threads = [threading.Thread(target=run, args=(ground,)) for ground in grounds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for ground in grounds:
            ground.sandbox.close()
        assert [each.outcome for each in results] == [Outcome.SUCCEEDED] * 2

    def test_subnets_that_nobody_of_ours_has_are_not_waited_for(
        self, internet: Internet, python_image: str, tmp_path: Path, engine: docker.APIClient
    ) -> None:
        """Nothing would ever come free: the farm's fault, with the setting to change."""
        pool = IPAMConfig(pool_configs=[IPAMPool(subnet="10.232.78.8/29")])
        name = f"crb-tests-{uuid.uuid4().hex[:12]}"
        engine.create_network(name, ipam=pool, internal=True, labels=LABELS)
        try:
            ground = _ground(internet, python_image, tmp_path, subnets=IPv4Network("10.232.78.8/29"))
            result = ground.run(EMPTY_REVIEW, egress=API)
            ground.sandbox.close()
        finally:
            engine.remove_network(name)
        assert result.outcome is Outcome.ENGINE_ERROR
        assert result.detail == ("No subnet is free in 10.232.78.8/29 (CRB_EGRESS_SUBNETS): 1 of size /29 are in use.")
        assert result.review_ms is None

    def test_a_lane_that_nobody_uses_is_given_up(
        self, net: Net, engine: docker.APIClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So that others find a subnet; the next attempt has a new one."""
        monkeypatch.setattr(egress_pool, "IDLE_SECONDS", 0.2)
        net.tries(("declared", "connect", "api.example.com:443"))
        until = time.monotonic() + 60
        while networks(engine, net):
            assert time.monotonic() < until
            time.sleep(0.1)
        found, _ = net.tries(("declared", "connect", "api.example.com:443"))
        assert found == {"declared": "200"}

    def test_one_agent_cannot_take_all_connections(self, net: Net, engine: docker.APIClient) -> None:
        """Connections that ask for nothing are limited too, so that others of the same proxy get through."""
        crowd = net.request(_script((("crowd", "crowd", 2000, 4),)) + EMPTY_REVIEW, egress=API)
        results: list[AttemptResult] = []
        thread = threading.Thread(target=lambda: results.append(net.sandbox.run(crowd)))
        thread.start()
        _address(engine, crowd.attempt_id)
        time.sleep(2)
        found, _ = net.tries(("declared", "tls", "api.example.com:443", "api.example.com"))
        thread.join()
        assert found == {"declared": "served api.example.com/"}
        open_, _, tried = json.loads(results[0].stdout)["crowd"].partition(" of ")
        assert int(open_) <= 520 < int(tried.split(" ")[0])

    def test_the_pool_does_not_touch_the_engine_s_own(self, engine: docker.APIClient) -> None:
        """Thirty-one networks use up what an engine has by default; lanes come from our own subnets, 8,192 by default.

        Here as many as a /25 holds are made; what others have in it is passed over.
        """
        ours, labels = Engine(1), LABELS | {FARM_LABEL: "test-subnets"}
        subnets = Subnets(IPv4Network("10.232.79.0/25"))
        taken = Subnets(IPv4Network("10.232.79.64/29")).make_network(ours, "crb-tests-taken", labels, internal=True)
        made = []
        try:
            for number in range(15):
                made.append(Lane.make(ours, f"crb-tests-lane-{number}", subnets, labels))
            with pytest.raises(EngineFailureError, match=re.escape("No subnet is free in 10.232.79.0/25")):
                Lane.make(ours, "crb-tests-one-more", subnets, labels)
            used = {
                each["IPAM"]["Config"][0]["Subnet"]
                for each in engine.networks(filters={"label": f"{FARM_LABEL}=test-subnets"})
            }
            assert used == {str(subnet) for subnet in IPv4Network("10.232.79.0/25").subnets(new_prefix=29)}
            assert str(taken) in used
            assert all(lane.remove() for lane in made)
        finally:
            for each in engine.networks(filters={"label": f"{FARM_LABEL}=test-subnets"}):
                engine.remove_network(each["Id"])
            ours.close()

    def test_a_proxy_that_ends_under_an_agent_is_the_farm_s_fault(self, net: Net, engine: docker.APIClient) -> None:
        """The attempt does not count against the agent, and the next one has a new proxy."""
        request = net.request("sleep 4; " + EMPTY_REVIEW, egress=API)
        results: list[AttemptResult] = []
        thread = threading.Thread(target=lambda: results.append(net.sandbox.run(request)))
        thread.start()
        _address(engine, request.attempt_id)
        engine.remove_container(proxies(engine, net)[0]["Id"], force=True)
        thread.join()
        assert results[0].outcome is Outcome.ENGINE_ERROR
        assert "proxy" in results[0].detail
        found, _ = net.tries(("declared", "connect", "api.example.com:443"))
        assert found == {"declared": "200"}

    def test_what_a_killed_process_left_is_reaped_and_a_live_one_s_is_not(
        self, net: Net, engine: docker.APIClient, internet: Internet
    ) -> None:
        """By label, by any worker of the farm: agent, proxy, networks, and the file that said whose they were."""
        net.tries(("declared", "connect", "api.example.com:443"))
        mine = {each["Id"] for each in networks(engine, net)}
        program = f"""
        import sys
        from pathlib import Path
        from tests.crb_worker.sandbox.support import Ground
        from crb_worker.sandbox.docker import DockerSandbox
        from crb_worker.sandbox.egress_options import EgressOptions
        root = Path({str(net.root / "second")!r})
        root.mkdir()
        options = EgressOptions(network={internet.network!r}, dns=("127.0.0.1",))
        ground = Ground(DockerSandbox(slots=1, egress=options), {net.image_id!r}, root, {net.farm!r})
        ground.workspace = Path({str(net.workspace)!r})
        ground.run("sleep 600", egress=("api.example.com",), attempt_id="killed")
        """
        child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], env=os.environ | {"PYTHONPATH": "."})
        _address(engine, "killed")
        assert len(networks(engine, net)) == 2
        assert net.sandbox.reap(net.farm, ["killed"]) == [], "both live"
        child.send_signal(signal.SIGKILL)
        child.wait()
        removed = net.sandbox.reap(net.farm, ())
        assert sum("container" in line for line in removed) == 2
        assert sum("of a worker that is gone" in line for line in removed) == 2
        assert {each["Id"] for each in networks(engine, net)} == mine
        found, _ = net.tries(("declared", "connect", "api.example.com:443"))
        assert found == {"declared": "200"}


def test_hosts_are_those_of_egress_and_of_the_model_api(net: Net) -> None:
    """Sorted and without doubles, so that the same set finds the same proxy."""
    build = replace(net.request("")).build
    assert declared_hosts(build) == ()
    changed = build.model_copy(
        update={"egress": ("b.example.com", "a.example.com"), "model_api_url": "https://a.example.com/v1"}
    )
    assert declared_hosts(changed) == ("a.example.com", "b.example.com")


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_two_hundred_agents_have_networks_side_by_side(
    internet: Internet, python_image: str, tmp_path: Path, engine: docker.APIClient
) -> None:
    """All at once: each has a network of its own; an agent in any of them reaches a proxy that knows it."""
    ground = _ground(internet, python_image, tmp_path)
    ours = Engine(8)
    egress = Egress(ours, Images(ours), internet.options(subnets=IPv4Network("10.233.0.0/16")))
    leases: list[Lease] = []
    begun = time.monotonic()
    try:
        for _ in range(200):
            lease = egress.lease(ground.farm, ground.workspace, API)
            assert lease is not None
            leases.append(lease)
        print(f"{(time.monotonic() - begun) / len(leases):.3f} s a network")
        assert len({lease.network for lease in leases}) == len({lease.address for lease in leases}) == 200
        assert len(networks(engine, ground)) == 200
        assert len(proxies(engine, ground)) == math.ceil(200 / egress_pool.LANES_PER_PROXY)
        for number in (0, 100, 199):
            _ask_in(engine, leases[number], python_image, f"host-{number}.example.org:443")
        refused_hosts = {number: leases[number].refusals().hosts for number in (0, 1, 100, 198, 199)}
        assert {number: [each.host for each in hosts] for number, hosts in refused_hosts.items()} == {
            number: [f"host-{number}.example.org"] if number in {0, 100, 199} else [] for number in refused_hosts
        }
        begun = time.monotonic()
    finally:
        for lease in leases:
            lease.release(reuse=True)
        egress.close()
        ours.close()
    print(f"{(time.monotonic() - begun) / len(leases):.3f} s to remove one")
    assert networks(engine, ground) == []


def _ask_in(engine: docker.APIClient, lease: Lease, image: str, target: str) -> None:
    """One container in a lane asks its proxy for a tunnel."""
    asks = (
        f'exec 3<>/dev/tcp/{lease.proxy_address.replace(":", "/")}; printf "CONNECT {target} HTTP/1.1\\r\\n\\r\\n" >&3'
    )
    container = engine.create_container(
        image,
        entrypoint=["bash", "-c", f"{asks}; head -n 1 <&3"],
        labels=LABELS,
        host_config=engine.create_host_config(network_mode=lease.network),
        networking_config={
            "EndpointsConfig": {lease.network: engine.create_endpoint_config(ipv4_address=lease.address)}
        },
    )["Id"]
    try:
        engine.start(container)
        engine.wait(container, timeout=60)
        assert b" 403 " in engine.logs(container)
    finally:
        engine.remove_container(container, force=True)
