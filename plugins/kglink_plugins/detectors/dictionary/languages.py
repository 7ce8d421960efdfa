"""What the dictionary knows of languages: words that are no names, and what words end in."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from kglink.text.fold import fold
from kglink.text.language import function_words

#: Function words of English: in lower case never a mention.
FUNCTION_WORDS = frozenset(
    """
    a about above after again against all almost also although always am among an and another any
    are as at be because been before behind being below beside besides between beyond both but by
    can cannot could did do does doing done down during each either else enough ever every few for
    from further had has have having he hence her here hers herself him himself his how however i
    if in indeed instead into is it its itself just less let like many may me might mine more most
    much must my myself neither never no none nor not now of off often on once one only onto or
    other others ought our ours ourselves out over own per perhaps quite rather same shall she
    should since so some still such than that the their theirs them themselves then thence there
    therefore these they this those though through thus to together too toward towards under until
    up upon us very was we were what whatever when where whereas whether which while who whom whose
    why will with within without would yet you your yours yourself yourselves
    """.split()  # noqa: SIM905 the words are read and edited as a text
)

#: The months.
MONTHS = frozenset(
    """
    january february march april may june july august september october november december
    """.split()  # noqa: SIM905 the words are read and edited as a text
)
#: Days and months: beside a name they have a capital and are no part of it ("in Ohio Tuesday").
CALENDAR = MONTHS | {
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
}  # fmt: skip

#: Content words of English that are titles of many things: in lower case a mention only of an
#: entity whose name is written in lower case.
COMMON_WORDS = frozenset(
    """
    able act action age air alone answer area arm around art attack away baby back bad ball band
    bank bar base bed best better big bill bit black block blood blue board boat body book box boy
    bread break bridge bright bring brother brown build building business call car card care case
    cat cause center centre chance change chase child children church city class clear close cold
    color colour come company control cook cool cost country course court cross cry cup cut dark
    date daughter dawn day dead deal dear death deep design desire dog door dream dress drink drive
    drop early earth east easy eat edge effect eight end energy even evening event evil eye face
    fact fall family far fast father fear feel feet field fight film final find fine fire first
    fish five flight floor flow fly food foot force form four free fresh friend front full fun
    future game garden gate general get ghost gift girl give glass go god gold gone good great
    green grey ground group grow guard hair half hall hand hands happy hard head health hear heart
    heat heaven help hero high hill hit hold home hope horse hot hour hours house human hunger hunt
    hunter ice idea image inside iron island job join joy jump keep key kid kill kind king knife
    know lady land large last late law lead leave left legend lesson letter level lie life light
    line lines list little live long look lord lost love low luck machine magic make man march mark
    market mary master match matter mean men mercy message metal middle mind mirror miss model
    moment money month moon morning mother mountain mouth move movie music name need new news next
    night nine north nothing number ocean office oil old open orange order outside page pain paint
    pair paper park part party past path patient patients peace people person pet piece place plan
    plane plant play point police pool poor power press price pride prince prison problem public
    pure queen question quick quiet race rain reach read ready real reason red rest return rich
    right ring rise river road rock role room rose round rule run sad safe sand save say school
    sea season seat second secret see seed seven shadow shape share sharp ship shock shop short
    shot show side sign silence silver simple sister six size skin sky sleep slow small smart smoke
    snow soft soldier son song soul sound source south space spirit spring stage stand star start
    state station stay step stone stop storm story strange stranger street strong study style
    summer sun sure surface sweet system table take talk team ten test thing things think three
    thunder time today top touch tower town trade train travel tree trip true trust truth try turn
    twelve two type unit use value view voice wait walk wall want war warm watch water wave way
    week well west wheel white wild win wind window wing winner winter wish woman women wonder wood
    word words work world year yellow yes young zero
    """.split()  # noqa: SIM905 the words are read and edited as a text
)

#: What words of some languages end in besides an "s".
_ENDINGS = {
    "de": ("n", "e", "en", "er", "es", "ern"),
    "es": ("es",),
    "fr": ("x", "e", "es"),
    "it": ("i", "e"),
    "nl": ("e", "en"),
}
#: What the article in a German name becomes in other cases.
ARTICLES = frozenset(("dem", "den", "des"))
#: Endings of cases, folded, of which one stands for another in some languages.
_CASES = {
    language: ("", *endings.split())
    for languages, endings in {
        "cs pl": "a e i o u y ach ami ech eho ego ej em emi emu ho ia ich ie iego iej iem iemu im "
        "imi m mu om ou ovi ow owi um ych ym ymi",
        "el": "α ε η ι ο αν ασ ει εισ εσ εωσ ην ησ οι ον οσ ου ουσ ων",
        "ru uk": "а е и о у ы ь ю я ам ами ах ая ев его ее еи ем ему ею ие ии им ими их ию ия ов "
        "ого ое ои ом ому ою ую ые ыи ым ыми ых юю ям ями ях яя",
    }.items()
    for language in languages.split()
}


@cache
def function_words_of(language: str) -> frozenset[str]:
    """The function words of English and of a language, folded."""
    return FUNCTION_WORDS | frozenset(map(fold, function_words(language)))


def other_forms(word: str, language: str, least: int) -> Iterator[str]:
    """What a word may be without its ending, or in other cases: the least change first.

    Another ending takes the place of one only where ``least`` letters are left.
    """
    for ending in _ENDINGS.get(language, ()):
        yield word.removesuffix(ending)
    cases = _CASES.get(language, ())
    stems = (word.removesuffix(ending) for ending in cases if word.endswith(ending))
    for stem in sorted(stems, key=len, reverse=True):
        if len(stem) >= least:
            yield from (stem + ending for ending in cases)
