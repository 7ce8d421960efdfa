"""`kglink mcp`, asked by the client of the official package: as a child process, and over HTTP."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
import pytest
from conftest import Kglink
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import JSONRPCError, TextContent
from sqlalchemy.exc import DatabaseError
from starlette.types import ASGIApp, Message

from kglink import Alias, Entity, LinkedDocument, Workspace
from kglink.config import Settings
from kglink.errors import UsageError
from kglink_doors.mcp_http import while_asked
from kglink_doors.mcp_stdio import mended
from kglink_doors.mcp_tools import READERS, KglinkServer, Tools, make_server

TEXT = "The grey heron left, and the osprey stayed."
HERON = Entity("h", "grey heron", "A wading bird that fishes.", type="bird")
OSPREY = Entity("o", "osprey", "A bird of prey that eats fish.", type="bird")
AT_ZOO = Entity("7", "grey heron", "A wading bird that fishes in the zoo.", type="animal")

Ask = Callable[[Client], Awaitable[Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two KBs of birds, with what they have in common; a key that looks like a path."""
    made = tmp_path_factory.mktemp("birds")
    with Workspace.open(made, create=True) as workspace:
        odd = Entity("/a/../b", "dodo", aliases=tuple(Alias(f"dodo {n}") for n in range(150)))
        workspace.add_kb("birds", [HERON, OSPREY, odd])
        workspace.add_kb("zoo", [AT_ZOO])
        workspace.find_overlaps()
        workspace.build()
    return made


@contextmanager
def over_http(folder: Path, *options: str, **variables: str) -> Iterator[str]:
    """A server in a process of its own; its address."""
    command = (sys.executable, "-m", "kglink_cli", "-w", folder, "mcp", "--http", "--port", "0")
    process = subprocess.Popen(
        [*command, *options], stderr=subprocess.PIPE, text=True, env=os.environ | variables
    )
    try:
        assert process.stderr is not None
        told = process.stderr.readline()
        found = re.search(r"http://\S+", told)
        assert found, told + process.stderr.read()
        yield found[0]
    finally:
        process.terminate()
        _, left = process.communicate(timeout=30)
        assert "Traceback" not in left


@pytest.fixture(scope="module")
def told(folder: Path) -> Mapping[str, Any]:
    """What a client gets from a child process on standard input and output."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "kglink_cli", "-w", str(folder), "mcp"],
        env=dict(os.environ),
    )

    async def asking() -> Mapping[str, Any]:
        async with Client(stdio_client(parameters)) as client:
            return {name: await ask(client) for name, ask in ASKED.items()}

    return anyio.run(asking)


def text_of(answer: Any) -> str:
    (content,) = answer.content
    assert isinstance(content, TextContent)
    return content.text


CALLS: Mapping[str, dict[str, Any]] = {
    "link_text": {"text": TEXT, "kbs": ["birds"]},
    "resolve": {"name": "grey heron", "kbs": ["birds"]},
    "search_entities": {"query": "osprey", "k": 1},
    "entity": {"id": "birds:h"},
    "counterparts": {"id": "birds:h"},
    "explain": {"text": TEXT, "surface": "osprey"},
    "list_kbs": {},
}
REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("entity", {"id": "birds:x"}),
    ("link_text", {"text": TEXT, "kbs": ["bords"]}),
    ("explain", {"text": TEXT, "surface": "emu"}),
    ("link_text", {"text": "heron " * 5_000}),
    ("search_entities", {"query": "heron", "k": 51}),
    ("link_text", {"text": TEXT, "thresold": 1}),
    ("resolve", {"name": " "}),
    ("explain", {"text": "heron " * 101, "surface": "heron"}),
    ("search_entities", {"query": "heron", "k": True}),
)


async def every_tool(client: Client) -> Mapping[str, Any]:
    return {name: await client.call_tool(name, given) for name, given in CALLS.items()}


async def thresholds(client: Client) -> list[str]:
    asked: list[dict[str, Any]] = [{}, {"threshold": 1}, {}]
    return [text_of(await client.call_tool("link_text", {"text": TEXT, **one})) for one in asked]


async def refused(client: Client) -> list[Any]:
    return [await client.call_tool(name, given) for name, given in REFUSED]


async def missing_resource(client: Client) -> str:
    try:
        await client.read_resource("kglink://entity/birds/x")
    except MCPError as error:
        return str(error)
    return ""


ASKED: Mapping[str, Ask] = {
    "tools": lambda client: client.list_tools(),
    "answers": every_tool,
    "prompt": lambda client: client.get_prompt("mark_entities", {"text": TEXT}),
    "resource": lambda client: client.read_resource("kglink://entity/birds/%2Fa%2F..%2Fb"),
    "thresholds": thresholds,
    "refused": refused,
    "missing resource": missing_resource,
}


def test_each_tool_answers_as_the_command_line_does(
    folder: Path, told: Mapping[str, Any], kglink: Kglink
) -> None:
    answers = told["answers"]
    assert [one.name for one in told["tools"].tools] == list(CALLS)
    assert all(one.description and one.annotations for one in told["tools"].tools)

    def printed(*command: str, stdin: str = "") -> Any:
        return json.loads(kglink("-w", folder, *command, stdin=stdin).out)

    linked = answers["link_text"]
    (expected,) = printed("link", "-", "--kb", "birds", "--format", "json", stdin=TEXT)
    assert linked.structured_content["entities"] == expected["entities"]
    assert [one["key"] for one in expected["entities"]] == ["h", "o"]
    assert text_of(linked).splitlines()[0] == "2 mentions, 2 linked, 0 NIL"
    assert "[4:14] grey heron = birds:h (grey heron)" in text_of(linked)
    assert "also zoo:7" in text_of(linked)
    named = answers["resolve"]
    assert (named.structured_content["status"], named.structured_content["id"]) == (
        "match",
        "birds:h",
    )
    assert text_of(named).startswith("grey heron: match")
    found = answers["search_entities"].structured_content
    assert found == {"entities": printed("search", "osprey", "-k", "1", "--json")}
    assert answers["entity"].structured_content == printed("show", "birds:h", "--json")
    same = answers["counterparts"]
    shown = printed("show", "birds:h", "--json")["counterparts"]
    assert same.structured_content == {"kb": "birds", "key": "h", "counterparts": shown}
    assert "zoo:7 grey heron" in text_of(same)
    explained = printed("explain", TEXT, "--surface", "osprey", "--json")
    assert answers["explain"].structured_content == {"mentions": explained}
    assert "answer   birds:o" in text_of(answers["explain"])
    assert [one["name"] for one in answers["list_kbs"].structured_content["kbs"]] == [
        "birds",
        "zoo",
    ]
    assert str(folder) not in str(answers["list_kbs"])


def test_entities_are_resources_and_a_prompt_marks_them(told: Mapping[str, Any]) -> None:
    assert TEXT in told["prompt"].messages[0].content.text
    dodo = json.loads(told["resource"].contents[0].text)
    assert (dodo["title"], len(dodo["aliases"]), dodo["cut"]) == ("dodo", 100, {"aliases": 151})


@pytest.mark.parametrize("name", sorted(READERS))
def test_branches_limit_every_reader(folder: Path, name: str) -> None:
    asked = CALLS[name] | {"kbs": ()}
    if name == "search_entities":
        asked = {"query": "heron", "k": 9}
    with Workspace.open(folder) as workspace:
        ask = getattr(Tools(workspace), name)
        assert "birds:h" in text_of(ask(**asked))
        outside = ask(**asked, under=["birds:o"], not_under=["zoo:7"])
        assert "birds:h" not in text_of(outside)
        assert "zoo:7" not in text_of(outside)
        with pytest.raises(UsageError, match="in these branches"):
            ask(**asked | {"kbs": ["zoo"]}, not_under=["zoo:7"])


def test_one_thing_is_told_in_the_singular(tmp_path: Path) -> None:
    with Workspace.open(tmp_path, create=True) as workspace:
        workspace.add_kb("birds", [OSPREY])
        tools = Tools(workspace)
        assert text_of(tools.list_kbs()) == "1 KB\nbirds: 1 entity"
        assert text_of(tools.link_text("The osprey stayed.")).startswith("1 mention, 1 linked")
        assert text_of(tools.explain("The osprey stayed.", "osprey")).startswith("1 mention\n")
        assert text_of(tools.search_entities("osprey")).startswith("1 entity, best first")


def test_a_threshold_holds_for_one_call(told: Mapping[str, Any]) -> None:
    usual, strict, again = told["thresholds"]
    assert " = birds:o" in usual
    assert " = birds:o" not in strict
    assert again == usual


@pytest.mark.parametrize("name", sorted(READERS))
def test_no_question_waits_for_the_vectors_of_a_new_kb(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("kglink.space.build.FEW_VECTORS", 0)
    shutil.copytree(folder, tmp_path / "birds")
    with Workspace.open(tmp_path / "birds") as workspace:
        workspace.add_kb("ships", [Entity("s", "Osprey II", "A ship.")])
        told = text_of(getattr(Tools(workspace), name)(**CALLS[name]))
        assert list(workspace.space().manifest.names_alone) == ["ships"]
        is_of_all = name == "search_entities"  # the others ask for `birds` alone
        assert is_of_all == ("ships: by names alone until `kglink build`" in told)


def test_what_is_refused_says_what_to_do(told: Mapping[str, Any]) -> None:
    assert all(one.is_error for one in told["refused"])
    lines = [text_of(one) for one in told["refused"]]
    assert lines[0] == "unknown entity 'birds:x'\nFix: By a name: kglink search 'x'"
    assert "Did you mean 'birds'?" in lines[1]
    assert lines[2].startswith("'emu' does not stand in the text\nFix: ")
    assert lines[3] == "text: String should have at most 20000 characters\nFix: Send it in parts."
    assert lines[4].startswith("k: Input should be less than or equal to 50\nFix: ")
    assert lines[5].startswith("unknown argument of link_text 'thresold'\nFix: ")
    assert lines[6].startswith("the name is empty\nFix: ")
    assert lines[7].startswith("'heron' stands at more than 100 places\nFix: ")
    assert lines[8].startswith("k: true and false are no numbers\nFix: ")
    assert "unknown entity 'birds:x'" in told["missing resource"]


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (DatabaseError("SELECT 1", None, OSError("disk I/O error")), "the store does not answer: "),
        (PermissionError(13, "Permission denied", "/secret"), "Permission denied\nFix: "),
        (OSError(28, "No space left"), "the server's disk is full\nFix: "),
        (ZeroDivisionError("secret"), "unexpected error: ZeroDivisionError\nFix: "),
    ],
)
def test_errors_of_the_system_say_what_to_do(error: Exception, what: str) -> None:
    class Broken:
        def entity(self, *_: object, **__: object) -> None:
            raise error

    async def asking() -> tuple[str, str]:
        async with Client(make_server(cast("Workspace", Broken()))) as client:
            of_tool = await client.call_tool("entity", {"id": "birds:h"})
            with pytest.raises(MCPError) as of_resource:
                await client.read_resource("kglink://entity/birds/h")
        assert of_tool.is_error
        return text_of(of_tool), str(of_resource.value)

    for told in anyio.run(asking):
        assert what in told
        assert "Fix: " in told
        assert "secret" not in told


def test_what_the_sdk_refuses_stays_as_it_is() -> None:
    async def asking() -> str:
        async with Client(make_server(cast("Workspace", None))) as client:
            with pytest.raises(MCPError) as refused:
                await client.read_resource("kglink://entity/%2E%2E/h")
        return str(refused.value)

    assert anyio.run(asking) == "Unknown resource: kglink://entity/%2E%2E/h"


def answers_to(process: subprocess.Popen[str], lines: Sequence[str], count: int) -> list[Any]:
    """The first answers of a server on standard output to lines on its standard input."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n".join(lines) + "\n")
    process.stdin.flush()
    return [json.loads(process.stdout.readline()) for _ in range(count)]


@pytest.mark.slow
def test_nothing_else_is_printed_on_standard_output(folder: Path, tmp_path: Path) -> None:
    noisy = (
        "import os, sys, kglink.workspace.link as link\n"
        "before = link.fresh_linker\n"
        "def loud(*a, **k):\n"
        "    print('by print'); os.write(1, b'by descriptor'); os.system('echo by a child')\n"
        "    return before(*a, **k)\n"
        "link.fresh_linker = loud\n"
        "from kglink_cli.__main__ import main\n"
        "main()\n"
    )
    script = tmp_path / "noisy.py"
    script.write_text(noisy)
    calls = [
        ("initialize", {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }),
        ("tools/call", {"name": "link_text", "arguments": {"text": TEXT, "kbs": ["birds"]}}),
    ]  # fmt: skip
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": at, "method": name, "params": given})
        for at, (name, given) in enumerate(calls, 1)
    ]
    lines.insert(1, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    with subprocess.Popen(
        [sys.executable, script, "-w", folder, "mcp"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        answers = answers_to(process, lines, 2)
        rest, told = process.communicate(timeout=30)
    assert [one["id"] for one in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["entities"][0]["key"] == "h"
    assert (rest, process.returncode) == ("", 0)
    assert all(word in told for word in ("by print", "by descriptor", "by a child"))


PING = '{"jsonrpc": "2.0", "id": 7, "method": "ping"}'


@pytest.mark.parametrize(
    ("line", "code", "name"),
    [
        ("nonsense", -32700, None),
        ("[" * 100_000, -32700, None),
        ("[1, 2]", -32600, None),
        ('{"id": 3, "method": "ping"}', -32600, 3),
        ('{"jsonrpc": "2.0", "id": "a", "method": 5}', -32600, "a"),
        ('{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
        ('{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
    ],
)
def test_a_line_that_is_no_message_is_an_error(line: str, code: int, name: object) -> None:
    told = mended(line)
    assert isinstance(told, JSONRPCError)
    assert (told.error.code, told.id) == (code, name)


def test_half_a_surrogate_pair_is_replaced() -> None:
    line = PING.replace("7", r'"\ud83d Orion"')
    assert json.loads(str(mended(line)))["id"] == "\ufffd Orion"
    assert json.loads(str(mended("\ufeff" + PING))) == json.loads(PING)


@pytest.mark.slow
def test_every_line_on_standard_input_is_answered(folder: Path) -> None:
    lines = ("nonsense", "", PING.replace("7", r'"\ud83d"'), '{"id": 3}', PING)
    with subprocess.Popen(
        [sys.executable, "-m", "kglink_cli", "-w", folder, "mcp"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        answers = answers_to(process, lines, 4)
        process.communicate(timeout=30)
    assert {(one["id"], "result" in one) for one in answers} == {
        (None, False), ("\ufffd", True), (3, False), (7, True),
    }  # fmt: skip


LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
JSON_ACCEPTED = {"accept": "application/json, text/event-stream"}


def test_what_was_not_linked_is_told_where_the_settings_want_it(folder: Path) -> None:
    with Workspace.open(folder, flags={"link.rejected": True, "link.threshold": 1.0}) as workspace:
        told = Tools(workspace).link_text(TEXT)
        (document,) = workspace.link(TEXT)
    wanted = json.loads(json.dumps(document.as_json(rejected=True)))
    assert wanted["rejected"]
    assert told.structured_content == wanted


@pytest.mark.slow
def test_http_answers_the_same_to_this_machine_alone(folder: Path) -> None:
    async def ask(address: str) -> Any:
        async with Client(address) as client:
            return await client.call_tool("link_text", CALLS["link_text"])

    with over_http(folder) as address:
        answer = anyio.run(ask, address)
        assert [one["key"] for one in answer.structured_content["entities"]] == ["h", "o"]
        for wrong, status in (({"host": "evil.example"}, 421), ({"origin": "http://evil"}, 403)):
            refused = httpx.post(address, json=LIST, headers=JSON_ACCEPTED | wrong)
            assert refused.status_code == status


def test_a_token_is_asked_for(folder: Path) -> None:
    anywhere = "0.0.0.0"  # noqa: S104 - what the token is for
    with over_http(
        folder, "--token-from", "BIRDS", "--host", anywhere, BIRDS="s3cret" * 3
    ) as address:
        local = address.replace(anywhere, "127.0.0.1")
        for given, status in ((None, 401), ("s3cret", 401), ("s3cret" * 3, 200)):
            token = {"authorization": f"Bearer {given}"} if given else {}
            answer = httpx.post(local, json=LIST, headers=JSON_ACCEPTED | token)
            assert answer.status_code == status
        assert "link_text" in answer.text


def asked_in_process(server: KglinkServer, scenario: Callable[[ASGIApp], Awaitable[Any]]) -> Any:
    """What a scenario gives with the HTTP application of a server, which waits 0.1 s for a body."""
    app = server.streamable_http_app(stateless_http=True, json_response=True)

    async def asking() -> Any:
        async with server.session_manager.run():
            return await scenario(while_asked(app, 0.1, lambda: False))

    return anyio.run(asking)


async def post(app: ASGIApp, body: bytes, gone: anyio.Event, *, more: bool = False) -> list[Any]:
    """What the application sends for a body that has come, or of which there is more."""
    messages = [{"type": "http.request", "body": body, "more_body": more}]
    sent = list[Any]()

    async def receive() -> Message:
        if not messages:
            await gone.wait()
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    kinds = [(b"content-type", b"application/json"), (b"accept", b"application/json")]
    headers = [(b"host", b"127.0.0.1:80"), *kinds]
    scope = {
        "type": "http", "method": "POST", "path": "/mcp", "headers": headers, "query_string": b"",
    }  # fmt: skip
    await app(scope, receive, send)
    return sent


def test_calls_of_clients_that_have_gone_are_not_begun() -> None:
    go_on, linked = threading.Event(), list[str]()

    class Slow:
        settings = Settings()

        def link(self, text: str, *_: object, **__: object) -> tuple[LinkedDocument]:
            linked.append(text)
            go_on.wait(10)
            return (LinkedDocument("", text, ()),)

    def call(text: str) -> bytes:
        params = {"name": "link_text", "arguments": {"text": text}}
        return json.dumps({**LIST, "method": "tools/call", "params": params}).encode()

    async def scenario(app: ASGIApp) -> list[Any]:
        gone, stays = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as clients:
            for n in range(6):
                clients.start_soon(post, app, call(f"gone {n}"), gone)
            await anyio.wait_all_tasks_blocked()
            while len(linked) < 2:
                await anyio.sleep(0.01)
            gone.set()
        go_on.set()
        return await post(app, call("stays"), stays)

    server = make_server(cast("Workspace", Slow()))
    start, body = asked_in_process(server, scenario)
    assert start["status"] == 200
    assert b"0 mentions" in body["body"]
    assert linked == ["gone 0", "gone 1", "stays"]


def test_a_body_that_does_not_come_is_refused() -> None:
    async def scenario(app: ASGIApp) -> list[Any]:
        return await post(app, b"{", anyio.Event(), more=True)

    start, body = asked_in_process(make_server(cast("Workspace", None)), scenario)
    assert start["status"] == 408
    assert b"did not come within 0.1 s" in body["body"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--host", "0.0.0.0"), "other machines can reach 0.0.0.0"),  # noqa: S104 - what is refused
        (("--token-from", "NO_SUCH"), "the variable NO_SUCH has 0 characters"),
        (("--host", "192.0.2.1", "--token-from", "PATH"), "cannot listen on 192.0.2.1"),
    ],
)
def test_what_cannot_be_served_is_refused(
    folder: Path, kglink: Kglink, options: tuple[str, ...], told: str
) -> None:
    assert told in kglink("-w", folder, "mcp", "--http", *options, code=2).err


def test_options_of_http_are_refused_without_it(folder: Path, kglink: Kglink) -> None:
    told = kglink("-w", folder, "mcp", "--port", "8000", "--token-from", "KEY", code=2).err
    assert "--port and --token-from would change nothing without --http" in told


def test_a_missing_package_is_named(
    folder: Path, kglink: Kglink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "kglink_doors.mcp_tools", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    assert "pip install 'kglink[mcp]'" in kglink("-w", folder, "mcp", code=2).err
