"""The API server that somebody stated: by kubeconfig files, or its address.

All problems of a file are reported at once, each with its place in the file. What berth cannot do (auth
providers, proxies other than HTTP) is refused by name: connecting without it would only fail later and
less clearly.

Rules: staging/src/k8s.io/client-go/tools/clientcmd and rest/config.go, v1.36.
"""

import base64
import os
import ssl
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from yaml.constructor import SafeConstructor

from shared.errors import ConfigurationError
from shared.kube.cluster_access import ClusterAccess, access_at, is_missing, tls_context
from shared.kube.exec_credentials import API_VERSIONS, ExecCommand, ExecCredentials
from shared.kube.proxy import parse_proxy, with_proxy
from shared.kube.user_credentials import ClientCertificate, UserCredentials
from shared.yaml_fields import YAML_FAULTS, composed, read_text, yaml_problem

_AUTH_PROVIDER_PROBLEM: Final = (
    "user.auth-provider: auth providers are not supported (nor by Kubernetes since v1.26); use exec, a"
    " token, tokenFile or certificate"
)


def stated_access(server: str, kubeconfig: str, environment: Mapping[str, str]) -> ClusterAccess:
    """`kubeconfig`, or the files of the environment if both are empty; `server` is another address for
    that of the file; alone it needs no credentials."""
    if server and not kubeconfig:
        return with_proxy(access_at(server), environment)
    paths = [Path(kubeconfig)] if kubeconfig else _paths(environment)
    access = load_kubeconfig(paths, environment=environment)
    return _moved(access, server, environment) if server else access


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


def _moved(access: ClusterAccess, url: str, environment: Mapping[str, str]) -> ClusterAccess:
    """The same server, with the same credentials, at another address."""
    there = with_proxy(access_at(url), environment)
    return replace(
        access,
        host=there.host,
        port=there.port,
        base_path=there.base_path,
        tls=(access.tls or there.tls) if there.tls is not None else None,
        proxy=access.proxy or there.proxy,
    )


def load_kubeconfig(
    paths: list[Path], context: str = "", environment: Mapping[str, str] = MappingProxyType({})
) -> ClusterAccess:
    """The server of a context (by default the current one) of kubeconfig files.

    Of several files the first that defines a name wins, as with $KUBECONFIG. Relative paths are
    relative to the file that states them. `environment` may name a proxy.
    """
    files = [_ConfigFile(path) for path in paths if len(paths) == 1 or not is_missing(path)]
    source = os.pathsep.join(str(path) for path in paths)
    if not files:
        raise ConfigurationError(source, ["none of these files exists"])
    name = context or next((f.current_context for f in files if f.current_context), "")
    if not name:
        raise ConfigurationError(
            source, ["no current-context; set it with kubectl config use-context"]
        )
    _, chosen = _find(files, source, "contexts", "context", name)
    cluster_file, cluster = _find(files, source, "clusters", "cluster", _text(chosen, "cluster"))
    user_name = _text(chosen, "user")
    if user_name:
        user_file, user = _find(files, source, "users", "user", user_name)
    else:
        user_file, user = cluster_file, {}
    access = _access(cluster_file, cluster, user_file, user)
    return with_proxy(access, environment) if access.proxy is None else access


# The pieces of a file -----------------------------------------------------------------------------


class _ConfigFile:
    """One kubeconfig file, read and checked for its outer shape."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            node = composed(read_text(str(path)))
            content = None if node is None else SafeConstructor().construct_document(node)
        except YAML_FAULTS as error:
            # Without the cause: its text shows the line, which may be that of a token.
            raise ConfigurationError(str(path), [f"is not YAML: {yaml_problem(error)}"]) from None
        if content is None:
            content = {}
        if not isinstance(content, dict):
            raise ConfigurationError(str(path), ["is not a kubeconfig: expected a mapping"])
        self._content: dict[str, Any] = content
        self.current_context = _text(content, "current-context")

    def entry(self, section: str, field: str, name: str) -> dict[str, Any] | None:
        """The body of a named entry; None when the file does not define it."""
        for entry in _list(self._content, section, str(self.path)):
            if isinstance(entry, dict) and entry.get("name") == name:
                body = entry.get(field)
                if not isinstance(body, dict):
                    raise ConfigurationError(
                        str(self.path), [f"{section}[name={name}].{field}: expected a mapping"]
                    )
                return body
        return None

    def resolve(self, path: str) -> str:
        """A path that the file states, from the file's own folder."""
        return str(self.path.parent / path)


def _find(
    files: list[_ConfigFile], source: str, section: str, field: str, name: str
) -> tuple[_ConfigFile, dict[str, Any]]:
    for file in files:
        body = file.entry(section, field, name)
        if body is not None:
            return file, body
    raise ConfigurationError(source, [f"{section}: none is named {name!r}"])


def _list(body: dict[str, Any], field: str, source: str) -> list[Any]:
    value = body.get(field) or []
    if not isinstance(value, list):
        raise ConfigurationError(source, [f"{field}: expected a list"])
    return value


def _text(body: dict[str, Any], field: str) -> str:
    value = body.get(field)
    return value if isinstance(value, str) else ""


# Access from the pieces ---------------------------------------------------------------------------


def _access(
    cluster_file: _ConfigFile, cluster: dict[str, Any], user_file: _ConfigFile, user: dict[str, Any]
) -> ClusterAccess:
    source = str(cluster_file.path)
    problems = [] if _text(cluster, "server") else ["cluster.server: missing"]
    if user.get("auth-provider"):
        problems.append(_AUTH_PROVIDER_PROBLEM)
    command = None
    if user.get("exec") is not None:
        try:
            config = _exec_config(cluster, source)
            command = read_exec(user["exec"], cluster, user_file.path, config)
        except ConfigurationError as error:
            problems += error.problems
    if problems:
        raise ConfigurationError(source, problems)
    there = access_at(
        _text(cluster, "server"),
        f"{source}: cluster.server",
        partial(_cluster_tls, cluster_file, cluster),
    )
    certificate = None if there.tls is None else ClientCertificate(there.tls, str(user_file.path))
    if certificate is not None:
        _use_client_certificate(certificate, user_file, user)
    proxy_url = _text(cluster, "proxy-url")
    return replace(
        there,
        tls_server_name=_text(cluster, "tls-server-name"),
        credentials=_credentials(user_file, user, certificate, command),
        source=source,
        proxy=parse_proxy(proxy_url, f"{source}: cluster.proxy-url") if proxy_url else None,
    )


def _credentials(
    file: _ConfigFile,
    user: dict[str, Any],
    certificate: ClientCertificate | None,
    command: ExecCommand | None,
) -> UserCredentials:
    impersonation = read_impersonation(user, str(file.path))
    # A token file goes before a token, and a command after all that is stated, as in client-go.
    token_file = _text(user, "tokenFile")
    token, username = _text(user, "token"), _text(user, "username")
    if command is not None and not (token_file or token or username):
        return ExecCredentials(command, certificate=certificate, impersonation=impersonation)
    return UserCredentials(
        token="" if token_file else token,
        token_file=Path(file.resolve(token_file)) if token_file else None,
        username=username,
        password=_text(user, "password"),
        certificate=certificate,
        impersonation=impersonation,
    )


def _exec_config(cluster: dict[str, Any], source: str) -> Any:
    """What the cluster's entry holds for exec plugins (an extension of that name)."""
    for extension in _list(cluster, "extensions", source):
        if isinstance(extension, dict) and extension.get("name") == EXEC_EXTENSION:
            return extension.get("extension")
    return None


def _cluster_tls(file: _ConfigFile, cluster: dict[str, Any]) -> ssl.SSLContext:
    source = str(file.path)
    ca_text = ""
    if cluster.get("certificate-authority-data"):
        place = "cluster.certificate-authority-data"
        try:
            ca_text = _base64(source, place, cluster).decode("ascii")
        except UnicodeDecodeError as error:
            raise ConfigurationError(source, [f"{place}: not PEM: {error}"]) from error
    ca_file = _text(cluster, "certificate-authority")
    is_insecure = cluster.get("insecure-skip-tls-verify") is True
    if is_insecure and (ca_text or ca_file):
        raise ConfigurationError(
            source,
            ["cluster: insecure-skip-tls-verify and a certificate authority exclude each other"],
        )
    context = tls_context(source, "" if ca_text or not ca_file else file.resolve(ca_file), ca_text)
    if is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _use_client_certificate(
    certificate: ClientCertificate, file: _ConfigFile, user: dict[str, Any]
) -> None:
    source = str(file.path)
    names = ("client-certificate", "client-key")
    missing = [f for f in names if not (user.get(f"{f}-data") or _text(user, f))]
    if len(missing) == len(names):
        return
    if missing:
        raise ConfigurationError(source, [f"user.{f}: missing" for f in missing])
    if not any(user.get(f"{f}-data") for f in names):
        paths = [Path(file.resolve(_text(user, f))) for f in names]
        certificate.use_files(paths[0], paths[1])
        return
    parts = []
    for field in names:
        if user.get(f"{field}-data"):
            parts.append(_base64(source, f"user.{field}-data", user))
            continue
        try:
            parts.append(Path(file.resolve(_text(user, field))).read_bytes())
        except (OSError, ValueError) as error:
            raise ConfigurationError(source, [f"user.{field}: {error}"]) from error
    certificate.use_pem(parts[0], parts[1])


def _base64(source: str, place: str, body: dict[str, Any]) -> bytes:
    field = place.partition(".")[2]
    try:
        return base64.b64decode(body[field], validate=True)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(source, [f"{place}: not base64: {error}"]) from error


EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Name of the cluster's extension that is handed to exec plugins."""

_INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")
_SAFE_IN_NAMES: Final = "!#$&'*+-.^_`|~"


def read_exec(stated: Any, cluster: dict[str, Any], path: Path, cluster_config: Any) -> ExecCommand:
    """`user.exec` of the file at `path`."""
    if not isinstance(stated, dict):
        raise ConfigurationError(str(path), ["user.exec: expected a mapping"])
    version = stated.get("apiVersion")
    command = stated.get("command")
    problems = []
    if version not in API_VERSIONS:
        problems.append(
            f"user.exec.apiVersion: {version!r} is not supported; use {' or '.join(API_VERSIONS)}"
        )
    if not isinstance(command, str) or not command:
        problems.append("user.exec.command: missing")
    problems += _mode_problems(stated, version)
    args = stated.get("args") or []
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        problems.append("user.exec.args: expected a list of texts")
    env, env_problems = _read_env(stated.get("env"))
    problems += env_problems
    if problems:
        raise ConfigurationError(str(path), problems)
    assert isinstance(command, str), "checked above"
    if os.sep in command:
        # A path is relative to the file that states it; a bare name is looked up in $PATH.
        command = str(path.parent / command)
    info = None
    if stated.get("provideClusterInfo") is True:
        info = _cluster_info(cluster, path, cluster_config)
    return ExecCommand(
        api_version=str(version),
        command=command,
        args=tuple(args),
        env=env,
        install_hint=str(stated.get("installHint") or "").strip(),
        cluster=info,
        source=f"{path}: user.exec",
    )


def _mode_problems(stated: dict[str, Any], version: Any) -> list[str]:
    mode = stated.get("interactiveMode")
    if mode is None and version == API_VERSIONS[0]:
        return [
            f"user.exec.interactiveMode: must be one of {', '.join(_INTERACTIVE_MODES)} with"
            f" {API_VERSIONS[0]}"
        ]
    if mode is not None and mode not in _INTERACTIVE_MODES:
        return [f"user.exec.interactiveMode: {mode!r} is none of {', '.join(_INTERACTIVE_MODES)}"]
    if mode == "Always":
        return ["user.exec.interactiveMode: Always cannot be had; berth has no terminal to ask at"]
    return []


def _read_env(stated: Any) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    if stated is not None and not isinstance(stated, list):
        return (), ["user.exec.env: expected a list"]
    pairs = []
    for index, entry in enumerate(stated or ()):
        name = entry.get("name") if isinstance(entry, dict) else None
        value = entry.get("value", "") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name or not isinstance(value, str):
            return (), [f"user.exec.env[{index}]: expected a mapping of name and value"]
        pairs.append((name, value))
    return tuple(pairs), []


def _cluster_info(cluster: dict[str, Any], path: Path, config: Any) -> dict[str, Any]:
    """As `Cluster` in pkg/apis/clientauthentication/v1/types.go."""
    info = {
        name: cluster[name]
        for name in (
            *("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url"),
            *("certificate-authority-data", "disable-compression"),
        )
        if cluster.get(name)
    }
    if cluster.get("certificate-authority") and "certificate-authority-data" not in info:
        try:
            content = (path.parent / cluster["certificate-authority"]).read_bytes()
        except (OSError, ValueError, TypeError) as error:
            told = f"cluster.certificate-authority: {error}"
            raise ConfigurationError(str(path), [told]) from error
        info["certificate-authority-data"] = base64.b64encode(content).decode()
    info["config"] = config
    return info


def read_impersonation(user: dict[str, Any], source: str) -> tuple[tuple[str, str], ...]:
    """The headers that say on whose behalf requests are made."""
    name, uid = user.get("as"), user.get("as-uid")
    groups, extra = user.get("as-groups") or [], user.get("as-user-extra") or {}
    if not name:
        if uid or groups or extra:
            told = "user.as: missing; as-uid, as-groups and as-user-extra need it"
            raise ConfigurationError(source, [told])
        return ()
    headers = [("Impersonate-User", str(name))]
    if uid:
        headers.append(("Impersonate-Uid", str(uid)))
    if not isinstance(groups, list):
        raise ConfigurationError(source, ["user.as-groups: expected a list"])
    headers += [("Impersonate-Group", str(group)) for group in groups]
    if not isinstance(extra, dict):
        raise ConfigurationError(source, ["user.as-user-extra: expected a mapping"])
    for key, texts in extra.items():
        escaped = quote(str(key).lower(), safe=_SAFE_IN_NAMES)
        listed = texts if isinstance(texts, list) else [texts]
        headers += [(f"Impersonate-Extra-{escaped}", str(text)) for text in listed]
    return tuple(headers)
