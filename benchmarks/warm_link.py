"""How many modules a warm `Workspace.link` of one sentence enters, and how often it changes module.

python benchmarks/warm_link.py [--names]
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from types import FrameType

from kglink.records import Entity
from kglink.workspace import Workspace

ROOMS = ("kglink", "kglink_plugins", "kglink_kbs")
TEXT = "The heron and the osprey fish at dawn."
BIRDS = (
    Entity(key="h", title="heron", description="A wading bird."),
    Entity(key="o", title="osprey", description="A raptor that eats fish."),
)


def is_ours(module: object) -> bool:
    """Whether a module is one of kglink."""
    return str(module).partition(".")[0] in ROOMS


def entered(work: Callable[[], object]) -> tuple[list[str], Counter[str]]:
    """The modules that work is in, call by call, and how many values of each type it makes."""
    path: list[str] = []
    made: Counter[str] = Counter()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        if event == "call" and frame.f_code.co_filename == "<string>":  # a record is made
            values = frame.f_locals
            kind = values["_cls"] if "_cls" in values else type(values.get("self"))
            if is_ours(kind.__module__):
                made[f"{kind.__module__}.{kind.__qualname__}"] += 1
        elif is_ours(frame.f_globals.get("__name__")):
            back = frame.f_back
            inside = frame if event == "call" or back is None else back
            name = inside.f_globals.get("__name__")
            if is_ours(name):
                path.append(str(name))

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return path, made


def main() -> None:
    """Print the counts."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Workspace.open(f"{folder}/birds", create=True) as workspace,
    ):
        workspace.add_kb("birds", BIRDS)
        for _ in range(2):
            list(workspace.link(TEXT))
        path, made = entered(lambda: list(workspace.link(TEXT)))
    changes = Counter(pair for pair in pairwise(path) if pair[0] != pair[1])
    print(f"{len(set(path))} modules, {changes.total()} changes, {len(made)} types of values")
    if "--names" in sys.argv:
        for name, count in Counter(path).most_common():
            print(f"{count:5} {name}")
        for pair, count in changes.most_common(40):
            print(f"{count:5} {' -> '.join(pair)}")
        for name, count in made.most_common():
            print(f"{count:5} {name}")


if __name__ == "__main__":
    main()
