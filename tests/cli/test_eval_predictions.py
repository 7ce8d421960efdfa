"""`kglink eval --predictions` on the demo: every format, an independent scorer, bad files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
from conftest import ROOT, Kglink
from nervaluate import Evaluator
from pytrec_eval import RelevanceEvaluator, parse_qrel, parse_run
from rdflib import Graph, Namespace

from kglink.workspace import Workspace

DATA = ROOT / "cli" / "kglink_cli" / "demo_data" / "documents.jsonl"
EVAL = ("eval", "--docs", "docs", "--split", "test")
NIF = Namespace("http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#")
ITSRDF = Namespace("http://www.w3.org/2005/11/its/rdf#")


@pytest.fixture(scope="module")
def files(demo_master: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the demo's space answers for the test texts, in all formats."""
    folder = tmp_path_factory.mktemp("predictions")
    records = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
    raw = folder / "raw.jsonl"
    lines = [json.dumps({"id": one["id"], "text": one["text"]}) for one in records
             if one["split"] == "test"]  # fmt: skip
    raw.write_text("\n".join(lines), "utf-8")
    with Workspace.open(demo_master) as workspace:
        for form in ("jsonl", "nif", "pubtator"):
            exporter = workspace.registry.create("exporter", form)
            with (folder / f"answers.{form}").open("w", encoding="utf-8", newline="") as out:
                exporter.export(workspace.link(workspace.texts(raw)), out)
        workspace.export("docs", folder / "gold.nif", split="test", form="nif")
        qrels = folder / "qrels.trec"
        workspace.write_candidates("docs", folder / "run.trec", split="test", form="trec", k=20,
                                   qrels=qrels)  # fmt: skip
        workspace.write_candidates("docs", folder / "rankings.jsonl", split="test", k=20)
    return folder


# --------------------------------------------------------------------- GERBIL, independently
class Phrase(NamedTuple):
    start: int
    end: int
    iris: frozenset[str]

    def is_in_kb(self) -> bool:
        return any(not iri.startswith("urn:kglink:nil:") for iri in self.iris)


def phrases_by_text(path: Path) -> dict[str, list[Phrase]]:
    graph = Graph().parse(path, format="turtle")
    found: dict[str, list[Phrase]] = {}
    for context, text in graph.subject_objects(NIF.isString):
        found[str(text)] = sorted(
            Phrase(
                int(str(graph.value(one, NIF.beginIndex))),
                int(str(graph.value(one, NIF.endIndex))),
                frozenset(map(str, graph.objects(one, ITSRDF.taIdentRef))),
            )
            for one in graph.subjects(NIF.referenceContext, context)
        )
    return found


def strong(one: Phrase, other: Phrase) -> bool:
    return one[:2] == other[:2] and not one.iris.isdisjoint(other.iris)


def weak(one: Phrase, other: Phrase) -> bool:
    overlap = one.start < other.end and other.start < one.end
    return overlap and not one.iris.isdisjoint(other.iris)


def place(one: Phrase, other: Phrase) -> bool:
    return one[:2] == other[:2]


def scored(
    golds: dict[str, list[Phrase]],
    answers: dict[str, list[Phrase]],
    match: Callable[[Phrase, Phrase], bool],
    *,
    in_kb: bool,
) -> dict[str, dict[str, float]]:
    """GERBIL's counts: each gold takes the first answer left that matches; micro and macro."""
    counts = []
    for text, gold in golds.items():
        left = [one for one in answers[text] if one.is_in_kb() or not in_kb]
        wanted = [one for one in gold if one.is_in_kb() or not in_kb]
        right = 0
        for one in wanted:
            fit = next((other for other in left if match(one, other)), None)
            if fit is not None:
                left.remove(fit)
                right += 1
        counts.append((right, len(left), len(wanted) - right))

    def figures(right: float, wrong: float, missed: float) -> tuple[float, float, float]:
        if not right:
            return (0.0, 0.0, 0.0) if wrong or missed else (1.0, 1.0, 1.0)
        precision, recall = right / (right + wrong), right / (right + missed)
        return precision, recall, 2 * precision * recall / (precision + recall)

    names = ("precision", "recall", "f1")
    micro = figures(*map(sum, zip(*counts, strict=True)))
    each = [figures(*one) for one in counts]
    macro = [sum(values) / len(each) for values in zip(*each, strict=True)]
    return {
        "micro": dict(zip(names, micro, strict=True)),
        "macro": dict(zip(names, macro, strict=True)),
    }


@pytest.mark.parametrize(
    ("where", "match"),
    [(("links", "strict"), strong), (("links", "weak"), weak), (("detection", "strict"), place)],
)
def test_scores_of_nif_are_those_of_another_implementation(
    kglink: Kglink,
    demo: Path,
    files: Path,
    where: tuple[str, str],
    match: Callable[[Phrase, Phrase], bool],
) -> None:
    """GERBIL's A2KB InKB experiment, strong and weak annotation match, and its recognition."""
    theirs = scored(
        phrases_by_text(files / "gold.nif"),
        phrases_by_text(files / "answers.nif"),
        match,
        in_kb=where[0] == "links",
    )
    ran = kglink(*EVAL, "--predictions", files / "answers.nif", "--json")
    ours = json.loads(ran.out)["metrics"]["joint"][where[0]][where[1]]
    for mean in ("micro", "macro"):
        assert ours[mean] == pytest.approx(theirs[mean])
    assert 0.3 < ours["micro"]["f1"] < 1
    assert "answers.nif holds answers in raw texts" in ran.err


def labelled(
    ones: Iterable[Phrase], others: Iterable[Phrase] = (), *, in_kb: bool
) -> list[dict[str, Any]]:
    """Phrases with one label each: of several IRIs one that an overlapping phrase has as well."""
    return [
        {
            "label": min((one.iris & other.iris) or one.iris) if in_kb else "mention",
            "start": one.start,
            "end": one.end - 1,  # nervaluate counts the last character
        }
        for one in ones
        if one.is_in_kb() or not in_kb
        for other in [next((other for other in others if weak(one, other)), one)]
    ]


@pytest.mark.parametrize(
    ("where", "scheme"),
    [
        (("links", "strict"), "strict"),
        (("links", "weak"), "ent_type"),
        (("detection", "strict"), "exact"),
    ],
)
def test_scores_of_nif_are_those_of_nervaluate(
    kglink: Kglink, demo: Path, files: Path, where: tuple[str, str], scheme: str
) -> None:
    """The files are read by rdflib and scored by nervaluate, an entity being a label."""
    golds, answers = (phrases_by_text(files / f"{name}.nif") for name in ("gold", "answers"))
    in_kb = where[0] == "links"
    true = [labelled(gold, answers[text], in_kb=in_kb) for text, gold in golds.items()]
    found = [labelled(answers[text], in_kb=in_kb) for text in golds]
    tags = sorted({one["label"] for text in true + found for one in text})
    theirs = Evaluator(true, found, tags, loader="dict").evaluate()["overall"][scheme]
    ran = kglink(*EVAL, "--predictions", files / "answers.nif", "--json")
    ours = json.loads(ran.out)["metrics"]["joint"][where[0]][where[1]]
    assert (ours["right"], ours["found"], ours["gold"]) == (
        *(theirs.correct, theirs.actual, theirs.possible),
    )
    assert ours["micro"] == pytest.approx(
        {"precision": theirs.precision, "recall": theirs.recall, "f1": theirs.f1}
    )


def test_all_formats_of_answers_have_the_same_figures(
    kglink: Kglink, demo: Path, files: Path
) -> None:
    lines, nif = (
        json.loads(kglink(*EVAL, "--predictions", files / f"answers.{form}", "--json").out)
        for form in ("jsonl", "nif")
    )
    assert nif | {"predictions": ""} == lines | {"predictions": ""}
    space = json.loads(kglink(*EVAL, "--end-to-end", "--joint-only", "--json").out)
    assert space["metrics"]["joint"]["links"] == nif["metrics"]["joint"]["links"]


def test_answers_in_any_format_of_documents_are_judged(
    kglink: Kglink, demo: Path, files: Path
) -> None:
    """PubTator has neither confidence nor line breaks: the rest is the same."""
    lines, pubtator = (
        json.loads(kglink(*EVAL, "--predictions", files / f"answers.{form}", "--json").out)
        for form in ("jsonl", "pubtator")
    )
    for figures in ("detection", "links"):
        assert pubtator["metrics"]["joint"][figures] == lines["metrics"]["joint"][figures]
    assert pubtator["metrics"]["nil"] == lines["metrics"]["nil"]


@pytest.mark.parametrize("form", ["bioc", "jsonl", "nif", "pubtator"])
def test_answers_of_texts_with_controls_are_judged(
    kglink: Kglink, demo_copy: Path, tmp_path: Path, form: str
) -> None:
    text = "A heron\x0b stood\x0c there\ufffe."
    gold = [{"start": 2, "end": 7, "gold": ["lanternfall:grey_heron"]}]
    odd, answers = tmp_path / "odd.jsonl", tmp_path / f"answers.{form}"
    odd.write_text(json.dumps({"id": "x", "text": text, "mentions": gold}) + "\n")
    kglink("add-kb", "odd", odd, "--links-to", "lanternfall")
    kglink("link", odd, "-f", form, "-o", answers)
    told = kglink("eval", "--docs", "odd", "--predictions", answers, "--complete", "--json").out
    assert json.loads(told)["metrics"]["joint"]["detection"]["strict"]["right"] == 1


def test_the_web_address_of_an_entity_says_which_it_is(
    kglink: Kglink, demo: Path, files: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.ttl"
    lines = (files / "answers.nif").read_text("utf-8").splitlines(keepends=True)
    kept = [one for one in lines if "itsrdf:taSource" not in one and "itsrdf:taIdent " not in one]
    assert len(kept) < len(lines)
    own.write_text("".join(kept), "utf-8")
    found = [
        json.loads(kglink(*EVAL, "--predictions", path, "--json").out)["metrics"]
        for path in (own, files / "answers.nif")
    ]
    assert found[0] == found[1]


# ------------------------------------------------------------------------------ TREC's tools
def trec_figures(run: Path, qrels: Path) -> dict[str, float]:
    """What trec_eval says of a run: the means over all queries."""
    with qrels.open(encoding="utf-8") as right, run.open(encoding="utf-8") as ranked:
        judge = RelevanceEvaluator(parse_qrel(right), {"recip_rank", "success"})
        found = judge.evaluate(parse_run(ranked)).values()
    names = {"R@1": "success_1", "R@10": "success_10", "MRR": "recip_rank"}
    return {ours: sum(one[theirs] for one in found) / len(found) for ours, theirs in names.items()}


@pytest.mark.slow
def test_a_run_has_the_figures_that_trec_gives_it(kglink: Kglink, demo: Path, files: Path) -> None:
    asked = (*EVAL, "--k", "1,10,40", "--json", "--predictions")
    ran = kglink(*asked, files / "run.trec")
    found = json.loads(ran.out)
    assert "run.trec holds rankings of given mentions, as a TREC run" in ran.err
    theirs = trec_figures(files / "run.trec", files / "qrels.trec")
    ours = found["metrics"]["joint"]
    assert {name: ours[name] for name in theirs} == pytest.approx(theirs)
    lines = json.loads(kglink(*asked, files / "rankings.jsonl").out)
    assert lines["metrics"] == found["metrics"]
    asked = (*EVAL, "--k", "1,10,40", "--json", "--candidates")
    assert json.loads(kglink(*asked, files / "run.trec").out)["metrics"] == found["metrics"]


def test_names_in_a_run_are_those_of_mentions_and_entities(files: Path, demo: Path) -> None:
    with Workspace.open(demo) as workspace:
        golds = {
            (f"docs/{document.id}/{one.start}-{one.end}", str(gold))
            for document in workspace.store.documents("docs", "test")
            for one in document.mentions
            for gold in one.gold or ()
        }
    lines = [one.split() for one in (files / "qrels.trec").read_text("utf-8").splitlines()]
    assert {(query, unquote(name)) for query, _, name, _ in lines} == golds


# --------------------------------------------------------------------------------- bad files
def changed(path: Path, change: Callable[[list[str]], Iterable[str] | bytes]) -> bytes:
    found = change(path.read_text("utf-8").splitlines(keepends=True))
    return found if isinstance(found, bytes) else "".join(found).encode()


def one_entity(**fields: Any) -> Callable[[list[str]], Iterator[str]]:
    """The first entity of the file with other fields."""

    def change(lines: list[str]) -> Iterator[str]:
        for line in lines:
            record = json.loads(line)
            if record["entities"] and fields:
                record["entities"][0] |= fields
                fields.clear()
            yield json.dumps(record) + "\n"

    return change


UNREADABLE = (
    *("UTF-16", "is empty", "does not lie in the text", "does not stand at", "JSON"),
    *("the confidence nan is no number", "no KB adapter knows this format"),
    *("is not valid Turtle", "no context in"),
)


def twice(lines: list[str]) -> list[str]:
    records = [json.loads(line) for line in lines]
    record = next(one for one in records if one["entities"])
    record["entities"].append(record["entities"][0])
    return [json.dumps(one) + "\n" for one in records]


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        ("answers.jsonl", one_entity(key="nobody"), "no KB has 1 of the entities"),
        ("answers.jsonl", one_entity(kb="nowhere"), "is of 'nowhere', and there is no such KB"),
        ("answers.jsonl", one_entity(end=99_999), "does not lie in the text"),
        ("answers.jsonl", one_entity(start=1), "does not stand at"),
        ("answers.jsonl", one_entity(confidence=float("nan")), "the confidence nan is no number"),
        ("answers.jsonl", twice, "has 2 answers at"),
        ("answers.jsonl", lambda lines: [*lines, lines[0]], "stands there twice"),
        ("answers.jsonl", lambda lines: lines[1:], "1 of 126 texts are not in it"),
        ("answers.jsonl", lambda lines: "".join(lines)[:-30], "JSON"),
        ("answers.jsonl", lambda lines: "".join(lines).encode("utf-16-le"), "UTF-16"),
        ("answers.jsonl", lambda lines: "", "is empty"),
        ("answers.jsonl", lambda lines: "Ada Lovelace\n", "no KB adapter knows this format"),
        ("answers.nif", lambda lines: "".join(lines)[:-30], "is not valid Turtle"),
        ("answers.nif", lambda lines: lines[:4], "no context in"),
        ("answers.nif", lambda lines: "".join(lines).encode("utf-16-le"), "UTF-16"),
        ("run.trec", lambda lines: "".join(lines)[:-9], "is no line of a TREC run"),
        ("run.trec", lambda lines: lines[: len(lines) // 2], "mentions have no line"),
        ("run.trec", lambda lines: [*lines, lines[0]], "has the candidate"),
        ("run.trec", lambda lines: ["docs/doc-071/8-15 Q0 a:b 1 nan x\n"], "the score 'nan'"),
        ("run.trec", lambda lines: ["docs/doc-071/8-15 Q0 a:b 1 inf x\n"], "the score 'inf'"),
        ("run.trec", lambda lines: ["docs/doc-071/8-15 Q0 a:b 1 1 x\n"], "there is no such KB"),
        ("run.trec", lambda lines: ["Q1 Q0 a:b 1 1 x\n"], "the query 'Q1', which names no"),
        ("run.trec", lambda lines: ["docs/doc-071/8-15 Q0 ab 1 1 x\n"], "which is no entity"),
        ("run.trec", lambda lines: ["docs/doc-071/8-16 Q0 a:b 1 1 x\n"], "has no mention at 8-16"),
        (
            "run.trec",
            lambda lines: [lines[0].replace("lanternfall:", "lanternfall:x"), *lines[1:]],
            "no KB has 1 of the entities that it names: 'lanternfall:x",
        ),
        ("rankings.jsonl", lambda lines: [*lines, lines[0]], "the mention stands there twice"),
        ("rankings.jsonl", lambda lines: lines[1:], "1 of 164 mentions have no line"),
        (
            "rankings.jsonl",
            lambda lines: [json.dumps(json.loads(lines[0]) | {"scores": [float("nan")] * 40})],
            "has scores that are no numbers",
        ),
        (
            "rankings.jsonl",
            lambda lines: [lines[0].replace('"lanternfall:', '"lanternfall:x'), *lines[1:]],
            "of the entities that it names: 'lanternfall:x",
        ),
    ],
)
def test_a_file_that_is_wrong_gives_no_figure(
    kglink: Kglink, demo: Path, files: Path, tmp_path: Path, file: str, change: Any, told: str
) -> None:
    path = tmp_path / file
    path.write_bytes(changed(files / file, change))
    # What cannot be read is a fault of the source (1), what does not fit is a mistake in it (2).
    ran = kglink(*EVAL, "--predictions", path, code=1 if told in UNREADABLE else 2)
    assert told in ran.err
    assert ran.out == ""


def test_a_table_of_entities_is_no_file_of_predictions(
    kglink: Kglink, demo: Path, tmp_path: Path
) -> None:
    table = tmp_path / "table.csv"
    table.write_text("id,title\n1,heron\n")
    assert "it holds no texts" in kglink(*EVAL, "--predictions", table, code=2).err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--end-to-end", "--predictions", "run.trec"], "holds rankings of given mentions"),
        (["--candidates", "answers.nif"], "it holds no rankings"),
        (["--predictions", "run.trec", "--candidates", "rankings.jsonl"], "two files to judge"),
        (["--predictions", "answers.nif", "--domains"], "are of rankings, not of whole answers"),
        (["--predictions", "run.trec", "--joint-only"], "are of whole answers"),
        (["--predictions", "answers.nif", "--rerank", "8"], "--rerank would change nothing where"),
        (["--predictions", "answers.nif", "--space", "x"], "--space would change nothing where"),
        (
            ["--predictions", "run.trec", "--found-by", "names", "--type", "x"],
            "--found-by and --type would",
        ),
        (["--candidates", "run.trec", "--under", "a:b"], "--under would change nothing where"),
    ],
)
def test_a_file_of_another_kind_is_refused(
    kglink: Kglink, demo: Path, files: Path, arguments: list[str], told: str
) -> None:
    named = [files / one if "." in one else one for one in arguments]
    assert told in kglink(*EVAL, *named, code=2).err


@pytest.mark.parametrize(
    ("record", "ended", "told"),
    [
        ({"entities": []}, 2, "no mention of 'none' is annotated"),
        ({"entities": [{"start": 0, "end": 3}]}, 0, "no mention has an entity of these KBs"),
        ({"entities": [{"start": 0, "end": 3, "gold": []}]}, 0, "no mention has an entity of"),
    ],
)
def test_gold_that_is_empty_is_told(
    kglink: Kglink, demo_copy: Path, tmp_path: Path, record: dict[str, Any], ended: int, told: str
) -> None:
    source, answers = tmp_path / "none.jsonl", tmp_path / "answers.jsonl"
    source.write_text(json.dumps({"id": "1", "text": "Ada met Bob."} | record) + "\n", "utf-8")
    kglink("add-kb", "none", source, "--adapter", "documents", "--links-to", "encyclopedia")
    answers.write_text('{"id": "1", "entities": []}\n', "utf-8")
    ran = kglink("eval", "--docs", "none", "--predictions", answers, code=ended)
    assert told in ran.err
