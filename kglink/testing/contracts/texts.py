"""Texts on which offsets go wrong in careless code."""

from __future__ import annotations

NASTY_TEXTS: tuple[str, ...] = (
    "",
    " ",
    "\n\r\n\t",
    "a",
    "Ada met Bob in Lantern Bay, and Ada left.",
    "ADA, ada and Ａｄａ",
    "ends with Ada",
    "Ada\r\nmet\r\nBob\r\n",
    "tabs\tAda\tand\u00a0Bob",
    "e\u0301clair by Zoe\u0308 and Zoë",
    "straße STRASSE Straẞe and İstanbul ısparta",
    "👩\u200d👩\u200d👧 Ada 🏳️\u200d🌈 Bob 🇩🇪",
    "ﬁne oﬃce ﬂow and ½ of ①",
    "soft\u00adhyphen zero\u200bwidth A\u200cd\u200da",
    "\ufeffAda after a byte order mark",
    "ქართული العربية עברית हिन्दी ไทย 日本語 한국어",
    "\u202eadA reversed\u202c Bob",
    "𝔸𝕕𝕒 𝐁𝐨𝐛 \U0010ffff",
    "x" * 5_000 + " Ada " + "y" * 5_000,
    "Ada " * 500,
    "null\x00byte and \x1b[31mcolour",
    "<b>Ada</b> & 'Bob' \"Bob\" </script><!-- --> \\u0041 {{ Ada }}",
)
