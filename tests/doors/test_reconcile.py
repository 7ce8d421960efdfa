"""The reconciliation service: by its specification, by PyPI's client, by OpenRefine."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kglink import Entity, Workspace
from kglink.workspace import init_workspace
from served import Server, serving

OPENREFINE = shutil.which("openrefine")


@pytest.fixture(scope="module")
def server(demo_master: Path) -> Iterator[Server]:
    with serving(demo_master, "--read-only") as running:
        yield running


def form(**fields: object) -> bytes:
    return urllib.parse.urlencode({key: json.dumps(one) for key, one in fields.items()}).encode()


def test_the_manifest(server: Server) -> None:
    told = server.ask("GET", "/reconcile/lanternfall").json
    assert server.ask("GET", "/reconcile/lanternfall/").json == told
    assert server.ask("GET", "/reconcile/").status == 200
    assert told["versions"] == ["0.2"]
    assert told["name"] == "kglink: lanternfall"
    assert told["identifierSpace"].startswith(server.url)
    assert {"id": "bird", "name": "bird"} in told["defaultTypes"] or told["defaultTypes"]
    assert "{{id}}" in told["view"]["url"]
    for service in (*told["suggest"].values(), told["extend"]["propose_properties"]):
        address = service["service_url"] + service["service_path"]
        assert server.ask("GET", address.removeprefix(server.url)).status == 200


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_queries(server: Server, method: str) -> None:
    queries = {
        "q0": {"query": "Isolde Heron", "limit": 2},
        "q1": {"query": "heron", "type": "bird"},
        "q2": {"query": "Cornwall", "properties": [{"pid": "country", "v": ["England"]}]},
        "q3": {"query": "heron", "type": "no such type"},
        "q4": {"query": "Zorblax Quuxian"},
        "q5": {"query": "heron", "type": ["bird", "no such type"]},
    }
    body = form(queries=queries)
    path = "/reconcile/lanternfall"
    told = (
        server.ask("GET", f"{path}?{body.decode()}")
        if method == "GET"
        else server.ask("POST", path, body)
    ).json
    assert list(told) == list(queries)
    first = told["q0"]["result"][0]
    assert (first["id"], first["name"], first["match"]) == ("isolde_heron", "Isolde Heron", True)
    assert 50 < first["score"] <= 100
    assert len(told["q0"]["result"]) <= 2
    assert {kind["id"] for one in told["q1"]["result"] for kind in one["type"]} == {"bird"}
    assert told["q1"]["result"][0]["id"] == "grey_heron"
    assert told["q2"]["result"][0]["id"] == "cornwall"
    assert told["q3"]["result"] == []
    assert told["q5"] == told["q1"]
    assert not any(one["match"] for one in told["q4"]["result"])
    scores = [one["score"] for one in told["q2"]["result"]]
    assert scores == sorted(scores, reverse=True)


def test_all_kbs_at_once(server: Server) -> None:
    told = server.ask("POST", "/reconcile", form(queries={"a": {"query": "Edmond Halley"}})).json
    assert told["a"]["result"][0]["id"] == "encyclopedia:edmond_halley"


@pytest.mark.slow
def test_scores_are_probabilities_also_in_a_kb_that_was_just_added(tmp_path: Path) -> None:
    folder = init_workspace(tmp_path / "w")
    with Workspace.open(folder) as workspace, serving(folder) as server:
        workspace.add_kb("moons", [Entity("m1", "Mercury"), Entity("m2", "Mercury")])
        query = form(queries={"a": {"query": "Mercury"}})

        def scores() -> dict[str, float]:
            (told,) = server.ask("POST", "/reconcile/moons", query).json.values()
            return {one["id"]: one["score"] for one in told["result"]}

        first = scores()
        assert len(first) == 2
        assert first["m1"] == first["m2"] <= 50
        workspace.correct("Mercury", 0, 7, "moons:m2")
        assert scores() == {"m2": 100.0, "m1": 0.0}
        workspace.correct("Mercury", 0, 7, None)
        assert {*scores().values()} == {0.0}


def test_suggest_preview_extend(server: Server) -> None:
    found = server.ask("GET", "/reconcile/_/suggest/entity?prefix=grey%20heron").json["result"]
    assert "lanternfall:grey_heron" in [one["id"] for one in found]
    # What begins so comes first, whatever else a search would find.
    found = server.ask("GET", "/reconcile/lanternfall/suggest/entity?prefix=Isol").json["result"]
    assert found[0]["id"] == "isolde_heron"
    assert len({one["id"] for one in found}) == len(found)
    kinds = server.ask("GET", "/reconcile/lanternfall/suggest/type?prefix=bi").json["result"]
    assert {"id": "bird", "name": "bird"} in kinds
    shown = server.ask("GET", "/reconcile/lanternfall/preview?id=grey_heron")
    assert shown.headers["content-type"].startswith("text/html")
    assert "frame-ancestors http://localhost:*" in shown.headers["content-security-policy"]
    assert "Grey heron" in shown.body
    asked = {
        "ids": ["grey_heron", "nobody"],
        "properties": [{"id": "title"}, {"id": "counterparts"}],
    }
    told = server.ask("POST", "/reconcile/lanternfall", form(extend=asked)).json
    assert [one["id"] for one in told["meta"]] == ["title", "counterparts"]
    assert told["rows"]["grey_heron"]["title"] == [{"str": "Grey heron"}]
    assert told["rows"]["grey_heron"]["counterparts"] == [{"str": "encyclopedia:heron"}]
    assert told["rows"]["nobody"] == {"title": [], "counterparts": []}


def test_addresses_of_all_kbs_are_of_no_kb(server: Server) -> None:
    manifest = server.ask("GET", "/reconcile").json
    assert manifest["preview"]["url"].endswith("/reconcile/_/preview?id={{id}}")
    assert server.ask("GET", "/reconcile/_").json == manifest
    assert server.ask("GET", "/reconcile/_/properties").json["properties"]
    for kb in ("preview", "properties", "suggest"):  # no such KB: what a KB of that name gets
        assert f"unknown KB '{kb}'" in server.ask("GET", f"/reconcile/{kb}").json["error"]


def test_a_cell_that_is_cut_inside_a_sign_spoils_no_other(server: Server) -> None:
    cells = '{"q0": {"query": "grey heron"}, "q1": {"query": "a\\ud83d"}}'
    told = server.ask(
        "POST", "/reconcile/lanternfall", urllib.parse.urlencode({"queries": cells}).encode()
    )
    assert told.json["q0"]["result"][0]["id"] == "grey_heron"
    assert "q1" in told.json
    deep = server.ask(
        "POST", "/reconcile", urllib.parse.urlencode({"queries": "[" * 100_000}).encode()
    )
    assert deep.status == 400


def test_what_is_no_form_of_queries_is_refused(server: Server) -> None:
    told = server.ask("POST", "/reconcile/lanternfall", b'{"q0": {"query": "heron"}}')
    assert told.status == 400
    assert "x-www-form-urlencoded" in told.json["fix"]


def test_pages_of_this_machine_may_ask(server: Server) -> None:
    editor = "http://127.0.0.1:3333"
    told = server.ask("OPTIONS", "/reconcile/lanternfall", headers={"Origin": editor})
    assert told.status == 204
    assert told.headers["access-control-allow-origin"] == editor
    body = form(queries={"a": {"query": "x"}})
    assert server.ask("POST", "/reconcile", body, {"Origin": editor}).status == 200
    evil = server.ask("GET", "/reconcile", headers={"Origin": "http://evil.example"})
    assert "access-control-allow-origin" not in evil.headers


@pytest.mark.parametrize(
    ("path", "fields", "status", "words"),
    [
        ("/reconcile/nobody", {"queries": {"a": {"query": "x"}}}, 404, "nobody"),
        ("/reconcile", {"queries": []}, 400, "queries"),
        ("/reconcile", {"queries": {"a": {"query": []}}}, 400, "a.query"),
        ("/reconcile", {"queries": {"a": {"query": "x", "limit": -1}}}, 400, "a.limit"),
        ("/reconcile", {"extend": {"ids": 5}}, 400, "extend"),
        ("/reconcile", {"extend": {"ids": [], "properties": [{"id": "x"}]}}, 404, "property 'x'"),
    ],
)
def test_bad_forms(server: Server, path: str, fields: Any, status: int, words: str) -> None:
    answer = server.ask("POST", path, form(**fields))
    assert (answer.status, words in answer.json["error"]) == (status, True), answer


def test_an_empty_cell_has_no_candidates_and_spoils_no_other(server: Server) -> None:
    queries = {
        "a": {"query": ""},
        "b": {"query": None, "limit": None, "properties": None},
        "c": {"query": " "},
        "d": {"query": "heron", "limit": 500},
        "e": {"query": 1866},
    }
    told = server.ask("POST", "/reconcile/lanternfall", form(queries=queries)).json
    assert [told[one]["result"] for one in "abc"] == [[], [], []]
    assert told["d"]["result"]
    assert told.keys() == queries.keys()


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_a_data_frames_column_by_the_clients_own_code(server: Server) -> None:
    from reconciler import reconcile

    column = pd.Series(["Isolde Heron", "Cornwall", "Isolde Heron"])
    found = reconcile(column, reconciliation_endpoint=f"{server.url}/reconcile/lanternfall")
    assert dict(zip(found["input_value"], found["id"], strict=True)) == {
        "Isolde Heron": "isolde_heron",
        "Cornwall": "cornwall",
    }


class OpenRefine:
    """OpenRefine, asked as its own pages ask it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, command: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/command/core/{command}", timeout=60) as answer:  # noqa: S310 - a server of this test
            return json.load(answer)

    def post(self, command: str, data: bytes, kind: str) -> Any:
        token = self.get("get-csrf-token")["token"]
        glue = "&" if "?" in command else "?"
        asked = urllib.request.Request(  # noqa: S310 - a server of this test
            f"{self.url}/command/core/{command}{glue}csrf_token={token}",
            data,
            {"Content-Type": kind},
        )
        return urllib.request.urlopen(asked, timeout=60)  # noqa: S310 - a server of this test

    def project(self, table: str) -> str:
        """A new project of a CSV table; its number."""
        options = json.dumps({"separator": ",", "headerLines": 1})
        parts = [
            ("project-file", table, '; filename="names.csv"'),
            ("project-name", "names", ""),
            ("format", "text/line-based/*sv", ""),
            ("options", options, ""),
        ]
        body = "".join(
            f'--XX\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n'
            for name, value, more in parts
        )
        with self.post(
            "create-project-from-upload",
            f"{body}--XX--\r\n".encode(),
            "multipart/form-data; boundary=XX",
        ) as answer:
            return str(answer.url).partition("project=")[2]

    def reconcile(self, project: str, column: str, service: str) -> list[dict[str, Any]]:
        """Reconcile a column as its dialogue does; its cells."""
        with urllib.request.urlopen(service, timeout=60) as answer:  # noqa: S310 - a server of this test
            manifest = json.load(answer)
        config = {
            "mode": "standard-service",
            "service": service,
            "identifierSpace": manifest["identifierSpace"],
            "schemaSpace": manifest["schemaSpace"],
            "type": None,
            "autoMatch": True,
            "columnDetails": [{"column": "kind", "propertyName": "kind", "propertyID": "kind"}],
            "limit": 0,
        }
        engine = json.dumps({"facets": [], "mode": "row-based"})
        fields = {"columnName": column, "config": json.dumps(config), "engine": engine}
        form_kind = "application/x-www-form-urlencoded"
        self.post(
            f"reconcile?project={project}", urllib.parse.urlencode(fields).encode(), form_kind
        ).close()
        for _ in range(240):
            if not self.get(f"get-processes?project={project}")["processes"]:
                break
            time.sleep(0.25)
        query = f"get-rows?project={project}&start=0&limit=20"
        with self.post(
            query, urllib.parse.urlencode({"engine": engine}).encode(), form_kind
        ) as rows:
            told = json.load(rows)
        judged = told["pool"]["recons"]
        return [judged[str(row["cells"][0]["r"])] for row in told["rows"]]


@pytest.fixture(scope="module")
def openrefine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenRefine]:
    if OPENREFINE is None:
        pytest.skip("there is no openrefine in PATH")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("openrefine")
    process = subprocess.Popen(
        [
            OPENREFINE,
            "-i",
            "127.0.0.1",
            "-p",
            str(port),
            "-d",
            folder,
            "-x",
            "refine.headless=true",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    running = OpenRefine(f"http://127.0.0.1:{port}")
    try:
        for _ in range(240):
            try:
                running.get("get-version")
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.5)
        yield running
    finally:
        subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
        process.wait()


TABLE = "who,kind\nIsolde Heron,character\nHalley,character\nCornwall,place\nZorblax Quuxian,\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kb", "expected"),
    [
        ("/lanternfall", ["isolde_heron", "juno_halley", "cornwall", None]),
        ("/encyclopedia", [None, "", "cornwall", None]),
        ("", ["lanternfall:isolde_heron", "", "", None]),
    ],
)
def test_openrefine_reconciles_a_column(
    server: Server, openrefine: OpenRefine, kb: str, expected: list[str | None]
) -> None:
    """An empty text stands for a match whose entity is the KBs' own matter."""
    project = openrefine.project(TABLE)
    cells = openrefine.reconcile(project, "who", f"{server.url}/reconcile{kb}")
    for cell, wanted in zip(cells, expected, strict=True):
        if wanted is None:
            assert cell["j"] != "matched", cell
        else:
            assert cell["j"] == "matched", cell
            assert not wanted or cell["m"]["id"] == wanted, cell
