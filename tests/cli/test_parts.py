"""`--part`, and jobs for other schedulers: all parts in their order are the whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Kglink

from cluster_support import TEXT
from kglink.errors import UsageError
from kglink.workspace import Workspace
from kglink.workspace.texts import Part


@pytest.mark.parametrize("count", [0, 1, 7, 30])
@pytest.mark.parametrize("of", [1, 3, 10])
def test_parts_in_their_order_are_the_whole(count: int, of: int) -> None:
    things = list(range(count))
    parts = [things[Part(number, of).cut(count)] for number in range(1, of + 1)]
    assert [one for part in parts for one in part] == things
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["", "3", "0/3", "4/3", "1/x", "-1/3", "1/2/3"])
def test_what_names_no_part_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no part"):
        Part.parse(text)


@pytest.mark.slow
def test_the_parts_of_a_folder_and_of_a_file_are_the_whole(
    demo: Path, kglink: Kglink, tmp_path: Path
) -> None:
    folder, lines = tmp_path / "texts", tmp_path / "texts.jsonl"
    folder.mkdir()
    with lines.open("w") as out:
        for at in range(5):
            (folder / f"{at}.txt").write_text(f"{at}: {TEXT}")
            out.write(json.dumps({"id": str(at), "text": f"{at}: {TEXT}"}) + "\n")
    for source in (folder, lines):
        whole = kglink("link", source, "--format", "jsonl").out
        parts = [kglink("link", source, "--part", f"{one}/3", "-f", "jsonl") for one in (1, 2, 3)]
        assert "".join(part.out for part in parts) == whole
        assert [len(part.out.splitlines()) for part in parts] == [1, 2, 2]
        assert "cannot be put together" not in parts[0].err
    brat = kglink("link", lines, "--part", "1/3", "-f", "brat")
    assert "what kglink/brat writes of several parts cannot be put together" in brat.err


def test_a_part_counts_bad_texts_once_and_an_empty_name_is_none(
    demo: Path, kglink: Kglink, tmp_path: Path
) -> None:
    lines = tmp_path / "texts.jsonl"
    good = [json.dumps({"id": str(at), "text": f"{at}: {TEXT}"}) for at in range(4)]
    lines.write_text("\n".join([good[0], "{broken", *good[1:], ""]))
    said = kglink("link", lines, "--part", "2/2", "--on-error", "skip", "-f", "jsonl")
    assert "skipped" in said.err
    assert "1 bad" in said.err
    assert [json.loads(line)["id"] for line in said.out.splitlines()] == ["2", "3"]
    assert "names no part" in kglink("link", lines, "--part", "", code=2).err


@pytest.mark.slow
def test_a_job_links_in_any_process_what_the_command_links(
    demo: Path, kglink: Kglink, tmp_path: Path
) -> None:
    job_file, texts = tmp_path / "job", [TEXT, "A seal."]
    with Workspace.open(demo) as workspace:
        import pickle

        job_file.write_bytes(pickle.dumps(workspace.link_job()))
    code = (
        "import pickle, sys; from kglink import TextInput\n"
        "job = pickle.load(open(sys.argv[1], 'rb'))\n"
        "for at, text in enumerate(sys.argv[2:], 1):\n"
        "    for document in job.link([TextInput(str(at), text)]):\n"
        "        print([str(link.chosen.id) for link in document.links if link.chosen])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, job_file, *texts], capture_output=True, text=True, check=True
    )
    found = [
        [f"{one['kb']}:{one['key']}" for one in json.loads(line)["entities"] if one["key"]]
        for line in kglink("link", "-", "--lines", stdin="\n".join(texts)).out.splitlines()
    ]
    assert done.stdout.splitlines() == list(map(str, found))
    assert all(found)
