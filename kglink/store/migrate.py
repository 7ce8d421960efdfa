"""Brings the tables of a store to the newest schema."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy.engine import Connection

from kglink.store.schema import SCHEMA_VERSION


def alembic_config() -> Config:
    """Alembic's settings: the scripts lie in the package, no file is read."""
    config = Config()
    config.set_main_option("script_location", "kglink.store:migrations")
    config.set_main_option("path_separator", "os")
    return config


def upgrade(connection: Connection, version: str = SCHEMA_VERSION) -> None:
    """Run the missing scripts in the open transaction: all of them take effect, or none."""
    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, version)
