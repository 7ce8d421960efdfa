"""Commands that write a workspace, each in a process of its own, for tests.

A line of JSON on standard input names a workspace, and verbs with the seconds that each waits and,
where it is to be stopped, the signal and the seconds until then; what each of them said comes back
as one line. The libraries are loaded once, and each process is forked from here.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kglink.errors import KglinkError
from kglink.workspace import Workspace

VERBS: Mapping[str, Callable[[Workspace], object]] = {
    "learn": lambda workspace: workspace.learn("docs"),
    "forget": lambda workspace: workspace.forget("old"),
    "promote": lambda workspace: workspace.promote(),
    "fit": lambda workspace: workspace.fit("docs"),
    "update": lambda workspace: workspace.add_kb("saga", workspace.folder / "saga.jsonl"),
    "build": lambda workspace: workspace.build(fresh=True),
}


def forked(folder: str, verb: str, wait: float, said: Path) -> int:
    """The number of a process that does this once it has waited."""
    if pid := os.fork():
        return pid
    try:
        time.sleep(wait)
        with Workspace.open(folder) as workspace:
            VERBS[verb](workspace)
    except KglinkError as error:
        said.write_text(error.message)
    except BaseException as error:  # noqa: BLE001 - the test tells it
        said.write_text(f"unexpected: {error!r}")
    os._exit(0)


def main() -> None:
    for name in ("torch", "transformers", "faiss", "scipy.optimize", "kglink.workspace.link_setup"):
        importlib.import_module(name)
    for line in sys.stdin:
        told = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            said = [Path(folder, str(at)) for at in range(len(told["verbs"]))]
            running = [
                (forked(told["folder"], verb, wait, file), *stop)
                for (verb, wait, *stop), file in zip(told["verbs"], said, strict=True)
            ]
            for pid, *stop in running:
                if stop:
                    number, seconds = stop
                    time.sleep(seconds)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.Signals[number])
                os.waitpid(pid, 0)
            found = [one.read_text() if one.exists() else "" for one in said]
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
