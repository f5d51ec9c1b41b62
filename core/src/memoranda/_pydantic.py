"""Keeping what is wrong with other distributions away from our models."""

from __future__ import annotations

import logging

from pydantic import create_model

logger = logging.getLogger(__name__)


def find_plugins_of_pydantic() -> None:
    """Have pydantic look for its own plugins now, and go on without them if the search fails.

    It looks when the first model of a process is made, through the metadata of everything that is installed. One
    distribution whose metadata cannot be read would make that model fail, and it looks only once.
    """
    try:
        create_model("Probe", value=(int, 0))
    except Exception as error:  # noqa: BLE001 - the metadata is somebody else's text, and may be wrong in any way
        logger.warning(
            "Pydantic found no plugins of its own: the metadata of an installed distribution cannot be read (%s). "
            "'memoranda plugins' may say which.",
            type(error).__name__,
        )
