"""What a default install brings may be used and passed on under permissive licences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PERMISSIVE = frozenset(
    {
        "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause",
        "BSL-1.0", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MPL-2.0", "PSF-2.0", "Unlicense",
        "Zlib",
    }
)  # fmt: skip
#: What packages without an expression of SPDX say, in words of their own.
SAID = {
    "Apache": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "ISC License": "ISC",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
}
#: Builds of torch with CUDA bring NVIDIA's libraries, which have a licence of their own.
OF_CUDA = re.compile(r"nvidia-.*|cuda-.*|triton")


def default_install() -> Iterator[Distribution]:
    """kglink and all that it needs, without its extras."""
    waiting, seen = ["kglink"], set[str]()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen or OF_CUDA.fullmatch(name):
            continue
        seen.add(name)
        found = distribution(name)
        yield found
        needed = [Requirement(line) for line in found.requires or []]
        waiting += [
            one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})
        ]


def licence_of(package: Distribution) -> str:
    """A package's licence as an expression of SPDX."""
    about = package.metadata
    if "License-Expression" in about:
        return about["License-Expression"]
    said = [line for line in about.get_all("Classifier") or [] if line.startswith("License ::")]
    if said:
        return " AND ".join(SAID.get(one, one) for one in said)
    text = "; ".join(about.get_all("License") or [])
    return SAID.get(text, text)


def is_permissive(expression: str) -> bool:
    """Whether all parts of an expression are, or of alternatives one is."""
    while group := re.search(r"\(([^()]*)\)", expression):
        held = "MIT" if is_permissive(group[1]) else "refused"
        expression = expression[: group.start()] + held + expression[group.end() :]
    return any(
        all(part.strip() in PERMISSIVE for part in one.split(" AND "))
        for one in expression.split(" OR ")
    )


def test_a_default_install_has_permissive_licences() -> None:
    licences = {package.name: licence_of(package) for package in default_install()}
    assert len(licences) > 30
    assert {name: said for name, said in licences.items() if not is_permissive(said)} == {}


@pytest.mark.parametrize(
    ("expression", "permissive"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("", False),
        ("MIT AND (BSD-2-Clause OR LGPL-2.1-or-later)", True),
        ("MIT AND LGPL-2.1-or-later", False),
        ("GPL-2.0-only OR Apache-2.0", True),
        ("MIT AND (GPL-2.0-only AND MIT)", False),
    ],
)
def test_an_expression_is_read_as_it_is_meant(expression: str, permissive: bool) -> None:
    assert is_permissive(expression) is permissive
