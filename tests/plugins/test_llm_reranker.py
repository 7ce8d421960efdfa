"""The reranker that asks a language model, against a small server of our own."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from kglink.errors import UsageError
from kglink.plugins import load_registry
from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.testing import RerankerContract
from kglink_plugins.plugin import LlmSettings
from kglink_plugins.rerankers.llm import endpoint as endpoint_module
from kglink_plugins.rerankers.llm import reranker as reranker_module
from kglink_plugins.rerankers.llm.prompt import chosen_number
from kglink_plugins.rerankers.llm.reranker import LlmReranker

KEY = "sk-secret-of-the-tests"
RANKING = Ranking(
    MentionInText("The heron stood in the pond.", 4, 9),
    (
        Candidate(
            EntityId("birds", "B1"), "Grey heron", 0.9, description="A bird.", type="species",
            aliases=("Grey heron", "Ardea cinerea"),
        ),
        Candidate(EntityId("engines", "E1"), "Heron engine", 0.7, evidence={"name": 0.5}),
    ),
)  # fmt: skip
Answer = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """Answers as it is told, one answer after the other, the last one again and again."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        self._answers = list(answers)
        outer, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    outer.asked.append(json.loads(body))
                    outer.keys.append(self.headers["Authorization"])
                    outer.paths.append(self.path)
                    own = outer._answers
                    answer = own.pop(0) if len(own) > 1 else own[0]
                answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - theirs
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    @contextmanager
    def running(self) -> Iterator[Server]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


def sends(status: int, body: bytes, **headers: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return answer


def says(text: object) -> Answer:
    record = {
        "choices": [{"message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 2},
    }
    return sends(200, json.dumps(record).encode())


def raw(*parts: bytes) -> Answer:
    """Sends these bytes, whatever they are, and ends the connection."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        try:
            for part in parts:
                request.connection.sendall(part)
        except OSError:
            return  # the other side has had enough

    return answer


def drips(request: BaseHTTPRequestHandler) -> None:
    """A byte now and then, for ever: no single read is late."""
    request.send_response(200)
    request.end_headers()
    try:
        while True:
            request.wfile.write(b" ")
            request.wfile.flush()
            time.sleep(0.05)
    except OSError:
        return


def sleeps(request: BaseHTTPRequestHandler) -> None:
    time.sleep(3)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "FIRST_PAUSE", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    from contextlib import ExitStack

    with ExitStack() as closing:
        yield lambda *answers: closing.enter_context(Server(answers).running())


Serve = Callable[..., Server]


def asking(url: str, **settings: Any) -> LlmReranker:
    return LlmReranker(LlmSettings(url=url, model="tiny", **settings))


def ids(ranking: Ranking) -> list[str]:
    return [one.id.key for one in ranking.candidates]


# ------------------------------------------------------------------------------------- answers
def test_the_choice_comes_first_with_a_lead_and_evidence(serve: Serve) -> None:
    server = serve(says("2"))
    reranker = asking(server.url, weight=0.4)
    (found,) = reranker.rank([RANKING])
    assert ids(found) == ["E1", "B1"]
    assert [one.score for one in found.candidates] == pytest.approx([1.3, 0.9])
    assert [one.evidence["llm"] for one in found.candidates] == [1, 0]
    assert (found.candidates[0].evidence["name"], found.note) == (0.5, "")
    (told,) = reranker.told()
    assert told == ("1 question to tiny, 90 tokens read and 2 written; 0 answers kept from before")
    assert reranker.told() == []


def test_the_model_reads_the_marked_text_and_all_of_each_candidate(serve: Serve) -> None:
    server = serve(says("1"))
    asking(server.url).rank([RANKING])
    (asked,) = server.asked
    (message,) = asked["messages"]
    assert "The [[heron]] stood in the pond." in message["content"]
    assert "1. Grey heron (species, birds); also: Ardea cinerea. A bird." in message["content"]
    assert "2. Heron engine (engines)" in message["content"]
    assert (asked["model"], asked["temperature"], server.paths) == (
        "tiny",
        0,
        ["/v1/chat/completions"],
    )


def test_none_lowers_all_scores(serve: Serve) -> None:
    (found,) = asking(serve(says("none")).url, weight=0.25).rank([RANKING])
    assert ids(found) == ["B1", "E1"]
    assert [one.score for one in found.candidates] == pytest.approx([0.4, 0.2])


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("2", 2), (" **2**. Heron engine, of 1950", 2), ('{"answer": 1}', 1), ("0", 0),
        ("None of these.", 0), ("<think>1 or 2? 1.</think>\n2", 2), ("The answer is 1.", 1),
        ("3", None), ("-", None), ("", None), ("1 or 2", None), ("**1** (or 2)", None),
        ("1, 2", None), ("1/2", None), ("1, of 1950", 1), ("1. 2 herons", 1),
        ("either 1 or 2", None),
        ("9" * 5000, None), ("I cannot say", None), ("-1", None), ("- 1", 1),
        ("<think>2, or", None), ("1 is a bird, 2 a machine.</think>\n2", 2),
    ],
)  # fmt: skip
def test_answers_are_read_with_care(answer: str, number: int | None) -> None:
    assert chosen_number(answer, 2) == number


def test_answers_are_kept_between_runs_by_prompt_and_model(serve: Serve, tmp_path: Path) -> None:
    server = serve(says("2"))
    for model in ("tiny", "tiny", "other"):
        reranker = LlmReranker(LlmSettings(url=server.url, model=model))
        reranker.keep_in(tmp_path / "cache")
        assert ids(reranker.rank([RANKING, RANKING])[1]) == ["E1", "B1"]
    assert [one["model"] for one in server.asked] == ["tiny", "other"]
    kept = b"".join(path.read_bytes() for path in (tmp_path / "cache").iterdir())
    assert b"heron" not in kept


def test_a_file_of_answers_that_is_none_is_told(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "llm-answers.sqlite").write_text("no database, but a long enough text" * 99)
    reranker = asking(serve(says("2")).url)
    reranker.keep_in(tmp_path)
    assert ids(reranker.rank([RANKING])[0]) == ["E1", "B1"]
    assert any("answers are not kept" in line for line in reranker.told())


def test_prompts_of_ones_own(serve: Serve, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Cost: $$1. $mention? $candidates $text")
    server = serve(says("1"))
    asking(server.url, prompt=str(prompt)).rank([RANKING])
    assert server.asked[0]["messages"][0]["content"].startswith("Cost: $1. heron? 1. Grey")
    prompt.write_text("$mention alone")
    with pytest.raises(UsageError, match="no prompt with the fields"):
        asking(server.url, prompt=str(prompt))
    with pytest.raises(UsageError, match="cannot read the prompt"):
        asking(server.url, prompt=str(tmp_path / "nothing.txt"))


@pytest.mark.parametrize(
    "usage",
    [
        "null", "[1]", '"3"', *(
            f'{{"prompt_tokens": {count}}}'
            for count in ('"many"', "1e99", "NaN", "-Infinity", "-5", "true", "9" * 4300, "1" * 20)
        ),
    ],
    ids=lambda usage: usage[:30],
)  # fmt: skip
def test_an_answer_counts_whatever_is_said_of_its_cost(serve: Serve, usage: str) -> None:
    body = f'{{"choices": [{{"message": {{"content": "2"}}}}], "usage": {usage}}}'
    reranker = asking(serve(sends(200, body.encode())).url)
    assert ids(reranker.rank([RANKING])[0]) == ["E1", "B1"]
    assert "1 question to tiny, 0 tokens read" in reranker.told()[0]


# ------------------------------------------------------------------------------------ failures
def stays(reranker: LlmReranker, why: str) -> None:
    (found,) = reranker.rank([RANKING])
    assert found.candidates == RANKING.candidates
    assert why in found.note
    assert any(why in line and "stay as they were" in line for line in reranker.told())


@pytest.mark.parametrize(
    ("answer", "why", "times"),
    [
        (says("perhaps the bird"), "nothing that names a candidate", 1),
        (says(None), "no chat completion", 1),
        (sends(200, b"<html>"), "no chat completion", 1),
        (sends(200, b"[" * 100_000), "no chat completion", 1),
        (sends(200, b" " * (2 << 20)), "more than a megabyte", 1),
        (sends(500, b"out of\x1b[2J order"), "answered 500: out of [2J order", 3),
        (sends(503, b""), "answered 503: Service Unavailable", 3),
        (sends(401, b"no such key"), "answered 401: no such key", 1),
        (sends(302, b"", Location="http://elsewhere.example/"), "answered 302", 1),
        (sends(429, b"slower", Retry_After="3600"), "answered 429", 1),
        (sends(429, b"slower", Retry_After="soon"), "answered 429", 3),
    ],
)
def test_candidates_stay_as_they_were(serve: Serve, answer: Answer, why: str, times: int) -> None:
    server = serve(answer)
    stays(asking(server.url), why)
    assert len(server.asked) == times


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
FINE = b'{"choices": [{"message": {"content": "2"}}]}'


def completion(content: bytes) -> bytes:
    return HEAD + b'\r\n{"choices": [{"message": {"content": ' + content + b"}}]}"


@pytest.mark.parametrize(
    "parts",
    {
        "nothing": (b"",),
        "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n",),
        "zeros": (b"\0" * 5000,),
        "status of letters": (b"HTTP/1.1 OK OK\r\n\r\n",),
        "status too large": (b"HTTP/1.1 99999 OK\r\n\r\n",),
        "status of digits of no use": ("HTTP/1.1 \u00b2\u00b2\u00b2 OK\r\n\r\n".encode("latin-1"),),
        "status negative": (b"HTTP/1.1 -20 OK\r\n\r\n",),
        "HTTP 9": (b"HTTP/9.9 200 OK\r\n\r\n" + FINE,),
        "endless status line": (b"HTTP/1.1 200 " + b"x" * 200_000,),
        "endless header": (HEAD + b"X: " + b"x" * 200_000,),
        "many headers": (HEAD + b"X: y\r\n" * 5000 + b"\r\n" + FINE,),
        "endless continues": (b"HTTP/1.1 100 Continue\r\n\r\n" * 500_000,),
        "header of no ASCII": (b"HTTP/1.1 429 \xff\r\nRetry-After: \xff\xb2\r\n\r\n",),
        "huge Retry-After": (b"HTTP/1.1 429 No\r\nRetry-After: " + b"9" * 5000 + b"\r\n\r\n",),
        "switching protocols": (b"HTTP/1.1 101 Switch\r\n\r\n",),
        "redirect to a file": (b"HTTP/1.1 302 Go\r\nLocation: file:///etc/passwd\r\n\r\n",),
        "redirect to itself": (b"HTTP/1.1 307 Go\r\nLocation: /v1/chat/completions\r\n\r\n",),
        "chunk of -5": (CHUNKED + b"-5\r\n" + FINE,),
        "chunk of -1": (CHUNKED + b"-1\r\n" + FINE + b" " * (9 << 20),),
        "chunk of words": (CHUNKED + b"many\r\n" + FINE,),
        "chunk of nothing": (CHUNKED + b"\r\n\r\n",),
        "huge chunk": (CHUNKED + b"f" * 16 + b"\r\n" + FINE,),
        "chunk size without end": (CHUNKED + b"0" * 200_000,),
        "chunk cut off": (CHUNKED + b"ff\r\n" + FINE,),
        "many tiny chunks": (CHUNKED, *[b"1;" + b"x" * 100 + b"\r\n \r\n"] * 90_000),
        "endless trailer": (CHUNKED + b"0\r\n", *[b"X: y\r\n" * 10_000] * 200),
        "length too long": (HEAD + b"Content-Length: 99\r\n\r\n{}",),
        "length too short": (HEAD + b"Content-Length: 3\r\n\r\n" + FINE,),
        "length of 5000 digits": (HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",),
        "packed": (HEAD + b"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08" + bytes(99),),
        "no UTF-8": (completion(b'"\xff\xfe"'),),
        "half of UTF-16": (HEAD + b"\r\n\xff\xfe{",),
        "UTF-32 of nobody": (HEAD + b"\r\n\0\0\xfe\xff\x7f\xff\xff\xff",),
        "deep lists": (HEAD + b"\r\n" + b"[" * 200_000,),
        "deep objects": (HEAD + b"\r\n" + b'{"a":' * 200_000,),
        "integer of 5000 digits": (HEAD + b'\r\n{"usage": ' + b"9" * 5000 + b"}",),
        "NaN": (HEAD + b"\r\nNaN",),
        "a lone surrogate": (completion(rb'"\ud800"'),),
        "a number as content": (completion(b"2"),),
        "a list of choices that is none": (HEAD + b'\r\n{"choices": {"0": 1}}',),
        "a number of no digits": (completion('"\u00b2"'.encode()),),
        "a number without end": (completion(b'"' + b"9" * 900_000 + b'"'),),
        "thoughts without end": (completion(b'"' + b"<think>" * 100_000 + b'"'),),
        "controls": (b"HTTP/1.1 400 No\r\n\r\n\x1b[2J\x9b\xe2\x80\xae evil",),
    }.items(),
    ids=lambda case: case[0],
)
def test_whatever_an_endpoint_sends_is_that_questions_failure(
    serve: Serve, parts: tuple[str, tuple[bytes, ...]]
) -> None:
    server = serve(raw(*parts[1]), says("2"))
    reranker = asking(server.url, retries=0, timeout=20)
    (found,) = reranker.rank([RANKING])
    assert found.candidates == RANKING.candidates
    assert "without an answer, candidates stay as they were" in " ".join(reranker.told())
    assert found.note.isprintable()
    # The next question is answered.
    assert ids(reranker.rank([RANKING])[0]) == ["E1", "B1"]


def test_no_length_makes_it_read_without_end(serve: Serve) -> None:
    def floods(request: BaseHTTPRequestHandler) -> None:
        raw(CHUNKED + b"-1\r\n", *[b" " * (1 << 20)] * 4096)(request)

    stays(asking(serve(floods).url, retries=0), "answered more than a megabyte")


def test_it_asks_again_when_it_is_told_to(serve: Serve) -> None:
    server = serve(sends(429, b"", Retry_After="0"), sends(503, b""), says("2"))
    assert ids(asking(server.url).rank([RANKING])[0]) == ["E1", "B1"]
    assert len(server.asked) == 3


@pytest.mark.parametrize("answer", [drips, sleeps], ids=["drips", "sleeps"])
def test_a_slow_endpoint_is_left_in_time(serve: Serve, answer: Answer) -> None:
    began = time.monotonic()
    stays(asking(serve(answer).url, timeout=0.2, retries=1), "did not answer in 0.2 s")
    assert time.monotonic() - began < 2


def test_ctrl_c_waits_for_no_answer(serve: Serve) -> None:
    reranker = asking(serve(sleeps).url, timeout=60)
    stop = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
    # A shell that runs the tests in the background has the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    stop.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            reranker.rank([RANKING])
        assert time.monotonic() - began < 2
    finally:
        signal.signal(signal.SIGINT, before)


def test_nobody_there(serve: Serve) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stays(asking(f"http://127.0.0.1:{port}/v1"), "refused")


def test_an_endpoint_that_fails_is_left_alone_for_a_while(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reranker_module, "REST", 0.3)
    server = serve(*[sends(500, b"")] * 3, says("2"))
    reranker = asking(server.url, retries=0, parallel=1)
    many = [
        Ranking(MentionInText(f"heron {number}", 0, 5), RANKING.candidates) for number in range(9)
    ]
    found = reranker.rank(many)
    assert [one.note.split()[-1] for one in found] == ["Error"] * 3 + ["failed"] * 6
    assert len(server.asked) == 3
    time.sleep(0.35)
    assert ids(reranker.rank(many)[8]) == ["E1", "B1"]


def test_no_more_questions_than_are_wanted_in_a_minute(serve: Serve) -> None:
    server = serve(says("1"))
    many = [
        Ranking(MentionInText(f"heron {number}", 0, 5), RANKING.candidates) for number in range(4)
    ]
    began = time.monotonic()
    asking(server.url, per_minute=600).rank(many)
    assert time.monotonic() - began >= 0.3
    assert len(server.asked) == 4


# ---------------------------------------------------------------------------------- the address
def test_the_key_is_sent_and_never_told(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    spelt = [
        KEY, KEY.upper(), " ".join(KEY), KEY.replace("-", "\\u002d"), KEY.replace("-", "%2D"),
        KEY[::-1], "".join(f"&#{ord(one)};" for one in KEY), KEY.encode().hex(),
    ]  # fmt: skip
    lines = [f"HTTP/1.1 {one}\r\n\r\n".encode() for one in spelt]
    echoes = [sends(401, f"the key {one} is unknown".encode()) for one in spelt]
    server = serve(*echoes, *map(raw, lines))
    reranker = asking(server.url, retries=0)
    monkeypatch.setattr(reranker_module, "MOST_FAILURES", 99)
    told = [reranker.rank([RANKING])[0].note for _ in (*echoes, *lines)]
    assert server.keys == [f"Bearer {KEY}"] * 16
    end = ["answered 401: Unauthorized", "no answer in HTTP (BadStatusLine)"]
    assert all(one.endswith(end[number >= 8]) for number, one in enumerate(told)), told
    assert KEY not in " ".join(reranker.told()) + repr(vars(reranker))
    other = asking(server.url, key_from="")
    other.rank([RANKING])
    assert server.keys[-1] is None


def test_a_key_goes_nowhere_unencrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(UsageError, match="unencrypted") as told:
        asking("http://models.example/v1")
    assert KEY not in told.value.message + told.value.hint
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nHost: elsewhere")
    with pytest.raises(UsageError, match="OPENAI_API_KEY holds no key") as told:
        asking("https://models.example/v1")
    assert KEY not in told.value.message + told.value.hint


@pytest.mark.parametrize(
    "url", ["", "models.example/v1", "ftp://a/v1", "http:///v1", "http://a:b/v1", "http://[/v1"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(UsageError, match="name no address"):
        asking(url)


@pytest.mark.parametrize("user", [f"me:{KEY}", f":{KEY}", KEY, f"{KEY}:", f"@{KEY}"])
def test_a_password_in_an_address_is_not_told(user: str) -> None:
    with pytest.raises(UsageError, match="more than an address") as told:
        asking(f"https://{user}@models.example/v1")
    assert KEY not in told.value.message + told.value.hint


class TestContract(RerankerContract):
    """The contract of all rerankers, with a model that always takes the first."""

    @pytest.fixture(autouse=True)
    def _server(self, serve: Serve) -> None:
        self.url = serve(says("1")).url

    def create(self, *_: object) -> Any:
        return load_registry().create("reranker", "kglink/llm", {"url": self.url, "model": "tiny"})


# ------------------------------------------------------------------------------ the whole command
@pytest.fixture
def demo_that_asks(
    demo_copy: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Server]:
    def ask(*answers: Answer, trust: bool = True) -> Server:
        server = serve(*answers)
        if trust:
            monkeypatch.setenv("KGLINK_TRUST", str(demo_copy))
        with (demo_copy / "kglink.toml").open("a") as config:
            config.write(
                f'[link]\nreranker = "kglink/llm"\n[link.reranker_settings]\nurl = "{server.url}"\n'
                'model = "tiny"\nretries = 0\ntimeout = 2\n'
            )
        return server

    return ask


def test_links_are_chosen_by_the_model_and_kept(
    kglink: Kglink, demo_that_asks: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = demo_that_asks(says("0"))
    link = ("link", "-", "--format", "jsonl", "--kb", "encyclopedia")
    first, again = (kglink(*link, stdin="The lighthouse stood there.") for _ in range(2))
    assert not [one for one in json.loads(first.out)["entities"] if one["key"]]
    assert first.out == again.out
    assert (len(server.asked), server.keys) == (1, [f"Bearer {KEY}"])
    assert "llm        1 question to tiny, 90 tokens read and 2 written" in first.err
    assert "1 answer kept from before" in again.err
    assert KEY not in first.out + first.err


def test_a_strangers_settings_send_nothing_away(
    kglink: Kglink,
    demo_copy: Path,
    demo_that_asks: Callable[..., Server],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = demo_that_asks(says("0"), trust=False)
    with (demo_copy / "kglink.toml").open("a") as config:
        config.write('key_from = "AWS_SECRET_ACCESS_KEY"\n')
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    link = ("link", "-", "--kb", "encyclopedia")
    said = kglink(*link, stdin="The lighthouse stood there.", code=2).err
    assert f'link.reranker_settings.url = "{server.url}" (sends the texts there)' in said
    assert 'key_from = "AWS_SECRET_ACCESS_KEY"' in said
    assert (server.asked, server.keys) == ([], [])
    kglink("trust")
    kglink(*link, stdin="The lighthouse stood there.")
    assert server.keys == [f"Bearer {KEY}"]


def test_an_endpoint_that_is_down_changes_no_link_and_is_told(
    kglink: Kglink, demo_that_asks: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    link = ("link", "-", "--format", "jsonl", "--kb", "encyclopedia")
    before = json.loads(kglink(*link, stdin="The lighthouse stood there.").out)
    demo_that_asks(sends(503, b"overloaded"))
    ran = kglink(*link, stdin="The lighthouse stood there.")
    after = json.loads(ran.out)
    assert after["entities"] == before["entities"]
    (note,) = after["meta"]["not_reranked"]
    assert note.startswith("1 of the mentions: http://127.0.0.1:")
    assert "answered 503: overloaded" in note
    assert "without an answer, candidates stay as they were" in ran.err
