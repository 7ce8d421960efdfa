"""A server that is killed, ended or left without workspace loses nothing that was acknowledged."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import signal
import socket
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from kglink import Entity, Workspace
from kglink.files.atomic import file_lock
from kglink_doors.serve.errors import logged_crash
from kglink_doors.serve.jobs import Jobs
from served import Server, serving


def _wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_folders_that_are_no_jobs_are_swept(demo_copy: Path) -> None:
    jobs = demo_copy / ".scratch" / "jobs"
    outside = {"kind": "add-kb", "options": {"kb": "stolen", "file": "/etc/passwd"}}
    for name, content in (("a", []), ("b", outside), ("c", {}), ("d", {"kind": "rm"})):
        (jobs / name).mkdir(parents=True)
        (jobs / name / "job.json").write_text(json.dumps(content))
    gone = jobs / "gone"  # as one that another server has just removed
    gone.symlink_to("nowhere")
    with Workspace.open(demo_copy) as workspace:
        found = Jobs(workspace, read_only=False)
        assert found.all() == []
        found.close()
    assert list(jobs.iterdir()) == [gone]


def test_a_job_that_fails_unexpectedly_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file", "/secret/path")

    monkeypatch.setattr("kglink_doors.serve.jobs._work", fail)
    with Workspace.open(tmp_path, create=True) as workspace:
        jobs = Jobs(workspace, read_only=True)
        job = jobs.add("build", {})
        _wait_until(lambda: job.state not in ("waiting", "running"))
        jobs.close()
    assert job.answer == {"error": "No such file", "fix": "See the server's log."}
    assert "/secret/path" in capsys.readouterr().err


def test_the_log_tells_no_texts_while_the_store_is_down(capsys: pytest.CaptureFixture[str]) -> None:
    down = OperationalError("SELECT ?", ("a secret",), sqlite3.OperationalError("no\nanswer"))
    assert logged_crash(down)[0] == 503
    assert capsys.readouterr().err.splitlines() == ["503: no\u240aanswer"]
    assert logged_crash(OSError(errno.ENOSPC, "No space left", "/a/path"))[0] == 507
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("kind", ["overlaps", "build"])
def test_a_job_waits_for_another_build(demo_copy: Path, kind: str) -> None:
    with Workspace.open(demo_copy) as workspace:
        workspace.add_entity("lanternfall", Entity("reed", "Reed heron", "A heron of the reeds."))
        jobs = Jobs(workspace, read_only=False)
        with file_lock(demo_copy / "spaces" / "default" / "lock"):
            job = jobs.add(kind, {})
            _wait_until(lambda: job.progress.step == "waiting for another change")
        _wait_until(lambda: job.state != "running")
        jobs.close()
    assert job.state == "done", job


def test_a_job_that_cannot_be_kept_leaves_nothing(
    demo_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("kglink_doors.serve.jobs.write_atomically", full)
    with Workspace.open(demo_copy) as workspace:
        found = Jobs(workspace, read_only=False)
        with pytest.raises(OSError, match="full"):
            found.add("build", {})
        assert found.all() == []
        found.close()
    assert list((demo_copy / ".scratch" / "jobs").iterdir()) == []


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
def test_texts_of_a_client_that_has_gone_are_not_linked(demo_master: Path) -> None:
    body = json.dumps({"texts": [f"Heron counts lamp {n}. " * 40 for n in range(60)]})
    with serving(demo_master, "--waiting", "64") as server:
        server.ask("POST", "/link", {"text": "Heron"})  # the model is loaded
        host, _, port = server.url.removeprefix("http://").partition(":")
        for _ in range(3):
            with socket.create_connection((host, int(port))) as leaver:
                head = f"Host: {host}\r\nContent-Type: application/json\r\n"
                length = f"Content-Length: {len(body)}\r\n\r\n"
                leaver.sendall(f"POST /link HTTP/1.1\r\n{head}{length}{body}".encode())
                time.sleep(0.2)
        answers = [server.ask("POST", "/link", {"text": f"Heron {n}"}).status for n in range(3)]
        metrics = server.ask("GET", "/metrics").body
    assert answers == [200] * 3
    assert "kglink_texts_total 4" in metrics.splitlines()
    assert "kglink_waiting_texts 0" in metrics.splitlines()


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
