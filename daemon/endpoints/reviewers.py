"""The API servers that say who somebody is and what that user may read."""

from typing import NamedTuple

from shared.errors import ConfigurationError
from shared.kube.api_client import ApiClient
from shared.kube.kubeconfig import find_access, is_in_cluster
from shared.runtime_options import EndpointOptions
from shared.telemetry.log import EventLog

log = EventLog("endpoints")

CONNECTIONS_MAX = 8
"""Prometheus and some people; answers are kept for seconds."""


class Reviewers(NamedTuple):
    """None: there is no such server."""

    authentication: ApiClient | None
    authorization: ApiClient | None

    @classmethod
    def of(cls, options: EndpointOptions) -> "Reviewers":
        """By the kubeconfig files of the flags; without one, by the pod's service account."""
        if not options.endpoints_token_file:
            return cls(
                _client(options.authentication_kubeconfig),
                _client(options.authorization_kubeconfig),
            )
        return cls(None, None)

    @property
    def are_known(self) -> bool:
        return self.authentication is not None or self.authorization is not None

    async def close(self) -> None:
        for client in self:
            if client is not None:
                await client.close()


def _client(kubeconfig: str) -> ApiClient | None:
    if not kubeconfig and not is_in_cluster():
        return None
    try:
        access = find_access(kubeconfig=kubeconfig)
    except ConfigurationError as error:
        log.warning("no_reviewer", kubeconfig=kubeconfig, problem=str(error))
        return None
    return ApiClient(access, connections_max=CONNECTIONS_MAX)
