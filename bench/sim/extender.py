"""Extenders of the simulated cluster, which stand behind the API server's address: what goes wrong with
one goes wrong with the other.

The first has a rule of its own about nodes, which the oracle knows as well, and binds the pods itself.
The second is not to be relied on, is sent whole nodes, and has nothing against any.
"""

import re
from collections.abc import Callable
from typing import Any, Final
from zlib import crc32

import orjson

from bench.apiserver.http_server import ApiServer
from bench.apiserver.reads import Answer
from bench.apiserver.router import Request
from bench.apiserver.watching import WatchStart
from bench.sim.sim_objects import Json

LICENCE: Final = "example.com/licence"
SEAT: Final = "example.com/seat"
"""What the first and the second manage; no node has any."""
PATH: Final = "/extenders/"
SCORE_MAX: Final = 10
DENIED_EVERY: Final = 2
"""So many bindings are ordered until one of them is denied."""
CONFIGURATION: Final = f"""
extenders:
- urlPrefix: http://simulated:1{PATH}first
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 3
  preemptVerb: preempt
  bindVerb: bind
  nodeCacheCapable: true
  httpTimeout: 2s
  managedResources: [{{name: {LICENCE}, ignoredByScheduler: true}}]
- urlPrefix: http://simulated:1{PATH}second
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 1
  httpTimeout: 1s
  ignorable: true
  managedResources: [{{name: {SEAT}, ignoredByScheduler: true}}]
"""


def licences(spec: Json) -> int:
    """How many a pod asks for."""
    requests = [each.get("resources", {}).get("requests", {}) for each in spec["containers"]]
    return sum(int(each.get(LICENCE, 0)) for each in requests)


def is_asked_about(spec: Json) -> bool:
    """Whether an extender has a say in a pod."""
    requests = [each.get("resources", {}).get("requests", {}) for each in spec["containers"]]
    return any(name in each for each in requests for name in (LICENCE, SEAT))


def is_refused(spec: Json, node: str) -> bool:
    """By the first extender: it depends on nothing that changes."""
    count = licences(spec)
    return bool(count) and crc32(f"{count} {node}".encode()) % 3 == 0


class ServerWithExtenders(ApiServer):
    """The API server, and the extenders under paths of their own."""

    page_size = 0
    """Of lists by pages, in place of what is asked for; 0: as that says."""
    _asked_to_bind = 0

    def carry_out(self, request: Request) -> Answer | WatchStart:
        if not request.target.startswith(PATH):
            if self.page_size:
                target = re.sub(r"\blimit=\d+", f"limit={self.page_size}", request.target)
                request = request._replace(target=target)
            return super().carry_out(request)
        who, _, verb = request.target.removeprefix(PATH).partition("/")
        arguments = orjson.loads(request.body)
        answer = self._bound(arguments) if verb == "bind" else ANSWERS[verb](arguments, who)
        return Answer(200, orjson.dumps(answer))

    def _bound(self, arguments: Json) -> Json:
        self._asked_to_bind += 1
        if self._asked_to_bind % DENIED_EVERY == 0:
            return {"Error": "denied"}
        name = arguments["PodName"]
        body = {
            "metadata": {"name": name, "uid": arguments["PodUID"]},
            "target": {"kind": "Node", "name": arguments["Node"]},
        }
        path = f"/api/v1/namespaces/{arguments['PodNamespace']}/pods/{name}/binding"
        content = orjson.dumps(body)
        answer = super().carry_out(Request("POST", path, "", "application/json", "", content, True))
        assert isinstance(answer, Answer), "nobody watches here"
        return {"Error": "" if answer.code < 300 else f"code {answer.code}"}


def _filtered(arguments: Json, who: str) -> Json:
    """By name as it was asked; without those that the rule is against."""
    spec, names = arguments["Pod"]["spec"], arguments["NodeNames"]
    if who == "second":
        return {"Nodes": arguments["Nodes"]}
    refused = {name: "no licence there" for name in names if is_refused(spec, name)}
    return {
        "NodeNames": [name for name in names if name not in refused],
        "FailedAndUnresolvableNodes": refused,
    }


def _prioritized(arguments: Json, _: str) -> list[Json]:
    names = arguments["NodeNames"]
    if names is None:
        names = [node["metadata"]["name"] for node in arguments["Nodes"]["items"]]
    return [{"Host": name, "Score": crc32(name.encode()) % (SCORE_MAX + 1)} for name in names]


def _victims_left(arguments: Json, _: str) -> Json:
    """On nodes that the rule is not against: those have to go that were asked about."""
    spec, victims = arguments["Pod"]["spec"], arguments["NodeNameToMetaVictims"]
    left = {name: each for name, each in victims.items() if not is_refused(spec, name)}
    return {"NodeNameToMetaVictims": left}


ANSWERS: Final[dict[str, Callable[[Json, str], Any]]] = {
    "filter": _filtered,
    "prioritize": _prioritized,
    "preempt": _victims_left,
}
