from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cell.policy.hosts import Host, authority, canonical, port


def ip(text: str) -> Host:
    address = ipaddress.ip_address(text)
    return Host(address.compressed, address)


@pytest.mark.parametrize(
    ("sent", "host"),
    [
        # names (54: case and one trailing dot)
        ("example.com", Host("example.com")),
        ("EXAMPLE.com", Host("example.com")),
        ("example.com.", Host("example.com")),
        ("localhost", Host("localhost")),
        ("xn--bcher-kva.example", Host("xn--bcher-kva.example")),
        ("my_bucket.example", Host("my_bucket.example")),
        ("r3---sn-abc.example", Host("r3---sn-abc.example")),
        ("3com.example", Host("3com.example")),
        (".".join(["a" * 63] * 3) + "." + "a" * 61, Host(".".join(["a" * 63] * 3) + "." + "a" * 61)),
        # addresses
        ("192.0.2.1", ip("192.0.2.1")),
        ("192.0.2.1.", ip("192.0.2.1")),
        ("2001:DB8:0:0::1", ip("2001:db8::1")),
        ("::1", ip("::1")),
        ("::ffff:1.2.3.4", ip("::ffff:102:304")),
    ],
)
def test_a_host_has_one_spelling(sent: str, host: Host) -> None:
    assert canonical(sent) == host
    assert canonical(host.text) == host


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ("", "empty"),
        # 55: labels
        ("example.com..", "empty label"),
        (".example.com", "empty label"),
        ("a..example.com", "empty label"),
        (".", "empty label"),
        ("a" * 64 + ".com", "63"),
        (".".join(["a" * 63] * 3) + "." + "a" * 62, "253"),
        # 56: what a resolver cuts off
        ("1.2.3.4\0.example.com", "control"),
        ("example.com\r\n", "control"),
        ("exam ple.com", "blanks"),
        ("example.com\x7f", "control"),
        # 58: user information, and what some parsers take for it
        ("good@evil", "user information"),
        ("evil\\", "letters"),
        ("good\\evil", "letters"),
        # 60: characters that some resolvers fold
        ("bücher.example", "ASCII"),
        ("ⓔxample.com", "ASCII"),
        ("example。com", "ASCII"),
        ("example\u200b.com", "ASCII"),
        # 63: zones
        ("fe80::1%eth0", "zone"),
        ("::1%25x.example.com", "zone"),
        ("%65xample.com", "percent"),
        # addresses of which only some resolvers know
        ("127.1", "four decimal"),
        ("2130706433", "four decimal"),
        ("0x7f000001", "four decimal"),
        ("0X7F.0.0.1", "four decimal"),
        ("0x7f.1", "four decimal"),
        ("0177.0.0.1", "four decimal"),
        ("127.0.0.01", "four decimal"),
        ("1.2.3.4.5", "four decimal"),
        ("256.1.1.1", "four decimal"),
        ("example.1", "four decimal"),
        ("example.0x", "four decimal"),
        ("1::2::3", "IPv6"),
        ("example.com:443", "IPv6"),
        ("-oProxyCommand=x.example", "letters"),
        ("a/b", "letters"),
        ("a?b", "letters"),
        ("a#b", "letters"),
        ("*.example.com", "letters"),
    ],
)
def test_what_has_another_reading_is_refused(sent: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        canonical(sent)


@given(st.text(max_size=300))
def test_whatever_is_sent_is_canonical_or_refused(sent: str) -> None:
    try:
        host = canonical(sent)
    except ValueError:
        return
    assert canonical(host.text) == host
    assert host.text.isascii()
    assert host.text == host.text.lower()
    assert not set(host.text) & set("@/\\?#[]% \0\r\n")


@pytest.mark.parametrize(
    ("text", "default", "found"),
    [
        ("example.com:443", None, (Host("example.com"), 443)),
        ("Example.COM.:443", None, (Host("example.com"), 443)),
        ("example.com", 80, (Host("example.com"), 80)),
        ("[2001:DB8::1]:8443", None, (ip("2001:db8::1"), 8443)),
        ("[::1]", 80, (ip("::1"), 80)),
        ("192.0.2.1:1", None, (ip("192.0.2.1"), 1)),
    ],
)
def test_an_authority(text: str, default: int | None, found: tuple[Host, int]) -> None:
    assert authority(text, default) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":443",
        # 68: ports
        "example.com",
        "example.com:",
        "example.com:0",
        "example.com:99999",
        "example.com:+443",
        "example.com:443x",
        "example.com:-1",
        "example.com: 443",
        "example.com:４４３",
        "example.com:443:443",
        # 58
        "good@evil:443",
        "good:80@evil:443",
        "good:80@evil",
        "evil\\@good:443",
        # 63
        "[::1%25x.example.com]:443",
        "[fe80::1%eth0]:443",
        "::1:443",
        "[::1:443",
        "[127.0.0.1]:443",
        "[example.com]:443",
        "[]:443",
        "[::1]443",
        "[::1]:443]:443",
        "[v1.a]:443",
        "example.com:443\n",
    ],
)
def test_no_authority(text: str) -> None:
    with pytest.raises(ValueError, match=r".{10}"):
        authority(text)


def test_a_port_is_a_plain_number() -> None:
    assert [port("1"), port("443"), port("65535"), port("00443")] == [1, 443, 65535, 443]
    for text in ("", "0", "65536", "1e3", "0x50", "²"):
        with pytest.raises(ValueError, match="1 to 65535"):
            port(text)


def test_an_ipv6_address_stands_in_brackets_beside_a_port() -> None:
    assert ip("2001:db8::1").at(443) == "[2001:db8::1]:443"
    assert ip("2001:db8::1").at(80, default=80) == "[2001:db8::1]"
    assert Host("a.example").at(8080, default=80) == "a.example:8080"
    assert str(ip("2001:db8::1")) == "2001:db8::1"
