"""What of an address may be printed, and which words of what was given may not, whoever repeats them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# What keys, tokens and signatures are called: parameters of addresses, options of storages, environment variables.
_SECRET_NAME = r"(?:signature|token|secret|passw|credential|access[-_.]?key|account[-_.]?key|delegation|sig\b|sas\b)"
_NAME = r"[^\s=&?#;'\"%]*"
_PARAMETER = rf"(?i)([?&#;]{_NAME}{_SECRET_NAME}{_NAME}=)([^&\s'\"]+)"
_SCHEMES = "s3|s3a|s3n|gs|gcs|abfs|abfss|wasb|wasbs|az|hdfs|viewfs|webhdfs|swebhdfs|https?|ftp|file"
# An address as a whole, also one that lost a slash or its colon; what follows may hold blanks.
_ADDRESS = rf"(?s)(?:.*::)?(?:(?:[A-Za-z][A-Za-z0-9+.-]+:[/\\]+)|(?:(?:{_SCHEMES})(?::|//)[/\\]*))(?P<rest>.+)"
# An address that lost its scheme: key, colon, password and the last `@`.
_BARE = r"[^/:@\s=]+:(?!\d*(?:/|$))(\S+)@"
# No password of that length is worth making every sentence unreadable.
_SHORTEST = 4
_AZURE = ("abfs", "abfss", "wasb", "wasbs")
# What stands before the last `@`, unless the address begins with a host and port, or with an IPv6 address.
_USER = r"(?<=://)(?!\[[0-9A-Fa-f:.]+\](?::\d+)?(?:/|\s|$))(?:[^/\s]*@|[^/\s:]*:(?!\d*/)[^\s]*@)"


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
    return re.sub(_USER, lambda match: match[0] if _is_container(match) else "", text)


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """The text without users, passwords and signatures in addresses, and without the `known` secrets anywhere.

    Also in addresses that lost a slash because they were read as a path.
    """
    for secret in sorted(known, key=len, reverse=True):
        text = text.replace(secret, "...")
    if "@" in text:
        text = re.sub(r"(?<=[A-Za-z0-9]:/)[^/\s:]*:[^\s]*@", "", without_credentials(text))
    return re.sub(_PARAMETER, r"\1...", text) if "=" in text else text


def secrets_given(arguments: Iterable[str]) -> set[str]:
    """Passwords and signatures found in arguments, each in every form in which a library may repeat it.

    Only here is it known where an address ends: in a sentence, a password with a blank cannot be recognised.
    """
    secrets: set[str] = set()
    for argument in arguments:
        # Most have none of these, and then no pattern needs to be compiled.
        if not any(sign in argument for sign in (":", "=", "//")):
            continue
        secrets.update(match[2] for match in re.finditer(_PARAMETER, argument))
        name, _, value = argument.partition("=")
        if name.startswith("spark.") and is_secret_name(name):
            secrets.add(value)
        address = re.match(_ADDRESS, argument) or re.match(_ADDRESS, value)
        if address is not None:
            password = _password(address["rest"])
            secrets |= {password, *password.split()} if password else set()
        else:
            secrets.update(bare[1] for text in (argument, value) if (bare := re.match(_BARE, text)))
    return _forms(secrets)


def is_secret_name(name: str) -> bool:
    """Whether an option called so holds a secret; files and places that hold one are none."""
    return re.search(_SECRET_NAME, name, re.I) is not None and re.search(r"(?:file|path|location)$", name, re.I) is None


def secrets_among(options: Mapping[str, object]) -> set[str]:
    """The values of those options (also inner ones) whose names say that they are secret."""
    secrets: set[str] = set()
    for name, value in options.items():
        if isinstance(value, Mapping):
            secrets |= secrets_among(value)
        elif isinstance(value, str) and is_secret_name(name):
            secrets.add(value)
    return _forms(secrets)


def _password(rest: str) -> str | None:
    """What is between the first colon and the last `@`; without an `@`, what is not a port."""
    match = re.match(r"(?!\[)[^/:@]*:(?!\d*(?:/|$))(.+)@", rest, re.S) or re.match(
        r"(?!\[)[^/:@]*:(?!\d*(?:/|$))([^/@,]+)(?:/|$)", rest, re.S
    )
    return match[1] if match else None


def _forms(secrets: Iterable[str]) -> set[str]:
    known = {form for text in secrets for form in (text, unquote(text), quote(text), quote(text, safe=""))}
    return {form for form in known if len(form) >= _SHORTEST and not form.isdecimal()}


def quote(text: str, safe: str = "/") -> str:
    """That of `urllib.parse`, which every command would have to load, and which takes longer than all that is here."""

    def quoted(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))

    return re.sub(rf"[^A-Za-z0-9_.~{safe}-]", quoted, text)


def unquote(text: str) -> str:
    """The reverse of `quote`."""
    encoded = r"(?:%[0-9A-Fa-f]{2})+"
    return re.sub(encoded, lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "replace"), text)


def without_signatures(text: str) -> str:
    """A text of another library without credentials and without what follows the path of a URL: signatures, tokens."""
    return re.sub(r"(://[^\s?'\"]*)\?[^\s'\"]+", r"\1?...", without_credentials(text))


def _is_container(match: re.Match[str]) -> bool:
    """Azure's addresses are CONTAINER@ACCOUNT."""
    scheme = re.split(r"[^A-Za-z0-9+.-]", match.string[max(match.start() - 16, 0) : match.start() - 3])[-1]
    return scheme.lower() in _AZURE and re.fullmatch(r"[^/\s:@]+@", match[0]) is not None
