"""Which servers are reached through the environment's proxy."""

import pytest

from shared.errors import ConfigurationError
from shared.kube.proxy import Proxy, parse_proxy, proxy_of_environment

PROXY = {"HTTPS_PROXY": "proxy:3128"}


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
    environment = {**PROXY, "NO_PROXY": no_proxy}
    found = proxy_of_environment(environment, host, 6443, is_tls=True)
    assert (found is None) is is_excepted
    assert found in (None, Proxy("proxy", 3128))


def test_each_scheme_has_its_variable_and_the_upper_case_goes_first() -> None:
    both = {"https_proxy": "http://small:1", "HTTPS_PROXY": "http://large:2", "http_proxy": "h:3"}
    assert proxy_of_environment(both, "api", 443, is_tls=True) == Proxy("large", 2)
    assert proxy_of_environment(both, "api", 80, is_tls=False) == Proxy("h", 3)
    assert proxy_of_environment({}, "api", 443, is_tls=True) is None


@pytest.mark.parametrize("url", ["socks5://p:1", "https://p:1", "http://p:none", "http://"])
def test_what_is_no_proxy_is_named(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"\$HTTPS_PROXY"):
        parse_proxy(url, "$HTTPS_PROXY")


def test_the_password_is_for_the_proxy() -> None:
    assert parse_proxy("http://a%40b:c@p", "x") == Proxy("p", 80, "Basic YUBiOmM=")
