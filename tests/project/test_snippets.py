"""The runner of the pages' examples: what it runs, and above all what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from snippets import PageRunner, SnippetError, blocks_of, commands_of, matches


def run_page(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    PageRunner(tmp_path / "run").run(blocks_of(page))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()


def test_a_page_is_run_from_top_to_bottom_in_one_folder(tmp_path: Path) -> None:
    run_page(
        tmp_path,
        """
```text title="names/a.txt"
beta
alpha
```

```console
$ cd names
$ sort a.txt
alpha
beta
$ sort a.txt \\
    | head -1
alpha
$ cat >b.txt <<END
> one
> END
```

    ```python
    print(open("b.txt").read().strip(), "two")
    ```

    ```text title="output"
    one   two
    ```
""",
    )
    assert (tmp_path / "run/work/names/b.txt").read_text() == "one\n"


def test_lines_of_progress_count_for_nothing(tmp_path: Path) -> None:
    told = "  doid-hp: weighing 4,096 of 16,384 (25%%), 507/s, 0:00:24 left\\n"
    told += "  1/3 pages 5.0 MB, 1.5 MB/s\\nfound  2, at 10/s\\n"
    run_page(tmp_path, f"```console\n$ printf '{told}'\nfound 2, at 10/s\n```\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n```console\n$ true\n$ false\n```\n", "page.md:5: exit code 1"),
        ("```console\n$ false | true\n```\n", "page.md:2: exit code 1"),
        ("```console\n$ echo one\ntwo\n```\n", "page.md:2: $ echo one"),
        ("```console\n$ kglink --version\nkglink 0.0.0.dev\n```\n", "kglink 0.0.0.dev"),
        ("```console\nkglink demo\n```\n", "page.md:1: output without a command"),
        ("```python\n1 / 0\n```\n", "page.md:1: exit code 1"),
        ('```python\nprint(1)\n```\n```text title="output"\n2\n```\n', "page.md:4: the program"),
        ("```bash\necho one\n```\n", "page.md:1: a block of bash"),
        ("```\necho one\n```\n", "page.md:1: a block of no language"),
        ("```console\n$ true\n", "page.md:1: the block is never closed"),
    ],
)
def test_what_is_not_so_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SnippetError, match=message.replace("$", r"\$")):
        run_page(tmp_path, text)


def test_a_block_is_left_out_only_with_a_reason(tmp_path: Path) -> None:
    run_page(tmp_path, "<!-- no-run: it never ends -->\n```console\n$ false\n```\n")
    with pytest.raises(SnippetError, match="exit code 1"):
        run_page(tmp_path / "run", "<!-- no-run: -->\n```console\n$ false\n```\n")


def test_a_reason_holds_for_the_next_block_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- no-run: slow -->\n\n```console\n$ a\n```\n```console\n$ b\n```\n"
        "<!-- no-run: slow -->\ntext\n```console\n$ c\n```\n"
    )
    assert [block.no_run for block in blocks_of(page)] == ["slow", "", ""]


def test_commands_know_their_lines_and_outputs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ a\nx\n$ b\n$ a\ny\n```\n")
    (block,) = blocks_of(page)
    assert [(c.line, c.text, c.output) for c in commands_of(block)] == [
        (2, "a", "x"),
        (4, "b", ""),
        (5, "a", "y"),
    ]


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("a  b\n", "a b", True),
        ("a\n...\nd", "a\nb\nc\nd", True),
        ("took ... s", "took 1.5 s", True),
        ("took ... s", "took 1.5 ms", False),
        ("a", "a\nb", False),
        ("a\nb", "a b", False),
        ("a.c", "abc", False),
        ("", "a", False),
    ],
)
def test_an_output_is_compared_whole(expected: str, actual: str, same: bool) -> None:
    assert matches(expected, actual) is same


@pytest.mark.slow
def test_a_project_installed_by_a_page_stays_in_its_environment(tmp_path: Path) -> None:
    run_page(
        tmp_path,
        """
```toml title="toy/pyproject.toml"
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "toy"
version = "1.2"
```

```text title="toy/src/toy/__init__.py"
"A toy."
```

```console
$ pip install --quiet -e ./toy
$ python -c "from importlib.metadata import version; print(version('toy'))"
1.2
```
""",
    )
    with pytest.raises(ModuleNotFoundError):
        __import__("toy")
