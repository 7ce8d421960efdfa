"""What differs from language to language and does not stand in a dump itself.

A wiki's `siteinfo` names its namespaces. It names neither its redirect words, nor its
disambiguation templates, nor which letters behind a link belong to it. The tables hold the larger
Wikipedias; what is missing in them falls back to English and to patterns that many wikis share.
"""

from __future__ import annotations

import re


def _words(table: str) -> frozenset[str]:
    return frozenset(table.split())


def _names(table: str) -> frozenset[str]:
    return frozenset(name.strip() for name in table.split("|"))


#: The keys of the namespaces whose links are no links to articles.
MEDIA, SPECIAL, MAIN, FILE, CATEGORY = -2, -1, 0, 6, 14

_IN_ORDER = (
    *("media", "special", "", "talk", "user", "user talk", "project", "project talk", "file"),
    *("file talk", "mediawiki", "mediawiki talk", "template", "template talk", "help"),
    *("help talk", "category", "category talk"),
)
#: Names that every wiki understands, whatever its language.
CANONICAL_NAMESPACES = {name: key for key, name in enumerate(_IN_ORDER, MEDIA) if name}
CANONICAL_NAMESPACES |= {"image": FILE, "image talk": 7}

#: Other names of the file and category namespaces: a wiki takes its old ones for ever.
NAMESPACE_ALIASES: dict[str, dict[str, int]] = {
    "ar": {"صورة": 6, "وسائط": -2},
    "ca": {"imatge": 6},
    "cs": {"obrázek": 6, "soubor": 6},
    "da": {"billede": 6},
    "de": {"bild": 6},
    "el": {"εικόνα": 6},
    "es": {"imagen": 6},
    "fa": {"تصویر": 6},
    "fi": {"kuva": 6},
    "fr": {"image": 6, "fichier": 6},
    "he": {"תמונה": 6},
    "hu": {"kép": 6},
    "it": {"immagine": 6},
    "ja": {"画像": 6, "ファイル": 6, "カテゴリ": 14},
    "ko": {"그림": 6},
    "ltg": {"attēls": 6},
    "lv": {"attēls": 6},
    "nl": {"afbeelding": 6},
    "no": {"bilde": 6},
    "pl": {"grafika": 6},
    "pt": {"imagem": 6, "ficheiro": 6},
    "ro": {"imagine": 6},
    "ru": {"изображение": 6},
    "sv": {"bild": 6},
    "tr": {"resim": 6},
    "uk": {"зображення": 6},
    "vi": {"hình": 6},
    "zh": {"图像": 6, "圖像": 6, "文件": 6, "檔案": 6, "分类": 14, "分類": 14},
}

#: Languages whose titles have "İ" as the capital of "i".
DOTTED_CAPITALS = frozenset(("az", "kaa", "tr"))

_TRAILS = {
    "ar": "[a-zء-ي]*+",
    "bg": "[a-zабвгдежзийклмнопрстуфхцчшщъьюя]*+",
    "ca": "[a-zàèéíòóúç·ïü']*+",
    "cs": "[a-záčďéěíňóřšťúůýž]*+",
    "da": "[a-zæøå]*+",
    "de": "[äöüßa-z]*+",
    "el": "[a-zαβγδεζηθικλμνξοπρστυφχψωςάέήίόύώϊϋΐΰ]*+",
    "es": "[a-záéíóúñ]*+",
    "et": "[äöõšüža-z]*+",
    "fa": "[ابپتثجچحخدذرزژسشصضطظعغفقکگلمنوهیآأئؤة]*+",
    "fi": "[a-zäö]*+",
    "fr": "[a-zàâçéèêîôûäëïöüùÇÉÂÊÎÔÛÄËÏÖÜÀÈÙ]*+",
    "he": '[a-z"א-ת]*+',
    "hr": "[čšžćđßa-z]*+",
    "hu": "[a-záéíóúöüőűÁÉÍÓÚÖÜŐŰ]*+",
    "it": "[a-zàéèíîìóòúù]*+",
    "lv": "[a-zA-ZāčēģīķļņšūžĀČĒĢĪĶĻŅŠŪŽ]*+",
    "nl": "[a-zäöüïëéèà]*+",
    "no": "[æøåa-z]*+",
    "pl": "[a-zęóąśłżźćńĘÓĄŚŁŻŹĆŃ]*+",
    "pt": "[áâãàéêẽçíòóôõq̃úüűũa-z]*+",
    "ro": "[a-zăâîşţșțĂÂÎŞŢȘȚ]*+",
    "ru": "[a-zабвгдеёжзийклмнопрстуфхцчшщъыьэюя]*+",
    "sk": "[a-záäčďéíľĺňóôŕšťúýž]*+",
    "sl": "[a-zčćđžš]*+",
    "sr": "[abvgdđežzijklljmnnjoprstćufhcčdžšабвгдђежзијклљмнњопрстћуфхцчџш]*+",
    "sv": "[a-zåäöéÅÄÖÉ]*+",
    "tr": "[a-zÇĞçğİıÖöŞşÜüÂâÎîÛû]*+",
    "uk": "[a-zабвгґдеєжзиіїйклмнопрстуфхцчшщьєюяёъыэ“»]*+",
    "vi": "[a-zàâçéèêîôûäëïöüùÇÉÂÊÎÔÛÄËÏÖÜÀÈÙ]*+",
}
_TRAILS["be"] = _TRAILS["uk"]
_TRAILS["bs"] = _TRAILS["hr"]
_TRAILS["nb"] = _TRAILS["nn"] = _TRAILS["no"]
_TRAILS["simple"] = "[a-z]*+"


def link_trail(language: str) -> str:
    """The pattern of the letters behind ``]]`` that belong to the link, as in ``[[cat]]s``."""
    return _TRAILS.get(language.partition("-")[0], "[a-z]*+")


#: What stands behind the # of a redirect page, in small letters.
REDIRECT_WORDS = _words(
    """
    redirect weiterleitung redirection redirección rinvia doorverwijzing patrz przekieruj tam
    перенаправление перенапр redirecionamento omdirigering omdirigera ohjaus uudelleenohjaus
    viderestilling přesměruj átirányítás yönlendirme yönlendi̇rme تحويل تغییر_مسیر تغییرمسیر הפניה
    転送 リダイレクト 重定向 重新導向 넘겨주기 đổi alih перенаправлення пренасочване виж preusmeri
    ανακατευθυνση redireccionament suuna birzuzendu redirectează redirecteaza preusmjeri преусмери
    presmeruj tilvísun athchuir ail-cyfeirio เปลี่ยนทาง peradresavimas გადამისამართება
    վերահղում पुनर्प्रेषित अनुप्रेषित পুনর্নির্দেশ alidirektu айдау
    """
)

#: Names of disambiguation templates, in small letters.
DISAMBIGUATION_TEMPLATES = _names(
    """
    aimai|airport disambiguation|begriffsklärung|bkl|callsigndis|dab|dezambiguizare|disambigua
    |disambig|disambiguation|disambiguation page|disamb|desambiguación|desambiguação
    |desambiguació|desambig|dp|dubbelsinnig|egyért|förgrening|gren|genus disambiguation|geodis
    |hndis|homonymie|hospitaldis|letter-numbercombdisambig|mathdab|mil-unit-dis
    |nozīmju atdalīšana|numberdis|paronymie|patronymie|polisemia|roaddis|rozcestník|schooldis
    |species latin name disambiguation|station disambiguation|taxonomy disambiguation|täpsustus
    |täsmennyssivu|toponymie|ujednoznacznienie|багатозначність|вишезначна одредница
    |неоднозначность|неадназначнасць|многозначност|пояснение|ابهام‌زدایی|توضيح|توضیح
    |פירושונים|曖昧さ回避|消歧义|消歧義|消歧义页|동음이의|định hướng|anlam ayrımı|αποσαφήνιση
    |rozlišovacia stránka|razdvojba|razločitev|nuorodinis|बहुविकल्पी|बहुविकल्पी शब्द
    """
)

#: What a title ends with, in parentheses, where it is one of a disambiguation page.
DISAMBIGUATION_TITLES = _names(
    """
    disambiguation|begriffsklärung|homonymie|desambiguación|disambigua|doorverwijspagina
    |ujednoznacznienie|desambiguação|значения|olika betydelser|flertydig|täsmennyssivu|rozcestník
    |egyértelműsítő lap|anlam ayrımı|توضيح|ابهام‌زدایی|פירושונים|曖昧さ回避|消歧义|消歧義|동음이의
    |định hướng|значення|пояснение|desambiguació|dezambiguizare|вишезначна одредница
    |nozīmju atdalīšana|reikšmės|täpsustus|αποσαφήνιση|बहुविकल्पी|значэнні
    """
)

#: What the title of a list begins with.
LIST_TITLES = re.compile(
    r"(?:lists? of|listen? (?:der|des|de|du|d['’]|von|over|van|med)|liste[rn]?|lijst(?:en)? van"
    r"|lista(?:s|n)? (?:de|dei|delle|degli|di|över)|lista|anexo:lista|список|списки|seznam|luettelo"
    r"|zoznam|daftar|danh sách|قائمة|فهرست|רשימת|saraksts|sąrašas)(?=\s)|.*(?:一覧|列表|목록)$",
    re.IGNORECASE,
)

#: The codes of Wikipedia's languages, and the prefixes of its sister projects.
LANGUAGE_CODES = _words(
    """
    aa ab ace ady af ak als alt am ami an ang ann anp ar arc ary arz as ast atj av avk awa ay az
    azb ba ban bar bat-smg bbc bcl bdr be be-tarask be-x-old bew bg bh bi bjn blk bm bn bo bpy br
    bs btm bug bxr ca cbk-zam cdo ce ceb ch cho chr chy ckb co cr crh cs csb cu cv cy da dag de
    dga din diq dsb dtp dty dv dz ee el eml en eo es et eu ext fa fat ff fi fiu-vro fj fo fon fr
    frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got gpe gsw gu guc gur guw gv ha hak haw he
    hi hif ho hr hsb ht hu hy hyw hz ia iba id ie ig igl ii ik ilo inh io is it iu ja jam jbo jv ka
    kaa kab kbd kbp kcg kg kge ki kj kk kl km kn knc ko koi kr krc ks ksh ku kus kv kw ky la lad lb
    lbe lez lfn lg li lij lld lmo ln lo lrc lt ltg lv lzh mad mai map-bms mdf mg mh mhr mi min mk
    ml mn mni mnw mo mos mr mrj ms mt mus mwl my myv mzn na nah nan nap nb nds nds-nl ne new ng nia
    nl nn no nov nqo nr nrm nso nv ny oc olo om or os pa pag pam pap pcd pcm pdc pfl pi pih pl pms
    pnb pnt ps pt pwn qu rm rmy rn ro roa-rup roa-tara rsk ru rue rup rw sa sah sat sc scn sco sd
    se sg sgs sh shi shn si simple sk skr sl sm smn sn so sq sr srn ss st stq su sv sw syl szl szy
    ta tay tcy tdd te tet tg th ti tig tk tl tly tn to tpi tr trv ts tt tum tw ty tyv udm ug uk ur
    uz ve vec vep vi vls vo vro wa war wo wuu xal xh xmf yi yo yue za zea zgh zh zh-classical
    zh-min-nan zh-yue zu cz dk jp nan-latn zh-cn zh-tw
    """
)
SISTER_PROJECTS = _words(
    """
    w wikipedia wp wikt wiktionary b wikibooks q wikiquote s wikisource n wikinews v wikiversity
    voy wikivoyage species wikispecies c commons m meta metawikipedia mw mediawikiwiki d wikidata
    f wikifunctions foundation wmf outreach incubator phab phabricator bugzilla mediazilla tools
    toolforge rev gerrit svn doi pmid arxiv imdb imdbname imdbtitle google tvtropes wikia fandom
    wikiacity wikimedia wikitech translatewiki betawiki ticket otrs oldwikisource testwiki chapter
    dbpedia wikilivres rfc issn isbn hdl viaf uncyclopedia memoryalpha memory-alpha wookieepedia
    """
)

#: Templates that name what kind of thing an article is about, by what their name says beside it.
INFOBOX = re.compile(
    r"(?:infobox(?:es)?|ficha(?: de)?|infotaula(?: d['’e])?|infoboks|infokaste|карточка|картка"
    r"|info/|tietolaatikko|faktamall|infokutija|صندوق معلومات|جعبه|thông tin|taxobox|speciesbox"
    r"|automatic taxobox|subspeciesbox|chembox|drugbox|geobox)(?!\w)[\s:/-]*(?P<behind>.*)"
    r"|(?P<before>.+?)[\s-]*(?<!\w)(?:infobox|infokaste|bilgi kutusu|инфокутија)",
    re.IGNORECASE,
)
#: What those infoboxes are about that do not say it.
INFOBOX_TYPES = {
    **dict.fromkeys(("taxobox", "automatic taxobox", "speciesbox", "subspeciesbox"), "taxon"),
    "chembox": "chemical",
    "drugbox": "drug",
}
#: The template that describes an article in a few words.
SHORT_DESCRIPTION = re.compile(
    r"\{\{\s*(?:short[ _]desc(?:ription)?\s*\||shortdesc\s*:)\s*(?:1\s*=)?([^{}|\n]*+)",
    re.IGNORECASE,
)

#: Words of a template's name that say that it is a box, not of what.
BOX_WORDS = _words(
    """
    box card cards data details header heading info infobox page profile stats summary table
    template tabs
    """
)
#: Words of templates and categories that tell of the text and not of its subject.
ABOUT_TEXT = _words(
    """
    about ambox article articles br candidates center cite cleanup clear clr color colour
    construction delete deletion disambig dmy era featured file files for gallery hatnote icon
    image images link links list lists main maintenance mdy merge meta missing multiple nav
    navbox navigation needs needing news notice notoc pages picture pictures portal protected
    quote quotes redirect redirects ref reference references reflist see sandbox sort spoiler
    spoilers stub stubs tab tabber templates timer title toc tocright todo tooltip under
    uncategorized update updates use video warning wiki wikia wikipedia with without
    """
)
