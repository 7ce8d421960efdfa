"""`Client`: a workspace that a server (`kglink serve`) holds, asked from elsewhere."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from kglink.errors import KglinkError, UsageError
from kglink.records import EntityId, json_value

_WEB = re.compile(r"https?://[^\s/]")
#: Texts that go to the server in one request.
_BATCH = 32
#: Names that do.
_MOST_NAMES = 1000
#: Seconds before a busy server is asked again.
_PAUSE = 0.5


class ServerError(KglinkError):
    """A server that does not answer, or that refuses; ``status`` is 0 where it did not answer."""

    def __init__(self, status: int, message: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class Client:
    """Asks a server, as ``Workspace`` is asked; answers are the JSON of the command line."""

    def __init__(self, url: str, *, token: str | None = "", seconds: float = 120.0) -> None:
        """``seconds`` is the longest that an answer may take.

        A server that is busy is asked again until then.
        """
        if not _WEB.match(str(url)):
            raise UsageError(f"{url!r} is no web address", hint="Such as http://127.0.0.1:8017.")
        if not isinstance(seconds, int | float) or not seconds > 0:
            raise UsageError(f"seconds = {seconds!r}", hint="Give a number above 0.")
        token = (token or "").strip()
        if not isinstance(token, str) or not (token.isascii() and token.isprintable()):
            raise UsageError("the token has letters that no header takes", hint="Use ASCII.")
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._seconds = seconds

    def link(
        self,
        texts: str | Mapping[str, Any] | Iterable[str | Mapping[str, Any]],
        **options: object,
    ) -> Iterator[dict[str, Any]]:
        """Link a text, or several; options are those of ``POST /link``, such as ``kbs=["a"]``.

        A text with an id, or with its mentions, is ``{"id", "text", "entities"}``.
        """
        if hasattr(texts, "columns"):
            hint = 'Give one of its columns, such as table["text"].'
            raise UsageError("a table is no list of texts", hint=hint)
        is_one = isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable)
        given = iter([texts] if is_one else texts)
        done = 0
        while batch := list(islice(given, _BATCH)):
            named = []
            for number, text in enumerate(batch, done + 1):
                own = {"text": text} if isinstance(text, str) else text
                if not isinstance(own, Mapping):
                    message = f"text {number:,} is of the type {type(text).__name__}"
                    raise UsageError(
                        message, hint='A text is a str, or {"id", "text", "entities"}.'
                    )
                named.append({"id": str(number), **own})
            yield from self._list("POST", "/link", {"texts": named, **options})
            done += len(batch)

    def resolve(
        self, names: str | Iterable[object], context: object = None, **options: object
    ) -> list[dict[str, Any] | None]:
        """What names mean, with their ``context``, as `Workspace.resolve` takes both.

        Options are those of ``POST /resolve``. An empty cell of a column means nothing.
        """
        from kglink.workspace.resolve import rows_of

        found = list[dict[str, Any] | None]()
        rows = rows_of(names, context)
        while batch := list(islice(rows, _MOST_NAMES)):
            asked = {
                "names": [row.name or None for row in batch],
                "context": [row.context or None for row in batch],
            }
            found += self._list("POST", "/resolve", {**asked, **options})
        return found

    def explain(self, text: str, **options: object) -> list[dict[str, Any]]:
        """Why mentions of a text are linked as they are: all, or those that the options name.

        They are ``surface``, or ``start`` and ``end``; ``kbs``, ``types``, ``under``, ``not_under``
        and ``threshold`` as for links.
        """
        return self._list("POST", "/explain", {"text": text, **options})

    def search(self, text: str, **options: object) -> list[dict[str, Any]]:
        """The entities that a text names or describes, best first.

        Options are those of ``GET /search``: ``k``, ``kbs``, ``types``, ``under``, ``not_under``.
        """
        query = urlencode({**options, "q": text}, doseq=True, errors="replace")
        return self._list("GET", f"/search?{query}")

    def entity(self, name: str | EntityId) -> dict[str, Any]:
        """All that is known of an entity, by its id, such as ``doid:DOID:1391``."""
        kb, _, key = str(name).partition(":")
        return self._dict("GET", f"/entities/{quote(kb, safe='')}/{quote(key)}")

    def kbs(self) -> list[dict[str, Any]]:
        """The KBs."""
        return self._list("GET", "/kbs")

    def add_kb(self, name: str, file: str | Path, **options: object) -> dict[str, Any]:
        """Add or update a KB from a file; the job that does it (`job` says how far it is)."""
        path = Path(str(file))
        query = urlencode({"file": path.name, **options}, doseq=True)
        try:
            with path.open("rb") as body:
                return self._dict("PUT", f"/kbs/{quote(name, safe='')}?{query}", body=body)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error

    def learn(self, kb: str) -> dict[str, Any]:
        """Learn from annotated texts; the job that does it."""
        return self._dict("POST", "/jobs", {"kind": "learn", "kb": kb})

    def job(self, name: str) -> dict[str, Any]:
        """How far a job is, and what came of it."""
        return self._dict("GET", f"/jobs/{quote(str(name), safe='')}")

    def correct(
        self,
        text: str,
        start: int,
        end: int,
        entity: str | EntityId | None,
        *,
        is_mention: bool = True,
    ) -> dict[str, Any]:
        """Say what a place of a text means, as `Workspace.correct` does."""
        place = {"text": text, "start": start, "end": end}
        meant = str(entity) if isinstance(entity, EntityId) else entity
        said = {**place, "entity": meant, "mention": is_mention}
        return self._dict("POST", "/corrections", said)

    def corrections(self) -> list[dict[str, Any]]:
        """All corrections."""
        return self._list("GET", "/corrections")

    def take_back(self, correction: str) -> dict[str, Any]:
        """Take a correction back, by its id."""
        return self._dict("DELETE", f"/corrections/{quote(str(correction), safe='')}")

    def _dict(self, method: str, path: str, value: object = None, **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._ask(dict, method, path, value, **more)
        return answer

    def _list(self, method: str, path: str, value: object = None) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self._ask(list, method, path, value)
        return answer

    def _ask(
        self, kind: type, method: str, path: str, value: object = None, *, body: Any = None
    ) -> Any:
        sent = "application/octet-stream" if body else "application/json"
        data = body if value is None else json.dumps(value, default=json_value).encode()
        headers = {**self._headers, "Content-Type": sent}
        until = time.monotonic() + self._seconds
        while True:
            try:
                asked = Request(self._url + path, data, headers, method=method)  # noqa: S310 - checked
                with urlopen(asked, timeout=self._seconds) as answer:  # noqa: S310 - checked
                    return _of_kind(kind, answer.read(), self._url + path)
            except HTTPError as error:
                is_passing = "retry-after" in error.headers and body is None
                if not is_passing or time.monotonic() > until:
                    raise _refusal(error) from error
                time.sleep(_PAUSE)
            except (URLError, TimeoutError, ConnectionError, HTTPException, ValueError) as error:
                reason = getattr(error, "reason", error)
                hint = "Is it running? kglink serve"
                raise ServerError(0, f"{self._url} does not answer: {reason}", hint) from error


def _of_kind(kind: type, answer: bytes, address: str) -> Any:
    """What a server answers, a dictionary or a list; anything else is none of ours."""
    with suppress(ValueError):
        if isinstance(value := json.loads(answer), kind):
            return value
    raise ServerError(200, f"{address} answers no JSON of kglink", "Is it a server of kglink?")


def _refusal(error: HTTPError) -> ServerError:
    """What a server says that is wrong."""
    try:
        answer = json.loads(error.read())
        message, hint = str(answer["error"]), str(answer["fix"])
    except (ValueError, LookupError, TypeError):
        message, hint = f"the server answers {error.code} {error.reason}", ""
    return ServerError(error.code, message, hint)
