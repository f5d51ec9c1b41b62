"""The hosts and ports of a URL: they are checked before the driver sees them, whose errors may quote a password."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from memoranda.errors import InputError

_PORT = re.compile(r"0*[1-9][0-9]{0,4}")
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]?[^:]*|[^:]*):?(.*)", re.DOTALL)
_NOT_IN_HOST = re.compile(r"[\s\x00-\x20\x7f\[\]<>\"\\^`{|}%@]")


def check_place(url: str, *, field: str, needs_host: bool = False) -> None:
    """Raise InputError unless the URL's hosts and ports are well formed. It repeats nothing of the URL.

    Several hosts are separated by commas. A socket's folder, percent-encoded, may stand for a host. An ``@`` behind the
    host is refused: it ends a password that holds an unquoted ``/``, ``?`` or ``#``.
    """
    unreadable = InputError(
        "The store URL cannot be read. It looks like scheme://user:password@host:port/database; signs such as @ : / ? "
        "# in the user or the password are written with % and two hexadecimal digits.",
        field=field,
    )
    try:
        parts = urlsplit(url)
    except ValueError:  # Its text quotes the host, and with it what may be a password.
        raise unreadable from None
    if any("@" in part for part in (parts.path, parts.query, parts.fragment)):
        raise unreadable
    hosts = parts.netloc.rpartition("@")[2]
    if not hosts and not needs_host:
        return
    for place in hosts.split(","):
        divided = _HOST_AND_PORT.fullmatch(place)
        host, port = divided.groups() if divided else ("", "")
        if port and not is_port(port):
            raise InputError("The port in the store URL must be a number from 1 to 65535.", field=field)
        if not host and needs_host:
            raise InputError("The store URL names no host, and this kind of store needs one.", field=field)
        if host and not _is_host(host):
            raise InputError("The host in the store URL is not a name or an address.", field=field)


def is_port(text: str) -> bool:
    """Return True if the text is the number of a port."""
    return bool(_PORT.fullmatch(text)) and int(text) <= 65535


def _is_host(host: str) -> bool:
    if host.startswith("["):
        try:
            ip_address(host.removeprefix("[").removesuffix("]").partition("%")[0])
        except ValueError:
            return False
        return host.endswith("]")
    name = unquote(host)
    if name.startswith("/"):
        return "\0" not in name
    if _NOT_IN_HOST.search(name):
        return False
    try:
        return bool(name.rstrip(".").encode("idna")) or name == "."
    except UnicodeError:  # Such as a label of more than 63 bytes, or none between two dots.
        return False
