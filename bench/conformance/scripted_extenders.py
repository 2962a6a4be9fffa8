"""The extenders of a scenario as a real HTTP server, and what else a scorer asks an API server for then.

A scenario holds what each of its extenders answers (`Scenario.answers`; the rules of an answer are in
`tests/conformance/README.md`). Recording and replay ask this same server. It also knows the scenario's
pods and nodes, which a scorer reads whole before it sends them on.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import urlsplit

import orjson

Json = dict[str, Any]
Spelling = Callable[[str], str]

WRITTEN: Final = "http://extenders/"
"""What URLs of extenders begin with in a scenario: the address of the server is not known before."""
ANYBODY: Final = "*"
SPELLINGS: Final[dict[str, Spelling]] = {"go": str, "lower": str.lower, "upper": str.upper}
OK: Final = 200
NOT_FOUND: Final = 404


def answered(script: Json, verb: str, asked: Json) -> tuple[int, bytes]:
    """Status and body of one extender's answer to one question."""
    name = asked["PodName"] if verb == "bind" else asked["Pod"]["metadata"]["name"]
    rules = script.get(verb, {})
    rule = rules.get(name, rules.get(ANYBODY, {}))
    if "body" in rule:
        return rule.get("code", OK), rule["body"].encode()
    say = SPELLINGS[rule.get("spelling", "go")]
    return rule.get("code", OK), orjson.dumps(ANSWERS[verb](rule, asked, say))


def _filtered(rule: Json, asked: Json, say: Spelling) -> Json:
    """All that was asked about, but for those that the rule names."""
    gone = {*rule.get("failed", {}), *rule.get("unresolvable", {}), *rule.get("silent", [])}
    names = [name for name in _names(asked) if name not in gone] + rule.get("added", [])
    answer: Json = {
        say("FailedNodes"): rule.get("failed"),
        say("FailedAndUnresolvableNodes"): rule.get("unresolvable"),
        say("Error"): rule.get("error", ""),
    }
    if asked["NodeNames"] is not None:
        return {say("Nodes"): None, say("NodeNames"): names, **answer}
    nodes = {node["metadata"]["name"]: node for node in asked["Nodes"]["items"]}
    items = [nodes.get(name, {"metadata": {"name": name}}) for name in names]
    return {say("Nodes"): {"metadata": {}, "items": items}, say("NodeNames"): None, **answer}


def _prioritized(rule: Json, asked: Json, say: Spelling) -> list[Json]:
    """Nodes that the rule does not name get nothing; those that nobody asked about are told too."""
    scores = dict.fromkeys(_names(asked), 0) | rule.get("scores", {})
    return [{say("Host"): name, say("Score"): score} for name, score in scores.items()]


def _victims_left(rule: Json, asked: Json, say: Spelling) -> Json:
    """On the nodes that the rule names, or all."""
    given = asked.get("NodeNameToMetaVictims")
    if given is None:
        given = {
            name: {**each, "Pods": [{"UID": pod["metadata"]["uid"]} for pod in each["Pods"]]}
            for name, each in asked["NodeNameToVictims"].items()
        }
    left = {}
    for name in sorted(given):
        if "nodes" in rule and name not in rule["nodes"]:
            continue
        pods = given[name]["Pods"]
        if name in rule.get("without_victims", []):
            pods = []
        violations = rule.get("violations", {}).get(name, given[name]["NumPDBViolations"])
        left[name] = {
            say("Pods"): [{say("UID"): pod["UID"]} for pod in pods],
            say("NumPDBViolations"): violations,
        }
    for name, uid in rule.get("added", {}).items():
        left[name] = {say("Pods"): [{say("UID"): uid}], say("NumPDBViolations"): 0}
    return {say("NodeNameToMetaVictims"): left}


def _bound(rule: Json, _: Json, say: Spelling) -> Json:
    return {say("Error"): rule.get("error", "")}


ANSWERS: Final[Mapping[str, Callable[[Json, Json, Spelling], Any]]] = {
    "filter": _filtered,
    "prioritize": _prioritized,
    "preempt": _victims_left,
    "bind": _bound,
}


def _names(asked: Json) -> list[str]:
    """The nodes that a question is about, however they were sent."""
    if asked["NodeNames"] is not None:
        names: list[str] = asked["NodeNames"]
        return names
    return [node["metadata"]["name"] for node in asked["Nodes"]["items"]]


class ScriptedExtenders:
    """Context manager: the server lives as long. One scenario at a time."""

    def __init__(self) -> None:
        self._scripts: Sequence[Json] = ()
        self._objects: Mapping[str, bytes] = {}
        """By path."""
        self.is_closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._request_handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.is_closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def play(self, scripts: Sequence[Json], objects: Mapping[str, bytes]) -> None:
        """The scripts of a scenario, in the order of its extenders, and its objects by their paths."""
        self._scripts, self._objects = scripts, objects

    def located(self, text: str) -> str:
        """With the address in place of what is written."""
        return text.replace(WRITTEN, f"{self.address}/")

    def as_written(self, text: str) -> str:
        """The other way round."""
        return text.replace(f"{self.address}/", WRITTEN)

    def carried_out(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body for a question to an extender."""
        position, _, verb = path.strip("/").partition("/")
        return answered(self._scripts[int(position)], verb, orjson.loads(body))

    def read(self, path: str) -> tuple[int, bytes]:
        """Status and body of what the API server would tell."""
        if path == "/api/v1/nodes":
            # They are asked for one by one: a watch could be behind the scenario.
            return OK, b'{"metadata":{"resourceVersion":"1"},"items":[]}'
        found = self._objects.get(path)
        return (NOT_FOUND, b"{}") if found is None else (OK, found)

    def _request_handler(self) -> type[BaseHTTPRequestHandler]:
        stage = self

        class _Request(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                # Clients that end do not say goodbye.
                with contextlib.suppress(ConnectionError):
                    super().handle()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(*stage.carried_out(self.path, body))

            def do_GET(self) -> None:
                target = urlsplit(self.path)
                if "watch=1" not in target.query:
                    self._answer(*stage.read(target.path))
                    return
                self.send_response(OK)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                stage.is_closing.wait()
                self.close_connection = True

            def _answer(self, code: int, body: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Nobody reads it."""

        return _Request
