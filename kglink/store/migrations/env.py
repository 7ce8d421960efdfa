"""What Alembic runs to migrate: always on the connection that the store hands over."""

from alembic import context

from kglink.store.schema import VERSION_TABLE, metadata


def migrate() -> None:
    """Run the scripts in the caller's transaction."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        transactional_ddl=True,
    )
    context.run_migrations()


# The name under which Alembic loads this file; a plain import does nothing.
if __name__ == "env_py":
    migrate()
