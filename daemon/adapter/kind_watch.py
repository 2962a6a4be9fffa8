"""List and watch of one kind at an API server, for ever.

    +-> list (pages) --> watch --server ends it--> watch again from the last version
    |     |                |---- no connection, 429: wait, watch again from the last version
    |     |                |---- whatever else, once: likewise; twice in a row: list anew ---+
    |     |                '---- 410 in any form, damaged stream: wait, list anew --+
    |     |-- continue token expired: wait, list anew, later without pages          |
    |     |-- as a watch that sends the list; where that is refused: by pages       |
    |     |-- not served: the older version that has it, if there is one             |
    |     |-- neither, or forbidden: report once, try again rarely (optional), at   |
    |     |   once if it never was, else after some refusals in a row               |
    |     '-- a plugin's own kind fails otherwise: report it, go on trying          |
    '-------------------------------------------------------------------------------'

For a new owner pods are not listed but told again, where the watch was of use until then
(`kind_feed.py`).

Every list is told as a whole (`SyncStarted` ... `SyncFinished`), so the owner takes the difference and
nothing that happened in a gap is missed. Waiting times grow until a watch brings something; a list
that succeeds is no progress, for a server whose watches fail at once would be listed without end.

Silence. A server repeats its bookmark about every minute, but only on a watch to which it has had
anything to say: of a kind that nobody changes, nothing comes at all, for as long as a watch lasts
(dispatchEvents in staging/src/k8s.io/apiserver/pkg/storage/cacher/cacher.go, v1.20 and v1.36; where
etcd tells the server often how far it is, kinds at rest get bookmarks too). So silence means a dead
connection where something has come before, and after a failure, until something comes; on another
watch only when the server does not end it in time.

Rules: staging/src/k8s.io/client-go/tools/cache/reflector.go, v1.36.
"""

import asyncio
import random
from asyncio import sleep
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlencode

import msgspec

from daemon.adapter.kind_feed import KindFeed
from daemon.adapter.outbox import MessageSink
from daemon.adapter.recording import Recorder
from shared.errors import OperationalError
from shared.kube.api.meta_v1 import NamedObject
from shared.kube.api_client import JSON
from shared.kube.api_errors import (
    ApiError,
    BadRequest,
    ConnectFailed,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    RequestTimeout,
    TooManyRequests,
    read_answer,
)
from shared.kube.connection_problems import remedy_of
from shared.kube.decode import RawPage, UnreadableAnswerError
from shared.kube.http_stream import HttpStream, LineSplitter, StreamClient
from shared.kube.list_pages import list_pages
from shared.kube.resources import ResourceKind, is_custom
from shared.telemetry.log import EventLog

log: Final = EventLog("adapter")

_named_decoder: Final = msgspec.json.Decoder(NamedObject)

METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
WAITING_PAGE_SIZE: Final = 5_000
"""Pods without a node, of which a list is to bring metadata alone."""

FIRST_S: Final = 0.8
MAX_S: Final = 30.0
"""As client-go's reflector: 0.8 s to 30 s, doubled each time, reset by progress."""

_EXPIRED_TOKENS_MAX: Final = 2
"""Lists whose continue token may expire under way before one is made without pages."""

_UNFINISHED_WATCH_LISTS_MAX: Final = 2
"""Watches that may end before their list part has, before pages are tried in their place."""

_VAIN_WATCHES_MAX: Final = 2
"""Watches in a row that fail or are given up as dead before a list is made anew: a server that came
back with an older state (etcd restored) has nothing to say after our version, or cannot go on from it.
The reflector lists after the first that fails; one that fails alone costs no list here."""

_REFUSALS_MAX: Final = 3
"""In a row, of a kind that was listed before, until it counts as one that is not to be had: a server
that starts, or whose roles are being changed, soon takes it back."""

_SILENCE_PRECISION: Final = 0.01
"""A timer is not set anew for less, or each pod that comes alone would pay for two."""

_BUSY_WATCH_S: Final = 1.0
"""A watch that ends sooner without having brought anything counts as a failure."""


_CUSTOM_FAILURES_MAX: Final = 3
"""Failures to list a kind that only a plugin knows, before pods wait for it no longer: a webhook that is
to convert its objects may be down for days."""


TELL_AFTER_S: Final = 1.0
NOTHING_SCHEDULED: Final = "nothing is scheduled until it can be listed"
_CUSTOM_REMEDY: Final = (
    "install the CustomResourceDefinition, and let berth list and watch it as docs/plugins.md says"
)


class UnavailableKinds:
    """Kinds that the server does not serve, or not to us, told together: they are refused within a
    moment of one another, mostly for the same reason, and eighteen lines would hide it."""

    def __init__(self) -> None:
        self._untold: dict[str, list[tuple[ResourceKind, OperationalError]]] = {}
        """By kind of error."""

    def add(self, kind: ResourceKind, error: OperationalError) -> None:
        """To be told soon, with what follows."""
        if not self._untold:
            asyncio.get_running_loop().call_later(TELL_AFTER_S, self._tell)
        self._untold.setdefault(type(error).__name__, []).append((kind, error))

    def _tell(self) -> None:
        untold, self._untold = self._untold, {}
        for refused in untold.values():
            consequences = {
                kind.plural: kind.without_it or NOTHING_SCHEDULED for kind, _ in refused
            }
            error = refused[0][1]
            remedy = remedy_of(error) or "check the server's version"
            if all(is_custom(plural) for plural in consequences):
                remedy = _CUSTOM_REMEDY
            is_fatal = any(kind.is_required for kind, _ in refused)
            (log.error if is_fatal else log.warning)(
                "kinds_unavailable", error=str(error), consequences=consequences, remedy=remedy
            )


class WatchSettings(msgspec.Struct, frozen=True):
    page_size: int = 500
    page_timeout_s: float = 60.0
    watch_s_min: float = 300.0
    watch_s_max: float = 600.0
    """The server is asked to end a watch after a random time in between, so that the watches of
    many clients do not all begin again together."""
    idle_s_max: float = 150.0
    """Where a bookmark is due about every minute: when two and a half bring nothing, the connection is
    taken for dead."""
    overdue_s_max: float = 30.0
    """How long after its time the server may end a watch that has brought nothing."""
    unavailable_retry_s: float = 300.0
    use_watch_list: bool = False
    """Begin with a watch that sends the list (sendInitialEvents) instead of pages; with pages all the
    same when the server refuses that, or does not bring such a list to its end."""
    catch_up_s: float = 5.0
    """How long a new owner waits for the watch to bring what a list has shown, before all is listed."""
    initial_idle_s_max: float = 30.0
    """Silence within the list part of a watch after which the server is taken for one that ignores
    sendInitialEvents."""


class KindWatch:
    def __init__(
        self,
        kind: ResourceKind,
        feed: KindFeed,
        client: StreamClient,
        sink: MessageSink,
        rng: random.Random,
        settings: WatchSettings,
        recorder: Recorder | None = None,
        unavailable: UnavailableKinds | None = None,
    ) -> None:
        """Failures of the connection are the client's to tell (`shared/kube/connection_problems.py`).
        `feed` puts into the sink what it is told; it may be an earlier watch's, for another owner."""
        self._kind = kind
        self._client = client
        self._sink = sink
        self._rng = rng
        self._settings = settings
        self._recorder = recorder
        self._unavailable = unavailable or UnavailableKinds()
        self._feed = feed
        self._is_told_again = bool(feed.resource_version)
        self._failure_count = 0
        """Since a watch brought something."""
        self._expired_token_count = 0
        self._is_reported_unavailable = False
        self._version_index = 0
        self._can_watch_list = settings.use_watch_list
        self._is_watch_list_refused = False
        """Until a list is had: it is to come by pages."""
        self._unfinished_count = 0
        self._unlisted_count = 0
        self._vain_count = 0
        self._refusals_left = 0
        self._watched_s = 0.0
        """When the last watch was asked for, by the event loop's clock."""
        self._is_doubtful = False
        """Something failed, and nothing has come since: the server may be another than it was."""
        self._patience_s = 0.0
        """How long the watch that is open may be silent."""
        self._take = feed.line if recorder is None else self._record_line
        """A line of a watch."""
        self.plural = kind.plural
        self.heard_s = 0.0
        """When the server last sent anything, by the event loop's clock; 0: it has not."""

    async def run(self) -> None:
        while True:
            delay_s = await self._attempt()
            if delay_s > 0:
                await sleep(delay_s)

    async def _attempt(self) -> float:
        """List if need be and watch once; returns how long to wait before the next attempt."""
        try:
            if self._is_told_again:
                self._is_told_again = False
                await self._tell_again()
            if not self._feed.resource_version and not self._is_watch_list_due:
                await self._list()
            if await self._watch():
                return 0.0
            return self._pause_s()
        except OperationalError as error:
            delay_s = self._on_error(error)
            if delay_s and not self._feed.resource_version and is_custom(self._kind.plural):
                self._unlisted_count += 1
                if self._unlisted_count == _CUSTOM_FAILURES_MAX:
                    self._tell_unavailable(error)
            return delay_s

    @property
    def _is_watch_list_due(self) -> bool:
        return self._can_watch_list and not self._is_watch_list_refused

    def _on_error(self, error: OperationalError) -> float:
        self._is_doubtful = True
        plural, told = self._kind.plural, str(error)
        is_watching = bool(self._feed.resource_version)
        match error:
            case UnreadableAnswerError() | Expired():
                self._relist(told)
            case ApiError() | RequestTimeout() if (
                not is_watching
                and self._is_watch_list_due
                and not isinstance(error, (TooManyRequests, NotFound))
            ):
                log.info("watch_list_refused", kind=plural, error=told)
                # Servers without the feature call the parameter invalid (422) or bad (400).
                self._can_watch_list = not isinstance(error, (Invalid, BadRequest))
                self._is_watch_list_refused = True
                return 0.0
            case RequestTimeout() if is_watching:
                # There are proxies that send the head of an answer only with its first event.
                log.debug("watch_not_answered", kind=plural, error=told)
                return 0.0
            case NotFound() | Forbidden():
                return self._on_refused(error)
            case ApiError():
                log.debug("refused", kind=plural, error=told)
                if not isinstance(error, TooManyRequests):
                    self._on_vain_watch(told)
                return max(self._pause_s(), error.retry_after_s or 0.0)
            case _:
                log.debug("connection_failed", kind=plural, error=told)
                if self._is_short and not isinstance(error, ConnectFailed):
                    self._on_vain_watch(told)
        return self._pause_s()

    def _pause_s(self) -> float:
        self._failure_count += 1
        return pause_s(self._failure_count - 1, self._rng)

    def _on_refused(self, error: ApiError) -> float:
        """404 or 403: the kind is not served, or not to us."""
        if isinstance(error, NotFound):
            # The next version of the kind; after the last it begins anew.
            self._version_index = (self._version_index + 1) % len(self._kind.api_paths)
            if self._version_index:
                return 0.0
        self._on_vain_watch(str(error))
        if self._refusals_left:
            self._refusals_left -= 1
            return self._pause_s()
        self._tell_unavailable(error)
        if self._kind.is_required:
            return self._pause_s()
        self._feed.resource_version = ""
        return self._settings.unavailable_retry_s * self._rng.uniform(0.8, 1.2)

    def _tell_unavailable(self, error: OperationalError) -> None:
        if self._is_reported_unavailable:
            return
        self._is_reported_unavailable = True
        self._unavailable.add(self._kind, error)
        if not self._kind.is_required:
            self._record("unavailable", str(error).encode())
            self._feed.unavailable(str(error))

    # A list ---------------------------------------------------------------------------------------

    async def _tell_again(self) -> None:
        waiting = {}
        selector = f"{self._kind.field_selector},spec.nodeName="
        try:
            async for page in self._pages(WAITING_PAGE_SIZE, selector, METADATA_ONLY):
                for item in page.items or ():
                    meta = read_answer(_named_decoder, item).metadata
                    waiting[meta.uid] = meta.resource_version
        except OperationalError:
            self._feed.resource_version = ""
            raise
        for _ in self._feed.tell_again(waiting):
            await self._sink.room()

    async def _list(self) -> None:
        page_size = self._settings.page_size
        if self._expired_token_count >= _EXPIRED_TOKENS_MAX:
            page_size = 0
        is_started = False
        try:
            async for page in self._pages(page_size, self._kind.field_selector):
                self.heard_s = asyncio.get_running_loop().time()
                if not is_started:
                    # Only now, so that an owner is not told of lists that cannot be had.
                    self._start_list()
                is_started = True
                self._record("page", page.body)
                self._feed.page(page.body)
                await self._sink.room()
        except Expired:
            # The list took longer than the server remembers (etcd compacts every 5 minutes).
            self._expired_token_count += is_started
            raise
        self._expired_token_count = 0
        self._is_watch_list_refused = False
        self._is_doubtful = False
        self._record("listed", b"")
        self._feed.list_finished()

    def _start_list(self) -> None:
        self._is_reported_unavailable = False
        self._refusals_left = _REFUSALS_MAX
        if self._version_index:
            log.info("older_version_listed", kind=self._kind.plural, path=self._folder)
        self._record("list", b"")
        self._feed.list_started()

    def _pages(self, size: int, selector: str, accept: str = JSON) -> AsyncIterator[RawPage]:
        timeout_s = self._settings.page_timeout_s
        return list_pages(
            self._client, self._folder, size, timeout_s, field_selector=selector, accept=accept
        )

    # A watch --------------------------------------------------------------------------------------

    async def _watch(self) -> bool:
        """One watch, until the server ends it; whether it was worth the trouble."""
        self._watched_s = asyncio.get_running_loop().time()
        settings = self._settings
        asked_s = max(1, round(self._rng.uniform(settings.watch_s_min, settings.watch_s_max)))
        stream = await self._client.open_stream(self._watch_path(asked_s))
        self._refusals_left = _REFUSALS_MAX
        stream.can_wait = self._feed.can_wait
        is_list = not self._feed.resource_version
        if is_list:
            self._start_list()
            self._patience_s = settings.initial_idle_s_max
        else:
            if self._feed.is_behind:
                asyncio.get_running_loop().call_later(settings.catch_up_s, self._on_late, stream)
            is_due = self._is_doubtful
            self._patience_s = settings.idle_s_max if is_due else asked_s + settings.overdue_s_max
        is_silent = has_brought = False
        try:
            has_brought = await self._read(stream)
        except TimeoutError:
            is_silent = True
            log.warning("watch_silent", kind=self._kind.plural, for_s=self._patience_s)
        finally:
            stream.close()
            count, self._feed.repeated_count = self._feed.repeated_count, 0
            if count:
                log.warning("events_repeated", kind=self._kind.plural, dropped=count)
            if self._feed.is_behind:
                self._relist("the watch is behind a list")
            elif is_list and not self._feed.resource_version:
                self._on_unfinished_list(is_silent=is_silent)
        if is_silent or (self._is_short and not has_brought):
            self._on_vain_watch("the watches bring nothing at all")
            return has_brought
        return True

    @property
    def _is_short(self) -> bool:
        """The watch, up to now."""
        return asyncio.get_running_loop().time() - self._watched_s < _BUSY_WATCH_S

    def _on_late(self, stream: HttpStream) -> None:
        if self._feed.is_behind:
            stream.close()

    def _on_unfinished_list(self, *, is_silent: bool) -> None:
        self._unfinished_count += 1
        if is_silent or self._unfinished_count >= _UNFINISHED_WATCH_LISTS_MAX:
            self._can_watch_list = False
            log.warning("watch_list_given_up", kind=self._kind.plural, is_silent=is_silent)

    def _on_vain_watch(self, why: str) -> None:
        """It brought nothing, and will not by waiting. Nothing changes where a list is due anyway."""
        if not self._feed.resource_version:
            return
        self._is_doubtful = True
        self._vain_count += 1
        if self._vain_count >= _VAIN_WATCHES_MAX:
            self._vain_count = 0
            self._relist(why)

    def _relist(self, why: str) -> None:
        """Whatever the watch was based on is gone."""
        self._feed.resource_version = ""
        log.warning("relist", kind=self._kind.plural, error=why)

    async def _read(self, stream: HttpStream) -> bool:
        """Whether it brought anything, at its end; TimeoutError where the server is silent too long."""
        splitter, loop = LineSplitter(), asyncio.get_running_loop()
        has_brought, ends_s = False, 0.0
        async with asyncio.timeout(self._patience_s) as silence:
            while chunks := await stream.chunks():
                for chunk in chunks:
                    for line in splitter.feed(chunk):
                        self._take(line)
                        if not has_brought:
                            has_brought = True
                            self._is_doubtful = False
                            self._vain_count = 0
                            self._failure_count = 0
                chunks.clear()  # Or a cluster's first events stayed until the next one comes.
                if has_brought and self._feed.resource_version:
                    self._patience_s = self._settings.idle_s_max
                self.heard_s = loop.time()
                if self._sink.is_full:
                    # What the owner makes us wait for is not the server's silence.
                    silence.reschedule(None)
                    await self._sink.room()
                    ends_s = 0.0
                patience_s = self._patience_s
                if abs(loop.time() + patience_s - ends_s) > patience_s * _SILENCE_PRECISION:
                    ends_s = loop.time() + patience_s
                    silence.reschedule(ends_s)
        # A last line without a line end: an error that was not sent in chunks, or nothing.
        rest = splitter.take_rest()
        if rest:
            self._take(rest)
        return has_brought

    def _watch_path(self, asked_s: int) -> str:
        query: dict[str, str | int] = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": asked_s,
        }
        if self._feed.resource_version:
            query["resourceVersion"] = self._feed.resource_version
        else:
            query["sendInitialEvents"] = "true"
            query["resourceVersionMatch"] = "NotOlderThan"
        if self._kind.field_selector:
            query["fieldSelector"] = self._kind.field_selector
        return f"{self._folder}?{urlencode(query)}"

    @property
    def _folder(self) -> str:
        """The kind's path."""
        return f"{self._kind.api_paths[self._version_index]}/{self._kind.path_name}"

    def _record_line(self, line: bytes) -> None:
        self._record("line", line)
        self._feed.line(line)

    def _record(self, what: str, content: bytes) -> None:
        if self._recorder is not None:
            self._recorder.record(self._kind.plural, what, content)


def pause_s(failures_before: int, rng: random.Random) -> float:
    """How long to wait after a failure: between half and all of a step that doubles up to a bound."""
    # Past 2^30 the bound has long been reached; the exponent stays small.
    step_s = min(MAX_S, FIRST_S * 2.0 ** min(failures_before, 30))
    return step_s * rng.uniform(0.5, 1.0)
