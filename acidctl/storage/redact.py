"""What of an address may be printed."""

from __future__ import annotations

import re

_AZURE = ("abfs", "abfss", "wasb", "wasbs")
# What stands before the last `@`, unless the address begins with a host and port, or with an IPv6 address.
_USER = re.compile(r"(?<=://)(?!\[[0-9A-Fa-f:.]+\](?::\d+)?(?:/|\s|$))(?:[^/\s]*@|[^/\s:]*:(?!\d*/)[^\s]*@)")


def without_secret(url: str) -> str:
    """The URL without user, password and query, fit to be printed; a plain path is left alone."""
    if "://" not in url:
        return url
    head, query, _ = url.partition("?")
    return without_credentials(head) + ("?..." if query else "")


def without_credentials(text: str) -> str:
    """A text with the user and password of every URL in it left out.

    Secrets are often pasted unescaped, so a password ends at the last `@`, and may contain slashes.
    """
    if "@" not in text:
        return text
    return _USER.sub(lambda found: found[0] if _is_container(found) else "", text)


def without_signatures(text: str) -> str:
    """A text of another library without credentials and without what follows the path of a URL: signatures, tokens."""
    return re.sub(r"(://[^\s?'\"]*)\?[^\s'\"]+", r"\1?...", without_credentials(text))


def _is_container(found: re.Match[str]) -> bool:
    """Azure's addresses are CONTAINER@ACCOUNT."""
    scheme = re.split(r"[^A-Za-z0-9+.-]", found.string[max(found.start() - 16, 0) : found.start() - 3])[-1]
    return scheme.lower() in _AZURE and re.fullmatch(r"[^/\s:@]+@", found[0]) is not None
