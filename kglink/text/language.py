"""The language of a text, guessed from its script and its most frequent words.

A guess for what reads words by language, such as stop words; not a judgement on single words. Words
that several languages share count for each of them, so a text of names alone has no language.
"""

from __future__ import annotations

import re
from collections import Counter

#: The number of characters at the beginning that decide the language.
_ENOUGH = 2000
#: Fewer function words than this decide nothing, nor does a smaller share of all words.
_LEAST_WORDS = 2
_LEAST_SHARE = 0.08
#: The share of the letters that must be of a script.
_MOST = 0.3

_WORD = re.compile(r"[^\W\d_]+")

#: Frequent words that are written often in few languages, by ISO 639-1 code.
_FUNCTION_WORDS = {
    language: frozenset(words.split())
    for language, words in {
        "cs": "a aby ale ani bez bude by byl byla bylo být co do i jak jako je jeho jejich "
        "jen jsem jsou k kde když který která které mezi na nebo není o od po pod pro "
        "proto při s se si tak také to u v ve však z za ze že",
        "da": "af alle at blev bliver da de den der deres det dig eller en er et for fra ham "
        "han har havde hun hvad hvor i ikke jeg kan kunne med mig men min nogle når og "
        "også om op os på sig skal som til ud var vi vil være",
        "de": "aber als am an auch auf aus bei bis bitte da dann das dass dem den der des "
        "die diese dieser doch du durch ein eine einem einen einer eines er es für "
        "haben hat ich ihr im in ist ja kann keine man mehr mein meine mit nach nicht "
        "noch nur oder sehr sich sie sind so über um und uns unter vom von vor war "
        "waren was wenn werden wie wir wird wo wurde wurden zu zum zur",
        "en": "a about after all also an and are as at be been between but by can could do "
        "for from had has have he her his how i if in into is it its may more my not of "
        "on or our please she should so than that the their them there these they this "
        "to was we were what when where which who will with would you your",
        "es": "a al aunque cada como con cuando de del desde donde el ella en entre era es "
        "esta este está fue ha hasta hay la las le lo los me mi mientras más muy no nos "
        "o para pero por porque que se ser si sin sobre son su sus también tiene todo "
        "un una uno y ya yo",
        "fi": "ei että he hän ja jo joka jos kaikki kanssa koska kuin kun me minä mitä mukaan "
        "mutta myös ne niin nyt oli olla olivat on ovat se sekä sen siitä tai tämä vain "
        "voi",
        "fr": "à au aux avec bien ce ces cette comme d dans de des deux dont du elle elles en "
        "entre est et être eux il ils j je l la le les leur leurs lui mais me même mon "
        "n ne nous on ont ou où par pas plus pour qu que qui s sa sans se ses son sont "
        "sur tout très un une vous",
        "it": "a ad agli ai al alla alle anche che chi ci come con da dal dalla dalle dei del "
        "della delle di dove e è ed era essere gli ha hanno i il in io l la le lei lo "
        "loro lui ma mi nel nella non o per perché più quando questa questo se si sono "
        "su sua sul sulla tra tutti un una uno",
        "nl": "aan al als bij dan dat de deze die dit door een en er geen haar had hebben "
        "heeft het hij hoe ik in is je kan kunnen maar maken men met mijn naar niet nog "
        "of om ons onder ook op over te tot uit van veel voor was wat we werd wij "
        "worden wordt ze zich zijn zo",
        "pl": "a ale bo być był była było by co czy dla do gdy go i ich jak jako jego jej "
        "jest jeszcze już która które który ma mnie może na nie niż o od oraz po pod "
        "przez przy się są tak także tego ten to tylko u w we z za ze że",
        "pt": "a ao aos as até com como da das de do dos e é ela ele em entre era essa esse "
        "esta este eu foi há isso já lhe mais mas me mesmo meu minha muito na nas no "
        "nos não o os ou para pela pelo por quando que quem se sem ser seu sua são "
        "também tem um uma você",
        "ro": "a acest ai al ale am ar are au ca care ce cu cum când că dar de din după ea ei "
        "el este eu fi fost în într la le lui mai mult nu o pe pentru prin sa sau se și "
        "sunt să un una unei unui",
        "sv": "alla att av blev bli de den denna dessa det dig din där då efter ej eller en "
        "er ett från för ha hade han har hon hur i icke inte jag kan kunde man med men "
        "mig min mot mycket när någon och om oss på sedan sig sin ska som så till under "
        "upp ut var vi vid är",
        "tr": "ama ancak bir biz bu bunu çok da daha de değil diye en gibi hem her için ile "
        "ise kadar ki mi mı ne o olan olarak oldu olduğu sonra şu var ve veya ya yok",
    }.items()
}  # fmt: skip
_LANGUAGES: dict[str, tuple[str, ...]] = {
    word: tuple(code for code, own in _FUNCTION_WORDS.items() if word in own)
    for word in frozenset().union(*_FUNCTION_WORDS.values())
}

#: Letters that decide a language, or its likeliest one, before any word is read.
_SCRIPTS = (
    ("ja", "\u3041-\u30ff"),
    ("ko", "\uac00-\ud7a3"),
    ("zh", "\u4e00-\u9fff"),
    ("el", "\u0370-\u03ff"),
    ("he", "\u0590-\u05ff"),
    ("ar", "\u0600-\u06ff"),
    ("hi", "\u0900-\u097f"),
    ("th", "\u0e01-\u0e5b"),
    ("uk", "іїєґІЇЄҐ"),
    ("ru", "\u0400-\u04ff"),
)
#: A language's letters that other languages of the script lack: few of them are enough.
_FEW = {"ja": 0.05, "uk": 0.02}
_OF_SCRIPT = tuple((code, re.compile(f"[{letters}]")) for code, letters in _SCRIPTS)


def function_words(language: str) -> frozenset[str]:
    """Words of a language that mean nothing by themselves; none where it is not known."""
    return _FUNCTION_WORDS.get(language, frozenset())


def language_of(text: str) -> str:
    """The ISO 639-1 code of a text's language, such as ``en``; empty: unknown."""
    words = _WORD.findall(text[:_ENOUGH])
    letters = "".join(words)
    if not letters.isascii() and (code := _by_script(letters)):
        return code
    counts = Counter(code for word in words for code in _LANGUAGES.get(word.lower(), ()))
    (best, most), (_, second) = [*counts.most_common(2), ("", 0), ("", 0)][:2]
    return best if most > second and most >= max(_LEAST_WORDS, _LEAST_SHARE * len(words)) else ""


def _by_script(letters: str) -> str:
    """The language whose script a good part of the letters are of."""
    for code, script in _OF_SCRIPT:
        if len(script.findall(letters)) > _FEW.get(code, _MOST) * len(letters):
            return code
    return ""
