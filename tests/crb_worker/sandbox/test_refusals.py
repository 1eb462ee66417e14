"""What the proxy's log says of an attempt, however the attempt asked."""

from __future__ import annotations

import pytest

from crb_worker.sandbox.refusals import (
    LOG_REASONS,
    Refusals,
    RefusedHost,
    pausing_refusals,
    read_refusals,
    refusal_sentence,
)

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


DECLARED = ("a.example.com", "inside.example.com")


@pytest.mark.parametrize(
    ("logged", "why"),
    [
        (line("not_https", "http://a.example.com/"), "not_https"),
        (line("not_https", "http://A.Example.com./x"), "not_https"),
        (line("not_https", "http://a.example.com:8443/"), "not_https"),
        (line("not_https", "http://b.example.com/"), "not_declared"),
        (line("port", "a.example.com:8443"), "port"),
        (line("user_info", "https://a.example.com/"), "user_info"),
        (line("not_https", "http://user:word@a.example.com/"), "user_info"),
        (line("not_declared", "user@a.example.com:443"), "user_info"),
        (line("not_declared", "a.example.com@b.example.com:443"), "not_declared"),
        (line("not_declared", "http://b.example.com/@a.example.com"), "not_declared"),
        (line("not_declared", "10.1.2.3:443"), "address"),
        (line("not_https", "http://10.1.2.3/"), "address"),
        (line("not_declared", "167838211:443"), "address"),
        (line("not_declared", "0x0a010203:443"), "address"),
        (line("not_declared", "%5B2001:db8::1%5D:443"), "address"),
        (line("not_declared", "[::ffff:10.1.2.3]:443"), "address"),
        (line("not_declared", "fe80.example.com:443"), "not_declared"),
        (line("not_declared", "1.2.3.4.example.com:443"), "not_declared"),
        (line("inside", "inside.example.com:443"), "inside"),
        (line("unresolved", "a.example.com:443"), "unresolved"),
        (line("server_name", "a.example.com:443", "b.example.com"), "server_name"),
        (line("server_name", "a.example.com:443"), "not_tls"),
        (line("not_tls", "a.example.com:443"), "not_tls"),
        (line("not_https", "cache_object://localhost/info"), "not_https"),
        (line("not_https", "error:invalid-request"), "not_https"),
    ],
)
def test_the_reason_is_the_one_that_helps(logged: str, why: str) -> None:
    """Not "not declared" for a declared host, and that first for one that nothing else would help."""
    (found,) = read_refusals([logged], ME, declared=DECLARED).hosts
    assert found.why == why


def test_every_reason_but_two_pauses() -> None:
    """What another trial would meet as well."""
    lines = [line(why, f"{number}.example.com:443") for number, why in enumerate(LOG_REASONS)]
    text = [pausing_refusals([each]) for each in read_refusals(lines, ME).hosts]
    assert [why for why, said in zip(LOG_REASONS, text, strict=True) if not said] == ["unresolved", "too_many"]
