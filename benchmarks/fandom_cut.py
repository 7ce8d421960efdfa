"""The data of `kglink reproduce joint/table-3-fandom` with a part of the general KB.

    python benchmarks/fandom_cut.py ../shared/data FOLDER

Of the 35,754 entities the 5,402 of `benchmarks/general.py` stay: all golds of nine sets of texts,
the most popular, and some others. All else is as it is.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
from pathlib import Path

from general_sets import smaller


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    for name in (
        "general/documents/reddit-comments.jsonl.gz",
        "fandom/beverly_hills_cop.jsonl",
        "fandom/beverly_hills_cop_documents.jsonl",
    ):
        (asked.folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(asked.data / name, asked.folder / name)
    plain = smaller(asked.data, asked.folder / "general" / "general.jsonl")
    with gzip.open(f"{plain}.gz", "wt", encoding="utf-8") as out:
        out.write(plain.read_text(encoding="utf-8"))
    plain.unlink()


if __name__ == "__main__":
    main()
