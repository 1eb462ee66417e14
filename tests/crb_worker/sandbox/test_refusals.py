"""What the proxy's log says of an attempt, however the attempt asked."""

from __future__ import annotations

import pytest

from crb_worker.sandbox.refusals import Refusals, RefusedHost, pausing_refusals, read_refusals, refusal_sentence

ME, OTHER = "10.231.0.3", "10.231.0.4"


def line(why: str, target: str, server_name: str = "-", client: str = ME) -> str:
    return f"1795999374.090 {client} {why} {target} {server_name}"


@pytest.mark.parametrize(
    ("logged", "host", "port"),
    [
        (line("not_declared", "a.example.com:443"), "a.example.com", 443),
        (line("not_declared", "[::1]:443"), "[::1]", 443),
        (line("not_https", "http://a.example.com/x?y=z"), "a.example.com", 80),
        (line("not_https", "https://a.example.com/"), "a.example.com", 443),
        (line("not_https", "http://a.example.com:8080/"), "a.example.com", 8080),
        (line("not_https", "http://user:word@a.example.com/"), "a.example.com", 80),
        (line("not_https", "cache_object://localhost/info"), "localhost", None),
        (line("not_declared", "a.example.com:99999999"), "a.example.com:99999999", None),
        (line("not_declared", "a%0Ab%20c:443"), "a?b c", 443),
        (line("server_name", "a.example.com:443", "b.example.org"), "b.example.org", 443),
        (line("server_name", "a.example.com:443"), "a.example.com", 443),
        (line("not_declared", f"{'a' * 300}:443"), "a" * 254 + "…", 443),
        (line("not_https", "error:invalid-request"), "error:invalid-request", None),
    ],
)
def test_host_and_port_are_read_from_what_was_asked(logged: str, host: str, port: int | None) -> None:
    """A tunnel's target, a URL, the name inside TLS; never a character that a terminal would obey."""
    (found,) = read_refusals([logged], ME).hosts
    assert (found.host, found.port) == (host, port)


def test_only_the_attempt_s_own_lines_count() -> None:
    """By address; lines of other shapes, of the proxy itself and of other attempts are passed over."""
    lines = [
        line("not_declared", "mine.example.com:443"),
        line("not_declared", "other.example.com:443", client=OTHER),
        line("not_declared", "mine.example.com:443"),
        "2026/11/30 00:42:30| WARNING: something",
        line("no_such_reason", "mine.example.com:443"),
        line("not_declared", "one more field.example.com:443"),
        "",
    ]
    expected = RefusedHost(host="mine.example.com", port=443, why="not_declared", count=2)
    assert read_refusals(lines, ME) == Refusals(hosts=(expected,))


def test_what_an_agent_can_fill_is_bounded() -> None:
    """A thousand hosts leave fifty and a number."""
    found = read_refusals([line("not_declared", f"h{number}.example.com:443") for number in range(1000)], ME)
    assert len(found.hosts) == 50
    assert found.more == 950
    assert refusal_sentence(found).endswith("47 more and many more.")


def test_the_sentence_names_three_with_their_reasons() -> None:
    """And says so where the log was overrun; nothing where nothing was refused."""
    hosts = [
        line("port", "a.example.com:80"),
        line("inside", "b.example.com:443"),
        line("not_https", "http://c.example.com/"),
    ]
    assert refusal_sentence(read_refusals(hosts, ME)) == (
        " The egress proxy refused a.example.com:80 (only port 443 is passed on), b.example.com:443 (its name stands"
        " for an address inside the farm's network), c.example.com:80 (only HTTPS is passed on)."
    )
    assert refusal_sentence(read_refusals([], ME)) == ""
    assert refusal_sentence(read_refusals([], ME, complete=False)) == (
        " The proxy's log was overrun, so it may have refused more."
    )


def test_a_name_that_does_not_resolve_pauses_nothing() -> None:
    """That may be the farm's own name server, and another trial may go well."""
    found = read_refusals([line("unresolved", "a.example.com:443"), line("too_many", "a.example.com:443")], ME)
    assert len(found.hosts) == 2
    assert pausing_refusals(found.hosts) == ""
