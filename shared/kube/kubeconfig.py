"""The API server that somebody stated: by kubeconfig files, or its address.

All problems of a file are reported at once, each with its place in the file. What berth cannot do (auth
providers, proxies other than HTTP) is refused by name: connecting without it would only fail later and
less clearly.

Rules: staging/src/k8s.io/client-go/tools/clientcmd and rest/config.go, v1.36.
"""

import base64
import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

from shared.errors import ConfigurationError
from shared.go_yaml import YAML_FAULTS, loaded, yaml_problem
from shared.kube.client_certificate import ClientCertificate
from shared.kube.cluster_access import ClusterAccess, ServerTls, access_at, is_missing, tls_context
from shared.kube.credentials import Credentials
from shared.kube.exec_credentials import API_VERSIONS, ExecCommand, ExecCredentials
from shared.kube.proxy import parse_proxy, with_proxy
from shared.yaml_fields import decoded_base64, read_text

T = TypeVar("T", str, bool, list[Any], dict[str, Any])

_CALLED: Final = {
    str: "a text, in quotes where it looks like a number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
}
_AUTHORITY: Final = "certificate-authority"
_CERTIFICATE: Final = "client-certificate"
_KEY: Final = "client-key"


def stated_access(server: str, kubeconfig: str, environment: Mapping[str, str]) -> ClusterAccess:
    """`kubeconfig`, or the files of the environment if both are empty; `server` is another address for
    that of the file; alone it needs no credentials."""
    if server and not kubeconfig:
        return with_proxy(access_at(server), environment)
    paths = [Path(kubeconfig)] if kubeconfig else _paths(environment)
    return load_kubeconfig(paths, server=server, environment=environment)


def _paths(environment: Mapping[str, str]) -> list[Path]:
    named = [Path(p) for p in environment.get("KUBECONFIG", "").split(os.pathsep) if p]
    if named:
        return named
    default = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    if is_missing(default):
        raise ConfigurationError(
            "kubeconfig",
            [f"none given and {default} does not exist; use --kubeconfig FILE or --server URL"],
        )
    return [default]


def load_kubeconfig(
    paths: list[Path], environment: Mapping[str, str] = MappingProxyType({}), server: str = ""
) -> ClusterAccess:
    """The server of the current context of kubeconfig files.

    Of several files the first that defines a name wins, as with $KUBECONFIG. Relative paths are
    relative to the file that states them. `server` is another address for it, which has no other name
    (`tls-server-name`). `environment` may name a proxy.
    """
    files = {path: _content(path) for path in paths if len(paths) == 1 or not is_missing(path)}
    source = os.pathsep.join(str(path) for path in paths)
    if not files:
        raise ConfigurationError(source, ["none of these files exists"])
    tops = [_Entry(path, "", content) for path, content in files.items()]
    name = next(filter(None, (top.text("current-context") for top in tops)), "")
    if not name:
        raise ConfigurationError(
            source, ["no current-context; set it with kubectl config use-context"]
        )
    chosen = _find(tops, source, "context", name)
    cluster = _find(tops, source, "cluster", chosen.text("cluster"))
    if server:
        body = {**cluster.body, "server": server, "tls-server-name": ""}
        cluster = cluster._replace(body=body)
    user_name = chosen.text("user")
    user = _find(tops, source, "user", user_name) if user_name else cluster._replace(body={})
    access = _access(cluster, user)
    return with_proxy(access, environment) if access.proxy is None else access


# The pieces of a file -----------------------------------------------------------------------------


class _Entry(NamedTuple):
    """A mapping of a kubeconfig file: all of it, or what it says of a cluster, a user or a context."""

    file: Path
    kind: str
    body: dict[str, Any]

    def read(self, field: str, kind: type[T]) -> T:
        value = self.body.get(field)
        if value is None:
            return kind()
        if not isinstance(value, kind):
            raise self.wrong(f"{field}: expected {_CALLED[kind]}")
        return value

    def text(self, field: str) -> str:
        return self.read(field, str)

    def path(self, field: str) -> Path:
        """One that is stated, from the file's own folder."""
        return self.file.parent / self.text(field)

    def data(self, field: str) -> bytes:
        """What stands in the file itself under `field`-data; empty where nothing does."""
        try:
            return decoded_base64(self.text(f"{field}-data"))
        except ValueError as error:
            raise self.wrong(f"{field}-data: not base64: {error}") from error

    def states(self, field: str, problems: list[str]) -> bool:
        """Whether it is in the file or in another; both is a problem."""
        data, path = self.data(field), self.text(field)
        if data and path:
            problems.append(f"{self.kind}.{field}: and {field}-data exclude each other")
        return bool(data or path)

    def content(self, field: str) -> bytes:
        """The data, or what is in the file that is named."""
        try:
            return self.data(field) or self.path(field).read_bytes()
        except (OSError, ValueError) as error:
            raise self.wrong(f"{field}: {error}") from error

    def wrong(self, problem: str) -> ConfigurationError:
        return ConfigurationError(str(self.file), [f"{self.kind}.{problem}".removeprefix(".")])


def _content(path: Path) -> dict[str, Any]:
    try:
        content = loaded(read_text(str(path)), is_strict=False)
    except YAML_FAULTS as error:
        # Without the cause: its text shows the line, which may be that of a token.
        raise ConfigurationError(str(path), [f"is not YAML: {yaml_problem(error)}"]) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(str(path), ["is not a kubeconfig: expected a mapping"])
    for field, wanted in (("apiVersion", "v1"), ("kind", "Config")):
        if content.get(field) not in (None, "", wanted):
            raise ConfigurationError(str(path), [f"is not a kubeconfig: {field} must be {wanted}"])
    return content


def _find(tops: list[_Entry], source: str, kind: str, name: str) -> _Entry:
    for top in tops:
        entries = [each for each in top.read(f"{kind}s", list) if isinstance(each, dict)]
        named = [each for each in entries if each.get("name") == name]
        if len(named) > 1:
            raise top.wrong(f"{kind}s: two are named {name!r}")
        if named:
            entry = _Entry(top.file, f"{kind}s[name={name}]", named[0])
            return _Entry(top.file, kind, entry.read(kind, dict))
    raise ConfigurationError(source, [f"{kind}s: none is named {name!r}"])


# Access from the pieces ---------------------------------------------------------------------------


def _access(cluster: _Entry, user: _Entry) -> ClusterAccess:
    source = str(cluster.file)
    problems = [] if cluster.text("server") else ["cluster.server: missing"]
    has_authority = cluster.states(_AUTHORITY, problems)
    if has_authority and cluster.read("insecure-skip-tls-verify", bool):
        problems.append(
            "cluster: insecure-skip-tls-verify and a certificate authority exclude each other"
        )
    # A key alone says nothing.
    has_certificate = user.states(_CERTIFICATE, problems)
    if has_certificate and not user.states(_KEY, problems):
        problems.append("user.client-key: missing")
    if user.text("username") and (user.text("token") or user.text("tokenFile")):
        problems.append("user: a token and a password exclude each other")
    if user.body.get("auth-provider"):
        problems.append(
            "user.auth-provider: auth providers are not supported (nor by Kubernetes since v1.26);"
            " use exec, a token, tokenFile or certificate"
        )
    command = None
    if user.body.get("exec") is not None:
        try:
            command = _exec_command(user, cluster)
        except ConfigurationError as error:
            problems += error.problems
    if problems:
        raise ConfigurationError(source, problems)
    there = access_at(
        cluster.text("server"), f"{source}: cluster.server", partial(_cluster_tls, cluster)
    )
    if there.tls is None:  # Who is asked in plain text is not told who asks.
        credentials = Credentials(impersonation=_impersonation(user))
    else:
        certificate = ClientCertificate(there.tls, str(user.file))
        names = (_CERTIFICATE, _KEY)
        if has_certificate and any(user.data(f) for f in names):
            certificate.use_pem(*(user.content(f) for f in names))
        elif has_certificate:
            certificate.use_files(*(user.path(f) for f in names))
        credentials = _credentials(user, certificate, command)
    proxy_url = cluster.text("proxy-url")
    return replace(
        there,
        tls_server_name=cluster.text("tls-server-name"),
        credentials=credentials,
        source=source,
        proxy=parse_proxy(proxy_url, f"{source}: cluster.proxy-url") if proxy_url else None,
    )


def _credentials(
    user: _Entry, certificate: ClientCertificate, command: ExecCommand | None
) -> Credentials:
    impersonation = _impersonation(user)
    # A token file goes before a token once it can be read, and a command after all that is stated, as in
    # client-go (`getUserIdentificationPartialConfig` in tools/clientcmd/client_config.go).
    token, username = user.text("token"), user.text("username")
    token_file = user.path("tokenFile") if user.text("tokenFile") else None
    if token_file is not None and not token and not user.content("tokenFile").strip():
        raise user.wrong(f"tokenFile: {token_file} is empty")
    if command is not None and not (token_file or token or username):
        return ExecCredentials(command, certificate=certificate, impersonation=impersonation)
    return Credentials(
        token=token,
        token_file=token_file,
        username=username,
        password=user.text("password"),
        certificate=certificate,
        impersonation=impersonation,
    )


def _cluster_tls(cluster: _Entry) -> ServerTls:
    try:
        ca_text = cluster.data(_AUTHORITY).decode("ascii")
    except UnicodeDecodeError as error:
        raise cluster.wrong(f"{_AUTHORITY}-data: not PEM: {error}") from error
    ca_file = str(cluster.path(_AUTHORITY)) if cluster.text(_AUTHORITY) else ""
    is_anybody_trusted = cluster.read("insecure-skip-tls-verify", bool)

    def context() -> ssl.SSLContext:
        made = tls_context(str(cluster.file), ca_file, ca_text)
        if is_anybody_trusted:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        return made

    return ServerTls(context, ca_file)


EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Name of the cluster's extension that is handed to exec plugins."""

_TOLD_TO_EXEC: Final = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "proxy-url",
    f"{_AUTHORITY}-data",
    "disable-compression",
)
_INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")
_SAFE_IN_NAMES: Final = "!#$&'*+-.^_`|~"


def _exec_command(user: _Entry, cluster: _Entry) -> ExecCommand:
    stated = user.read("exec", dict)
    named = [each for each in cluster.read("extensions", list) if isinstance(each, dict)]
    configs = [each.get("extension") for each in named if each.get("name") == EXEC_EXTENSION]
    problems = [f"user.exec.{problem}" for problem in _exec_problems(stated)]
    if problems:
        raise ConfigurationError(str(user.file), problems)
    command = stated["command"]
    if os.sep in command:
        # A path is relative to the file that states it; a bare name is looked up in $PATH.
        command = str(user.file.parent / command)
    has_info = stated.get("provideClusterInfo") is True
    return ExecCommand(
        api_version=stated["apiVersion"],
        command=command,
        args=tuple(stated.get("args") or ()),
        env=tuple((each["name"], each.get("value", "")) for each in stated.get("env") or ()),
        install_hint=str(stated.get("installHint") or "").strip(),
        cluster=_cluster_info(cluster, configs[0] if configs else None) if has_info else None,
        source=f"{user.file}: user.exec",
    )


def _exec_problems(stated: dict[str, Any]) -> Iterator[str]:
    version, command, mode = map(stated.get, ("apiVersion", "command", "interactiveMode"))
    if version not in API_VERSIONS:
        yield f"apiVersion: {version!r} is not supported; use {' or '.join(API_VERSIONS)}"
    if not isinstance(command, str) or not command:
        yield "command: missing"
    modes = ", ".join(_INTERACTIVE_MODES)
    if mode is None and version == API_VERSIONS[0]:
        yield f"interactiveMode: must be one of {modes} with {API_VERSIONS[0]}"
    elif mode is not None and mode not in _INTERACTIVE_MODES:
        yield f"interactiveMode: {mode!r} is none of {modes}"
    elif mode == "Always":
        yield "interactiveMode: Always cannot be had; berth has no terminal to ask at"
    args, env = stated.get("args") or [], stated.get("env")
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        yield "args: expected a list of texts"
    if env is not None and not isinstance(env, list):
        yield "env: expected a list"
        return
    for index, entry in enumerate(env or ()):
        pair = (entry.get("name"), entry.get("value", "")) if isinstance(entry, dict) else ()
        if not pair or not pair[0] or not all(isinstance(part, str) for part in pair):
            yield f"env[{index}]: expected a mapping of name and value"
            return


def _cluster_info(cluster: _Entry, config: Any) -> dict[str, Any]:
    """As `Cluster` in pkg/apis/clientauthentication/v1/types.go."""
    info = {name: cluster.body[name] for name in _TOLD_TO_EXEC if cluster.body.get(name)}
    if cluster.body.get(_AUTHORITY) and f"{_AUTHORITY}-data" not in info:
        content = cluster.content(_AUTHORITY)
        info[f"{_AUTHORITY}-data"] = base64.b64encode(content).decode()
    info["config"] = config
    return info


def _impersonation(user: _Entry) -> tuple[tuple[str, str], ...]:
    """The headers that say on whose behalf requests are made."""
    name, uid, groups = user.text("as"), user.text("as-uid"), user.read("as-groups", list)
    extra = user.read("as-user-extra", dict)
    if not name:
        if uid or groups or extra:
            raise user.wrong("as: missing; as-uid, as-groups and as-user-extra need it")
        return ()
    headers = [("Impersonate-User", name)]
    if uid:
        headers.append(("Impersonate-Uid", uid))
    headers += [("Impersonate-Group", _text_of(group)) for group in groups]
    for key, texts in extra.items():
        escaped = quote(str(key).lower(), safe=_SAFE_IN_NAMES)
        listed = texts if isinstance(texts, list) else [] if texts is None else [texts]
        headers += [(f"Impersonate-Extra-{escaped}", _text_of(text)) for text in listed]
    return tuple(headers)


def _text_of(value: object) -> str:
    """Null is the empty one, to Go."""
    return "" if value is None else str(value)
