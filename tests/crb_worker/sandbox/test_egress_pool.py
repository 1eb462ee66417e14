"""Lanes and proxies are lent, used again, given up and reaped; nobody's network is taken."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
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
from crb_worker.sandbox.egress import Egress
from crb_worker.sandbox.egress_parts import Lane, NoSubnetError, Subnets
from crb_worker.sandbox.egress_pool import Lease
from crb_worker.sandbox.engine import Engine
from crb_worker.sandbox.engine_failures import EngineFailureError
from crb_worker.sandbox.images import Images
from tests.crb_worker.sandbox.egress_ground import API, Net, address_of, ground_in, networks, proxies, refused, script
from tests.crb_worker.sandbox.support import EMPTY_REVIEW
from tests.egress_support import LABELS, Internet

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]


class TestPool:
    def test_networks_and_proxies_are_used_again(
        self, internet: Internet, python_image: str, tmp_path: Path, engine: docker.APIClient
    ) -> None:
        """A pool of two subnets serves six attempts, two at a time; each has its own refusals and address."""
        ground = ground_in(internet, python_image, tmp_path, slots=2, subnets=IPv4Network("10.232.77.0/28"))
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
        ground = ground_in(internet, python_image, tmp_path, subnets=IPv4Network("10.232.78.0/29"))
        results: dict[str, AttemptResult] = {}

        def run(name: str, request: AttemptRequest) -> threading.Thread:
            thread = threading.Thread(target=lambda: results.update({name: ground.sandbox.run(request)}))
            thread.start()
            return thread

        has_it = ground.request("sleep 600; " + EMPTY_REVIEW, egress=API, timeout_seconds=600)
        holding = run("has it", has_it)
        address_of(engine, has_it.attempt_id)
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
            grounds.append(ground_in(internet, python_image, tmp_path / name, **shared))
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
            ground = ground_in(internet, python_image, tmp_path, subnets=IPv4Network("10.232.78.8/29"))
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
        crowd = net.request(script((("crowd", "crowd", 2000, 4),)) + EMPTY_REVIEW, egress=API)
        results: list[AttemptResult] = []
        thread = threading.Thread(target=lambda: results.append(net.sandbox.run(crowd)))
        thread.start()
        address_of(engine, crowd.attempt_id)
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

    def test_what_this_machine_has_a_route_to_is_passed_over(self) -> None:
        """The engine would make the network all the same, and hide what the route leads to."""
        ours, routed = Engine(1), [IPv4Network("10.232.80.0/29"), IPv4Network("10.232.80.16/32")]
        subnets = Subnets(IPv4Network("10.232.80.0/27"), lambda: routed)
        made = []
        try:
            for number in range(2):
                made.append(Lane.make(ours, f"crb-tests-beside-{number}-{uuid.uuid4().hex[:8]}", subnets, LABELS))
            with pytest.raises(NoSubnetError, match="2 of size /29 are in use, and 2 are where this machine has a rou"):
                Lane.make(ours, "crb-tests-hidden", subnets, LABELS)
            assert {lane.proxy_address for lane in made} == {"10.232.80.10:3128", "10.232.80.26:3128"}
        finally:
            for lane in made:
                lane.remove()
            ours.close()

    def test_a_proxy_that_ends_under_an_agent_is_the_farm_s_fault(self, net: Net, engine: docker.APIClient) -> None:
        """The attempt does not count against the agent, and the next one has a new proxy."""
        request = net.request("sleep 4; " + EMPTY_REVIEW, egress=API)
        results: list[AttemptResult] = []
        thread = threading.Thread(target=lambda: results.append(net.sandbox.run(request)))
        thread.start()
        address_of(engine, request.attempt_id)
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
        address_of(engine, "killed")
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


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_two_hundred_agents_have_networks_side_by_side(
    internet: Internet, python_image: str, tmp_path: Path, engine: docker.APIClient
) -> None:
    """All at once: each has a network of its own; an agent in any of them reaches a proxy that knows it."""
    ground = ground_in(internet, python_image, tmp_path)
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
