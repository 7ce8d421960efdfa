from __future__ import annotations

import csv
import io
import time
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import pytest
from pydantic import ValidationError

from kb_checks import claimants, head_of
from kglink.errors import RecordError, SourceError, UnknownNameError
from kglink.plugins import load_registry
from kglink.records import Alias, Entity
from kglink.sources import Problems, Source, SourceHead, SourceLimits
from kglink.testing import KBAdapterContract
from kglink_kbs.tabular import (
    CsvSettings,
    TabularAdapter,
    TsvSettings,
    guess_table,
    sniff_csv,
    sniff_tsv,
)

PAGE = Path(__file__).parents[2] / "docs" / "kbs" / "tabular.md"


def read(
    data: str | bytes,
    problems: Problems | None = None,
    /,
    limits: SourceLimits | None = None,
    **settings: str,
) -> list[Entity]:
    raw = data.encode() if isinstance(data, str) else data
    adapter = TabularAdapter(CsvSettings.model_validate(settings))
    with Source.from_bytes(raw, name="table.csv", limits=limits) as source:
        records = list(adapter.read(source, problems or Problems()))
    return [record for record in records if isinstance(record, Entity)]


def test_descriptions_that_are_html_are_read_as_text() -> None:
    problems = Problems()
    rows = [
        "id,name,description",
        "1,Lamp,<p>A <b>bright</b>&nbsp;lamp.</p><ul><li>5 W</ul>",
        '2,Hall &amp; Co,"5 < 6, no page"',
        "3,Oar,An oar<br>of ash &amp; elm <script>alert(1)</script>",
    ]
    found = [entity.description for entity in read("\n".join([*rows, ""]), problems)]
    assert found == ["A bright lamp.\n\n5 W", "5 < 6, no page", "An oar\nof ash & elm"]
    assert problems.mended == {"HTML of a description made plain text": 2}


@pytest.mark.parametrize("above", ["Articles of 2026\n", "Stand;1.1.\n\nGruppe;A\n", "sep=;\nx\n"])
def test_a_header_below_a_heading_is_found_and_told(above: str) -> None:
    problems = Problems()
    found = read(f"{above}Art.-Nr.;Bezeichnung\nA1;Esche\nB2;Ulme\n", problems)
    assert [(one.key, one.title) for one in found] == [("A1", "Esche"), ("B2", "Ulme")]
    line = above.count("\n") + 1
    assert problems.notes["header"] == f"table.csv, line {line}: what stands above it is not read"


@pytest.mark.parametrize(
    "rows",
    [
        ["Field code,Field label", "PPL,place", "id,name", "ZZ,zed"],
        ["Attribut,Attributname", "a,b", "code,label", "c,d"],
        ["sku,name", "a,b", "id,title"],
    ],
)
def test_a_row_that_looks_like_a_header_stays_a_row(rows: list[str]) -> None:
    assert len(read("\n".join([*rows, ""]))) == len(rows) - 1


@pytest.mark.parametrize("above", ["Type,Catalogue\nDate,2024\n\n", "Name\n", "Trees, all\n"])
def test_lines_about_a_table_hide_no_header(above: str) -> None:
    assert read(f"{above}id, name \na,Ash\nb,Elm\n") == [Entity("a", "Ash"), Entity("b", "Elm")]
    found = read(f"{above}nr, what \na,Ash\nb,Elm\n", key="nr", title="what")
    assert found == [Entity("a", "Ash"), Entity("b", "Elm")]


def test_a_bad_header_is_named_where_it_stands() -> None:
    with pytest.raises(SourceError, match="line 2: the header"):
        read("Catalogue\nid,na\x07me,name\na,b,c\n")


@pytest.mark.parametrize("header", ["SKU,Name,Code,Code", "id,name,text,description,text"])
def test_columns_of_one_name_may_be_known_words(header: str) -> None:
    width = header.count(",") + 1
    (found,) = read(f"{header}\n{','.join('abcde'[:width])}\n")
    assert (found.key, found.title) == ("a", "b")


def test_prose_with_a_table_in_it_is_no_table() -> None:
    text = "Hi all,\nplease add these, thanks:\n\nid,name\na,Ash\nb,Elm\n"
    assert claimants(head_of(text, "mail.txt")) == []


def test_a_header_of_chosen_columns_is_found() -> None:
    raw = "A list\nnr,what\n1,Ash\n"
    with pytest.raises(SourceError, match="no columns for the key and the title"):
        read(raw)
    assert read(raw, key="nr", title="what") == [Entity("1", "Ash")]


def test_codes_that_are_asked_for_leave_the_article_number_a_name() -> None:
    rows = "Art.-Nr.;EAN;Bezeichnung\n00001028;4006381333931;Esche\n00001029;4006381333948;Ulme\n"
    (first, _) = read(rows, codes="EAN")
    assert [one.surface for one in first.aliases] == ["00001028", "4006381333931"]


def test_descriptions_that_speak_of_html_stay_as_they_are() -> None:
    problems = Problems()
    rows = ["id,name,description", "1,a,The <a> element.", "2,b,The <b> element.", "3,p,No &."]
    rows += ["4,c,It closes as </b>.", "5,d,", "6,e,<p> opens a paragraph"]
    found = [entity.description for entity in read("\n".join([*rows, ""]), problems)]
    assert found == [row.split(",", 2)[2] for row in rows[1:]]
    assert not problems.mended


SAMPLE = """\
id,name,Definition,synonyms,type,URL,views,lang,xrefs,parent_id,note
Q1,Universe,"All there is, and
more ""of"" it.",cosmos| world |cosmos,concept,https://x.example,3.5,en,wd:1|,Q2|Q0,n

Q2,Two,,,,,,,,,
"""
EXPECTED = [
    Entity(
        key="Q1",
        title="Universe",
        description='All there is, and\nmore "of" it.',
        type="concept",
        url="https://x.example",
        popularity=3.5,
        language="en",
        aliases=(Alias("cosmos"), Alias("world")),
        xrefs=("wd:1",),
        parents=("Q2", "Q0"),
    ),
    Entity(key="Q2", title="Two"),
]


class TestCsvContract(KBAdapterContract):
    plugin = "kglink/csv"
    source_text = SAMPLE
    source_name = "entities.csv"
    expected = EXPECTED
    broken = (
        b"\x00\xff\xfe no record \x80\n",
        "",
        "id,title\n",
        "id,title\n1\n",
        "id,title\n1,a,b\n",
        "id,title\n,a\n",
        "id,title\n1,\n",
        "id,id\n1,2\n",
        "id,label,Label\n",
        "code,x\n1,2\n",
        'id,title\n1,"never closed\n2,b\n',
        b"id,title\n1,caf\xe9\n",
        b"id,caf\xe9,title\n1,2,3\n",
        b'"id,title\n',
    )


class TestTsvContract(KBAdapterContract):
    plugin = "kglink/tsv"
    source_text = 'id\ttitle\tdescription\n1\t"Heroes"\ta, b\n2\tTwo\t5" disk\n'
    source_name = "entities.tsv"
    settings = MappingProxyType({"quoting": "none"})
    expected = (Entity("1", '"Heroes"', "a, b"), Entity("2", "Two", '5" disk'))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("quote_all", [False, True])
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_what_the_csv_module_writes_is_read_back(
    delimiter: str, quote_all: bool, line_break: str
) -> None:
    cells = ["plain", "a,b", "a;b", "a\tb", "a|b", 'say "x"', "two\nlines", "ü\u2028", ' " ']
    rows = [(str(number), f"T{number}", cell) for number, cell in enumerate(cells)]
    out = io.StringIO()
    dialect = csv.excel()
    dialect.delimiter, dialect.lineterminator = delimiter, line_break
    dialect.quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    writer = csv.writer(out, dialect)
    writer.writerows([("id", "label", "definition"), *rows])
    read_back = [(entity.key, entity.title, entity.description) for entity in read(out.getvalue())]
    assert read_back == [(key, title, cell.strip()) for key, title, cell in rows]


def test_a_bom_and_blank_lines_and_unnamed_columns() -> None:
    assert read("\ufeff,id, title ,\n0,1, T ,x\n\n,,,\n, ,,\n1,2,U,y\n,,,\n") == [
        Entity("1", "T"),
        Entity("2", "U"),
    ]


def test_columns_are_named_by_settings() -> None:
    table = "id,code,label,title\n1,C1,L,T\n"
    assert read(table, key="code", title="label") == [Entity("C1", "L")]
    with pytest.raises(UnknownNameError, match=r"unknown column of table\.csv 'lable'") as caught:
        read(table, title="lable")
    assert "Did you mean 'label'?" in caught.value.hint
    assert read("id,title,count\n1,T,many\n", popularity="-") == [Entity("1", "T")]


@pytest.mark.parametrize("key", ["AJ3000", "KM-200", "SM-3", "T-800", "KM/200"])
def test_a_model_number_is_a_name(key: str) -> None:
    assert read(f"sku,title,aliases\n{key},T,A\n")[0].aliases == (Alias("A"), Alias(key))
    assert read(f"sku,title,aliases\n{key},{key},A\n")[0].aliases == (Alias("A"),)
    assert read(f"sku,title,aliases\n{key},T,{key}\n")[0].aliases == (Alias(key),)


@pytest.mark.parametrize(
    "key", ["1", "4711", "Q42", "C0001", "D012345", "NCIT123456", "HP:0001", "e006", "ABC", "a-1"]
)
def test_another_key_is_no_name(key: str) -> None:
    assert not read(f"id,title\n{key},T\n")[0].aliases


def test_the_separator_of_lists() -> None:
    table = "id,title,aliases\n1,T,a;b|c\n"  # a bar splits unasked, and wins
    assert [alias.surface for alias in read(table)[0].aliases] == ["a;b", "c"]
    assert [alias.surface for alias in read(table, separator=";")[0].aliases] == ["a", "b|c"]
    assert [alias.surface for alias in read(table, separator="")[0].aliases] == ["a;b|c"]


@pytest.mark.parametrize(
    ("table", "entity", "notes"),
    [
        (
            "SKU,Product name,Beschreibung,Price\nAJ3,AquaJet 3,A jet,9.90\nAJ4,AquaJet 4,,9.90\n",
            Entity("AJ3", "AquaJet 3", "A jet"),
            {
                "columns": "SKU is key; Product name is title; Beschreibung is description",
                "not read": "Price (--set FIELD=COLUMN reads one)",
            },
        ),
        (
            "Artikelnummer;Bezeichnung;Synonyme\n1;Birne;Glühbirne, Lampe\n2;Rad;\n",
            Entity("1", "Birne", aliases=(Alias("Glühbirne, Lampe"),)),
            {
                "columns": "Artikelnummer is key; Bezeichnung is title; "
                "Synonyme is aliases split at '|'",
                "not split": "',' stands in 1 of the first values of Synonyme: "
                "--set separator=',' splits them",
            },
        ),
        (
            "Artikelnummer;Bezeichnung;auch genannt\n1;Säge;Fuchsschwanz / Handsäge\n",
            Entity("1", "Säge", aliases=(Alias("Fuchsschwanz / Handsäge"),)),
            {
                "columns": "Artikelnummer is key; Bezeichnung is title; "
                "auch genannt is aliases split at '|'",
                "not split": "' / ' stands in 1 of the first values of auch genannt: "
                "--set separator=' / ' splits them",
            },
        ),
        (
            'SKU,Name,Synonyme\n1,Jet,Düse|Strahl\n2,Rad,AJ3000;AquaJet\n3,Öl,"Fett, Schmiere|"\n',
            Entity("1", "Jet", aliases=(Alias("Düse"), Alias("Strahl"))),
            {
                "columns": "SKU is key; Name is title; Synonyme is aliases split at '|'",
                "not split": "';' stands in 1 of the first values of Synonyme: "
                "--set separator=';' splits them",
            },
        ),
        (
            "identifiant,Désignation\nA,Roue\nB,Vélo\n",
            Entity("A", "Roue"),
            {"columns": "identifiant is key; Désignation is title"},
        ),
        (
            "Produkt;Artikelnr\nBrühe;1\nSäge;2\n",
            Entity("1", "Brühe"),
            {"columns": "Produkt is title; Artikelnr is key"},
        ),
        (
            "编号,名称\n7,轮\n",
            Entity("7", "轮"),
            {"columns": "编号 is key; 名称 is title"},
        ),
        (
            "price,colour,tool,Tool name\n1.5,red,t-1,Saw\n2.5,red,t-2,Axe\n",
            Entity("t-1", "Saw"),
            {
                "columns": "tool is key (a guess); Tool name is title (a guess)",
                "not read": "price, colour (--set FIELD=COLUMN reads one)",
            },
        ),
        (
            "number,song,also,xrefs\n1,Heroes,Helden;Heroes (single),a:1;b:2\n",
            Entity(
                "1",
                "Heroes",
                aliases=(Alias("Helden"), Alias("Heroes (single)")),
                xrefs=("a:1", "b:2"),
            ),
            {
                "columns": "number is key; song is title (a guess); "
                "also is aliases split at ';'; xrefs is xrefs split at ';'"
            },
        ),
        (
            "Artikel-Nr.;Bezeichnung;Auch genannt\n7;Lampe;Leuchte|Licht\n",
            Entity("7", "Lampe", aliases=(Alias("Leuchte"), Alias("Licht"))),
            {
                "columns": "Artikel-Nr. is key; Bezeichnung is title; "
                "Auch genannt is aliases split at '|'"
            },
        ),
        (
            "品番,商品名,別名\n7,風,カゼ、かぜ\n8,月,\n",
            Entity("7", "風", aliases=(Alias("カゼ"), Alias("かぜ"))),
            {"columns": "品番 is key; 商品名 is title; 別名 is aliases split at '、'"},
        ),
        (
            "Réf;Nom;Famille;Page;Notre avis\n"
            f"1;Lune;Café;https://example.org/{'lune' * 20};Une cafetière pour six tasses de café\n"
            "2;Soleil;Pain;https://example.org/;Un grille-pain à deux fentes\n",
            Entity("1", "Lune", "Une cafetière pour six tasses de café", type="Café"),
            {
                "columns": "Réf is key; Nom is title; Famille is type; "
                "Notre avis is description (a guess)",
                "not read": "Page (--set FIELD=COLUMN reads one)",
            },
        ),
    ],
)
def test_columns_are_guessed_and_told(table: str, entity: Entity, notes: dict[str, str]) -> None:
    problems = Problems()
    assert read(table, problems)[0] == entity
    assert problems.notes == notes


def test_a_rare_semicolon_is_a_part_of_a_name_and_told() -> None:
    rows = "".join(f"{number},T{number},plain\n" for number in range(40))
    problems = Problems()
    entities = read(f"id,title,aliases\n{rows}x,X,1;2-acid\n", problems)
    assert entities[-1].aliases == (Alias("1;2-acid"),)
    assert "';' stands in 1 of the first values of aliases" in problems.notes["not split"]


def test_all_that_is_missing_is_told_at_once() -> None:
    with pytest.raises(SourceError, match="has no columns for the key and the title") as caught:
        read("colour,price\nred,1.5\nred,2.5\n")
    assert "--set key=COLUMN --set title=COLUMN. If that line is a record" in caught.value.hint
    with pytest.raises(SourceError, match="has no column for the key") as caught:
        read("colour,name\nred,Saw\nred,Axe\n")
    assert "or --set key='name' if no title comes twice" in caught.value.hint
    for amounts in ("Preis", "Unit price", "Jahr"):  # unique, and yet no keys
        with pytest.raises(SourceError, match="has no column for the key"):
            read(f"Produkt,{amounts}\nBrühe,3\nSäge,4\n")
    with pytest.raises(UnknownNameError, match="'a'") as unknown:
        read("id,name\n1,T\n", key="a", title="b")
    assert "Unknown as well: 'b'" in unknown.value.hint


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2", "found 1 column, the header has 3"),
        ("2,b,c,d", "found 4 columns, the header has 3"),
        (",b,", "an empty id"),
        ("2, ,", "an empty title"),
        ("2,b,lots", "popularity is the text 'lots', not a finite number"),
        ("2,b,inf", "popularity is the text 'inf'"),
        ("2,a\0b,", "title holds the control character U+0000"),
        ("2,a\x1bb,", "title holds the control character U+001B"),
        ('2,"b"x,', "not a row of the table: ',' expected after '\"'"),
        ("2,b\rc,", "a carriage return stands inside a row"),
    ],
)
def test_a_bad_row_is_told_and_passed_over(row: str, reason: str) -> None:
    rows = "".join(f"x{number},{'t' * 60},\n" for number in range(1500))  # NUL far from the head
    table = f"id,title,popularity\n{rows}{row}\n3,c,\n"
    with pytest.raises(RecordError) as caught:
        read(table)
    assert caught.value.where == "table.csv, line 1502"
    assert reason in caught.value.reason
    problems = Problems("skip")
    assert len(read(table, problems)) == 1501
    assert problems.total == 1


def test_line_numbers_count_the_lines_of_quoted_cells() -> None:
    table = 'id,title,text\n1,T,"a\nb\n\nc"\n\n2,,"x\ny"\n3,V\n'
    problems = Problems("skip")
    assert [entity.key for entity in read(table, problems)] == ["1"]
    assert [example.split("\n")[0] for example in problems.examples] == [
        "table.csv, line 7: an empty title",
        "table.csv, line 9: found 2 columns, the header has 3",
    ]


def test_a_wrongly_encoded_row_is_refused_as_a_whole() -> None:
    data = b'id,title,text\n1,T,"one\ncaf\xe9\nthree"\n2,U,\n'
    problems = Problems("skip")
    assert read(data, problems) == [Entity("2", "U")]
    assert problems.counts == {"not valid UTF-8": 1}
    # 14 bytes of header, 9 of the first line of the row, then "caf".
    assert "table.csv, line 3, byte 0xe9 at byte 26:" in problems.examples[0]


def test_a_quote_that_is_never_closed() -> None:
    with pytest.raises(RecordError, match="a quote opens here that is never closed") as caught:
        read('id,title\n1,a\n2,"b\n3,c\n')
    assert caught.value.where == "table.csv, line 3"
    assert "--set quoting=none" in caught.value.hint
    assert [entity.title for entity in read('id,title\n1,a\n2,"b', quoting="none")] == ["a", '"b']


@pytest.mark.parametrize("last", ["", '900,"a name, quoted",\n'], ids=["", "another quote"])
def test_a_quote_that_is_never_closed_costs_one_row(last: str) -> None:
    rows = [f"{number},Name {number},\n" for number in range(800)]
    rows[300] = '300,Name 300,"text\n'
    problems = Problems("skip")
    keys = [one.key for one in read("id,title,text\n" + "".join(rows) + last, problems)]
    assert keys == [str(n) for n in range(800) if n != 300] + ["900"] * bool(last)
    assert sum(problems.counts.values()) == 1
    assert "table.csv, line 302" in problems.examples[0]


def test_a_quote_that_ends_far_behind_is_told_of() -> None:
    rows = [f"{number},Name {number},\n" for number in range(800)]
    rows[300], rows[500] = '300,Name 300,"text\n', '500,Name 500,5 ft 3"\n'
    problems = Problems()
    assert len(read("id,title,text\n" + "".join(rows), problems)) == 600
    told = "the row of table.csv, line 302 goes over 201 lines: is a quote missing there?"
    assert problems.notes["long row"] == told


def test_quotes_that_are_never_closed_take_linear_time() -> None:
    lines = "".join(f'{number},"b{number},\nc,d"e{number},\n' for number in range(20_000))
    began = time.process_time()
    problems = Problems("skip")
    assert len(read(f"id,title,text\n{lines}x,y,z\n", problems)) == 20_001
    assert sum(problems.counts.values()) == 20_000
    assert time.process_time() - began < 5


def test_the_line_by_which_excel_says_the_delimiter_is_no_header() -> None:
    table = "sep=;\r\nid;name;description\r\n1;Heron, grey;A bird\r\n"
    assert read(table) == read(table.split("\n", 1)[1])
    assert [one.title for one in read(table)] == ["Heron, grey"]
    assert sniff_csv(head_of(table.encode(), "birds.csv")) == 0.9


def test_huge_cells_up_to_the_limit() -> None:
    long = "x" * 1_000_000
    assert read(f"id,title,text\n1,T,{long}\n")[0].description == long
    limits = SourceLimits(max_line_bytes=300_000)
    table = f'id,title,text\n1,T,{long}\n2,U,"{("y" * 99 + chr(10)) * 4000}"\n'
    problems = Problems("skip")
    csv.field_size_limit(131_072)
    assert read(table, problems, limits=limits) == []
    assert "table.csv, line 2: the line is longer than 300,000 bytes" in problems.examples[0]
    assert "table.csv, line 3: not a row of the table: field larger" in problems.examples[1]


@pytest.mark.slow
def test_a_wide_table_is_read_in_linear_time() -> None:
    """Each of its names compared with all others takes longer than a test may."""
    width = 300_000
    names = ",".join(f"c{number}" for number in range(width))
    table = f"id,title,{names}\n1,One,{',' * (width - 1)}\n"
    assert [entity.title for entity in read(table)] == ["One"]


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ("id,Id,title,id\n1,2,3,4\n", "has 2 columns named 'id'", "Rename them"),
        ("code,x\n1,2\n", "has no column for the title", "'code', 'x'. Say which one it is: --set"),
        ("name,x\n1,2.5\n", "has no column for the key", "--set key=COLUMN"),
        ("id,title\n", "holds no record", "header only"),
        ("id\x1b,title\n1,2\n", "the header holds the control character U+001B", ""),
        ("id,title\r1,a\r2,b\r", "a carriage return stands inside a row", "tr '\\r' '\\n' < FILE"),
        ("", "is empty", ""),
        ("id,title\n1,T\n".encode("utf-16-le"), "is UTF-16LE", "--encoding UTF-16LE"),
        (b"id,title,caf\xe9\n1,2,3\n", "not valid UTF-8", "iconv"),
        (b"id,title\n\0\n", "is binary", ""),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_a_bad_table_is_refused_as_a_whole(
    table: str | bytes, message: str, hint: str, skip: bool
) -> None:
    with pytest.raises(SourceError) as caught:
        read(table, Problems("skip" if skip else "stop"))
    assert not isinstance(caught.value, RecordError)
    assert message in caught.value.message
    assert hint in caught.value.hint
    str(caught.value).encode()


def test_the_page_names_every_setting() -> None:
    table = PAGE.read_text(encoding="utf-8").split("## Settings")[1]
    for setting in CsvSettings.model_fields:
        assert f"`{setting}`" in table, setting


# -------------------------------------------------------------------------------- guessing
@pytest.mark.parametrize(
    ("table", "delimiter", "quoted"),
    [
        ("id,title\n1,T\n", ",", True),
        ("id;title;text\n1;T;a,b,c\n2;U;d\n", ";", True),
        ("id\tname\n1\ta,b\n", "\t", True),
        ("id|name|text\n1|a|x, y\n", "|", True),
        ('id\ttitle\n1\t"Heroes" (song)\n2\tb\n', "\t", False),
        ('id\ttitle\n1\t"Heroes\n2\tb\n3\tc"\n4\td\n', "\t", False),
        ('id\ttitle\n1\t"a"\n2\t"b', "\t", True),
        ('id,title\n1,"a"\n2,"b', ",", True),
        ('id,title\n1,"a, b"\n2,"c\nd, e"\n', ",", True),
        ('"id","title"\n"1","T"\n', ",", True),
        ("a:b;c:d\n1;2\n3;4\n", ";", True),
    ],
)
def test_delimiter_and_quoting_are_guessed(table: str, delimiter: str, quoted: bool) -> None:
    assert guess_table(table).dialect == (delimiter, quoted)


def test_a_wrong_guess_can_be_overruled() -> None:
    table = 'id,title;text\n1,"T;x"\n'
    assert read(table, delimiter="comma", title="title;text") == [Entity("1", "T;x")]
    assert guess_table(table, ";").dialect.delimiter == ";"
    assert read("id\ttitle\n1\tT\n", delimiter="tab") == [Entity("1", "T")]
    for bad in ("ab", "\n", '"'):
        with pytest.raises(ValidationError):
            CsvSettings(delimiter=bad)
    assert TsvSettings().delimiter == "\t"


HEADS = [
    ("id,title\n1,T\n", 0.9, 0),
    ("id\ttitle\n1\tT\n", 0, 0.9),
    ("Name;ID\nT;1\n", 0.9, 0),
    ("left,right\na,b\nc,d\n", 0.3, 0),
    ("left\tright\na\tb\nc\td\n", 0, 0.3),
    ("left,right\na,b,c\nd\ne,f,g\n", 0, 0),
    ("title\nT\n", 0, 0),
    ("It was late, and dark.\nNobody came, nobody left, all slept.\n", 0, 0),
    ('{"id": 1, "title": "T"}\n', 0, 0),
    ('[{"id": 1, "title": "T"}]\n', 0, 0),
    ("<page><title>a,b</title></page>\n", 0, 0),
    ("format-version: 1.2\ndate: 1,2\n\n[Term]\nid: X:1\nname: n\n", 0, 0),
    ("id,title\r1,T\r", 0.3, 0),  # which is refused with advice
    ("\x89PNG\r\n\x1a\n\0,id,title", 0, 0),
    ("", 0, 0),
]


@pytest.mark.parametrize(("head", "as_csv", "as_tsv"), HEADS)
def test_sniffing(head: str, as_csv: float, as_tsv: float) -> None:
    beginning = SourceHead("x.csv", head.encode("latin-1"), None)
    assert (sniff_csv(beginning), sniff_tsv(beginning)) == (as_csv, as_tsv)


def test_only_the_name_of_a_table_makes_one_of_unknown_columns() -> None:
    assert sniff_csv(SourceHead("x.PubTator.txt", b"123|t|Title\n123|a|Text\n", None)) == 0


def test_the_built_in_adapters_agree_on_who_reads_what() -> None:
    guesses = {
        "kglink/csv": "id,title\n1,T\n",
        "kglink/tsv": "id\ttitle\n1\tT\n",
        "kglink/jsonl": '{"id": 1, "title": "T"}\n',
        "kglink/documents": '{"id": 1, "text": "T", "entities": []}\n',
    }
    registry = load_registry()
    for name, head in guesses.items():
        assert registry.guess_kb(SourceHead("-", head.encode(), None)).name == name


def test_a_head_cut_inside_a_quoted_cell_is_still_a_table() -> None:
    rows = [f'{number},T{number},"some text,\n more of it"\n' for number in range(4000)]
    data = ("id,title,text\n" + "".join(rows)).encode()
    sizes = range(30_000, 30_040)
    assert len({data[size:][:1] for size in sizes}) > 10
    for size in sizes:
        assert guess_table(data[:size].decode()).dialect == (",", True)
    keys = [int(entity.key) for entity in read(data)]
    assert all(after == before + 1 for before, after in pairwise(keys))
    assert len(keys) == 4000
