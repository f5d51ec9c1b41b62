"""The checks of this plugin. In memoranda's own checkout, its session ``thirdparty`` does the same."""

from pathlib import Path

import nox

nox.options.default_venv_backend = "uv|virtualenv"

# Until a release is on the package index, memoranda's distributions come from the checkout that this example is in.
CHECKOUT = Path(__file__).parents[3]
CORE, COMMAND, KIT = (str(CHECKOUT / folder) for folder in ("core", "plugins/cli", "plugins/testing"))


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, memoranda's conformance kit among them."""
    session.install(CORE, KIT, ".[test]")
    session.run("pytest", "tests", *session.posargs)


@nox.session
def listed(session: nox.Session) -> None:
    """See that memoranda finds the plugin."""
    session.install(CORE, COMMAND, ".")
    session.run("memoranda", "plugins")
