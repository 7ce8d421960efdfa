"""Answers of language models, kept by what was asked in an SQLite file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Lock

from kglink.files.digest import text_digest


class Answers:
    """Keeps answers in a file; one that cannot be used is said, and nothing is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self.problem = ""
        """Why answers are not kept; empty: they are."""

    def get(self, model: str, prompt: str) -> str | None:
        """What a model answered before; None: it was not asked this."""
        rows = self._run("SELECT answer FROM answers WHERE asked = ?", (_asked(model, prompt),))
        return rows[0][0] if rows and isinstance(rows[0][0], str) else None

    def put(self, model: str, prompt: str, number: int) -> None:
        """Keep an answer."""
        self._run(
            "INSERT OR REPLACE INTO answers VALUES (?, ?)", (_asked(model, prompt), str(number))
        )

    def _run(self, statement: str, values: tuple[str, ...]) -> list[tuple[object, ...]]:
        if self.problem:
            return []
        with self._lock:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with closing(sqlite3.connect(self._path, timeout=5)) as file, file:
                    file.execute(
                        "CREATE TABLE IF NOT EXISTS answers (asked TEXT PRIMARY KEY, answer TEXT)"
                    )
                    return file.execute(statement, values).fetchall()
            except (OSError, sqlite3.Error) as error:
                self.problem = f"{self._path}: {error}"
                return []


def _asked(model: str, prompt: str) -> str:
    return text_digest(f"{model}\n{prompt}")
