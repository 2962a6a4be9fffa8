"""Finding the API server: kubeconfig files, the service account of a pod, or a plain address.

All problems of a file are reported at once, each with its place in the file. What berth cannot do yet
(exec plugins, auth providers, proxies) is refused by name: connecting without it would only fail
later and less clearly.

Rules: staging/src/k8s.io/client-go/tools/clientcmd and rest/config.go, v1.36.
"""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from shared.errors import ConfigurationError
from shared.kube.cluster_access import ClusterAccess, access_by_url, parse_server_url
from shared.kube.credentials import Credentials

SERVICE_ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_UNSUPPORTED_USER_FIELDS: Final = {
    "exec": "exec plugins are not supported yet; use a token, tokenFile or client certificate",
    "auth-provider": "auth providers are not supported; use a token, tokenFile or certificate",
    "as": "impersonation is not supported",
    "as-uid": "impersonation is not supported",
    "as-groups": "impersonation is not supported",
    "as-user-extra": "impersonation is not supported",
}
_UNSUPPORTED_CLUSTER_FIELDS: Final = {
    "proxy-url": "proxies are not supported yet; connect to the API server directly",
}


def find_access(
    *,
    server: str = "",
    kubeconfig: str = "",
    context: str = "",
    environment: Mapping[str, str] = os.environ,
    service_account_folder: Path = SERVICE_ACCOUNT_FOLDER,
) -> ClusterAccess:
    """The API server to talk to: the first that is stated of `server`, `kubeconfig`, the pod's
    service account, $KUBECONFIG and ~/.kube/config. Raises `ConfigurationError`.
    """
    if server:
        return access_by_url(server)
    if kubeconfig:
        return load_kubeconfig([Path(kubeconfig)], context)
    if environment.get("KUBERNETES_SERVICE_HOST") and not environment.get("KUBECONFIG"):
        return in_cluster_access(environment, service_account_folder)
    named = [Path(p) for p in environment.get("KUBECONFIG", "").split(os.pathsep) if p]
    if not named:
        default = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
        if not default.exists():
            raise ConfigurationError(
                "kubeconfig",
                [f"none given and {default} does not exist; use --kubeconfig FILE or --server URL"],
            )
        named = [default]
    return load_kubeconfig(named, context)


def in_cluster_access(
    environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT_FOLDER
) -> ClusterAccess:
    """The API server as the service account of the pod that this process runs in."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    source = "in-cluster configuration"
    if not host or not port.isascii() or not port.isdigit():
        raise ConfigurationError(
            source, ["KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must both be set"]
        )
    token_file, ca_file = folder / "token", folder / "ca.crt"
    problems = [f"{path} is missing" for path in (token_file, ca_file) if not path.exists()]
    if problems:
        raise ConfigurationError(source, problems)
    credentials = Credentials(token_file=token_file)
    return ClusterAccess(
        host, int(port), "", _tls_context(source, str(ca_file), ""), "", credentials, source
    )


def load_kubeconfig(paths: list[Path], context: str = "") -> ClusterAccess:
    """The server of a context (by default the current one) of kubeconfig files.

    Of several files the first that defines a name wins, as with $KUBECONFIG. Relative paths are
    relative to the file that states them.
    """
    files = [_ConfigFile(path) for path in paths if path.exists() or len(paths) == 1]
    source = os.pathsep.join(str(path) for path in paths)
    if not files:
        raise ConfigurationError(source, ["none of these files exists"])
    name = context or next((f.current_context for f in files if f.current_context), "")
    if not name:
        raise ConfigurationError(
            source, ["no current-context; set it with kubectl config use-context or give --context"]
        )
    _, chosen = _find(files, source, "contexts", "context", name)
    cluster_file, cluster = _find(files, source, "clusters", "cluster", _text(chosen, "cluster"))
    user_name = _text(chosen, "user")
    if user_name:
        user_file, user = _find(files, source, "users", "user", user_name)
    else:
        user_file, user = cluster_file, {}
    return _access(cluster_file, cluster, user_file, user)


# The pieces of a file -----------------------------------------------------------------------------


class _ConfigFile:
    """One kubeconfig file, read and checked for its outer shape."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(str(path), [f"cannot be read: {error}"]) from error
        except yaml.YAMLError as error:
            raise ConfigurationError(str(path), [f"is not YAML: {error}"]) from error
        if content is None:
            content = {}
        if not isinstance(content, dict):
            raise ConfigurationError(str(path), ["is not a kubeconfig: expected a mapping"])
        self._content: dict[str, Any] = content
        self.current_context = _text(content, "current-context")

    def entry(self, section: str, field: str, name: str) -> dict[str, Any] | None:
        """The body of a named entry; None when the file does not define it."""
        for entry in self._content.get(section) or ():
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


def _text(body: dict[str, Any], field: str) -> str:
    value = body.get(field)
    return value if isinstance(value, str) else ""


# Access from the pieces ---------------------------------------------------------------------------


def _access(
    cluster_file: _ConfigFile, cluster: dict[str, Any], user_file: _ConfigFile, user: dict[str, Any]
) -> ClusterAccess:
    source = str(cluster_file.path)
    problems = [
        f"cluster.{field}: {why}"
        for field, why in _UNSUPPORTED_CLUSTER_FIELDS.items()
        if cluster.get(field)
    ]
    problems += [
        f"user.{field}: {why}" for field, why in _UNSUPPORTED_USER_FIELDS.items() if user.get(field)
    ]
    if not _text(cluster, "server"):
        problems.append("cluster.server: missing")
    if problems:
        raise ConfigurationError(source, problems)
    server = parse_server_url(_text(cluster, "server"), f"{source}: cluster.server")
    tls = None
    if server.is_tls:
        tls = _cluster_tls(cluster_file, cluster)
        _load_client_certificate(tls, user_file, user)
    return ClusterAccess(
        host=server.host,
        port=server.port,
        base_path=server.base_path,
        tls=tls,
        tls_server_name=_text(cluster, "tls-server-name"),
        credentials=_credentials(user_file, user),
        source=source,
    )


def _credentials(file: _ConfigFile, user: dict[str, Any]) -> Credentials:
    # A token file goes before a token, as in client-go.
    token_file = _text(user, "tokenFile")
    if token_file:
        return Credentials(token_file=Path(file.resolve(token_file)))
    return Credentials(
        token=_text(user, "token"),
        username=_text(user, "username"),
        password=_text(user, "password"),
    )


def _cluster_tls(file: _ConfigFile, cluster: dict[str, Any]) -> ssl.SSLContext:
    source = str(file.path)
    ca_text = ""
    if cluster.get("certificate-authority-data"):
        ca_bytes = _base64(source, "cluster.certificate-authority-data", cluster)
        ca_text = ca_bytes.decode("ascii", "replace")
    ca_file = _text(cluster, "certificate-authority")
    is_insecure = cluster.get("insecure-skip-tls-verify") is True
    if is_insecure and (ca_text or ca_file):
        raise ConfigurationError(
            source,
            ["cluster: insecure-skip-tls-verify and a certificate authority exclude each other"],
        )
    context = _tls_context(source, "" if ca_text or not ca_file else file.resolve(ca_file), ca_text)
    if is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _tls_context(source: str, ca_file: str, ca_text: str) -> ssl.SSLContext:
    """A context that trusts the given authority, or the system's where none is given."""
    try:
        return ssl.create_default_context(cafile=ca_file or None, cadata=ca_text or None)
    except (OSError, ValueError) as error:
        place = ca_file or "cluster.certificate-authority-data"
        raise ConfigurationError(source, [f"{place}: no usable certificate: {error}"]) from error


def _load_client_certificate(
    context: ssl.SSLContext, file: _ConfigFile, user: dict[str, Any]
) -> None:
    source = str(file.path)
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        parts = {}
        for field in ("client-certificate", "client-key"):
            if user.get(f"{field}-data"):
                # ssl reads these from files only. The folder is ours alone and gone at once.
                part = Path(folder) / field
                part.write_bytes(_base64(source, f"user.{field}-data", user))
                parts[field] = str(part)
            elif _text(user, field):
                parts[field] = file.resolve(_text(user, field))
        if not parts:
            return
        missing = [f for f in ("client-certificate", "client-key") if f not in parts]
        if missing:
            raise ConfigurationError(source, [f"user.{f}: missing" for f in missing])
        try:
            # Without a password given, ssl would ask for one on the terminal.
            context.load_cert_chain(parts["client-certificate"], parts["client-key"], password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                source, [f"user.client-certificate, user.client-key: {error}"]
            ) from error


def _base64(source: str, place: str, body: dict[str, Any]) -> bytes:
    field = place.partition(".")[2]
    try:
        return base64.b64decode(_text(body, field), validate=True)
    except binascii.Error as error:
        raise ConfigurationError(source, [f"{place}: not base64: {error}"]) from error
