"""A server of `kglink serve` as a process of its own, for tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        """The body, read."""
        return json.loads(self.body)


class Server:
    """A server that runs, and how it is asked."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Ask, and answer whatever status comes."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kinds = {"content-type": "application/json"} if not isinstance(body, bytes) else {}
        asked = urllib.request.Request(  # noqa: S310 - of our own server
            self.url + path, data=data, method=method, headers={**kinds, **(headers or {})}
        )
        try:
            with urllib.request.urlopen(asked, timeout=120) as answer:  # noqa: S310 - of our own server
                return Answer(answer.status, dict(answer.headers), answer.read().decode())
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read().decode())

    def job(self, name: str, seconds: float = 60) -> Any:
        """A job once it is done."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            told = self.ask("GET", f"/jobs/{name}").json
            if told["state"] not in ("waiting", "running"):
                return told
            time.sleep(0.1)
        raise TimeoutError(told)


@contextmanager
def serving(workspace: Path, *flags: str, env: dict[str, str] | None = None) -> Iterator[Server]:
    """A server on a free port, until the block ends."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("KGLINK_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "kglink_cli", "-w", str(workspace), "serve", "--port", "0", *flags],
        stderr=subprocess.PIPE,
        text=True,
        env={**variables, **(env or {})},
    )
    try:
        yield Server(process, _address(process))
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr:
            process.stderr.close()


def _address(process: subprocess.Popen[str]) -> str:
    """What the server says that it listens on; it answers once it has begun."""
    assert process.stderr
    said = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"http://\S+", line):
            return found[0]
    raise AssertionError("".join(said))
