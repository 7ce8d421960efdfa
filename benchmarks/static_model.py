"""How many names a second the model of a space encodes, and the static one distilled from it.

    kglink distill --into static
    python benchmarks/static_model.py WORKSPACE static

One thread; processor time, so that a busy machine changes little. Both read the same kind of names,
drawn evenly from the KBs, three times.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from kglink.models import Encoder
from kglink.workspace import Workspace


def names_a_second(encoder: Encoder, names: Sequence[str]) -> float:
    """The rate of encoding, with everything loaded."""
    encoder.encode(names[:50])
    began = time.process_time()
    encoder.encode(names)
    return len(names) / (time.process_time() - began)


def main() -> None:
    """Print a line for each of three draws: both rates, and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", help="the folder of a workspace")
    parser.add_argument("space", nargs="?", default="static", help="a space that was distilled")
    asked = parser.parse_args()
    flags = {"space.name": asked.space, "encoder.threads": 1}
    with Workspace.open(asked.workspace, flags=flags) as workspace:
        names = [name for kb in workspace.space().segments.values() for name in kb.surfaces]
        for draw in range(3):
            teacher = names_a_second(workspace.joint_space.encoder, names[draw::50])
            student = names_a_second(workspace.encoder, names[draw::2])
            times = student / teacher
            print(f"model {teacher:,.0f}   static {student:,.0f} names/s   {times:.1f} times")


if __name__ == "__main__":
    main()
