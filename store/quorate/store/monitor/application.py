"""The pages of a store: health for whoever asks; metrics and the group for those who may look."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from importlib.resources import files
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from quorate.protocol.errors import AccessDenied, QuorateError
from quorate.store.monitor.group_watch import GroupWatch
from quorate.store.monitor.health import STARTING, Health
from quorate.store.monitor.last_messages import COUNT_MAX

METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"

LOOKERS_MAX = 32
"""The lookers at the group at a time. There is room beside them for health and metrics."""
_FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_SAFE = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""The page needs nothing from elsewhere, and no other page may show it as a part of itself."""

LAST_COUNT = 20
"""The last messages of a topic, if a caller asks for no number."""


_COUNTS = frozenset(map(str, range(1, COUNT_MAX + 1)))
"""The texts of a number of messages that a caller may ask for."""
_SECRET = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Messages are kept by no browser, and are nothing but data."""


class Admit(Protocol):
    """The check of a caller."""

    def __call__(self, token: str, topic: str | None = None, /) -> None:
        """Admit a caller that shows a token, or nothing. Raises AccessDenied.

        topic: whose messages the caller reads; None: it reads no message.
        """


class Pages:
    """The pages of one store."""

    def __init__(self, health: Health, admit: Admit) -> None:
        """admit: whether a caller may see what is not for everybody."""
        self._health = health
        self._admit = admit
        self.scrape: Callable[[], Awaitable[bytes]] | None = None
        """Returns the metrics; None: the store has not started yet."""
        self.last: Callable[[str, int], Awaitable[list[dict[str, Any]]]] | None = None
        """Returns the last messages of a topic; None: the store has not started yet."""
        self.group: GroupWatch | None = None
        """The watch over the group; None: the store has not started yet."""

    def application(self) -> Starlette:
        """Return the application that serves the pages."""
        routes = [
            Route("/livez", self._live),
            Route("/startupz", self._started),
            Route("/readyz", self._ready),
            Route("/metrics", self._metrics),
            Route("/api/group", self._group),
            Route("/api/topics/{topic:path}/last", self._last),
            *(Route(path, _file(*named)) for path, named in _FILES.items()),
        ]
        return Starlette(routes=routes)

    async def _live(self, _: Request) -> Response:
        return _answer("")

    async def _started(self, _: Request) -> Response:
        return _answer(self._health.why_not_started)

    async def _ready(self, _: Request) -> Response:
        return _answer(self._health.why_not_ready)

    async def _metrics(self, request: Request) -> Response:
        if (denied := self._denied(request)) is not None:
            return denied
        if self.scrape is None:
            return _answer(STARTING)
        return Response(await self.scrape(), media_type=METRICS_TYPE)

    async def _group(self, request: Request) -> Response:
        if (denied := self._denied(request)) is not None:
            return denied
        if self.group is None:
            return _answer(STARTING)
        if self.group.lookers >= LOOKERS_MAX:
            return _answer(f"{LOOKERS_MAX} look at the group already")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_events(self.group), 200, headers, "text/event-stream")

    async def _last(self, request: Request) -> Response:
        topic = request.path_params["topic"]
        if (denied := self._denied(request, topic)) is not None:
            return denied
        if self.last is None:
            return _answer(STARTING)
        given = request.query_params.get("count", str(LAST_COUNT))
        if given not in _COUNTS:
            return JSONResponse({"error": f"count must be from 1 to {COUNT_MAX}"}, 400)
        try:
            messages = await self.last(topic, int(given))
        except QuorateError as error:
            return _answer(str(error))
        return JSONResponse({"messages": messages}, headers=_SECRET)

    def _denied(self, request: Request, topic: str | None = None) -> Response | None:
        """Return the refusal of a caller; None: it may look. topic: whose messages it reads."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            self._admit(token.strip() if scheme.lower() == "bearer" else "", topic)
        except AccessDenied as error:
            return JSONResponse({"error": str(error)}, 401, {"WWW-Authenticate": "Bearer"})
        return None


async def _events(group: GroupWatch) -> AsyncIterator[str]:
    """Yield each view as a server-sent event."""
    async with aclosing(group.views()) as views:
        async for view in views:
            yield f"data: {view}\n\n"


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers with a file of the page."""
    content = files("quorate.store.monitor").joinpath("page", name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind, headers=_SAFE)

    return answer


def _answer(problem: str) -> Response:
    """Return 200, or 503 with the problem."""
    if problem:
        return JSONResponse({"status": "unavailable", "reason": problem}, 503)
    return JSONResponse({"status": "ok"})
