"""`kglink.Client` asks a server as `Workspace` is asked."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kglink import Client, EntityId, Workspace
from kglink.client import ServerError
from kglink.errors import UsageError
from served import Server, serving


@pytest.fixture
def server(demo_copy: Path) -> Iterator[Server]:
    with serving(demo_copy) as running:
        yield running


@pytest.mark.slow
def test_a_client_is_asked_as_a_workspace_is(
    server: Server, demo_master: Path, tmp_path: Path
) -> None:
    client = Client(server.url + "/")
    texts = ["A heron.", "Mercury rose over \N{PILE OF POO} Halley."] * 20
    with Workspace.open(demo_master) as workspace:
        own = [json.loads(json.dumps(one.as_json())) for one in workspace.link(texts)]
        known = workspace.entity("lanternfall:grey_heron").as_json()
    assert list(client.link(texts)) == own
    assert client.entity("lanternfall:grey_heron") == json.loads(json.dumps(known))
    given = {"id": "x", "text": "A heron.", "entities": [{"start": 2, "end": 7}]}
    assert client.explain("A heron.", kbs="lanternfall")
    (told,) = client.link([given], kbs=["lanternfall"])
    assert (told["id"], told["meta"]["mentions"]) == ("x", "given")
    assert client.search("wading bird", k=2, kbs=["lanternfall"])[0]["kb"] == "lanternfall"
    assert client.explain("A heron.", surface="heron")[0]["text"] == "heron"
    (found,) = client.resolve(["Isolde Heron"])
    assert found
    assert found["id"] == "lanternfall:isolde_heron"
    said = client.correct("A heron.", 2, 7, None)
    assert (said.pop("replaced"), said.pop("learnt")) == ([], True)
    assert client.corrections() == [said]
    assert client.take_back(said["id"]) == {**said, "learnt": True}
    assert client.resolve(["Isolde Heron", float("nan")]) == [found, None]
    assert client.resolve("Isolde Heron") == [found]
    several = client.resolve(
        ["Isolde Heron", 1984], context={"year": [1990, None]}, kbs="lanternfall"
    )
    assert [one and one["status"] for one in several] == ["match", "new"]
    many = ["Isolde Heron"] * 1001
    assert client.resolve(many, context=["of the lighthouse"] * len(many)) == client.resolve(
        "Isolde Heron", "of the lighthouse"
    ) * len(many)
    assert list(client.link("A heron.", kbs="lanternfall"))
    assert [one["id"] for one in client.link({"id": "y", "text": "A heron."})] == ["y"]
    path = tmp_path / "birds.csv"
    path.write_text("id,name\nq,Quetzal\n", encoding="utf-8")
    job = client.add_kb("birds", path)
    assert server.job(job["id"])["state"] == client.job(job["id"])["state"] == "done"
    assert "birds" in [one["name"] for one in client.kbs()]
    with pytest.raises(ServerError, match="nobody") as refused:
        list(client.link("x", kbs=["nobody"]))
    assert refused.value.status == 404
    assert "There is" in refused.value.hint


def test_what_a_client_refuses_before_it_asks() -> None:
    client = Client("http://127.0.0.1:9", token="secret\n")  # noqa: S106 - of no server
    with pytest.raises(UsageError, match="a table is no list of texts"):
        list(client.link(pd.DataFrame({"text": ["A heron."]})))
    with pytest.raises(UsageError, match="text 2 is of the type float"):
        list(client.link(["A heron.", float("nan")]))  # type: ignore[list-item]  # as a frame gives it
    with pytest.raises(UsageError, match=r"cannot read none\.csv"):
        client.add_kb("birds", "none.csv")
    wrong_ways: list[dict[str, Any]] = [{"seconds": None}, {"seconds": -1}, {"token": "a\nb"}]
    for way in wrong_ways:
        with pytest.raises(UsageError):
            Client("http://127.0.0.1:9", **way)
    assert Client("http://127.0.0.1:9", token=None)
    for wrong, kind in ((None, "NoneType"), (b"A heron.", "bytes")):
        given: Any = wrong
        with pytest.raises(UsageError, match=f"text 1 is of the type {kind}"):
            list(client.link(given))
    with pytest.raises(ServerError, match="does not answer"):  # the token is one that may be sent
        client.kbs()
    with pytest.raises(UsageError, match="letters that no header takes"):
        Client("http://127.0.0.1:9", token="\N{EURO SIGN}" * 20)


def test_a_busy_server_is_asked_again() -> None:
    asked: list[str] = []

    class Busy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            is_busy = len(asked) < 3
            body = b'{"error": "busy", "fix": "later"}' if is_busy else b"[]"
            self.send_response(503 if is_busy else 200)
            if is_busy:
                self.send_header("retry-after", "0")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert (Client(url).kbs(), len(asked)) == ([], 3)
        asked.clear()
        with pytest.raises(ServerError, match="busy"):
            Client(url, seconds=0.01).kbs()
        server.shutdown()


def test_a_server_that_is_none() -> None:
    asked: list[dict[str, Any]] = []

    class Silly(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(500 if self.path == "/kbs" else 200)
            self.end_headers()
            self.wfile.write(b"null" if self.path.startswith("/entities") else b"<html>")

        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library names it
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Silly) as silly:
        thread = threading.Thread(target=silly.serve_forever)
        thread.start()
        client = Client(f"http://127.0.0.1:{silly.server_port}")
        with pytest.raises(ServerError, match="answers 500"):
            client.kbs()
        with pytest.raises(ServerError, match="answers no JSON"):
            client.search("x\ud800")
        with pytest.raises(ServerError, match="answers no JSON"):
            client.entity(EntityId("birds", "h"))
        given: Any = np.int64(2)
        with pytest.raises(ServerError, match="answers no JSON"):
            client.correct("A heron.", given, 7, EntityId("birds", "h"))
        assert (asked[0]["start"], asked[0]["entity"]) == (2, "birds:h")
        silly.shutdown()
        thread.join()
    with pytest.raises(ServerError, match="does not answer") as error:
        client.kbs()
    assert "kglink serve" in error.value.hint
    with pytest.raises(UsageError, match="no web address"):
        Client("file:///etc/passwd")
