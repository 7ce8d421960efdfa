"""`kglink serve` as programs ask it: routes, limits, strangers, and what a kill leaves."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import re
import shutil
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy.exc import DBAPIError

from kglink import Workspace
from kglink.errors import StoreError, UsageError
from kglink.training.job import FinetuneJob
from kglink.workspace import init_workspace
from kglink_doors.listening import Limits, listen, token_of
from kglink_doors.serve.errors import error_shape, status_of
from kglink_doors.serve.jobs import Jobs
from kglink_doors.serve.served import Learner
from served import Server, serving
from training_world import SMALL, fill, world_of, write_world_model

TEXT = "\U0001f9d1\u200d\U0001f680 Mercury rose; a heron stood still."


@pytest.fixture(scope="module")
def server(demo_master: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve") / "workspace"
    shutil.copytree(demo_master, folder)
    with serving(folder, "--body-mb", "0.5", "--seconds", "60", "--log") as running:
        assert running.process.stderr
        log = threading.Thread(target=running.process.stderr.read)  # a full pipe would stop it
        log.start()
        yield running
    log.join()


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


def test_lines_are_answered_in_their_order(server: Server) -> None:
    lines = [json.dumps({"id": str(number), "text": "A heron."}) for number in range(40)]
    lines[3] = "no json"
    lines[5] = json.dumps({"text": "short", "entities": [{"start": 3, "end": 99}]})
    body = "\n".join(lines).encode()
    kind = {"content-type": "application/x-ndjson"}
    answer = server.ask("POST", "/link/lines?kbs=lanternfall", body, kind)
    told = [json.loads(line) for line in answer.body.splitlines()]
    assert len(told) == 40
    assert "the line is no text" in told[3]["error"]
    assert "not inside the text" in told[5]["error"]
    assert [one["id"] for one in told[6:]] == [str(number) for number in range(6, 40)]


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
    assert server.ask("PUT", "/kbs/bad?file=x.csv", b"").status == 400
    assert server.ask("PUT", "/kbs/Bad%20Name?file=x.csv", table).status == 400
    learnt = server.ask("POST", "/jobs", {"kind": "learn", "kb": "docs"})
    assert server.job(learnt.json["id"])["answer"]["surfaces"] > 50
    assert server.ask("POST", "/jobs", {"kind": "learn", "kb": "nobody"}).status == 404


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


def test_folders_that_are_no_jobs_are_swept(demo_copy: Path) -> None:
    jobs = demo_copy / ".scratch" / "jobs"
    outside = {"kind": "add-kb", "options": {"kb": "stolen", "file": "/etc/passwd"}}
    for name, content in (("a", []), ("b", outside), ("c", {}), ("d", {"kind": "rm"})):
        (jobs / name).mkdir(parents=True)
        (jobs / name / "job.json").write_text(json.dumps(content))
    with Workspace.open(demo_copy) as workspace:
        found = Jobs(workspace, read_only=False)
        assert found.all() == []
        found.close()
    assert list(jobs.iterdir()) == []


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
    for bad in (b"no turtle", b""):
        assert server.ask("POST", "/nif", bad).status == 400


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/link", b"{", 422, "JSON"),
        ("POST", "/link", {}, 400, "one text or several"),
        ("POST", "/link", {"txt": "x"}, 422, "txt"),
        ("POST", "/link", {"text": 5}, 422, "text"),
        ("POST", "/link", {"text": "x", "kbs": ["nobody"]}, 404, "nobody"),
        ("POST", "/link", {"text": "x", "types": ["nothing"]}, 404, "nothing"),
        ("POST", "/link", {"text": "x", "threshold": 7}, 422, "threshold"),
        ("GET", "/entities/lanternfall/nobody", None, 404, "lanternfall:nobody"),
        ("GET", "/entities/nobody/x", None, 404, "nobody:x"),
        ("GET", "/kbs/nobody", None, 404, "nobody"),
        ("GET", "/search?q=", None, 422, "q"),
        ("GET", "/search?q=x&k=0", None, 422, "k"),
        ("GET", "/nowhere", None, 404, "/nowhere"),
        ("DELETE", "/link", None, 405, "DELETE"),
        ("GET", "/jobs/nothing", None, 404, "nothing"),
        ("POST", "/corrections", {"text": "x", "start": 0, "end": 9, "entity": None}, 400, "place"),
        ("POST", "/overlaps", {"left": "a:b", "right": "c:d", "verdict": "correct"}, 404, "a:b"),
        ("POST", "/explain", {"text": "x", "surface": "y"}, 400, "does not stand"),
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


def test_strangers(server: Server) -> None:
    host = server.url.removeprefix("http://")
    assert server.ask("GET", "/kbs", headers={"Host": "evil.example"}).status == 421
    assert server.ask("GET", "/kbs", headers={"Host": "localhost:1"}).status == 200
    body = {"kind": "build"}
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert server.ask("POST", "/jobs", body, headers).status == 403
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
def test_a_kill_loses_nothing_that_was_acknowledged(demo_copy: Path) -> None:
    """Killed amid corrections, an upload that still comes, and a job."""
    text = "Then Halley went home."
    acknowledged: list[str] = []

    def correct_on_and_on(server: Server) -> None:
        with contextlib.suppress(OSError, HTTPException):
            for number in itertools.count():
                own = f"{text} {number}"
                place = {"start": 5, "end": 11, "entity": "lanternfall:juno_halley"}
                said = {"text": own, **place}
                assert server.ask("POST", "/corrections", said).status == 201
                acknowledged.append(own)

    lines = (b"k%d,Thing %d,One of many\n" % (n, n) for n in range(300))
    things = b"id,name,description\n" + b"".join(lines)
    with serving(demo_copy) as server, ThreadPoolExecutor(1) as pool:
        host, _, port = server.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), 30) as half:
            half.sendall(
                b"PUT /kbs/half?file=half.csv HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Length: 90000\r\n\r\nid,name\n1,x\n"
            )
            correcting = pool.submit(correct_on_and_on, server)
            while len(acknowledged) < 3:
                time.sleep(0.05)
            taken = server.ask("PUT", "/kbs/things?file=things.csv", things)
            assert taken.status == 202
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        correcting.result()
    with serving(demo_copy) as server:
        assert {one["text"] for one in server.ask("GET", "/corrections").json} >= {*acknowledged}
        told = server.ask("POST", "/link", {"text": acknowledged[-1]}).json["entities"]
        assert [one["key"] for one in told if one["start"] == 5] == ["juno_halley"]
        assert [one["id"] for one in server.ask("GET", "/jobs").json] == [taken.json["id"]]
        assert server.job(taken.json["id"], 240)["state"] == "done"
        kbs = {one["name"]: one["entities"] for one in server.ask("GET", "/kbs").json}
        assert kbs["things"] == 300
        assert "half" not in kbs


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


@pytest.mark.slow
def test_two_servers_on_one_workspace_agree(demo_copy: Path) -> None:
    text = "Then Halley went home."
    said = {"text": text, "start": 5, "end": 11, "entity": "lanternfall:juno_halley"}
    with serving(demo_copy) as one, serving(demo_copy) as other:
        assert one.ask("POST", "/corrections", said).status == 201
        told = other.ask("POST", "/link", {"text": text}).json["entities"]
        assert [found["key"] for found in told if found["start"] == 5] == ["juno_halley"]
        with ThreadPoolExecutor(2) as pool:
            places = [(one, 0, 4), (other, 12, 16)]
            done = pool.map(
                lambda at: at[0].ask(
                    "POST",
                    "/corrections",
                    {"text": text, "start": at[1], "end": at[2], "entity": None},
                ),
                places,
            )
            assert {answer.status for answer in done} == {201}
        assert len(other.ask("GET", "/corrections").json) == 3


@pytest.mark.slow
def test_terminating_answers_what_is_at_work(demo_master: Path) -> None:
    with serving(demo_master) as server, ThreadPoolExecutor(1) as pool:
        assert server.ask("GET", "/ready").status == 200
        asked = pool.submit(server.ask, "POST", "/link", {"texts": ["A heron on a lamp."] * 200})
        time.sleep(0.3)
        server.process.terminate()
        assert asked.result().status == 200
        assert server.process.wait(60) in (0, 128 + signal.SIGTERM)


@pytest.mark.slow
def test_who_sends_nothing_does_not_keep_the_server(demo_master: Path) -> None:
    with serving(demo_master) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        line = b'{"text": "A grey heron."}\n'
        chunk = b"%x\r\n%b\r\n" % (len(line), line)
        begun = (
            b"POST /link/lines HTTP/1.1\r\nHost: localhost\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + chunk,
            b"PUT /kbs/slow?file=a.csv HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Length: 1000\r\n\r\nid",
        )
        with contextlib.ExitStack() as opened:
            clients = [
                opened.enter_context(socket.create_connection((host, int(port)), 30)) for _ in begun
            ]
            for client, sent in zip(clients, begun, strict=True):
                client.sendall(sent)
            answers = clients[0].makefile("rb")
            assert any(b"heron" in line for line in answers)
            began = time.monotonic()
            server.process.send_signal(signal.SIGINT)
            server.process.wait(30)
            assert time.monotonic() - began < 10
            assert b"the server ends" in answers.read()
            assert server.process.stderr
            assert "Traceback" not in server.process.stderr.read()


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
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert status_of(error) == 507
    assert "store" not in error_shape(error)["error"]  # nor where it lies


def test_other_machines_need_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="other machines can reach"):
        token_of("", "0.0.0.0")  # noqa: S104 - what is refused
    monkeypatch.setenv("SHORT", "1234")
    with pytest.raises(UsageError, match="has 4 characters"):
        token_of("SHORT", "0.0.0.0")  # noqa: S104 - what is refused
    with pytest.raises(UsageError, match="has 0 characters"):
        token_of("NOBODY", "127.0.0.1")
    assert Limits().token == ""


def test_parts_of_an_answer_are_sent_at_once() -> None:
    with (
        listen("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


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


@pytest.mark.slow
def test_a_workspace_that_vanishes(demo_copy: Path) -> None:
    with serving(demo_copy) as server:
        assert server.ask("GET", "/ready").status == 200
        demo_copy.rename(demo_copy.with_name("elsewhere"))
        for method, path, body in (
            ("GET", "/ready", None),
            ("POST", "/link", {"text": "A heron."}),
            ("POST", "/corrections", {"text": "A heron.", "start": 2, "end": 7, "entity": None}),
            ("PUT", "/kbs/x?file=a.csv", b"id,name\n1,x\n"),
        ):
            answer = server.ask(method, path, body)
            assert (answer.status, "is gone" in answer.json["error"]) == (503, True), answer
        assert not demo_copy.exists()
        demo_copy.with_name("elsewhere").rename(demo_copy)
        assert server.ask("POST", "/link", {"text": "A heron."}).status == 200
