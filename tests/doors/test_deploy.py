"""The container files: what they copy, set and run is there; their server runs on PostgreSQL."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it has no types

from kglink.config import all_settings
from kglink.store import Store
from kglink_doors.listening import Limits
from served import serving

pytest_plugins = ["store_fixtures"]

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINER = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text(encoding="utf-8"))
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
BIRDS = '{"key": "heron", "title": "Grey heron", "aliases": ["heron"]}\n'


def steps(word: str) -> list[str]:
    """The steps of the container file that begin with a word."""
    return re.findall(rf"^{word} (.*)$", CONTAINER, re.MULTILINE)


def test_the_image_holds_every_package_and_known_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    copied = {name for step in steps("COPY") for name in step.split()[:-1]}
    assert all((ROOT / name).exists() for name in copied)
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {name.split("/")[0] for name in wheel} <= copied
    (extras,) = re.findall(r'"\.\[(.*)\]"', CONTAINER)
    assert set(extras.split(",")) <= set(project["project"]["optional-dependencies"])
    torch = re.search(r'^ARG TORCH="(torch==.*)"$', CONTAINER, re.MULTILINE)
    assert torch
    assert torch[1] in (ROOT / "constraints.txt").read_text(encoding="utf-8").split()


def test_compose_names_what_there_is() -> None:
    server, store = COMPOSE["services"]["server"], COMPOSE["services"]["store"]
    build = server["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Containerfile"
    assert server["depends_on"]["store"]["condition"] == "service_healthy"
    assert "-h" in store["healthcheck"]["test"]  # a server on a socket alone is not ready yet
    assert int(server["stop_grace_period"].removesuffix("s")) > Limits().seconds
    volumes = {name.split(":")[0] for one in (server, store) for name in one["volumes"]}
    assert volumes == set(COMPOSE["volumes"])
    (port,) = steps("EXPOSE")
    assert server["ports"] == [f"{port}:{port}"]
    (workspace,) = steps("VOLUME")
    assert server["volumes"] == [f"workspace:{workspace}"]


@pytest.mark.slow
def test_the_server_of_compose_runs_on_postgresql(url: str, tmp_path: Path) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("compose has a PostgreSQL server")
    given = COMPOSE["services"]["server"]["environment"]
    assert given["KGLINK_STORE_URL"].startswith("postgresql+psycopg://")
    environment = {**given, "KGLINK_STORE_URL": url, "SERVER_TOKEN": "a token of a test"}
    (tmp_path / "birds.jsonl").write_text(BIRDS, encoding="utf-8")
    for step in (["init"], ["add-kb", "birds", "birds.jsonl"]):
        command = [sys.executable, "-m", "kglink_cli", *step]
        subprocess.run(command, check=True, cwd=tmp_path, env={**os.environ, **environment})
    assert not list(tmp_path.glob("*.db"))
    with Store.open(url) as store:
        assert [info.name for info in store.kbs()] == ["birds"]
    known = [f"KGLINK_{name.upper().replace('.', '_')}" for name, _ in all_settings()]
    assert set(given) - {"SERVER_TOKEN"} <= set(known)
    (whole,) = steps("CMD")
    serve, *flags = yaml.safe_load(whole)
    assert serve == "serve"
    with serving(tmp_path, *flags, env=environment) as running:
        address = running.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - as the image listens
        running.url = address
        (check,) = (shlex.split(one) for one in re.findall(r"HEALTHCHECK.*?CMD (.*)", CONTAINER))
        assert check[0] == "python"
        own = check[2].replace("http://127.0.0.1:8017", address)
        subprocess.run([sys.executable, "-c", own], check=True)
        assert running.ask("POST", "/link", {"text": "A heron."}).status == 401
        token = {"authorization": "Bearer a token of a test"}
        answer = running.ask("POST", "/link", {"text": "A heron."}, token)
        assert [one["key"] for one in answer.json["entities"]] == ["heron"]
        assert running.ask("GET", "/ready", None, token).json["kbs"] == ["birds"]
