"""The pages of a package index: which files there are of a distribution (PEP 503, 691, 700)."""

import json
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from ..errors import SourceError
from .web import NotThereError, Web, repeated, without_credentials

_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"


@dataclass(frozen=True)
class Archive:
    """A wheel or an sdist on an index. Versions are without their local part."""

    name: str
    distribution: str
    version: Version
    address: str
    sha256: str | None = None
    size: int | None = None
    yanked: bool = False

    @property
    def is_sdist(self) -> bool:
        return not self.name.endswith(".whl")

    @property
    def place(self) -> str:
        """Where it is, as a message may show it."""
        return without_credentials(self.address)


def on_index(web: Web, index: str, distribution: str) -> list[Archive]:
    """Return the archives of a distribution; none where the index does not know it."""
    address = f"{index}{distribution}/"
    if urlsplit(index).scheme == "file":
        address += "index.html"
    return [each for each in _on_page(web, address) if each.distribution == distribution]


def among_links(web: Web, place: str, distribution: str) -> list[Archive]:
    """Return the archives of a distribution in a folder, or on a page, of `--find-links`."""
    folder = Path(url2pathname(urlsplit(place).path) if place.startswith("file:") else place)
    if folder.is_dir():
        files = (file for file in sorted(folder.iterdir()) if file.is_file())
        found = [_archive(file.name, file.resolve().as_uri()) for file in files]
        archives = [each for each in found if each]
    else:
        archives = _on_page(web, place) if "://" in place else []
    return [each for each in archives if each.distribution == distribution]


def _on_page(web: Web, address: str) -> list[Archive]:
    try:
        text, kind, base = repeated(lambda: _page(web, address))
    except NotThereError:
        return []
    found = _from_json(text, base) if kind == _JSON else _from_html(text, base)
    scheme = urlsplit(base).scheme  # a page on the net cannot name files of this machine
    return [each for each in found if scheme == "file" or not each.address.startswith("file:")]


def _page(web: Web, address: str) -> tuple[str, str, str]:
    with web.open(address, _ACCEPT) as response:
        data = response.read()
        headers: Any = getattr(response, "headers", {})
        base: str = getattr(response, "url", address) or address
    return data.decode(errors="replace"), headers.get_content_type(), base


def _from_json(text: str, base: str) -> list[Archive]:
    try:
        files = json.loads(text)["files"]
        found = [
            _archive(
                file["filename"],
                urljoin(base, file["url"]),
                sha256=file["hashes"].get("sha256"),
                size=file.get("size"),
                yanked=bool(file.get("yanked")),
            )
            for file in files
        ]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise SourceError(f"{base} is no page of a package index: {error!r}") from error
    return [each for each in found if each]


def _from_html(text: str, base: str) -> list[Archive]:
    links = _Links()
    links.feed(text)
    base = urljoin(base, links.base)
    found = []
    for reference, yanked in links.found:
        address, fragment = urldefrag(urljoin(base, reference))
        name = unquote(urlsplit(address).path.rpartition("/")[2])
        algorithm, _, digest = fragment.partition("=")
        sha256 = digest if algorithm == "sha256" else None
        found.append(_archive(name, address, sha256=sha256, yanked=yanked))
    return [each for each in found if each]


class _Links(HTMLParser):
    """Gathers the links of a page: their reference, and whether what is there was yanked."""

    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.found: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        reference = values.get("href")
        if tag == "base" and reference:
            self.base = reference
        elif tag == "a" and reference:
            self.found.append((reference, "data-yanked" in values))


def _archive(
    name: str,
    address: str,
    *,
    sha256: str | None = None,
    size: int | None = None,
    yanked: bool = False,
) -> Archive | None:
    """Return a file as an archive; None where its name is neither that of a wheel nor an sdist."""
    try:
        if name.endswith(".whl"):
            distribution, version, _, _ = parse_wheel_filename(name)
        else:
            distribution, version = parse_sdist_filename(name)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
    public = Version(version.public)
    return Archive(name, distribution, public, address, sha256, size, yanked)
