"""`kglink mcp` on standard input and output, where no client waits for an answer in vain.

The transport of the SDK drops a line that it cannot read, and the client would wait in vain.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from kglink.errors import UsageError
from kglink_doors.serve.errors import parsed


def run_stdio(server: MCPServer[Any]) -> None:
    """Answer on standard output what comes on standard input, until that ends."""
    # As the SDK does: no tool, and no child of one, reads what the client sends.
    lines = anyio.wrap_file(os.fdopen(os.dup(0), encoding="utf-8", errors="replace"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    anyio.run(_answer, server, lines)


async def _answer(server: MCPServer[Any], lines: anyio.AsyncFile[str]) -> None:
    async def readable() -> AsyncIterator[str]:
        """The lines that are messages; the others are answered here."""
        async for line in lines:
            if not line.strip():
                continue
            message = mended(line)
            if isinstance(message, str):
                yield message
            else:
                await answers.send(SessionMessage(message))

    # All that the SDK does with a file is to read its lines.
    source = cast("anyio.AsyncFile[str]", readable())
    async with stdio_server(source) as (messages, answers):
        inner = server._lowlevel_server
        await inner.run(messages, answers, inner.create_initialization_options())


def mended(line: str) -> str | JSONRPCError:
    """A line for the SDK, halves of surrogate pairs replaced; or the error that answers it."""
    try:
        value = parsed(line)
    except UsageError as error:
        return _error(PARSE_ERROR, error.message, None)
    name = value.get("id") if isinstance(value, dict) else None
    text = json.dumps(value)
    try:
        message = jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError:
        return _error(INVALID_REQUEST, "the line is no JSON-RPC message", name)
    has_id = isinstance(value, dict) and "id" in value
    if isinstance(message, JSONRPCNotification) and has_id:  # nothing would be answered
        return _error(INVALID_REQUEST, "the id is neither text nor an integer", name)
    return text


def _error(code: int, what: str, name: object) -> JSONRPCError:
    known = name if isinstance(name, str | int) and not isinstance(name, bool) else None
    return JSONRPCError(jsonrpc="2.0", id=known, error=ErrorData(code=code, message=what))
