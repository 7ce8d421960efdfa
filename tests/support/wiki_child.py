"""A process that the crash test starts and kills: ``python wiki_child.py WORKSPACE DUMP``."""

from __future__ import annotations

import sys

from kglink.workspace import Workspace


def main() -> int:
    """Add the dump to the workspace, with documents."""
    folder, dump = sys.argv[1:]
    with Workspace.open(folder) as workspace:
        workspace.add_kb("wiki", dump, adapter="kglink/wikipedia", options={"documents": 200})
    return 0


if __name__ == "__main__":
    sys.exit(main())
