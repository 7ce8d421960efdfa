"""A command line in a process of its own that is killed as with kill -9, for tests.

python cli_child.py STEP ARGUMENTS...   dies when the line of that step is in the curve
python cli_child.py build ARGUMENTS...  dies when the space would be built
python cli_child.py publish ARGUMENTS...  dies when its segments are there, and nothing names them
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from kglink.space.build import SpaceBuild
from kglink.space.folder import SpaceFolder
from kglink.training.run import Curve
from kglink_cli.main import run


def die(*_: object, **__: object) -> None:
    """End at once, as nothing that can be caught does."""
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    where, *arguments = sys.argv[1:]
    sys.argv = ["kglink", *arguments]
    add = Curve.add

    def add_until(self: Curve, line: Mapping[str, Any]) -> None:
        add(self, line)
        if "loss" in line and line["total"] == int(where):
            die()

    if where == "build":
        setattr(SpaceBuild, "build", die)  # noqa: B010 - a type checker sees no such assignment
    elif where == "publish":
        take = SpaceFolder.copy_segments

        def take_and_die(self: SpaceFolder, source: SpaceFolder) -> None:
            take(self, source)
            die()

        setattr(SpaceFolder, "copy_segments", take_and_die)  # noqa: B010 - the same
    else:
        setattr(Curve, "add", add_until)  # noqa: B010 - the same
    run()


if __name__ == "__main__":
    main()
