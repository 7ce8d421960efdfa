"""A fresh store of each kind; test files name this file in ``pytest_plugins``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from kglink.store import Store

_numbers = itertools.count()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database with nothing in it."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'kglink.db'}"
        return
    server = os.environ.get("KGLINK_TEST_POSTGRES")
    if not server:
        pytest.skip("KGLINK_TEST_POSTGRES names no PostgreSQL database to test with")
    schema = f"kglink_test_{os.getpid()}_{next(_numbers)}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE SCHEMA {schema}"))
    fresh = make_url(server).update_query_dict({"options": f"-csearch_path={schema}"})
    yield fresh.render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    engine.dispose()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A new store."""
    with Store.open(url) as opened:
        yield opened
