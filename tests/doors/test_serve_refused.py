"""What `kglink serve` refuses: bad requests, strangers, large bodies, long work, missing tokens."""

from __future__ import annotations

import asyncio
import errno
import gzip
import shutil
import socket
import sqlite3
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.exc import DBAPIError

from kglink.errors import SourceError, StoreError, UsageError
from kglink.sources.encoding import check_text
from kglink_doors.listening import Limits, token_of
from kglink_doors.serve.errors import error_shape, status_of
from kglink_doors.serve.guard import Guard
from kglink_doors.serve.served import Metrics
from served import Server, serving

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

pytest_plugins = ["served_fixtures"]


def test_a_wrong_method_is_told_which_there_are(server: Server) -> None:
    told = server.ask("DELETE", "/link")
    assert (told.status, told.headers["allow"]) == (405, "POST")
    # No advice of the command line.
    blank = server.ask("POST", "/entities/lanternfall", {"key": "k9", "title": " "})
    assert (blank.status, blank.json["fix"]) == (400, "Mend it, and send it again.")


def test_what_cannot_be_read_is_told_as_what_it_is(server: Server) -> None:
    body = b'{"text": "A heron."}'
    packed = {"content-encoding": "gzip", "content-type": "application/json"}
    for path in ("/link", "/link/lines"):
        told = server.ask("POST", path, gzip.compress(body), packed)
        assert (told.status, told.json["error"]) == (415, "the body is packed")
    told = server.ask("POST", "/link", body, {"content-type": "text/plain"})
    assert (told.status, told.json["fix"]) == (422, "Send content-type: application/json.")
    json_kind = {"content-type": "application/json"}
    for broken, why in (
        (b'{"text": "\xff"}', "byte 10 is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"n": ' + b"1" * 6000 + b"}", "4300 digits"),
    ):
        told = server.ask("POST", "/link", broken, json_kind)
        assert (told.status, told.json["fix"]) == (400, "Send JSON in UTF-8.")
        assert why in told.json["error"]


def test_monitors_ask_by_head(server: Server) -> None:
    for path in ("/health", "/kbs", "/"):
        told = server.ask("HEAD", path)
        assert told.status == 200
        assert told.headers["content-length"] != "0"


@pytest.mark.slow
def test_what_an_attacker_tried(server: Server) -> None:
    lines = {"content-type": "application/x-ndjson"}
    assert server.ask("POST", "/corrections", b" " * 600_000, lines).status == 413
    many = server.ask("POST", "/explain", {"text": "a " * 500, "surface": "a"})
    assert (many.status, "100 places" in many.json["error"]) == (400, True)
    places = [{"start": 0, "end": 1}] * 2001
    assert server.ask("POST", "/link", {"text": "ab", "entities": places}).status == 422
    twice = {"key": "grey_heron", "title": "Mine"}
    assert server.ask("POST", "/entities/lanternfall", twice).status == 409
    assert server.ask("POST", "/entities/corrections", twice).status == 400
    assert server.ask("PUT", "/kbs/corrections?file=x.csv", b"id\n1\n").status == 400
    place = {"text": "Zorgon Ville", "start": 0, "end": 12, "entity": "lanternfall:grey_heron"}
    said = server.ask("POST", "/corrections", place).json
    other = server.ask("POST", "/link", {"text": "Zorgon Ville", "kbs": ["encyclopedia"]}).json
    assert all(one["kb"] in (None, "encyclopedia") for one in other["entities"])
    own = server.ask("POST", "/link", {"text": "Zorgon Ville", "kbs": ["lanternfall"]}).json
    assert [one["key"] for one in own["entities"]] == ["grey_heron"]
    server.ask("DELETE", f"/corrections/{said['id']}")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/link", b"{", 422, "JSON"),
        ("POST", "/link", {}, 400, "one text or several"),
        ("POST", "/link", {"txt": "x"}, 422, "txt"),
        ("POST", "/link", {"texts": ["ab"], "entities": [{"start": 0, "end": 1}]}, 400, "one text"),
        ("POST", "/explain", {"text": "A heron", "start": 2}, 400, "two ends"),
        ("POST", "/explain", {"text": "A heron", "start": True, "end": 2}, 422, "start: true"),
        (
            "POST",
            "/link",
            {"text": "ab", "entities": [{"start": False, "end": 1}]},
            422,
            "true and",
        ),
        ("POST", "/link", {"text": "x", "threshold": True}, 422, "true and false are no numbers"),
        ("POST", "/resolve", {"names": ["x"], "threshold": True}, 422, "threshold"),
        (
            "POST",
            "/corrections",
            {"text": "x", "start": 0, "end": True, "entity": None},
            422,
            "end",
        ),
        ("POST", "/link", {"text": 5}, 422, "text"),
        ("POST", "/link", {"text": "x", "kbs": ["nobody"]}, 404, "nobody"),
        ("POST", "/link", {"text": "x", "types": ["nothing"]}, 404, "nothing"),
        ("POST", "/link", {"text": "x", "threshold": 7}, 422, "threshold"),
        ("GET", "/entities/lanternfall/nobody", None, 404, "lanternfall:nobody"),
        ("GET", "/entities/nobody/x", None, 404, "nobody:x"),
        ("GET", "/kbs/nobody", None, 404, "nobody"),
        ("GET", "/search?q=", None, 422, "q"),
        ("GET", "/search?q=%20", None, 400, "a search needs a text"),
        ("GET", "/search?q=x&under=nobody", None, 400, "'nobody' names no entity"),
        ("GET", "/search?q=x&k=0", None, 422, "k"),
        ("GET", "/search?q=x&kb=lanternfall", None, 400, "'kb'"),
        ("POST", "/link?kbs=lanternfall", {"text": "x"}, 400, "'kbs'"),
        ("POST", "/link/lines?kbs=nobody", b'{"text": "x"}', 404, "nobody"),
        ("POST", "/link/lines?under=nobody", b'{"text": "x"}', 400, "'nobody' names no entity"),
        ("GET", "/nowhere", None, 404, "/nowhere"),
        ("DELETE", "/link", None, 405, "DELETE"),
        ("GET", "/jobs/nothing", None, 404, "nothing"),
        ("POST", "/corrections", {"text": "x", "start": 0, "end": 9, "entity": None}, 400, "place"),
        ("POST", "/overlaps", {"left": "a:b", "right": "c:d", "verdict": "correct"}, 404, "a:b"),
        ("POST", "/explain", {"text": "x", "surface": "y"}, 400, "does not stand"),
        ("POST", "/explain", {"text": "x" * 101, "surface": "x"}, 400, "more than 100 places"),
        ("POST", "/link", {"text": "x", "under": ["encyclopedia:\ud800"]}, 400, "no entity"),
        ("POST", "/resolve", {"names": ["x"], "not_under": "encyclopedia:x"}, 400, "no entity"),
        ("POST", "/resolve", {"names": []}, 422, "at least 1 item"),
        ("POST", "/resolve", {"names": ["a"] * 10_001}, 422, "at most 10000 items"),
        ("POST", "/resolve", {"names": ["a"], "kbs": ["nobody"]}, 404, "nobody"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    server: Server, method: str, path: str, body: Any, status: int, words: str
) -> None:
    kind = {"content-type": "application/json"}
    answer = server.ask(method, path, body, kind)
    assert answer.status == status, answer
    assert words in answer.json["error"]
    assert answer.json["fix"]
    assert "Traceback" not in answer.body


def test_the_fix_names_a_route_of_the_description(server: Server) -> None:
    fix = server.ask("GET", "/kbs/lanternfall?limit=0").json["fix"]
    assert fix == "GET /openapi.json describes GET /kbs/{kb}."
    fix = server.ask("GET", "/entities/a/b/c?examples=-1").json["fix"]
    assert fix == "GET /openapi.json describes GET /entities/{kb}/{key}."


def test_strangers(server: Server) -> None:
    host = server.url.removeprefix("http://")
    assert server.ask("GET", "/kbs", headers={"Host": "evil.example"}).status == 421
    assert server.ask("GET", "/kbs", headers={"Host": "localhost:1"}).status == 200
    body = {"kind": "build"}
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert server.ask("POST", "/jobs", body, headers).status == 403
    # A proxy may hand on another host than the page's, with or without the usual port.
    for headers in (
        {"Origin": "https://kg.example.org", "Sec-Fetch-Site": "same-origin"},
        {"Origin": f"HTTP://{host}".upper()},
    ):
        assert server.ask("POST", "/link", {"text": "x"}, headers).status == 200
    same = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert server.ask("POST", "/explain", {"text": "heron"}, same).status == 200
    told = server.ask("GET", "/kbs", headers={"Origin": "http://evil.example"}).headers
    assert "access-control-allow-origin" not in told
    assert "default-src 'none'" in told["content-security-policy"]


def test_what_is_too_large(server: Server) -> None:
    assert server.ask("POST", "/link", {"text": "x" * 600_000}).status == 413
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 30) as sent:
        sent.sendall(
            b"POST /link HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(20):
            sent.sendall(b"8000\r\n" + b" " * 0x8000 + b"\r\n")
        assert b" 413 " in sent.recv(65536)


@pytest.mark.slow
def test_a_body_that_does_not_come(demo_master: Path) -> None:
    with serving(demo_master, "--seconds", "1", "--read-only") as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        assert server.ask("GET", "/ready").status == 200
        with socket.create_connection((host, int(port)), 30) as sent:
            sent.sendall(
                b"POST /link HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n"
                b"Content-Type: application/json\r\n\r\n{"
            )
            assert b" 408 " in sent.recv(65536)
        with socket.create_connection((host, int(port)), 30) as sent:
            sent.sendall(b"GET / HTTP/1.1\r\n")  # and nothing more
            assert sent.recv(65536) == b""
        refused = server.ask("POST", "/jobs", {"kind": "build"})
        assert (refused.status, refused.json["error"]) == (403, "this server changes nothing")
        assert server.ask("POST", "/link", {"text": "A heron."}).status in (200, 504)


@pytest.mark.slow
def test_what_takes_too_long(demo_master: Path) -> None:
    long = "A heron stood on Skerrow Light. " * 3000
    with serving(demo_master, "--seconds", "0.1", "--read-only") as server:
        assert server.ask("GET", "/health").status == 200
        for method, path, body in (
            ("GET", "/search?q=wading%20bird", None),  # the first loads the model
            ("POST", "/link", {"text": long}),
            ("POST", "/explain", {"text": long}),
            ("POST", "/resolve", {"names": [f"heron {number}" for number in range(10_000)]}),
        ):
            answer = server.ask(method, path, body)
            assert (answer.status, answer.json["error"]) == (504, "it took over 0.1 s"), answer
            assert answer.json["fix"] == "Send less at once; --seconds raises the limit."
        assert server.ask("GET", "/health").status == 200


@pytest.mark.slow
def test_what_is_unexpected_is_in_the_log(demo_copy: Path) -> None:
    with serving(demo_copy, "--log") as server:
        shutil.rmtree(demo_copy / ".scratch", ignore_errors=True)
        (demo_copy / ".scratch").write_text("no folder")
        told = server.ask("POST", "/jobs", {"kind": "build"})
        assert told.json == {"error": "Not a directory", "fix": "See the server's log."}
        assert (told.status, told.headers["cache-control"]) == (500, "no-store")
        server.process.terminate()
        assert server.process.stderr
        log = server.process.stderr.read()
    assert "NotADirectoryError" in log
    assert '"path": "/jobs", "status": 500' in log


def test_a_full_disk_has_its_status(tmp_path: Path) -> None:
    full = sqlite3.connect(tmp_path / "full.db")
    full.execute("PRAGMA max_page_count = 2")
    full.execute("CREATE TABLE t (x)")
    with pytest.raises(sqlite3.OperationalError, match="full") as raised:
        full.execute("INSERT INTO t VALUES (zeroblob(100000))")
    full.close()
    error = StoreError("the store cannot grow: the disk is full", hint="Make room.")
    assert status_of(error) == 503
    error.__cause__ = DBAPIError("INSERT", None, raised.value)
    assert status_of(error) == 507
    for lack in (OSError(errno.ENOSPC, "No space left"), OSError("9 requested and 4 written")):
        error.__cause__ = lack  # the second is numpy's
        assert status_of(error) == 507
    assert "store" not in error_shape(error)["error"]  # nor where it lies


def test_fixes_are_those_of_a_route(tmp_path: Path) -> None:
    def fix(kind: bytes) -> str:
        with pytest.raises(SourceError) as caught:
            check_text("kb.csv", kind, str(tmp_path / "kb.csv"))
        return str(error_shape(caught.value)["fix"])

    assert fix(b"\x04\x22\x4d\x18") == fix(bytes(257) + b"ustar") == "Unpack it, and send it again."
    assert "such as &encoding=UTF-16." in fix(b"\xff\xfea\0")
    hint = "Name another encoding: --encoding (kglink add-kb, kglink link)."
    assert "another one by &encoding=" in error_shape(SourceError("no", hint=hint))["fix"]
    links = UsageError("no", hint="Name them: --links-to KB,KB")
    assert error_shape(links)["fix"] == "Name them: &links_to=KB,KB"


def test_other_machines_need_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="other machines can reach"):
        token_of("", "0.0.0.0")  # noqa: S104 - what is refused
    monkeypatch.setenv("SHORT", "1234")
    with pytest.raises(UsageError, match="has 4 characters"):
        token_of("SHORT", "0.0.0.0")  # noqa: S104 - what is refused
    with pytest.raises(UsageError, match="has 0 characters"):
        token_of("NOBODY", "127.0.0.1")
    monkeypatch.setenv("GERMAN", "ü" * 20)  # which each client would write otherwise
    with pytest.raises(UsageError, match="not ASCII"):
        token_of("GERMAN", "127.0.0.1")
    assert Limits().token == ""


def test_strangers_take_no_place_of_those_who_may_ask() -> None:
    async def answers(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["path"] != "/kbs":  # whoever asked does not read
            await asyncio.Event().wait()
        await send({"type": "http.response.start", "status": 200})

    async def ask() -> None:
        limits, statuses = Limits(waiting=1, token="k" * 20), []
        guard = Guard(answers, limits, Metrics(), log=False, is_ending=lambda: False)

        async def nothing() -> Message:
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            statuses.append(message.get("status"))

        def asked(method: str, path: str, **headers: str) -> Awaitable[None]:
            sent = [(key.encode(), value.encode()) for key, value in headers.items()]
            scope = {"type": "http", "method": method, "path": path, "headers": sent}
            return guard(scope, nothing, send)

        strangers = (("GET", "/page.js"), ("GET", "/health"), ("OPTIONS", "/kbs/x"))
        waiting = [asyncio.ensure_future(asked(*one)) for one in strangers]
        await asyncio.sleep(0)
        await asked("GET", "/kbs", authorization=f"Bearer {limits.token}")
        assert statuses == [200]
        for one in waiting:
            one.cancel()

    asyncio.run(ask())


@pytest.mark.slow
def test_a_token_that_is_missing_or_wrong(demo_copy: Path) -> None:
    secret = "k" * 20
    with serving(demo_copy, "--token-from", "KEY", "--read-only", env={"KEY": secret}) as server:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": secret}):
            answer = server.ask("POST", "/link", {"text": "A heron."}, headers)
            assert (answer.status, answer.json["error"]) == (401, "the token is missing or wrong")
            assert answer.json["fix"] == "Authorization: Bearer TOKEN"
        # A refusal comes also where much is sent, and not as a broken connection.
        large = b"x" * (8 * 2**20)
        for token, status in (("wrong", 401), (secret, 403)):
            headers = {"Authorization": f"Bearer {token}"}
            assert server.ask("PUT", "/kbs/x?file=x.csv", large, headers).status == status
        known = {"Authorization": f"Bearer {secret}"}
        assert server.ask("GET", "/kbs", headers=known).status == 200
        # Table editors have the token in the address, and send it to all that the manifest names.
        manifest = server.ask("GET", f"/reconcile/lanternfall?token={secret}").json
        for service in (*manifest["suggest"].values(), manifest["extend"]["propose_properties"]):
            path = (service["service_url"] + service["service_path"]).removeprefix(server.url)
            assert server.ask("GET", path).status == 200
        shown = manifest["preview"]["url"].removeprefix(server.url)
        assert server.ask("GET", shown.replace("{{id}}", "grey_heron")).status == 200
