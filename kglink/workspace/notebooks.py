"""What is for work in a notebook: links as a data frame, and a bar of progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kglink.errors import UsageError
from kglink.records import LinkedDocument, OnProgress, Progress
from kglink.text.printable import printable

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "document", "start", "end", "text", "kb", "key", "title", "url", "score", "confidence", "nil",
    "also",
)  # fmt: skip


def to_dataframe(documents: LinkedDocument | Iterable[LinkedDocument]) -> pd.DataFrame:
    """The links of a linked document, or of several, as a pandas data frame.

    Its rows are those of ``LinkedDocument.rows``. It needs pandas.
    """
    try:
        import pandas as pd
    except ImportError as error:
        hint = "pip install pandas; or take document.rows(), which are the same."
        raise UsageError("a data frame needs pandas, which is not installed", hint=hint) from error
    given = [documents] if isinstance(documents, LinkedDocument) else documents
    return pd.DataFrame([row for one in given for row in one.rows()], columns=list(COLUMNS))


@contextmanager
def progress_bar() -> Iterator[OnProgress]:
    """Progress bars for methods with a ``progress``, on a terminal or in a notebook.

    ``with progress_bar() as progress: workspace.build(progress=progress)``. In a notebook rich
    needs ipywidgets.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    tasks: dict[str, TaskID] = {}
    with Bars(console=Console(stderr=True)) as bars:

        def show(at: Progress) -> None:
            if at.step not in tasks:
                tasks[at.step] = bars.add_task(escape(printable(at.step)), total=None)
            bars.update(tasks[at.step], completed=at.done, total=at.total or None)

        yield show
