"""A run of its own process, for tests: it kills itself after a step, or is one of several.

python training_child.py STORE FOLDER RECIPE.json [LAST_STEP]
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from kglink.plugins import load_registry
from kglink.store import Store
from kglink.training import Recipe
from kglink.training.job import FinetuneJob, News, StepNews
from kglink.training.train import train


def main() -> None:
    url, folder, told, *rest = sys.argv[1:]
    last = int(rest[0]) if rest else -1
    seen = 0

    def tell(news: News) -> None:
        nonlocal seen
        seen += isinstance(news, StepNews)
        if seen == last:
            os.kill(os.getpid(), signal.SIGKILL)

    with Store.open(url) as store:
        job = FinetuneJob(
            ["atlas"],
            ["saga"],
            "TOS",
            recipe=Recipe.model_validate(json.loads(Path(told).read_text())),
            precision="fp32",
            threads=1,
            checkpoint_steps=3,
            curve_steps=1,
        )
        train(store, load_registry(), job, Path(folder), progress=tell)


if __name__ == "__main__":
    main()
