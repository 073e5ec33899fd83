from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cell.policy import Decision, Policy, entry, resolved
from cell.policy.hosts import canonical


@pytest.mark.parametrize(
    ("text", "spelt"),
    [
        # names
        ("example.com", "example.com"),
        (" EXAMPLE.com. ", "example.com"),
        ("*.Example.com", "*.example.com"),
        ("localhost", "localhost"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        # addresses
        ("192.0.2.1", "192.0.2.1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        # blocks
        ("192.0.2.0/24", "192.0.2.0/24"),
        ("192.0.2.1/32", "192.0.2.1/32"),
        ("2001:db8::/32", "2001:db8::/32"),
        # with a port
        ("example.com:443", "example.com:443"),
        ("*.example.com:0443", "*.example.com:443"),
        ("192.0.2.1:80", "192.0.2.1:80"),
        ("[2001:DB8::1]:443", "[2001:db8::1]:443"),
        ("192.0.2.0/24:443", "192.0.2.0/24:443"),
        ("[2001:db8::/32]:443", "[2001:db8::/32]:443"),
        ("a.com\n", "a.com"),  # outer blanks are stripped, as Harbor does
    ],
)
def test_an_entry_has_one_spelling(text: str, spelt: str) -> None:
    assert entry(text).text == spelt
    assert entry(spelt) == entry(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "https://example.com",
        "example.com/path",
        "192.0.2.1/24",
        "[2001:db8::1]",
        "fe80::1%eth0",
        "[fe80::1%eth0]:80",
        "*",
        "*.",
        "*.192.0.2.1",
        # 65
        "*example.com",
        "example.*",
        "ex*ample.com",
        "a.*.com",
        "*.*.com",
        "under_score.com",
        "-a.com",
        "a..com",
        "a.com..",
        ".a.com",
        "bücher.example",
        "a b.com",
        "x" * 64 + ".com",
        "user@example.com",
        "user:pass@example.com",
        # 68
        "example.com:",
        "example.com:0",
        "example.com:+443",
        "example.com:443x",
        "example.com:99999",
        ":443",
        "[example.com]:443",
        "[192.0.2.1]:443",
        "example.com:443/path",
        # addresses of which only some resolvers know
        "127.1",
        "192.0.2",
        "0x7f000001",
        "2130706433",
        "192.0.2.01",
    ],
)
def test_what_is_no_entry(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        entry(text)


def decide(policy: Policy, host: str, port: int = 443) -> Decision:
    return policy.decide(canonical(host), port)


AGENT = resolved("allowlist", ["example.com", "*.pkg.example", "203.0.113.7:8443"], "agent.network_mode")


@pytest.mark.parametrize(
    ("host", "port", "rule"),
    [
        # exact, and every port of it (54, 67)
        ("example.com", 443, "example.com"),
        ("EXAMPLE.com", 80, "example.com"),
        ("example.com.", 22, "example.com"),
        # subdomains
        ("a.pkg.example", 443, "*.pkg.example"),
        ("a.b.pkg.example", 443, "*.pkg.example"),
        # an address, at its port
        ("203.0.113.7", 8443, "203.0.113.7:8443"),
    ],
)
def test_what_the_allowlist_names_is_allowed(host: str, port: int, rule: str) -> None:
    decision = decide(AGENT, host, port)
    assert (decision.allowed, decision.rule) == (True, rule)
    assert decision.reason == f"allowed by {rule} of [agent]"


@pytest.mark.parametrize(
    ("host", "port", "rule"),
    [
        ("evil-example.com", 443, "allowlist"),  # 50
        ("example.com.evil.net", 443, "allowlist"),  # 51
        ("sub.example.com", 443, "allowlist"),  # 52
        ("pkg.example", 443, "allowlist"),  # the name of a wildcard is not one of its subdomains
        ("evilpkg.example", 443, "allowlist"),
        ("com", 443, "allowlist"),
        ("::1", 443, "allowlist"),  # 63
        ("::ffff:1.2.3.4", 443, "allowlist"),
        ("::ffff:203.0.113.7", 8443, "allowlist"),
        ("198.51.100.1", 8443, "allowlist"),  # 64
        ("203.0.113.7", 443, "203.0.113.7:8443"),
    ],
)
def test_what_the_allowlist_does_not_name_is_denied(host: str, port: int, rule: str) -> None:
    decision = decide(AGENT, host, port)
    assert (decision.allowed, decision.rule) == (False, rule)
    assert decision.reason.startswith("denied: ")
    assert "[agent]" in decision.reason


def test_a_port_narrows_an_entry() -> None:  # 67
    wide, narrow = (resolved("allowlist", [e], "agent.x") for e in ("example.com", "example.com:443"))
    assert decide(wide, "example.com", 22).allowed
    assert decide(narrow, "example.com", 443).allowed
    assert decide(narrow, "example.com", 22) == Decision(
        False,
        "example.com:443",
        "denied: port 22 of example.com: allowed_hosts of [agent] has example.com:443",
    )


def test_a_denial_says_what_is_allowed_and_what_is_nearest() -> None:
    policy = resolved("allowlist", ["pkg.example", "*.mirror.example"], "agent.network_mode")
    assert decide(policy, "files.example.org").reason == (
        "denied: files.example.org is not in allowed_hosts of [agent] (pkg.example, *.mirror.example); "
        "nearest *.mirror.example"
    )
    # Nothing is near: nothing is suggested.
    assert "nearest" not in decide(policy, "zzz.quux").reason


def test_a_long_list_is_cut() -> None:
    policy = resolved("allowlist", [f"h{n}.test" for n in range(100)], "verifier.network_mode")
    assert "of [verifier] (h0.test, h1.test, h2.test, h3.test, h4.test, h5.test and 94 more)" in (
        decide(policy, "zzz.quux").reason
    )


def test_public_is_any_host_and_no_network_is_none() -> None:
    public = resolved("public", [], "environment.network_mode (default)")
    closed = resolved("no-network", [], "verifier.network_mode")
    assert decide(public, "example.com", 22) == Decision(
        True, "public", 'allowed: [environment] has network_mode = "public"'
    )
    assert decide(public, "1.1.1.1").allowed
    assert decide(closed, "example.com") == Decision(
        False, "no-network", 'denied: [verifier] has network_mode = "no-network"'
    )


def test_an_empty_allowlist_allows_nothing_and_a_misspelt_mode_is_none() -> None:  # 69
    assert decide(resolved("allowlist", [], "agent.network_mode"), "example.com") == Decision(
        False, "allowlist", "denied: example.com is not in allowed_hosts of [agent], which is empty"
    )
    for mode in ("publc", "PUBLIC", "", "none"):
        with pytest.raises(ValueError, match="network_mode must be one of"):
            resolved(mode, [], "agent.network_mode")


PUBLIC = Policy("public")


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("10.0.0.1", "private"),
        ("169.254.169.254", "metadata"),
        ("192.168.0.1", "private"),
        ("::1", "loopback"),
        ("::ffff:1.1.1.1", "mapped (public)"),
        ("64:ff9b::7f00:1", "nat64 (loopback)"),
        ("224.0.0.1", "multicast"),
        ("0.0.0.0", "unspecified"),
    ],
)
def test_public_does_not_open_a_special_range(host: str, kind: str) -> None:
    decision = decide(PUBLIC, host)
    assert (decision.allowed, decision.rule, decision.address_class) == (False, f"address: {kind}", kind)
    assert decision.reason.startswith(f"denied: {canonical(host)} is a {kind} address, which ")


@pytest.mark.parametrize(
    ("written", "host", "allowed"),
    [
        # What the task wrote, exactly
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.7", "10.0.0.8", False),
        ("10.0.0.0/8", "10.9.9.9", True),
        ("10.1.0.0/16", "10.1.2.3", True),
        ("fd00::/8", "fd12::1", True),
        ("100.64.0.0/10", "100.64.0.1", True),
        ("203.0.113.0/24", "203.0.113.9", True),
        # Too wide to have meant it
        ("0.0.0.0/0", "10.0.0.7", False),
        ("::/0", "fd12::1", False),
        ("8.0.0.0/5", "10.0.0.7", False),
        ("0.0.0.0/0", "1.1.1.1", True),
        ("::/0", "2606:4700::1111", True),
        # Places of the substrate, whoever wrote them
        ("127.0.0.1", "127.0.0.1", False),
        ("127.0.0.0/8", "127.0.0.1", False),
        ("169.254.169.254", "169.254.169.254", False),
        ("168.63.129.16", "168.63.129.16", False),
        ("169.254.0.0/16", "169.254.7.7", False),
        ("::1", "::1", False),
        ("fe80::1", "fe80::1", False),
        ("::ffff:10.0.0.7", "::ffff:10.0.0.7", False),
        ("64:ff9b::/96", "64:ff9b::a00:7", False),
        ("224.0.0.0/4", "224.0.0.1", False),
        # Versions do not mix
        ("0.0.0.0/0", "2606:4700::1111", False),
    ],
)
def test_a_literal_opens_what_the_task_meant(written: str, host: str, allowed: bool) -> None:
    assert decide(resolved("allowlist", [written], "agent.network_mode"), host).allowed is allowed


def test_what_an_operator_allowed_is_said_and_changes_no_other_policy() -> None:
    wider = AGENT.also("NEW.example:443", by="operator")
    assert decide(wider, "new.example").reason == "allowed by new.example:443, which operator allowed"
    assert decide(wider, "example.com").reason == "allowed by example.com of [agent]"
    assert not decide(AGENT, "new.example").allowed
    closed = Policy("no-network", where="[agent]")
    assert decide(closed.also("a.example", by="operator"), "a.example").allowed
    assert not decide(closed.also("a.example", by="operator"), "b.example").allowed
    with pytest.raises(ValueError, match="must"):
        AGENT.also("*", by="operator")


@given(st.text(max_size=60), st.integers(1, 65535))
def test_nothing_but_what_is_named_gets_through(sent: str, port: int) -> None:
    try:
        host = canonical(sent)
    except ValueError:
        return
    named = host.text == "example.com" or host.text.endswith(".pkg.example")
    assert AGENT.decide(host, port).allowed == (named or (host.text, port) == ("203.0.113.7", 8443))


@given(st.text(alphabet="a.*:/[]@%0123456789-", max_size=30))
def test_an_entry_is_read_or_refused_and_read_again_the_same(text: str) -> None:
    try:
        read = entry(text)
    except ValueError:
        return
    assert entry(read.text) == read
