"""An agent reaches the hosts that it declares, over HTTPS, and nothing else; what was refused is known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.crb_worker.sandbox.egress_ground import API, Net, ground_in, refused
from tests.crb_worker.sandbox.support import EMPTY_REVIEW
from tests.egress_support import NET, Internet

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]


#: Declared, and resolved to addresses inside.
INSIDE = ("private", "loopback", "metadata", "machine")


@pytest.fixture(scope="module")
def tried(internet: Internet, python_image: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What one attempt found that tried everything at once, and its result."""
    ground = ground_in(internet, python_image, tmp_path_factory.mktemp("tried"))
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
