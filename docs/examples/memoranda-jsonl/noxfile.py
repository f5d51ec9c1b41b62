"""The checks of this plugin. In memoranda's own checkout, its session ``thirdparty`` does the same."""

import nox

nox.options.default_venv_backend = "uv|virtualenv"


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, memoranda's conformance kit among them."""
    session.install(".[test]")
    session.run("pytest", "tests", *session.posargs)


@nox.session
def listed(session: nox.Session) -> None:
    """See that memoranda finds the plugin."""
    session.install(".")
    session.run("memoranda", "plugins")
