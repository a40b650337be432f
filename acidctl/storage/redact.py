"""What of an address may be printed."""

from __future__ import annotations

import re


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
    return re.sub(r"(?<=://)(?:[^/\s]*@|[^/\s:]*:(?!\d*/)[^\s]*@)", "", text)
