"""`kglink serve` as programs ask it: links, names, entities, corrections, files, runs."""

from __future__ import annotations

import errno
import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import pytest

from kglink import Client, Workspace
from kglink.errors import StoreError
from kglink.training.job import FinetuneJob
from kglink.workspace import init_workspace
from kglink_doors.listening import listen
from kglink_doors.serve.served import Learner
from served import Server, serving
from training_world import SMALL, fill, world_of, write_world_model

pytest_plugins = ["served_fixtures"]

TEXT = "\U0001f9d1\u200d\U0001f680 Mercury rose; a heron stood still."


@pytest.mark.slow
def test_link_answers_as_the_command_line_does(server: Server, demo_master: Path) -> None:
    with Workspace.open(demo_master) as workspace:
        (expected,) = workspace.link(TEXT)
    told = server.ask("POST", "/link", {"text": TEXT}).json
    assert told["text"] == TEXT
    assert told == json.loads(json.dumps({**expected.as_json(), "id": ""}))
    for one in told["entities"]:
        assert TEXT[one["start"] : one["end"]] == one["text"]


def test_link_several_and_given_mentions(server: Server) -> None:
    asked = {
        "texts": [{"id": "a", "text": "A heron.", "entities": [{"start": 2, "end": 7}]}, "Mercury"],
        "kbs": ["lanternfall"],
        "explain": True,
    }
    first, second = server.ask("POST", "/link", asked).json
    assert (first["id"], second["id"]) == ("a", "2")
    assert first["meta"]["mentions"] == "given"
    assert {one["kb"] for one in first["entities"][0]["candidates"]} == {"lanternfall"}
    assert first["entities"][0]["candidates"][0]["evidence"]
    none = server.ask("POST", "/link", {"text": TEXT, "threshold": 1}).json
    assert all(one["nil"] for one in none["entities"])
    alone = server.ask("POST", "/link", {**asked, "kbs": "lanternfall"}).json
    assert alone == [first, second]
    told = server.ask("POST", "/link", {"text": TEXT, "kbs": None})
    assert (told.status, told.json["error"]) == (422, "body.kbs: Input should be a valid list")


@pytest.mark.slow
def test_settings_of_the_workspace_hold_for_requests(demo_copy: Path) -> None:
    own = {"KGLINK_LINK_REJECTED": "true", "KGLINK_LINK_KBS": "lanternfall"}
    flags = {"link.rejected": True, "link.kbs": "lanternfall", "link.threshold": 0.9}
    with Workspace.open(demo_copy, flags=flags) as workspace:
        (document,) = workspace.link(TEXT)
        found = [str(one.id) for one in workspace.search("heron", k=3)]
    wanted = json.loads(json.dumps(document.as_json(rejected=True)))
    assert wanted["rejected"]
    with serving(demo_copy, env={**own, "KGLINK_LINK_THRESHOLD": "0.9"}) as server:
        assert server.ask("POST", "/link", {"text": TEXT}).json == {**wanted, "id": ""}
        line = server.ask("POST", "/link/lines", json.dumps({"text": TEXT}).encode())
        assert json.loads(line.body) == wanted
        told = server.ask("GET", "/search?q=heron&k=3").json
        # A column may have a type that no KB of the settings has.
        cells = {"a": {"query": "heron", "type": "anatomy"}, "b": {"query": "Isolde Heron"}}
        asked = f"/reconcile?{urlencode({'queries': json.dumps(cells)})}"
        columns = server.ask("GET", asked).json
    assert columns["a"] == {"result": []}
    assert columns["b"]["result"][0]["id"] == "lanternfall:isolde_heron"
    assert [f"{one['kb']}:{one['key']}" for one in told] == found


def test_lines_are_answered_in_their_order(server: Server) -> None:
    lines = [json.dumps({"id": str(number), "text": "A heron."}) for number in range(40)]
    lines[3] = "no json"
    lines[0] = "\ufeff" + lines[0]
    lines[4] = '{"id": "4", "text": "A heron \\\\ud83d."}'
    lines[5] = json.dumps({"text": "short", "entities": [{"start": 3, "end": 99}]})
    lines[6] = '\n\n{"text": "A heron."}'
    lines[7] = '{"text": "A heron.", "entities": [{"start": 2}]}'
    body = "\n".join(lines).encode()
    kind = {"content-type": "application/x-ndjson"}
    answer = server.ask("POST", "/link/lines?kbs=lanternfall", body, kind)
    told = [json.loads(line) for line in answer.body.splitlines()]
    assert len(told) == 40
    assert told[3]["error"].startswith("line 4: not valid JSON")
    assert "not inside the text" in told[5]["error"]
    assert [one["id"] for one in (told[0], told[4])] == ["0", "4"]
    assert told[6]["id"] == "9"  # the number of its line
    assert told[7]["error"] == "line 10 is no text: entities.0.end: Field required"
    assert [one["id"] for one in told[8:]] == [str(number) for number in range(8, 40)]


def test_many_ask_at_once_and_get_their_own_answers(server: Server) -> None:
    texts = [f"A heron and {number} lamps." for number in range(24)]
    with ThreadPoolExecutor(12) as pool:
        told = list(pool.map(lambda text: server.ask("POST", "/link", {"text": text}), texts))
    assert [one.json["text"] for one in told] == texts
    one_bad = {"text": "x", "entities": [{"start": 0, "end": 9}]}
    with ThreadPoolExecutor(12) as pool:
        asked: list[Any] = [{"text": text} for text in texts[:6]] + [one_bad]
        statuses = list(pool.map(lambda body: server.ask("POST", "/link", body).status, asked))
    assert statuses == [200] * 6 + [400]


def test_names_are_resolved(server: Server) -> None:
    asked = {"names": ["Isolde Heron", None, "Zorblax Quuxian"], "kbs": ["lanternfall"]}
    first, none, new = server.ask("POST", "/resolve", asked).json
    assert (first["status"], first["id"]) == ("match", "lanternfall:isolde_heron")
    assert none is None
    assert new["status"] == "new"
    assert server.ask("POST", "/resolve", {"names": [None, "", "  "]}).json == [None] * 3
    told = server.ask("POST", "/resolve", {"names": ["a", "b"], "context": {"x": ["y"]}})
    assert told.status == 400, told


def test_every_route_takes_branches(server: Server, demo_master: Path) -> None:
    heron = "lanternfall:isolde_heron"
    limits = {"kbs": "lanternfall", "under": heron}
    asked = {"names": ["grey heron"], **limits}
    (resolved,) = server.ask("POST", "/resolve", asked).json
    assert {one["id"] for one in resolved["candidates"]} == {heron}
    client = Client(server.url)
    assert [one["key"] for one in client.search("heron", k=9, **limits)] == ["isolde_heron"]
    others = client.search("heron", kbs="lanternfall", not_under=heron)
    with Workspace.open(demo_master) as workspace:
        wanted = workspace.search("heron", kbs="lanternfall", not_under=heron)
    assert [one["key"] for one in others] == [one.id.key for one in wanted]


def test_reading(server: Server) -> None:
    assert server.ask("GET", "/health").json["status"] == "alive"
    assert server.ask("GET", "/ready").json["kbs"] == ["encyclopedia", "lanternfall"]
    assert server.ask("GET", "/search?q=wading%20bird&k=3").json[0]["title"]
    assert len(server.ask("GET", "/search?q=heron&k=3&kbs=lanternfall").json) == 3
    heron = server.ask("GET", "/entities/lanternfall/grey_heron").json
    assert heron["title"] == "Grey heron"
    same = server.ask("GET", "/counterparts/lanternfall/grey_heron").json
    assert [one["id"] if "id" in one else one["key"] for one in same]
    names = [one["name"] for one in server.ask("GET", "/kbs").json]
    assert names[:3] == ["encyclopedia", "lanternfall", "docs"]
    assert len(server.ask("GET", "/kbs/lanternfall?limit=7").json["first"]) == 7
    often = {"text": "heron " * 101, "surface": "heron", "start": 0, "end": 5}
    assert len(server.ask("POST", "/explain", often).json) == 1
    limits = {"under": ["encyclopedia:nothing"], "threshold": 1}
    assert server.ask("POST", "/explain", {"text": TEXT, **limits}).status == 400
    why = server.ask("POST", "/explain", {"text": TEXT, "surface": "heron"}).json
    assert why[0]["text"] == "heron"
    assert why[0]["weights"]
    metrics = server.ask("GET", "/metrics").body
    assert re.search(
        r'kglink_requests_total\{method="GET",route="/health",status="200"\} \d', metrics
    )


def test_the_examples_of_the_description_are_answered(server: Server) -> None:
    described = server.ask("GET", "/openapi.json").json
    assert {"/link", "/search", "/kbs/{kb}", "/corrections", "/jobs"} <= described["paths"].keys()
    for method, path in (("put", "/kbs/{kb}"), ("post", "/link/lines"), ("post", "/nif")):
        assert "requestBody" in described["paths"][path][method]
    refused = described["paths"]["/kbs/{kb}"]["get"]["responses"]["default"]
    assert refused["content"]["application/json"]["example"].keys() == {"error", "fix"}
    assert "HTTPValidationError" not in json.dumps(described)
    example = described["components"]["schemas"]["ToLink"]["examples"][0]
    assert server.ask("POST", "/link", example).status == 200


def test_a_correction_is_learnt_and_taken_back(server: Server) -> None:
    start = TEXT.index("Mercury")
    place = {"text": TEXT, "start": start, "end": start + 7}

    def answer() -> Any:
        told = server.ask("POST", "/link", {"text": TEXT}).json["entities"]
        return next(one for one in told if one["start"] == start)

    before = answer()
    said = server.ask("POST", "/corrections", {**place, "entity": "encyclopedia:mercury_god"})
    assert said.status == 201
    assert (answer()["key"], answer()["confidence"]) == ("mercury_god", 1)
    kept = {key: one for key, one in said.json.items() if key not in ("replaced", "learnt")}
    assert (kept in server.ask("GET", "/corrections").json, said.json["replaced"]) == (True, [])
    again = server.ask("POST", "/corrections", {**place, "entity": None})
    assert again.json["replaced"] == [kept]
    assert server.ask("POST", "/corrections", {**place, "entity": kept["entity"]}).status == 201
    assert server.ask("DELETE", f"/corrections/{said.json['id']}").status == 200
    assert answer() == before
    assert server.ask("DELETE", f"/corrections/{said.json['id']}").status == 404


def test_entities_that_are_added_at_once_wait_for_each_other(server: Server) -> None:
    def add(key: str) -> int:
        new = {"key": key, "title": f"Vane {key}"}
        return server.ask("POST", "/entities/lanternfall", new).status

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(add, "abcabc")).count(201) == 3
    assert add("a") == 409


def test_verdicts_and_a_new_entity(server: Server) -> None:
    pair, *_ = server.ask("GET", "/overlaps").json
    sides = {"left": pair["left"]["id"], "right": pair["right"]["id"]}
    assert server.ask("POST", "/overlaps", {**sides, "verdict": "wrong"}).status == 200
    wrong = server.ask("GET", "/overlaps?verdict=wrong").json
    assert [one["left"]["id"] for one in wrong] == [sides["left"]]
    assert server.ask("GET", "/overlaps?verdict=stale").json == []
    kb, key = sides["left"].split(":")
    update = json.dumps({"id": key, "title": pair["left"]["title"], "description": "Another."})
    job = server.ask("PUT", f"/kbs/{kb}?file=new.jsonl&merge=true", update.encode()).json
    assert server.job(job["id"])["state"] == "done"
    (stale,) = server.ask("GET", "/overlaps?verdict=stale").json
    assert (stale["left"]["id"], stale["verdict"]) == (sides["left"], "wrong")
    assert server.ask("POST", "/overlaps", {**sides, "verdict": None}).status == 200
    assert server.ask("GET", "/overlaps?verdict=wrong").json == []
    new = {"key": "vane", "title": "Osric Vane", "description": "A keeper.", "aliases": ["O. Vane"]}
    assert server.ask("POST", "/entities/lanternfall", new).status == 201
    told = server.ask("POST", "/link", {"text": "Osric Vane sleeps."}).json
    assert told["entities"][0]["key"] == "vane"


def test_a_kb_comes_as_a_file(server: Server) -> None:
    table = b"id,name,description\nq,Quetzal,A green bird\n"
    taken = server.ask("PUT", "/kbs/birds?file=../../../etc/birds.csv", table)
    assert taken.status == 202
    job = server.job(taken.json["id"])
    assert job["state"] == "done", job
    assert job["answer"]["added"] == 1
    told = server.ask("POST", "/link", {"text": "A quetzal sings."}).json
    assert told["entities"][0]["kb"] == "birds"
    bad = server.ask("PUT", "/kbs/bad?file=bad.csv", b"\0\1\2")
    told = server.job(bad.json["id"])
    assert told["state"] == "failed"
    assert told["answer"]["error"]
    german = "id;name\nk;Käuzchen\n".encode("cp1252")
    told = server.job(server.ask("PUT", "/kbs/owls?file=o.csv", german).json["id"])
    assert "&encoding=cp1252" in told["answer"]["fix"]
    wide = server.ask("PUT", "/kbs/owls?file=o.csv", german.decode("cp1252").encode("utf-16-le"))
    assert "&encoding=UTF-16LE" in server.job(wide.json["id"])["answer"]["fix"]
    read = server.ask("PUT", "/kbs/owls?file=o.csv&encoding=cp1252", german)
    assert server.job(read.json["id"])["state"] == "done"
    assert server.ask("GET", "/entities/owls/k").json["title"] == "Käuzchen"
    assert server.ask("PUT", "/kbs/owls?file=o.csv&encoding=no", german).status == 400
    odd = "/kbs/odd?file=o.csv&set=key=nr&set=title=what"
    done = server.job(server.ask("PUT", odd, b"nr,what\n7,Osprey\n").json["id"])
    assert done["answer"]["added"] == 1, done
    told = server.job(
        server.ask("PUT", "/kbs/odd2?file=o.csv", b"aa,bb\n7,Osprey\n8,Tern\n").json["id"]
    )
    assert "&set=key=COLUMN &set=title=COLUMN" in told["answer"]["fix"]
    assert server.ask("PUT", "/kbs/odd?file=o.csv&set=key", b"nr\n").status == 400
    told = server.job(
        server.ask("PUT", "/kbs/odd3?file=o.csv", b"name,Its a\nx y,z\nx y,z\n").json["id"]
    )
    assert "&set=key=name if" in told["answer"]["fix"]
    assert server.ask("PUT", "/kbs/bad?file=x.csv", b"").status == 400
    assert server.ask("PUT", "/kbs/Bad%20Name?file=x.csv", table).status == 400
    learnt = server.ask("POST", "/jobs", {"kind": "learn", "kb": "docs"})
    assert server.job(learnt.json["id"])["answer"]["surfaces"] > 50
    assert server.ask("POST", "/jobs", {"kind": "learn", "kb": "nobody"}).status == 404


def test_annotated_texts_name_entities_by_codes(server: Server) -> None:
    terms = b"format-version: 1.2\n\n[Term]\nid: Z:1\nname: quetzal pox\nxref: MESH:D000001\n"
    note = "9|t|Of pox.\n9|a|None.\n9\t3\t6\tpox\tDisease\tD000001\n"
    where = "/kbs/notes?file=notes.PubTator.txt&links_to=poxes"
    done = [
        server.job(server.ask("PUT", path, body).json["id"])
        for path, body in (
            ("/kbs/poxes?file=poxes.obo", terms),
            (where, note.encode()),
            (f"{where}&resolve=xref", note.encode()),
        )
    ]
    assert [one["answer"].get("gold_unresolved") for one in done] == [0, 1, 0], done
    assert server.ask("PUT", f"{where}&resolve=name", note.encode()).status == 422
    for kb, status in (("notes", 202), ("new", 400)):  # the first links to KBs already
        path = f"/kbs/{kb}?file=notes.PubTator.txt&resolve=xref"
        told = server.ask("PUT", path, note.encode())
        assert (told.status, "&links_to=KB,KB" in told.body) == (status, status == 400)
    learnt = server.ask("POST", "/jobs", {"kind": "learn", "kb": "notes"}).json
    assert server.job(learnt["id"])["state"] == "done"
    lost = server.job(server.ask("PUT", where.replace("notes?", "lost?"), note.encode()).json["id"])
    learnt = server.ask("POST", "/jobs", {"kind": "learn", "kb": lost["kb"]}).json
    assert "&links_to=, and say with &resolve= how" in server.job(learnt["id"])["answer"]["fix"]


NIF = """
@prefix nif: <http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#> .
<http://example.org/d#char=0,20> a nif:Context, nif:RFC5147String ;
  nif:isString "Mercury saw a heron." ; nif:beginIndex "0" ; nif:endIndex "20" .
"""


def test_nif_in_nif_out(server: Server) -> None:
    answer = server.ask("POST", "/nif", NIF.encode(), {"content-type": "application/x-turtle"})
    assert answer.headers["content-type"].startswith("text/turtle")
    assert 'nif:anchorOf "heron"' in answer.body
    assert "itsrdf:taIdentRef" in answer.body
    assert "<http://example.org/d#offset_0_20> a nif:Context" in answer.body
    for bad in (b"no turtle", b""):
        assert server.ask("POST", "/nif", bad).status == 400


def test_corrections_that_come_meanwhile_are_learnt_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, may_end, learnt = threading.Semaphore(0), threading.Semaphore(0), list[int]()
    stored: list[int] = []

    def learn(_: object) -> None:
        begun.release()
        may_end.acquire()
        learnt.append(len(stored))
        if len(stored) > 4:
            raise StoreError("the disk is full")

    monkeypatch.setattr("kglink_doors.serve.served.learn_corrections", learn)
    learner = Learner(cast("Workspace", None))
    stored.append(1)
    assert not learner.learn(wait=0.01)  # nobody waits for what takes longer
    begun.acquire()
    for number in (2, 3, 4):
        stored.append(number)
        assert not learner.learn(wait=0.01)
    may_end.release()
    begun.acquire()
    may_end.release()
    learner.close()
    assert learnt == [4, 4]
    assert capsys.readouterr().err == ""
    stored.append(5)
    learner = Learner(cast("Workspace", None))
    assert not learner.learn(wait=0.01)
    may_end.release()
    learner.close()
    assert capsys.readouterr().err == "error  corrections are not learnt yet: the disk is full\n"


def test_parts_of_an_answer_are_sent_at_once() -> None:
    with (
        listen("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="of Linux alone")
def test_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kglink_doors.listening._UNREAD", 1)
    with (
        listen("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as connection,
        pytest.raises(TimeoutError) as cut,
    ):
        connection.sendall(bytes(2**26))
    assert cut.value.errno == errno.ETIMEDOUT


@pytest.mark.slow
def test_spaces_runs_and_their_reports(tmp_path: Path) -> None:
    folder = init_workspace(tmp_path / "trained")
    fill(f"sqlite:///{folder}/kglink.db", world_of()).close()
    base = write_world_model(folder / "tiny", world_of())
    cpu = {"encoder.device": "cpu", "encoder.precision": "fp32", "encoder.threads": 1}
    with Workspace.open(folder, flags=cpu) as workspace:
        changes = {**SMALL, "model": {**SMALL["model"], "base": str(base)}}
        job = FinetuneJob(
            ("atlas",), ("saga",), recipe="default", run="first", space="small", changes=changes,
            device="cpu", precision="fp32", threads=1, what="linker",
        )  # fmt: skip
        workspace.finetune(job)
    with serving(folder) as server:
        assert "small" in [one["name"] for one in server.ask("GET", "/spaces").json]
        (run,) = server.ask("GET", "/runs").json
        assert (run["name"], run["report"]) == ("first", False)
        assert server.ask("GET", "/runs/first").json["curve"]
        assert server.ask("GET", "/reports/first").status == 404
        begun = server.ask("POST", "/jobs", {"kind": "report", "run": "first"}).json
        done = server.job(begun["id"], 240)
        assert done["state"] == "done", done
        page = server.ask("GET", "/reports/first")
        assert "sandbox allow-scripts" in page.headers["content-security-policy"]
        assert "first" in page.body
        for bad in ("/runs/nobody", "/reports/..%2f..%2fkglink.toml", "/reports/nobody"):
            assert server.ask("GET", bad).status == 404
        assert server.ask("POST", "/jobs", {"kind": "report", "run": "nobody"}).status == 404
        with Workspace.open(folder, flags=cpu) as workspace:
            workspace.delete_space("small")
            workspace.delete_run("first")
            fresh = FinetuneJob(("atlas",), ("saga",), run="first", what="linker", changes=changes,
                                recipe="default", device="cpu", publish=False)  # fmt: skip
            workspace.finetune(fresh)
        assert server.ask("GET", "/reports/first").status == 404  # it was of another run
