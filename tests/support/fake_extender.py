"""An HTTP extender in a thread, which does what a test says."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Handler = Callable[[dict[str, Any]], Any]
"""Arguments of a call -> its answer; bytes are sent as they are, an int is an HTTP status."""


class FakeExtender:
    """`with FakeExtender(filter=..., prioritize=...) as extender: ... extender.url`."""

    def __init__(self, **handlers: Handler) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        """Verb and arguments, in the order of arrival."""
        self._handlers = handlers
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._request_handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/scheduler"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def asked(self, verb: str) -> list[dict[str, Any]]:
        """The arguments of all calls of one verb."""
        return [arguments for called, arguments in self.calls if called == verb]

    def _request_handler(self) -> type[BaseHTTPRequestHandler]:
        extender = self

        class _Request(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                arguments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                verb = self.path.rpartition("/")[2]
                extender.calls.append((verb, arguments))
                answer = extender._handlers[verb](arguments)
                status = answer if isinstance(answer, int) else 200
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except ConnectionError:
                    self.close_connection = True

            def log_message(self, *args: Any) -> None:
                """Nobody reads it."""

        return _Request


def names_in(arguments: dict[str, Any]) -> list[str]:
    """The nodes that a filter or prioritize call is about, however they were sent."""
    if arguments["NodeNames"] is not None:
        names: list[str] = arguments["NodeNames"]
        return names
    return [node["metadata"]["name"] for node in arguments["Nodes"]["items"]]


def keeping(*kept: str, unresolvable: bool = False) -> Handler:
    """A filter that leaves these nodes, and answers as it was asked, with all members as Go does."""

    def answer(arguments: dict[str, Any]) -> dict[str, Any]:
        left = [name for name in names_in(arguments) if name in kept]
        failed = {name: f"{name} is not for us" for name in names_in(arguments) if name not in kept}
        nodes = None
        if arguments["NodeNames"] is None:
            items = [n for n in arguments["Nodes"]["items"] if n["metadata"]["name"] in kept]
            nodes = {"metadata": {}, "items": items}
        return {
            "Nodes": nodes,
            "NodeNames": left if nodes is None else None,
            "FailedNodes": None if unresolvable else failed,
            "FailedAndUnresolvableNodes": failed if unresolvable else None,
            "Error": "",
        }

    return answer


def preferring(preferred: str, score: int = 10) -> Handler:
    """A prioritizer that likes one node."""

    def answer(arguments: dict[str, Any]) -> list[dict[str, Any]]:
        names = names_in(arguments)
        return [{"Host": name, "Score": score if name == preferred else 1} for name in names]

    return answer
