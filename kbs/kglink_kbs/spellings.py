"""The names that other people's files give to the fields that kglink reads."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache, partial

Spellings = Mapping[str, tuple[str, ...]]
#: Where a value lies in a record: one name, or several for a nested one.
Path = tuple[str, ...]

#: A setting of this value says that a field is not to be read at all.
NOT_READ = "-"

#: Ids, which mean something to whoever made them and mostly to nobody else.
ID_KEYS = (
    *("id", "key", "entity_id", "curie", "qid", "cui", "concept_id", "identifier"),
    *("wikidata_id", "kb_id", "document_id", "doc_id", "page_id", "idx", "accession", "doi"),
    *("product_id", "item_id", "article_id", "artikel_id", "record_id", "kennung"),
    *("schluessel", "schlüssel"),
    *("kennziffer", "identifiant", "identificador", "clave", "identificativo"),
    *("identificatore", "identyfikator", "tunniste", "идентификатор", "编号", "編號"),
)
#: What is printed on a thing: `article_number` stands for all that `is_article_number` knows.
ARTICLE_KEYS = (
    *("sku", "article_number", "mpn", "pn", "reference", "ref", "referenz", "referentie"),
    *("referencia", "riferimento", "rif", "artikelnummer", "артикул", "商品コード", "品番"),
    *("型番", "货号", "产品编号", "商品编号"),
)
CODE_KEYS = ("code", "codice", "código", "kod", "код", "代码", "コード")
NUMBER_KEYS = (
    *("number", "no", "nummer", "nr", "num", "numéro", "número", "numero", "номер", "番号"),
)
TRADE_KEYS = ("ean", "gtin", "isbn", "upc", "ean_13", "ean_code", "gtin_13", "barcode", "asin")
MACHINE_KEYS = ("uid", "uuid", "guid", "iri", "uri")
#: Columns that hold a number of the thing or its name; what they hold decides.
MODEL_WORDS = (
    *("model", "modell", "modele", "modelo", "modello", "artikel", "article", "articulo"),
    *("articolo", "item", "product", "produkt", "produit", "producto", "prodotto", "material"),
)

# Within a field the earlier spelling wins. Case, spaces, dashes, underscores and other signs do
# not count: `entity_id` stands for entityId, "Entity ID" and @entity-id as well.
ENTITY: Spellings = {
    "key": (*ID_KEYS, *ARTICLE_KEYS, *CODE_KEYS, *NUMBER_KEYS, *TRADE_KEYS, *MACHINE_KEYS),
    "title": (
        *("title", "name", "label", "entity", "entity_title", "entity_name", "canonical_name"),
        *("preferred_name", "pref_label", "preferred_label", "page_title", "canonical", "term"),
        *("product_name", "product_title", "item_name", "article_name", "display_name"),
        *("full_name", "common_name", "scientific_name", "heading", "headword", "lemma"),
        *("titel", "bezeichnung", "benennung", "produktname", "artikelname", "titre", "nom"),
        *("libellé", "intitulé", "désignation", "título", "nombre", "denominación", "titolo"),
        *("nome", "denominazione", "denominação", "naam", "benaming", "namn", "navn", "nimi"),
        *("nazwa", "tytuł", "název", "название", "наименование", "имя", "名称", "名稱", "名前"),
        *("标题", "標題", "タイトル", "이름", "제목", "商品名", "品名", "产品名称", "제품명"),
        *("product", "item", "article", "produkt", "artikel", "produit", "producto", "prodotto"),
        *("produto", "продукт", "товар", "产品", "商品"),
    ),
    "description": (
        *("description", "definition", "text", "abstract", "summary", "desc", "def", "gloss"),
        *("entity_description", "extract", "comment", "product_description", "details"),
        *("short_description", "long_description", "beschreibung", "produktbeschreibung"),
        *("kurzbeschreibung", "erklärung", "résumé", "descriptif"),
        *("définition", "descripción", "definición", "descrizione", "definizione", "descrição"),
        *("definição", "omschrijving", "beschrijving", "beskrivning", "beskrivelse", "kuvaus"),
        *("opis", "popis", "описание", "определение", "描述", "说明", "説明", "설명"),
    ),
    "aliases": (
        *("aliases", "alias", "synonyms", "synonym", "alternative_names", "alternate_names"),
        *("alt_names", "alternative_labels", "alt_labels", "alt_label", "other_names"),
        *("also_known_as", "aka", "surface_forms", "exact_synonyms", "alternative_name"),
        *("alternate_name", "alt_name", "other_name", "also", "nicknames"),
        *("synonyme", "aliasnamen", "andere_namen", "weitere_namen", "auch", "auch_genannt"),
        *("auch_bekannt_als", "alternativnamen", "spitznamen", "kurzname", "synonymes"),
        *("autres_noms", "aussi_appelé", "également_appelé", "también_conocido_como"),
        *("también_llamado", "conocido_como", "noto_anche_come", "anche_chiamato"),
        *("também_conhecido_como", "ook_bekend_als"),
        *("sinónimos", "otros_nombres", "sinonimi", "altri_nomi", "sinônimos", "sinónimo"),
        *("outros_nomes", "synoniemen", "synonymer", "synonymit", "synonimy"),
        *("synonyma", "синонимы", "другие_названия", "别名", "別名", "同义词", "同義語", "별칭"),
    ),
    "type": (
        *("type", "types", "entity_type", "category", "semantic_type", "semantic_types", "class"),
        *("categories", "kategorie", "typ", "klasse", "catégorie", "categoría", "tipo"),
        *("categoria", "categorie", "soort", "kategori", "kategoria", "тип", "категория"),
        *("product_type", "item_type", "product_group", "product_category", "warengruppe"),
        *("produktgruppe", "artikelgruppe", "produktkategorie", "famille", "rubrique", "familia"),
        *("类型", "类别", "カテゴリ", "分類", "分类", "유형"),
    ),
    "url": ("url", "link", "page_url", "wiki_url", "wikipedia_url", "iri", "uri"),
    "popularity": (
        *("popularity", "prior", "frequency", "freq", "count", "views", "page_views"),
        *("pageviews", "inlinks", "in_links"),
    ),
    "language": ("language", "lang", "locale", "sprache", "langue", "idioma", "lingua", "taal"),
    "xrefs": (
        *("xrefs", "xref", "cross_references", "crossrefs", "same_as", "external_ids"),
        *("exact_matches", "mappings"),
    ),
    "parents": (
        *("parents", "parent", "parent_ids", "parent_id", "broader", "is_a", "subclass_of"),
        *("superclasses", "hypernyms", "oberbegriff", "oberbegriffe", "générique"),
    ),
}

ALIAS: Spellings = {
    "surface": ("surface", "name", "value", "text", "label", "alias", "synonym", "val", "title"),
    "kind": ("kind", "type", "scope", "pred", "source"),
    "count": ("count", "frequency", "freq", "n"),
}

DOCUMENT: Spellings = {
    "id": ("id", "doc_id", "document_id", "mention_id", "query_id", "pmid"),
    "text": ("text", "context", "content", "body", "document_text"),
    "title": ("title", "doc", "document"),
    "split": ("split", "subset", "partition"),
    "mentions": ("mentions", "entities", "annotations", "spans"),
    "left": ("context_left", "left_context"),
    "mention": ("mention", "surface", "mention_text"),
    "right": ("context_right", "right_context"),
    "start": ("start", "begin", "start_char", "char_start", "mention_start", "start_offset"),
    "end": ("end", "stop", "end_char", "char_end", "mention_end", "end_offset"),
}

MENTION: Spellings = {
    "start": ("start", "begin", "start_char", "char_start", "start_offset", "offset"),
    "end": ("end", "stop", "end_char", "char_end", "end_offset"),
    "length": ("length",),
    "surface": ("text", "surface", "mention", "mention_text", "surface_form"),
    "type": ("type", "mention_type", "entity_type", "label", "ner_type"),
    "quality": ("quality",),
    "kb": ("kb", "kb_name", "ontology", "db_name"),
    "nil": ("nil", "is_nil"),
}

_GOLD_IDS = (
    *("gold", "label_id", "gold_id", "gold_ids", "entity_id", "kb_id", "concept_id", "curie"),
    *("qid", "cui", "wikidata_id", "label_document_id", "db_id"),
)
_GOLD_TITLES = ("label_title", "wikipedia_title")
#: A mention in a list of mentions: there `id` and `key` name the entity.
LISTED_MENTION: Spellings = {**MENTION, "gold": (*_GOLD_IDS, "key", "id", *_GOLD_TITLES)}
#: A mention that a tool found.
ANSWER: Spellings = {**LISTED_MENTION, "confidence": ("confidence",), "cluster": ("cluster",)}
#: The mention of a record of one: there `id` names the record, and `text` is all of it.
SINGLE_MENTION: Spellings = {
    **MENTION,
    "surface": DOCUMENT["mention"],
    "type": ("type", "mention_type", "entity_type", "ner_type"),
    "gold": (*_GOLD_IDS, *_GOLD_TITLES),
}

#: What does not count in a name; `\W` holds the accents that stand apart from their letters.
_SIGNS = re.compile(r"[\W_]+")
_NUMBER_OF_ARTICLE = "articlenumber"


#: A number sign at the end, as in "Item #".
_NUMBER_SIGN = re.compile(r"(?<=\w)\s*#\s*$")


def fold_name(name: str) -> str:
    """``entityid`` for entity_id, entityId, "Entity ID" and @entity-id; accents do not count."""
    plain = name if name.isascii() else unicodedata.normalize("NFKD", name)
    return _SIGNS.sub("", _NUMBER_SIGN.sub("no", plain)).casefold()


_THING = (
    "articles?|artikels?|articolo|articulo|artigo|artikl|art|items?|products?|produkte?|produits?|"
    "producto|prodotto|produto|prod|parts?|teile?|ersatzteil|pieces?|pieza|peca|pezzo|ricambio|"
    "parte|onderdeel|modell?s?|modele|modelo|modello|types?|typen?|material|materiaal|materiel|"
    "mat|catalog(?:ue|us|o)?|katalog|cat|kat|orders?|bestell?|best|commande|pedido|ordine|stock|"
    "lager|style|vare|sach|ident|waren|zeichnungs|oem|manufacturers?|mfr|mfg|hersteller|fabrikant|"
    "fabricant|fabricante|produttore|fornitore|fournisseur|vendor|supplier|lieferanten|"
    "reference|referenz|referentie|referencia|riferimento"
)
_COUNT = (
    "numbers?|numero|nummer|num|nr|no|code|codice|codigo|cod|ref|reference|referenz|referentie|"
    "referencia|riferimento|rif|sku"
)
_OF = "(?:d|de|del|della|delle|di|do|da|du|des|la|le|l|el|van|of){0,3}"
#: Longer names are none, and would take long to match.
_LONGEST_NUMBER_NAME = 60
_ARTICLE_NUMBER = re.compile(
    rf"(?:{_THING}){{1,3}}s?(?:{_COUNT})|(?:{_COUNT}|n){_OF}(?:{_THING})(?:{_OF}(?:{_THING}))?"
)


def is_article_number(folded: str) -> bool:
    """Whether a folded name is one of an article's, item's, part's or model's number.

    Such as "Artikel-Nr.", "Manufacturer part number", "N° d'article" or "codice prodotto".
    """
    return len(folded) <= _LONGEST_NUMBER_NAME and _names_article_number(folded)


@lru_cache(4096)
def _names_article_number(folded: str) -> bool:
    return folded in ("sku", "mpn") or bool(_ARTICLE_NUMBER.fullmatch(folded))


@cache
def folded_names(spellings: tuple[str, ...]) -> Mapping[str, int]:
    """The folded spellings, each with its place."""
    places: dict[str, int] = {}
    for place, spelling in enumerate(spellings):
        places.setdefault(fold_name(spelling), place)
    return places


def find_fields(
    names: Iterable[str], spellings: Spellings, chosen: Mapping[str, str] | None = None
) -> dict[str, Path]:
    """Where each field lies among ``names``; a ``chosen`` name stands for its field alone.

    A chosen name that is none of ``names`` is read as a dotted path into nested values.
    """
    by_fold: dict[str, str] = {}
    known = list(names)
    for name in known:
        by_fold.setdefault(fold_name(name), name)
    numbers = (name for folded, name in by_fold.items() if is_article_number(folded))
    if (number := next(numbers, None)) is not None:
        by_fold.setdefault(_NUMBER_OF_ARTICLE, number)
    found: dict[str, Path] = {}
    for field, candidates in spellings.items():
        choice = (chosen or {}).get(field, "")
        if choice == NOT_READ:
            continue
        if choice:
            found[field] = (choice,) if choice in known else tuple(choice.split("."))
            continue
        for folded in folded_names(candidates):
            if folded in by_fold:
                found[field] = (by_fold[folded],)
                break
    return found


def value_at(record: object, path: Path) -> object:
    """The value at ``path``, through objects by name and lists by number; None where none is."""
    for name in path:
        if isinstance(record, dict):
            record = record.get(name)
        elif isinstance(record, list) and name.isdecimal() and int(name) < len(record):
            record = record[int(name)]
        else:
            return None
    return record


#: The names of a record are remembered up to so many characters.
_LONGEST_SHAPE = 10_000


class Shapes:
    """Remembers where the fields lie in records of the same names: most files have one shape."""

    def __init__(self, spellings: Spellings, chosen: Mapping[str, str] | None = None) -> None:
        # Names that are made from data would grow without end.
        self._find = partial(find_fields, spellings=spellings, chosen=chosen)
        self._of_shape = lru_cache(1000)(self._find)
        self._nested = any("." in name for name in (chosen or {}).values())

    def fields(self, record: Mapping[str, object]) -> dict[str, Path]:
        """Where each field lies in ``record``."""
        is_long = sum(map(len, record)) > _LONGEST_SHAPE
        return self._find(record) if is_long else self._of_shape(tuple(record))

    def values(self, record: Mapping[str, object]) -> dict[str, object]:
        """The value of each field that ``record`` has."""
        fields = self.fields(record)
        if self._nested:
            return {field: value_at(record, path) for field, path in fields.items()}
        return {field: record.get(path[0]) for field, path in fields.items()}
