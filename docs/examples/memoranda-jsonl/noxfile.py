"""The checks of this plugin. In memoranda's own checkout, its session ``thirdparty`` does the same."""

from pathlib import Path

import nox

nox.options.default_venv_backend = "uv|virtualenv"

# Until a release is on the package index, memoranda's distributions come from the checkout that this example is in.
CHECKOUT = str(Path(__file__).parents[3].resolve())


def install(session: nox.Session, *requirements: str) -> None:
    """Install what a session needs, memoranda's own distributions from the checkout."""
    session.install("-c", f"{CHECKOUT}/constraints.txt", *requirements, env={"PWD": CHECKOUT})


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, memoranda's conformance kit among them."""
    install(session, ".[test]")
    session.run("pytest", "tests", *session.posargs)


@nox.session
def listed(session: nox.Session) -> None:
    """See that memoranda finds the plugin."""
    install(session, ".", "memoranda-cli")
    session.run("memoranda", "plugins")
