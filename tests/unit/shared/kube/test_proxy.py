"""Which servers are reached through the environment's proxy."""

import pytest

from shared.errors import ConfigurationError
from shared.kube.cluster_access import access_at
from shared.kube.proxy import Proxy, parse_proxy, with_proxy

PROXY = {"HTTPS_PROXY": "proxy:3128"}


def way_to(server: str, environment: dict[str, str]) -> Proxy | None:
    return with_proxy(access_at(server), environment).proxy


@pytest.mark.parametrize(
    ("no_proxy", "host", "is_excepted"),
    [
        ("", "api.example.com", False),
        ("*", "api.example.com", True),
        ("example.com", "api.example.com", True),
        ("example.com", "example.com", True),
        ("example.com", "badexample.com", False),
        (".example.com", "api.example.com", True),
        (".example.com", "example.com", False),
        ("*.example.com", "api.example.com", True),
        ("other, API.example.com", "api.example.com", True),
        ("api.example.com:6443", "api.example.com", True),
        ("api.example.com:443", "api.example.com", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/8", "ten.example.com", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("[fd00::1]:6443", "fd00::1", True),
        ("fd00::/8", "fd00::1", True),
        ("no/network", "fd00::1", False),
        ("", "localhost", True),
        ("", "127.0.0.1", True),
        ("", "::1", True),
    ],
)
def test_exceptions(no_proxy: str, host: str, is_excepted: bool) -> None:
    server = f"[{host}]" if ":" in host else host
    found = way_to(f"https://{server}:6443", {**PROXY, "NO_PROXY": no_proxy})
    assert (found is None) is is_excepted
    assert found in (None, Proxy("proxy", 3128))


def test_each_scheme_has_its_variable_and_the_upper_case_goes_first() -> None:
    both = {"https_proxy": "http://small:1", "HTTPS_PROXY": "http://large:2", "http_proxy": "h:3"}
    assert way_to("https://api", both) == Proxy("large", 2)
    assert way_to("http://api", both) == Proxy("h", 3)
    assert way_to("https://api", {}) is None


@pytest.mark.parametrize("url", ["socks5://p:1", "https://p:1", "http://p:none", "http://"])
def test_what_is_no_proxy_is_named(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"\$HTTPS_PROXY"):
        parse_proxy(url, "$HTTPS_PROXY")


def test_the_password_is_for_the_proxy() -> None:
    assert parse_proxy("http://a%40b:c@p", "x") == Proxy("p", 80, "Basic YUBiOmM=")
