"""A small German, French and Spanish catalogue in letters that customers write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from string import ascii_letters, digits
from unicodedata import normalize

import pytest

from kglink.records import Alias, Entity, TextInput
from kglink.text.fold import fold
from kglink.workspace import Workspace, init_workspace

#: The names of each thing in all three languages.
CATALOGUE = {
    "shears": ("Heckenschere", "Taille-haie", "Recortasetos"),
    "hose": ("Gartenschlauch", "Wasserschlauch", "Tuyau d'arrosage", "Manguera de jardín"),
    "can": ("Gießkanne", "Arrosoir", "Regadera"),
    "barrow": ("Schubkarre", "Brouette", "Carretilla"),
    "mower": ("Rasenmäher", "Tondeuse à gazon", "Cortacésped"),
    "butt": ("Regentonne", "Récupérateur d'eau", "Barril de lluvia"),
    "gloves": ("Gartenhandschuhe", "Gants de jardinage", "Guantes de jardinería"),
    "soil": ("Blumenerde", "Terreau", "Tierra para macetas"),
    "house": ("Gewächshaus", "Serre de jardin", "Invernadero"),
    "apple": ("Apfelbaum", "Pommier", "Manzano"),
}
LETTERS = {
    "de": (
        "Guten Tag, die Heckenscheren, die ich letzte Woche bei Ihnen bestellt habe, sind noch "
        "nicht da. Der Rasenmäher kam zwar an, aber ohne den Korb. Haben Sie auch "
        "Gartenhandschuhe und einen Wasser-Schlauch? Wir haben außerdem zwei Apfelbäume "
        "gepflanzt, und das Gewächshaus ist schön geworden.",
        {
            "Heckenscheren": "shears",
            "Rasenmäher": "mower",
            "Gartenhandschuhe": "gloves",
            "Wasser-Schlauch": "hose",
            "Apfelbäume": "apple",
            "Gewächshaus": "house",
        },
    ),
    "fr": (
        "Bonjour, le tuyau d'arrosage que j'ai acheté chez vous fuit déjà, et l'arrosoir est "
        "cassé. Les brouettes sont très bien. Pourriez-vous m'envoyer deux tondeuses à gazon et "
        "des gants de jardinage ? Le terreau n'est pas arrivé, et les pommiers non plus.",
        {
            "tuyau d'arrosage": "hose",
            "arrosoir": "can",
            "brouettes": "barrow",
            "tondeuses à gazon": "mower",
            "gants de jardinage": "gloves",
            "terreau": "soil",
            "pommiers": "apple",
        },
    ),
    "es": (
        "Hola, la manguera de jardín que compré no funciona, y las carretillas llegaron rotas. "
        "¿Tienen ustedes guantes de jardinería y un cortacésped? Quiero también dos regaderas "
        "para el invernadero, y los manzanos que vimos en la tienda. ¡Muchas gracias!",
        {
            "manguera de jardín": "hose",
            "carretillas": "barrow",
            "guantes de jardinería": "gloves",
            "cortacésped": "mower",
            "regaderas": "can",
            "invernadero": "house",
            "manzanos": "apple",
        },
    ),
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with Workspace.open(init_workspace(tmp_path_factory.mktemp("shop"))) as workspace:
        workspace.add_kb(
            "shop",
            [
                Entity(key, names[0], aliases=tuple(map(Alias, names[1:])))
                for key, names in CATALOGUE.items()
            ],
        )
        workspace.build()
        yield workspace


@pytest.mark.parametrize("language", LETTERS)
def test_a_letter_is_linked_to_the_catalogue(shop: Workspace, language: str) -> None:
    text, wanted = LETTERS[language]
    (document,) = shop.link([TextInput("letter", text)])
    assert document.meta["language"] == language
    found = {link.surface: link.chosen.id.key if link.chosen else "" for link in document.links}
    assert found == wanted


WIDE = {ord(sign): ord(sign) + 0xFEE0 for sign in ascii_letters + digits}
#: How the same letters may be written.
WRITTEN: list[Callable[[str], str]] = [
    lambda text: normalize("NFD", text),
    lambda text: text.translate(WIDE),
    lambda text: re.sub(r"(\w+)", "\u2066\\1\u2069\u200e", text),
]


def with_notes(text: str) -> str:
    """A text with the number of a footnote behind each name."""
    names = "|".join(chain.from_iterable(wanted for _, wanted in LETTERS.values()))
    return normalize("NFD", re.sub(f"({names})", "\\1\u200e¹", text))


@pytest.mark.parametrize("written", [*WRITTEN, with_notes])
@pytest.mark.parametrize("language", LETTERS)
def test_the_same_letters_are_linked_the_same(
    shop: Workspace, language: str, written: Callable[[str], str]
) -> None:
    text = LETTERS[language][0]
    asked = written(text)
    plain, other = shop.link([TextInput("plain", text), TextInput("other", asked)])
    for one, same in zip(other.links, plain.links, strict=True):
        assert one.surface == asked[one.start : one.end]
        assert fold(one.surface) == fold(same.surface)
        assert one.candidates[0].id == same.candidates[0].id
        assert one.probability == pytest.approx(same.probability, abs=0.04)


def test_a_kb_may_write_its_names_otherwise(tmp_path: Path) -> None:
    names = ["Râteau Élan", "Scie AX-200", "Gants d'été"]
    entities = [
        Entity(str(at), write(name))
        for at, (name, write) in enumerate(zip(names, WRITTEN, strict=True))
    ]
    with Workspace.open(init_workspace(tmp_path)) as workspace:
        workspace.add_kb("shop", entities)
        workspace.build()
        assert [one and one.probability for one in workspace.resolve(names)] == [0.93] * 3
        (document,) = workspace.link([f"Un {names[0]}, une {names[1]} et des {names[2]}."])
        assert [one.chosen and one.chosen.id.key for one in document.links] == ["0", "1", "2"]
        assert all(one.probability > 0.9 for one in document.links)
        letters = (write("Demain, Zoë Krämerová arrive.") for write in WRITTEN)
        (found,) = workspace.discover(letters)
        assert (found.discovery.title, found.discovery.mentions) == ("Zoë Krämerová", 3)
