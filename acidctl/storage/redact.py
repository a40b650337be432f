"""What of an address may be printed."""

from __future__ import annotations

import re


def without_secret(url: str) -> str:
    """The URL without user, password and query, fit to be printed; a plain path is left alone."""
    if "://" not in url:
        return url
    head, query, _ = url.partition("?")
    return re.sub(r"//[^/@]*@", "//", head) + ("?..." if query else "")
