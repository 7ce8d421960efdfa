"""What a language model is asked, what its answer means, and the SQLite file that keeps answers."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from string import Template
from threading import Lock

from kglink.errors import UsageError
from kglink.files.digest import text_digest
from kglink.records import Candidate, MentionInText, Ranking
from kglink.text.words import cuts_word
from kglink_plugins.plugin import LlmSettings

_FIELDS = {"text", "mention", "candidates"}
#: How many other names of a candidate are given.
_MOST_ALIASES = 5
#: Some servers leave out where thoughts begin; of an answer that was cut there is no end.
_THOUGHTS = re.compile(r"\A.*</think>|<think>.*", re.DOTALL)
_NEGATIVE = re.compile(r"\W*-\d")
_LEADING_NUMBER = re.compile(r"\W*(\d+)\b(?!\W*\b(?:or|and)\W+\d|\s*[,/&-]\s*\d)")
_NONE = re.compile(r"\W*none(?: of (?:these|them))?\W*", re.IGNORECASE)


class Prompt:
    """A template with the text, the mention and its candidates as fields."""

    def __init__(self, settings: LlmSettings) -> None:
        self._settings, path = settings, settings.prompt
        try:
            file = Path(path).expanduser() if path else files(__package__) / "prompt.txt"
            self._template = Template(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise UsageError(
                f"cannot read the prompt {path}: {why}", hint="The setting `prompt` names the file."
            ) from error
        fields = set(self._template.get_identifiers())
        if not self._template.is_valid() or fields != _FIELDS:
            raise UsageError(
                f"{path}: no prompt with the fields $text, $mention and $candidates",
                hint="Each stands there at least once, and no other; a dollar sign is written $$.",
            )

    def about(self, ranking: Ranking) -> str:
        """The question about one mention."""
        numbered = enumerate(ranking.candidates, 1)
        return self._template.substitute(
            text=_marked(ranking.mention, self._settings.context_chars),
            mention=_line(ranking.mention.surface),
            candidates="\n".join(f"{number}. {self._told(one)}" for number, one in numbered),
        )

    def _told(self, candidate: Candidate) -> str:
        """A candidate in one line: title, type, KB, other names, description."""
        text = _line(candidate.title) or candidate.id.key
        kind = f"{_line(candidate.type)}, " if candidate.type else ""
        text += f" ({kind}{candidate.id.kb})"
        others = [_line(one) for one in candidate.aliases if one != candidate.title]
        if others:
            text += f"; also: {', '.join(others[:_MOST_ALIASES])}"
        description = _line(candidate.description[: self._settings.description_chars])
        return f"{text}. {description}" if description else text


def chosen_number(answer: str, count: int) -> int | None:
    """The number that an answer names, from 0 (none) to ``count``; None: it is nonsense."""
    answer = _THOUGHTS.sub("", answer).strip()
    if _NONE.fullmatch(answer):
        return 0
    if _NEGATIVE.match(answer):
        return None
    leading = _LEADING_NUMBER.match(answer)
    numbers = {leading[1]} if leading else set(re.findall(r"\d+", answer))
    if len(numbers) != 1:
        return None
    (number,) = numbers
    # A number of many digits is none of ours, and int() has a limit.
    return int(number) if len(number) < 6 and int(number) <= count else None


def _marked(mention: MentionInText, context_chars: int) -> str:
    """The mention in brackets, with what stands around it, cut between words."""
    text = mention.text
    first = max(0, mention.start - context_chars // 2)
    stop = min(len(text), mention.end + context_chars // 2)
    while first < mention.start and cuts_word(text, first):
        first += 1
    while stop > mention.end and cuts_word(text, stop):
        stop -= 1
    before, after = text[first : mention.start], text[mention.end : stop]
    return f"{before}[[{mention.surface}]]{after}"


def _line(text: str) -> str:
    return " ".join(text.split())


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
