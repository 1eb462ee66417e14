"""What an agent's network holds is its own: not others' hosts, not other agents, and nothing for who declares none."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from crb_core.agent import Outcome
from crb_worker.sandbox.egress import declared_hosts
from tests.crb_worker.sandbox.egress_ground import API, Net, address_of, ground_in, networks, proxies, refused
from tests.crb_worker.sandbox.support import EMPTY_REVIEW
from tests.egress_support import EGRESS_IMAGE, Internet

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]


class TestSeparation:
    def test_attempts_do_not_reach_each_other(self, net: Net, engine: docker.APIClient) -> None:
        """Neither directly nor through the proxy, which serves both."""
        first = net.request("exec python3 -m http.server 443 --bind 0.0.0.0\n", egress=API, timeout_seconds=120)
        thread = threading.Thread(target=net.sandbox.run, args=(first,))
        thread.start()
        address = address_of(engine, first.attempt_id)
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
        ground = ground_in(internet, python_image, tmp_path, image="crb/no-such-proxy:1")
        result = ground.run("ls /sys/class/net; " + EMPTY_REVIEW, egress=API)
        ground.sandbox.close()
        assert result.stdout == b"lo\n"
        assert result.refused_hosts is None
        assert result.detail == (
            "The agent reviewed the pull request and found nothing. The agent declares api.example.com, but"
            " containers have no network here: the egress image crb/no-such-proxy:1 is not on this machine."
        )
        assert networks(engine, ground) == []

    def test_an_image_that_goes_meanwhile_is_the_farms_fault(
        self, internet: Internet, python_image: str, tmp_path: Path, engine: docker.APIClient
    ) -> None:
        """Those that had a network must not be compared with those that run without one."""
        name = f"crb/test-proxy-{uuid.uuid4().hex[:8]}"
        engine.tag(EGRESS_IMAGE, name)
        ground = ground_in(internet, python_image, tmp_path, image=name)
        try:
            found, _ = ground.tries(("declared", "connect", "api.example.com:443"))
        finally:
            engine.remove_image(name)
        assert found == {"declared": "200"}
        result = ground.run(EMPTY_REVIEW, egress=API)
        ground.sandbox.close()
        assert result.outcome is Outcome.ENGINE_ERROR
        assert result.detail == f"the egress image {name} has gone from this machine. make egress-image."

    def test_a_private_subnet_can_be_opened(self, internet: Internet, python_image: str, tmp_path: Path) -> None:
        """For a model server in the same house: the proxy tries to connect; loopback stays closed."""
        ground = ground_in(
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


def test_hosts_are_those_of_egress_and_of_the_model_api(net: Net) -> None:
    """Sorted and without doubles, so that the same set finds the same proxy."""
    build = replace(net.request("")).build
    assert declared_hosts(build) == ()
    changed = build.model_copy(
        update={"egress": ("b.example.com", "a.example.com"), "model_api_url": "https://a.example.com/v1"}
    )
    assert declared_hosts(changed) == ("a.example.com", "b.example.com")
