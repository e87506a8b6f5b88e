"""Brings the tables up to date at start-up; the migrations are part of the package."""

from typing import Final

from sqlalchemy import Engine, inspect, text

from warmroute.core.errors import ConfigurationError

HEAD: Final = "0003"
"""The newest migration; a test compares it with the directory."""
SCRIPTS: Final = "warmroute.adapters.store:migrations"


def migrate(engine: Engine) -> None:
    """Run the migrations that are missing.

    Raises:
        ConfigurationError: The database was written by a newer warmroute.
    """
    if _revision(engine) == HEAD:
        return  # Importing Alembic takes longer than everything else here.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util.exc import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", SCRIPTS)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, HEAD)
        except CommandError as error:
            raise ConfigurationError(
                f"The store is not one that this version can read ({error}); a newer warmroute wrote it. "
                "Install that version, or choose another data directory."
            ) from None


def _revision(engine: Engine) -> str | None:
    with engine.begin() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
        return revision
