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
from kglink.training.job import News, StepNews
from kglink.training.loop import Pace
from kglink.training.train import Where, train


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
        train(
            store,
            Recipe.model_validate(json.loads(Path(told).read_text())),
            "TOS",
            ["atlas"],
            ["saga"],
            Path(folder),
            registry=load_registry(),
            where=Where("auto", "fp32", 1),
            pace=Pace(checkpoint_steps=3, curve_steps=1),
            progress=tell,
        )


if __name__ == "__main__":
    main()
