"""The text around a mention is read where it can decide something, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kglink.linking.candidates import MEAN_CONTEXT
from kglink.linking.pipeline import text_groups
from kglink.linking.reading import MentionReader, ReadMentions
from kglink.records import MentionInText, Span, TextInput
from kglink.workspace import Workspace

TEXT = "Heron counts the lamps at Skerrow Light; the amber glowed, and Heron left Zanzibar."


class Counting(MentionReader):
    """Reads as ever, and keeps what it was asked to read."""

    def __init__(self, reader: MentionReader) -> None:
        vars(self).update(vars(reader))
        self.windows: list[str] = []
        self.surfaces: list[str] = []
        self.texts: list[set[str]] = []

    def read(
        self,
        surfaces: Sequence[str],
        mentions: Sequence[MentionInText],
        *,
        names: bool,
        contexts: bool,
        tokens: bool,
    ) -> ReadMentions:
        self.surfaces += surfaces
        self.windows += [mention.surface for mention in mentions]
        self.texts.append({mention.text for mention in mentions})
        return super().read(surfaces, mentions, names=names, contexts=contexts, tokens=tokens)


@pytest.fixture(scope="module")
def workspace(demo_master: Path) -> Iterator[Workspace]:
    with Workspace.open(demo_master) as opened:
        yield opened


def mention(surface: str, text: str = TEXT, after: int = 0) -> MentionInText:
    start = text.index(surface, after)
    return MentionInText(text, start, start + len(surface), "d")


MENTIONS = [
    mention("Heron"), mention("Skerrow Light"), mention("amber"),
    mention("Heron", after=20), mention("Zanzibar"), mention("lamps"),
]  # fmt: skip


def test_windows_of_homonyms_are_read_and_each_surface_is_read_once(workspace: Workspace) -> None:
    search = workspace.linker()._search
    reader = search.reading._reader
    assert isinstance(reader, MentionReader)
    counting = Counting(reader)
    search.reading._reader = counting
    try:
        found = search.find(MENTIONS, workspace.space().kbs())
    finally:
        search.reading._reader = reader
    # "Skerrow Light" is the same thing in both KBs, and nothing is called "Zanzibar".
    assert counting.windows == ["Heron", "amber", "Heron"]
    assert sorted(counting.surfaces) == ["Heron", "Skerrow Light", "Zanzibar", "amber", "lamps"]
    named = [
        {round(one.evidence["named_context"], 4) for kb in by_kb.values() for one in kb
         if one.evidence["exact"]}
        for by_kb in found
    ]  # fmt: skip
    assert named[1] == {MEAN_CONTEXT}
    assert MEAN_CONTEXT not in named[0] | named[2] | named[3]


def test_texts_of_two_groups_are_never_read_together(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A worker has one group alone, and in half precision a number's last bits depend on the others.
    monkeypatch.setattr("kglink.linking.pipeline.GROUP_CHARACTERS", len(TEXT))
    linker = workspace.linker()
    reader = linker._search.reading._reader
    assert isinstance(reader, MentionReader)
    linker._search.reading._reader = counting = Counting(reader)
    texts = [TEXT, TEXT.replace("Zanzibar", "Kowloon")]
    assert len(list(linker.link(TextInput(text, text) for text in texts))) == 2
    assert [one for one in counting.texts if one] == [{text} for text in texts]


def test_given_mentions_fill_a_group_and_not_the_length_of_their_texts() -> None:
    long = "Heron " * 200
    given = [TextInput(str(at), long, (Span(0, 5),)) for at in range(300)]
    assert [len(group) for group in text_groups(given)] == [256, 44]
    searched = [TextInput(str(at), long) for at in range(60)]
    assert [len(group) for group in text_groups(searched)] == [28, 28, 4]


def test_a_batch_finds_the_same_as_its_mentions_one_by_one(workspace: Workspace) -> None:
    search, kbs = workspace.linker()._search, workspace.space().kbs()
    # Each in a document of its own: what others mean in the same document is evidence.
    mentions = [replace(one, document=str(at)) for at, one in enumerate(MENTIONS)]
    together = search.find(mentions, kbs)
    for one, found in zip(mentions, together, strict=True):
        (alone,) = search.find([one], kbs)
        for kb in kbs:
            assert [a.id for a in alone[kb]] == [b.id for b in found[kb]]
            assert [a.score for a in alone[kb]] == pytest.approx(
                [b.score for b in found[kb]], abs=2e-4
            )
