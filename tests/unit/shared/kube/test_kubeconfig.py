"""Where the API server is found, and how problems are told."""

import base64
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.errors import ConfigurationError
from shared.kube.cluster_access import access_at
from shared.kube.credentials import TOKEN_FILE_REREAD_S
from shared.kube.exec_credentials import ExecCommand, ExecCredentials
from shared.kube.find_access import find_access, in_cluster_access
from shared.kube.kubeconfig import load_kubeconfig
from shared.kube.proxy import Proxy
from shared.limits import CONFIG_BYTES_MAX

TLS = Path(__file__).parent / "tls"
CERT, KEY = TLS / "cert.pem", TLS / "key.pem"

Write = Callable[..., Path]
EXEC = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "command": "get-token",
    "interactiveMode": "Never",
}


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a kubeconfig with one context."""

    def write_config(
        cluster: dict[str, Any] | None = None,
        user: dict[str, Any] | None = None,
        name: str = "config",
        **top: Any,
    ) -> Path:
        path = tmp_path / name
        content = {
            "current-context": "ctx",
            "contexts": [{"name": "ctx", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [
                {"name": "c", "cluster": {"server": "https://api:6443", **(cluster or {})}}
            ],
            "users": [{"name": "u", "user": user or {}}],
            **top,
        }
        path.write_text(yaml.safe_dump(content))
        return path

    return write_config


def problems_of(path: Path, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_kubeconfig([path], **options)
    assert str(path.parent) in caught.value.source
    return "; ".join(caught.value.problems)


def header_of(path: Path) -> bytes:
    return load_kubeconfig([path]).credentials.header_line(0.0)


# Files --------------------------------------------------------------------------------------------


def test_the_current_context_is_taken(write: Write) -> None:
    access = load_kubeconfig([write(user={"token": "t"})])
    assert access.url == "https://api:6443"
    assert access.tls is not None
    assert access.tls.context.verify_mode is ssl.CERT_REQUIRED
    assert access.credentials.header_line(0.0) == b"Authorization: Bearer t\r\n"


def test_another_context_may_be_named(write: Write) -> None:
    contexts = [{"name": "b", "context": {"cluster": "c2"}}]
    clusters = [{"name": "c2", "cluster": {"server": "http://other/prefix/"}}]
    path = write(contexts=contexts, clusters=clusters)
    other = write(contexts=contexts, clusters=clusters, name="other", **{"current-context": "b"})
    access = load_kubeconfig([other])
    assert (access.host, access.port, access.base_path, access.tls) == (
        "other",
        80,
        "/prefix",
        None,
    )
    assert "contexts: none is named 'ctx'" in problems_of(path)


def test_relative_paths_are_relative_to_their_file(write: Write, tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    (tmp_path / "pki" / "ca.crt").write_bytes(CERT.read_bytes())
    (tmp_path / "pki" / "token").write_text("secret")
    path = write(
        {"certificate-authority": "pki/ca.crt"}, {"tokenFile": "pki/token", "token": "old"}
    )
    access = load_kubeconfig([path])
    assert access.tls is not None
    assert len(access.tls.context.get_ca_certs()) == 1
    assert access.credentials.header_line(0.0) == b"Authorization: Bearer secret\r\n"


def test_a_token_is_used_until_the_token_file_can_be_read(write: Write, tmp_path: Path) -> None:
    credentials = load_kubeconfig([write(user={"tokenFile": "f", "token": "old"})]).credentials
    assert credentials.header_line(0.0) == b"Authorization: Bearer old\r\n"
    (tmp_path / "f").write_text("new")
    assert credentials.header_line(TOKEN_FILE_REREAD_S) == b"Authorization: Bearer new\r\n"


def test_certificates_may_stand_in_the_file(write: Write) -> None:
    path = write(
        {"certificate-authority-data": encoded(CERT), "tls-server-name": "api.test.example"},
        {"client-certificate-data": encoded(CERT), "client-key-data": encoded(KEY)},
    )
    access = load_kubeconfig([path])
    assert access.tls is not None
    assert len(access.tls.context.get_ca_certs()) == 1
    assert access.tls_server_name == "api.test.example"


def test_no_trace_of_a_key_is_left_on_disk(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    user = {"client-certificate": str(CERT), "client-key-data": encoded(KEY)}
    load_kubeconfig([write(user=user)])
    assert list(folder.iterdir()) == []


def test_verification_can_be_switched_off(write: Write) -> None:
    access = load_kubeconfig([write({"insecure-skip-tls-verify": True})])
    assert access.tls is not None
    assert access.tls.context.verify_mode is ssl.CERT_NONE
    both = write({"insecure-skip-tls-verify": True, "certificate-authority": str(CERT)})
    assert "exclude each other" in problems_of(both)


def test_a_password(write: Write) -> None:
    assert b"Basic" in header_of(write(user={"username": "u", "password": "p"}))


def test_of_several_files_the_first_that_names_a_thing_wins(write: Write, tmp_path: Path) -> None:
    first = write(name="first", contexts=[], users=[{"name": "u", "user": {"token": "first"}}])
    second = write(user={"token": "second"}, name="second")
    access = load_kubeconfig([tmp_path / "missing", first, second])
    assert access.credentials.header_line(0.0) == b"Authorization: Bearer first\r\n"


def test_a_proxy_comes_from_the_file_or_from_the_environment(write: Write) -> None:
    stated = load_kubeconfig([write({"proxy-url": "http://me:pw@proxy:3128"})])
    assert stated.proxy == Proxy("proxy", 3128, "Basic bWU6cHc=")
    path = write()
    environment = {"https_proxy": "http://other:8080", "HTTP_PROXY": "http://not-this-one"}
    found = find_access(kubeconfig=str(path), environment=environment)
    assert found.proxy == Proxy("other", 8080)
    excepted = {**environment, "NO_PROXY": "api"}
    assert find_access(kubeconfig=str(path), environment=excepted).proxy is None


def test_an_exec_plugin_is_read_whole(write: Write, tmp_path: Path) -> None:
    stated = {
        **EXEC,
        "command": "./bin/get-token",
        "args": ["--cluster", "c"],
        "env": [{"name": "REGION", "value": "x"}],
        "provideClusterInfo": True,
        "installHint": "get it there",
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {
        "certificate-authority": str(CERT),
        "tls-server-name": "api.test.example",
        "extensions": [extension],
    }
    path = write(cluster, {"exec": stated})
    access = load_kubeconfig([path])
    assert isinstance(access.credentials, ExecCredentials)
    assert access.credentials.is_due()
    assert access.credentials.command == ExecCommand(
        api_version=EXEC["apiVersion"],
        command=str(tmp_path / "bin" / "get-token"),
        args=("--cluster", "c"),
        env=(("REGION", "x"),),
        install_hint="get it there",
        cluster={
            "server": "https://api:6443",
            "tls-server-name": "api.test.example",
            "certificate-authority-data": encoded(CERT),
            "config": {"audience": "a"},
        },
        source=f"{path}: user.exec",
    )


def test_a_token_goes_before_an_exec_plugin(write: Write) -> None:
    assert header_of(write(user={"exec": EXEC, "token": "t"})) == b"Authorization: Bearer t\r\n"


def test_requests_may_be_made_on_behalf_of_another(write: Write) -> None:
    user = {
        "token": "t",
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["a", None],
        "as-user-extra": {"Scopes/x": ["v", None], "none": None},
    }
    assert header_of(write(user=user)) == (
        b"Authorization: Bearer t\r\nImpersonate-User: jane\r\nImpersonate-Uid: 7\r\n"
        b"Impersonate-Group: a\r\nImpersonate-Group: \r\n"
        b"Impersonate-Extra-scopes%2Fx: v\r\nImpersonate-Extra-scopes%2Fx: \r\n"
    )


# Problems -----------------------------------------------------------------------------------------


def test_auth_providers_are_refused_by_name(write: Write) -> None:
    assert "user.auth-provider: auth providers" in problems_of(
        write(user={"auth-provider": {"name": "oidc"}})
    )


def test_all_problems_are_told_at_once(write: Write) -> None:
    problems = problems_of(
        write({"server": ""}, {"exec": {"args": 1}, "auth-provider": {"name": "x"}})
    )
    for place in ("cluster.server", "user.auth-provider", "user.exec.apiVersion"):
        assert place in problems
    assert "user.exec.command: missing" in problems
    assert "user.exec.args" in problems


@pytest.mark.parametrize(
    ("cluster", "user", "told"),
    [
        (
            {"certificate-authority-data": "???"},
            {},
            "cluster.certificate-authority-data: not base64",
        ),
        ({"certificate-authority-data": "aGVsbG8="}, {}, "no usable certificate"),
        ({"certificate-authority": "nowhere.crt"}, {}, "nowhere.crt"),
        (
            {"certificate-authority": str(CERT), "certificate-authority-data": "aGVsbG8="},
            {},
            "cluster.certificate-authority: and certificate-authority-data exclude each other",
        ),
        (
            {},
            {
                "client-certificate": str(CERT),
                "client-certificate-data": "aGVsbG8=",
                "client-key": str(KEY),
                "client-key-data": "aGVsbG8=",
            },
            "user.client-certificate: and client-certificate-data exclude each other;"
            " user.client-key: and client-key-data exclude each other",
        ),
        ({}, {"token": "t", "username": "u"}, "user: a token and a password exclude each other"),
        ({}, {"tokenFile": "f", "username": "u"}, "user: a token and a password exclude"),
        ({}, {"tokenFile": "nowhere"}, "user.tokenFile"),
        ({}, {"tokenFile": os.devnull}, "user.tokenFile: /dev/null is empty"),
        ({"insecure-skip-tls-verify": "yes"}, {}, "expected true or false"),
        ({"server": "http://h", "certificate-authority-data": "?"}, {}, "not base64"),
        ({}, {"as": 5}, "user.as: expected a text"),
        ({}, {"token": 0}, "user.token: expected a text"),
        ({"proxy-url": "p:3128"}, {}, "only http:// proxies"),
        ({}, {"client-certificate": str(CERT)}, "user.client-key: missing"),
        ({}, {"client-certificate": str(CERT), "client-key": str(CERT)}, "user.client-key"),
        ({"certificate-authority": 5}, {}, "cluster.certificate-authority: expected a text"),
        ({}, {"token": 12345}, "user.token: expected a text"),
        ({}, {"token": "two words"}, "not a bearer token"),
        ({"server": "api:6443"}, {}, "write it like"),
        ({"proxy-url": "socks5://p:1"}, {}, "only http:// proxies"),
        ({"proxy-url": "http://:3128"}, {}, "proxy"),
        ({}, {"as-groups": ["g"]}, "user.as: missing"),
        ({}, {"as": "a\r\nX-Evil: 1"}, "cannot stand in a header"),
        ({}, {"exec": {**EXEC, "apiVersion": "client.authentication.k8s.io/v1alpha1"}}, "v1alpha1"),
        ({}, {"exec": {**EXEC, "interactiveMode": None}}, "user.exec.interactiveMode: must be"),
        ({}, {"exec": {**EXEC, "interactiveMode": "Always"}}, "no terminal"),
        ({}, {"exec": {**EXEC, "env": [{"value": "x"}]}}, "user.exec.env[0]"),
        ({"extensions": 1}, {"exec": EXEC}, "cluster.extensions: expected a list"),
    ],
)
def test_problems_name_their_place(
    write: Write, cluster: dict[str, Any], user: dict[str, Any], told: str
) -> None:
    path = write(cluster, user)
    with pytest.raises(ConfigurationError) as caught:
        load_kubeconfig([path])
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("top", "told"),
    [
        ({"apiVersion": "v2"}, "is not a kubeconfig: apiVersion must be v1"),
        ({"kind": "Secret"}, "is not a kubeconfig: kind must be Config"),
        ({"users": [{"name": "u"}, {"name": "u"}]}, "users: two are named 'u'"),
    ],
)
def test_problems_of_a_file_as_a_whole(write: Write, top: dict[str, Any], told: str) -> None:
    assert told in problems_of(write(**top))


@pytest.mark.parametrize("content", ["[]", "a: [", "\x00"])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    assert problems_of(path)


def test_a_missing_file_and_a_missing_context(tmp_path: Path) -> None:
    assert "cannot be read" in problems_of(tmp_path / "missing")
    empty = tmp_path / "empty"
    empty.write_text("")
    assert "no current-context" in problems_of(empty)


def test_who_is_named_has_to_be_there_and_who_is_not_may_be_wrong(write: Write) -> None:
    unused = {"name": "other", "user": {"token": 5}}
    assert header_of(write(users=[{"name": "u", "user": {}}, unused])) == b""
    assert "users: none is named 'u'" in problems_of(write(users=[unused]))
    lost = write(clusters=[])
    assert "clusters: none is named 'c'" in problems_of(lost, server="https://other")


# Where to look ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["9" * 5000, "a\0b"], ids=["too long", "with a NUL"])
def test_a_path_that_no_file_can_have_is_refused_as_one_that_cannot_be_read(path: str) -> None:
    for environment in ({"KUBECONFIG": path}, {"KUBECONFIG": f"{path}:{path}"}, {"HOME": path}):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            find_access(environment=environment)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        find_access(kubeconfig=path, environment={})


def test_an_address_goes_before_everything(write: Write) -> None:
    access = find_access(server="http://127.0.0.1:8001", kubeconfig=str(write()), environment={})
    assert access.url == "http://127.0.0.1:8001"
    assert access.credentials.header_line(0.0) == b""


def test_the_environment_and_the_home_folder_name_files(write: Write, tmp_path: Path) -> None:
    named = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "missing"), str(write())])}
    assert find_access(environment=named).host == "api"
    (tmp_path / ".kube").mkdir()
    write({"server": "https://home"}, name=".kube/config")
    assert find_access(environment={"HOME": str(tmp_path)}).host == "home"
    with pytest.raises(ConfigurationError, match="--kubeconfig FILE or --server URL"):
        find_access(environment={"HOME": str(tmp_path / "nobody")})


def test_in_a_pod_the_service_account_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigurationError, match="token is missing"):
        in_cluster_access(environment, tmp_path)
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").touch()
    with pytest.raises(ConfigurationError, match="no usable certificate"):
        in_cluster_access(environment, tmp_path)
    (tmp_path / "ca.crt").write_bytes(CERT.read_bytes())
    monkeypatch.setattr("shared.kube.find_access.SERVICE_ACCOUNT_FOLDER", tmp_path)
    access = find_access(environment=environment)
    assert access.host_header == "[fd00::1]:443"
    assert access.credentials.header_line(0.0) == b"Authorization: Bearer t\r\n"
    with pytest.raises(ConfigurationError, match="must both be set"):
        in_cluster_access({"KUBERNETES_SERVICE_HOST": "h"}, tmp_path)


# Addresses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["", "host:1", "ftp://h", "https://", "http://h:99999", "http://u@h", "http://h/?x=1"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ConfigurationError):
        access_at(url, "there")


def test_addresses() -> None:
    assert access_at("http://[::1]:8001").host_header == "[::1]:8001"
    assert access_at("https://h/k8s/clusters/c1/").base_path == "/k8s/clusters/c1"
    assert access_at("https://h").port == 443


def test_a_file_that_is_too_large_to_be_one_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_text("a: " + "x" * CONFIG_BYTES_MAX)
    with pytest.raises(ConfigurationError, match="is larger than"):
        load_kubeconfig([path])


# As client-go does --------------------------------------------------------------------------------


def test_nobody_is_told_who_asks_in_plain_text(write: Write) -> None:
    user = {"token": "secret", "as": "somebody"}
    assert (
        header_of(write({"server": "http://api:8080"}, user)) == b"Impersonate-User: somebody\r\n"
    )
    path = write(user=user)
    plain = load_kubeconfig([path], server="http://other")
    assert b"secret" not in plain.credentials.header_line(0.0)
    assert b"secret" in load_kubeconfig([path], server="https://other").credentials.header_line(0.0)


def test_another_address_has_no_other_name(write: Write) -> None:
    path = write({"tls-server-name": "inner"})
    assert load_kubeconfig([path]).tls_server_name == "inner"
    other = load_kubeconfig([path], server="https://other:1")
    assert (other.tls_server_name, other.host, other.port) == ("", "other", 1)


def test_data_may_stand_on_several_lines(write: Write) -> None:
    text = encoded(CERT)
    lines = "\n".join(text[at : at + 76] for at in range(0, len(text), 76))
    load_kubeconfig([write({"certificate-authority-data": lines})])


def test_a_key_without_a_certificate_and_a_user_of_nothing_say_nothing(write: Write) -> None:
    for user in ({"client-key": "missing"}, None):
        path = write(users=[{"name": "u", "user": user}])
        assert header_of(path) == b""
