"""Every place where inputs of others come in, by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bench.fuzz import cel, extenders, files, fuzz_cluster, http, messages
from bench.fuzz.harness import Surface

SURFACES: Final[Mapping[str, Surface]] = MappingProxyType(
    {
        "watch": fuzz_cluster.WATCH,
        "messages": messages.SURFACE,
        "cel": cel.SURFACE,
        "configuration": files.CONFIGURATION,
        "command-line": files.COMMAND_LINE,
        "kubeconfig": files.KUBECONFIG,
        "extenders": extenders.SURFACE,
        "answers": http.ANSWERS,
        "endpoints": http.ENDPOINTS,
        "apiserver": http.APISERVER,
    }
)
