"""Replaying recorded exchanges: the same requests in the same order, on raw sockets.

Raw, so that the form of the answer (status line, headers, chunks) is seen as the server sent it.
What the server itself chose in the recording (uids, versions, continue tokens) is replaced in the
requests by what the simulated server chose for the same thing.
"""

import json
import re
import socket
import threading
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.waiting import HANG_S

RECORDING = Path(__file__).with_name("kube-apiserver.jsonl")
# Watches that ran while later exchanges were made: started before the exchange of that name.
_STARTED_BEFORE = {"w-create": "watch-pods", "w2-create": "watch-unscheduled"}
# These live watches run as long as recorded; the others show only history, and are cut short.
_SHORT_TIMEOUT_S = 1
_COMPACTED_BEFORE = "watch-410-compacted"
_ENDED_BY_CLIENT = "watch-bookmarks"


class RawAnswer(NamedTuple):
    """An answer as it came."""

    status_line: str
    headers: dict[str, str]
    body: bytes
    # Sizes of the chunks without the last, empty one; None when the body was not chunked.
    chunks: list[int] | None
    # Whether the body came to its end, not just the bytes that were read.
    is_complete: bool

    @property
    def code(self) -> int:
        return int(self.status_line.split(" ")[1])


class Exchange(NamedTuple):
    """One recorded exchange and what the simulated server answered to the same."""

    number: int
    name: str
    request: dict[str, Any]
    recorded: RawAnswer
    answered: RawAnswer
    is_watch: bool

    @property
    def label(self) -> str:
        return f"{self.number:02d}-{self.name}"


def read_recording() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDING.read_text().splitlines()]


def labels() -> list[str]:
    """Name every recorded exchange, once each."""
    return [f"{number:02d}-{each['name']}" for number, each in enumerate(read_recording())]


def recorded_answer(entry: dict[str, Any]) -> RawAnswer:
    if "raw" in entry:
        return parse_answer("".join(text for _, text in entry["raw"]).encode())
    response = entry["response"]
    headers = {name.lower(): value for name, value in response["headers"].items()}
    body = response["body"].encode()
    is_chunked = headers.get("transfer-encoding") == "chunked"
    status_line = f"HTTP/1.1 {response['status']}"
    return RawAnswer(status_line, headers, body, [len(body)] if is_chunked else None, True)


def parse_answer(data: bytes) -> RawAnswer:
    """Take an answer apart; it may be cut off anywhere in its body."""
    head, _, rest = data.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    if headers.get("transfer-encoding") != "chunked":
        length = int(headers.get("content-length", "0"))
        return RawAnswer(status_line, headers, rest[:length], None, len(rest) >= length)
    body = b""
    chunks: list[int] = []
    while rest:
        size_text, separator, rest = rest.partition(b"\r\n")
        if not separator:
            break
        size = int(size_text, 16)
        if size == 0:
            return RawAnswer(status_line, headers, body, chunks, True)
        if len(rest) < size + 2:
            break
        assert rest[size : size + 2] == b"\r\n", "a chunk ends with CRLF"
        body += rest[:size]
        chunks.append(size)
        rest = rest[size + 2 :]
    return RawAnswer(status_line, headers, body, chunks, False)


class Chosen:
    """What each server chose for the same things; the correspondence is one to one."""

    def __init__(self) -> None:
        self._ours: dict[tuple[str, str], str] = {}
        self._theirs: dict[tuple[str, str], str] = {}

    def agrees(self, kind: str, recorded: str, answered: str) -> bool:
        """Tell whether this pair fits the earlier ones; a first meeting always does."""
        ours = self._ours.setdefault((kind, recorded), answered)
        theirs = self._theirs.setdefault((kind, answered), recorded)
        return ours == answered and theirs == recorded

    def ours(self, kind: str, recorded: str) -> str:
        return self._ours.get((kind, recorded), recorded)

    def in_text(self, text: str) -> str:
        """Replace every recorded uid in a text."""
        for (kind, recorded), ours in self._ours.items():
            if kind == "uid":
                text = text.replace(recorded, ours)
        return text

    def learn(self, recorded: Any, answered: Any) -> None:
        """Note the pairs in two answers to the same request, as far as their shapes agree."""
        if isinstance(recorded, dict) and isinstance(answered, dict):
            for key in recorded.keys() & answered.keys():
                one, other = recorded[key], answered[key]
                if key in ("uid", "resourceVersion", "continue") and isinstance(one, str):
                    self._ours.setdefault((key, one), other)
                    self._theirs.setdefault((key, other), one)
                else:
                    self.learn(one, other)
        elif isinstance(recorded, list) and isinstance(answered, list):
            for one, other in zip(recorded, answered, strict=False):
                self.learn(one, other)


class Replayer:
    """Sends the recorded requests, and keeps what was answered."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._address = (host, port)
        self._token = token
        self.chosen = Chosen()

    def replay(self) -> list[Exchange]:
        entries = read_recording()
        numbers = {entry["name"]: number for number, entry in enumerate(entries)}
        live: dict[str, _LiveWatch] = {}
        exchanges = []
        for number, entry in enumerate(entries):
            name = entry["name"]
            if name in _STARTED_BEFORE:
                started = _STARTED_BEFORE[name]
                live[started] = _LiveWatch(self, entries[numbers[started]])
            if name == _COMPACTED_BEFORE:
                assert self.send("POST", "/simulation/compact", {}, None).code == 200
            recorded = recorded_answer(entry)
            answered = live[name].finish() if name in live else self._exchange(entry)
            if "raw" not in entry:
                self.chosen.learn(_json_or_none(recorded.body), _json_or_none(answered.body))
            exchanges.append(
                Exchange(number, name, entry["request"], recorded, answered, "raw" in entry)
            )
        return exchanges

    def _exchange(self, entry: dict[str, Any]) -> RawAnswer:
        request = entry["request"]
        path = self.path_of(entry, _SHORT_TIMEOUT_S)
        return self.send(
            request["method"],
            path,
            self._headers(entry),
            self._body_of(request["body"]),
            stops_at_bookmark=entry["name"] == _ENDED_BY_CLIENT,
        )

    def path_of(self, entry: dict[str, Any], timeout_s: int | None) -> str:
        path: str = entry["request"]["path"]
        for name in ("resourceVersion", "continue"):

            def ours(match: re.Match[str], kind: str = name) -> str:
                return self.chosen.ours(kind, match.group())

            path = re.sub(rf"(?<=[?&]{name}=)[^&]+", ours, path)
        if timeout_s is not None:
            path = re.sub(r"(?<=timeoutSeconds=)\d+", str(timeout_s), path)
        return path

    def _headers(self, entry: dict[str, Any]) -> dict[str, str]:
        headers = {k: v for k, v in entry["request"]["headers"].items() if k != "Host"}
        if entry["name"] != "unauthorized":
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _body_of(self, body: str | None) -> bytes | None:
        if body is None:
            return None
        value = _json_or_none(body.encode())
        # Bodies that are no JSON are sent as they were.
        return body.encode() if value is None else json.dumps(self._with_ours(value)).encode()

    def _with_ours(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: self.chosen.ours(key, member)
                if key in ("uid", "resourceVersion") and isinstance(member, str)
                else self._with_ours(member)
                for key, member in value.items()
            }
        if isinstance(value, list):
            return [self._with_ours(member) for member in value]
        return value

    def open(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> socket.socket:
        """Send a request and return the connection with the answer to be read."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._address[0]}:{self._address[1]}"]
        if method == "POST" and path.startswith("/simulation/"):
            headers = {**headers, "Authorization": f"Bearer {self._token}"}
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        connection = socket.create_connection(self._address, timeout=HANG_S)
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        return connection

    def send(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None,
        *,
        stops_at_bookmark: bool = False,
    ) -> RawAnswer:
        with self.open(method, path, headers, body) as connection:
            return read_answer(connection, stops_at_bookmark=stops_at_bookmark)


def read_answer(connection: socket.socket, *, stops_at_bookmark: bool = False) -> RawAnswer:
    data = b""
    while True:
        received = connection.recv(65536)
        assert received, f"the server closed the connection after {data[-200:]!r}"
        data += received
        if b"\r\n\r\n" not in data:
            continue
        answer = parse_answer(data)
        if answer.is_complete or (stops_at_bookmark and b'"type":"BOOKMARK"' in answer.body):
            return answer


class _LiveWatch:
    """A watch that runs while other requests are made."""

    def __init__(self, replayer: Replayer, entry: dict[str, Any]) -> None:
        path = replayer.path_of(entry, None)
        headers = replayer._headers(entry)
        self._connection = replayer.open("GET", path, headers, None)
        self._answer: RawAnswer | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._connection:
            self._answer = read_answer(self._connection)

    def finish(self) -> RawAnswer:
        self._thread.join(HANG_S)
        assert self._answer is not None, "the live watch did not end"
        return self._answer


def _json_or_none(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
