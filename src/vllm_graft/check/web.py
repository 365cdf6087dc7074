"""What is behind an address, with the credentials, certificates and proxy that pip would use."""

import http.client
import netrc
import os
import ssl
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit

from ..errors import SourceError
from .pip_settings import PipSettings

_PAUSES = (0.5, 2.0)
"""Seconds before an attempt is repeated."""

_Result = TypeVar("_Result")


class NotThereError(SourceError):
    """There is nothing behind an address."""


class PassingError(SourceError):
    """What may go well when it is tried again."""


class Web:
    """Opens addresses of indexes and archives. Errors name them without passwords."""

    def __init__(self, settings: PipSettings) -> None:
        self._settings = settings
        self._known = dict(filter(None, map(_credentials, settings.indexes + settings.links)))

    @contextmanager
    def open(self, address: str, accept: str = "*/*", method: str = "GET") -> Iterator[Any]:
        """Open an address for reading.

        Raises `NotThereError`, `PassingError` or another `SourceError`, also for what goes wrong
        while it is read.
        """
        bare = without_credentials(address)
        try:
            request = urllib.request.Request(bare, headers={"Accept": accept}, method=method)
            with self._opener.open(request, timeout=self._settings.timeout) as response:
                yield response
        except HTTPError as error:
            raise _refused(bare, error) from error
        except URLError as error:
            raise _unreachable(bare, error.reason) from error
        except SourceError:  # of who reads; a ValueError as well
            raise
        except (http.client.InvalidURL, ValueError) as error:
            raise SourceError(f"{bare!r} is no address of a package index: {error}") from error
        except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
            raise PassingError(f"the connection to {bare} broke off: {error!r}") from error

    def size(self, address: str) -> int:
        """Return how many bytes are behind an address; 0 where the server does not say."""
        with self.open(address, method="HEAD") as response:
            headers: Any = response.headers
            return int(headers.get("Content-Length", 0))

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        handlers: list[urllib.request.BaseHandler] = [_Authorization(self._known)]
        handlers.append(urllib.request.HTTPSHandler(context=_context(self._settings.certificates)))
        if self._settings.proxy:
            proxies = dict.fromkeys(("http", "https"), self._settings.proxy)
            handlers.append(urllib.request.ProxyHandler(proxies))
        return urllib.request.build_opener(*handlers)


def repeated(attempt: Callable[[], _Result]) -> _Result:
    """Return what an attempt gives; make it again where what went wrong may have passed."""
    for pause in _PAUSES:
        try:
            return attempt()
        except PassingError:
            time.sleep(pause)
    return attempt()


def without_credentials(address: str) -> str:
    """Return an address as it may be shown: without user name and password."""
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class _Authorization(urllib.request.BaseHandler):
    """Sends credentials to the hosts that they are for, also when another host leads there."""

    def __init__(self, known: dict[tuple[str, str], tuple[str, str]]) -> None:
        self._known = known

    def http_request(self, request: urllib.request.Request) -> urllib.request.Request:
        found = self._known.get((request.type, request.host)) or _from_netrc(request.full_url)
        if found:
            text = b64encode(":".join(found).encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {text}")
        return request

    https_request = http_request


def _credentials(address: str) -> tuple[tuple[str, str], tuple[str, str]] | None:
    parts = urlsplit(address)
    who, at, host = parts.netloc.rpartition("@")
    user, _, password = who.partition(":")
    return ((parts.scheme, host), (unquote(user), unquote(password))) if at else None


def _from_netrc(address: str) -> tuple[str, str] | None:
    try:
        entries = netrc.netrc(os.environ.get("NETRC"))
        found = entries.authenticators(urlsplit(address).hostname or "")
    except (OSError, netrc.NetrcParseError):
        return None
    return (found[0], found[2] or "") if found else None


@cache
def _context(certificates: str | None) -> ssl.SSLContext:
    """Return what knows whom to trust: the file or folder that is given, else OpenSSL's."""
    if certificates is None:
        return ssl.create_default_context()
    try:
        if Path(certificates).is_dir():
            return ssl.create_default_context(capath=certificates)
        return ssl.create_default_context(cafile=certificates)
    except OSError as error:  # ssl.SSLError is one
        raise SourceError(
            f"the certificates in {certificates!r} cannot be read: {error}. Set PIP_CERT to a file "
            "of certificates"
        ) from error


def _refused(address: str, error: HTTPError) -> SourceError:
    if error.code in (404, 410):
        return NotThereError(f"there is nothing at {address} (HTTP {error.code})")
    if error.code in (401, 403):
        return SourceError(
            f"{address} refuses access (HTTP {error.code} {error.reason}). Give user name and "
            "password in PIP_INDEX_URL, or in a netrc file"
        )
    kind = PassingError if error.code == 429 or error.code >= 500 else SourceError
    return kind(f"{address} answers HTTP {error.code} {error.reason}")


def _unreachable(address: str, reason: object) -> SourceError:
    text = f"{address} cannot be reached: {reason}"
    if isinstance(reason, FileNotFoundError | NotADirectoryError):
        return NotThereError(text)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return SourceError(f"{text}. Set PIP_CERT or SSL_CERT_FILE to the certificates to trust")
    if isinstance(reason, TimeoutError | ConnectionError):
        return PassingError(text)
    return SourceError(text)
