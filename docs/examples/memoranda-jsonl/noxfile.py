"""The checks of this plugin. In memoranda's own checkout, its session ``thirdparty`` does the same."""

from pathlib import Path

import nox

nox.options.default_venv_backend = "uv|virtualenv"

# Until a release is on the package index, memoranda's distributions come from the checkout that this example is in.
CHECKOUT = Path(__file__).parents[3]
NEEDED = (
    "core",
    *(f"plugins/libraries/{name}" for name in ("backend", "messages", "commands")),
    *(f"plugins/features/{name}" for name in ("context", "facts", "guard", "summary", "userdata")),
    "plugins/backends/sqlite",
)
"""What the command and the kit import."""


def install(session: nox.Session, program: str, requirement: str) -> None:
    """Install the core, a program of memoranda's with what it needs, and this plugin."""
    ours = [str(CHECKOUT / folder) for folder in (*NEEDED, f"plugins/programs/{program}")]
    session.install(*ours, requirement)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, memoranda's conformance kit among them."""
    install(session, "testing", ".[test]")
    session.run("pytest", "tests", *session.posargs)


@nox.session
def listed(session: nox.Session) -> None:
    """See that memoranda finds the plugin."""
    install(session, "cli", ".")
    session.run("memoranda", "plugins")
