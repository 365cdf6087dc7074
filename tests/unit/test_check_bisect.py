"""Which commit breaks a patch, told from the history of a git clone."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vllm_graft import Patch, PatchSet
from vllm_graft.check.bisect import Bisection, bisect
from vllm_graft.check.opening import expanded, open_trees
from vllm_graft.check.revision import RevisionRange, RevisionTree
from vllm_graft.errors import SourceError

from .test_check_tree import git

pytestmark = pytest.mark.processes

F = "def f(a): return a\n"
BODY = "def g(a, b):\n    for each in a:\n        b.append(each + 1)\n    return b\n"

START = {"mod.py": F, "other.py": BODY, "base.py": "class Base:\n    def step(self): ...\n"}


class History:
    """A clone whose commits change modules of a vLLM."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        git(root, "init", "-q", "-b", "main")
        self._unwritten: list[str] = []
        self._written: set[str] = set()
        self._time = 1790000000
        self.commit("start", {"__init__.py": "", **START})
        self.git("tag", "v0.31.0")

    def commit(self, subject: str, files: Mapping[str, str | None], branch: str = "main") -> None:
        """Commit modules to a branch; None removes one."""
        self._time += 1
        lines = [f"commit refs/heads/{branch}", f"committer me <me@here> {self._time} +0000"]
        lines += [_data(subject)]
        if branch in self._written:  # the first of a run of fast-import says what it follows
            lines += [f"from refs/heads/{branch}^0"]
            self._written.remove(branch)
        for path, text in files.items():
            change = f"M 644 inline vllm/{path}\n{_data(text)}" if text is not None else ""
            lines += [change or f"D vllm/{path}"]
        self._unwritten += lines

    def branch(self, name: str) -> None:
        """Begin a branch where the main one is."""
        self.git("branch", name)
        self._written.add(name)

    def idle(self, count: int = 5, branch: str = "main") -> None:
        """Commit what no patch is about."""
        for number in range(count):
            self.commit(f"idle {number}", {"idle.py": f"A = {number}\n"}, branch)

    def git(self, *arguments: str) -> str:
        """Run git, when the commits have been written: all in one go, for speed."""
        lines, self._unwritten = self._unwritten, []
        if lines:
            git(self.root, "fast-import", "--quiet", given="\n".join([*lines, ""]))
            self._written.add("main")
        return git(self.root, *arguments)

    def bisect(self, *patches: Patch, between: str = "v0.31.0..HEAD") -> list[Bisection]:
        revisions = RevisionRange.parse(f"{self.root}@{between}")
        assert revisions is not None
        self.git("status")
        return bisect(patches, revisions, self.root.parent / "answers")


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "clone")


def patch(target: str, implementation: Callable[..., object] | None = None) -> Patch:
    patches = PatchSet("acme")
    patches.replace(
        target,
        implementation or (lambda a: None),
        id=re.sub(r"\W|_", "-", target).lower(),
        vllm="<99",
        why="w",
        how="h",
        upstream="u",
        remove="r",
    )
    return patches.patches[0]


OF_F = "vllm.mod:f"


@pytest.mark.parametrize(
    ("change", "fit"),
    [
        ({"mod.py": "def h(a): return a\n"}, "missing"),
        ({"mod.py": "def f(a, b): return a\n"}, "signature"),
        ({"mod.py": "class f: ...\n"}, "kind"),
        ({"mod.py": "A = 1\n", "new.py": F}, "moved"),
        ({"mod.py": None}, "missing"),
        ({"mod.py": "f = globals()['g']\n"}, "unknown"),
        ({"mod.py": "<<<<<<< def f(a)\n"}, "unknown"),
    ],
)
def test_the_commit_that_breaks_a_patch_is_named(
    change: dict[str, str | None], fit: str, history: History
) -> None:
    history.idle(3)
    history.commit("Break it", change)
    history.commit("Make it Python", {"mod.py": "A = 1\n"})  # which it must be at the end
    (found,) = history.bisect(patch(OF_F))
    assert (found.outcome, found.before.fit) == ("breaks", "ok")
    assert found.commit is not None
    assert found.verdict is not None
    assert (found.commit.subject, found.verdict.fit) == ("Break it", fit)
    assert found.commit.name == history.git("rev-parse", "HEAD^")
    assert str(found).startswith(f"acme/vllm-mod-f: {fit} since {found.commit.name[:10]} (2026-")


@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 1), (1, 0), (6, 1), (1, 6), (30, 33)])
def test_wherever_it_is(before: int, after: int, history: History) -> None:
    history.idle(before)
    history.commit("Break it", {"mod.py": "A = 1\n"})
    history.idle(after)
    (found,) = history.bisect(patch(OF_F))
    assert found.commit is not None
    assert found.commit.subject == "Break it"


@pytest.mark.parametrize("subject", ["", "One \u2028 line", "Größe  of it", "a b c"])
def test_any_subject_will_do(subject: str, history: History) -> None:
    history.commit(subject, {"mod.py": "A = 1\n"})
    (found,) = history.bisect(patch(OF_F))
    assert found.commit is not None
    assert (found.commit.subject, found.commit.date) == (subject, "2026-09-21")


def test_where_the_target_went_is_told_by_how_it_was_right_before(history: History) -> None:
    history.commit("Rewrite it", {"other.py": BODY.replace("append", "insert").replace("+", "*")})
    history.commit("Move it", {"other.py": "", "new.py": BODY.replace("append", "insert")})
    (found,) = history.bisect(patch("vllm.other:g", lambda a, b: None))
    assert found.verdict is not None
    assert [str(each.target) for each in found.verdict.moves] == ["vllm.new:g"]


def test_patches_that_break_together_are_searched_together(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real = RevisionTree.__init__

    def counting(self: RevisionTree, clone: Path, revision: str, *rest: object) -> None:
        opened.append(revision)
        real(self, clone, revision, *rest)  # type: ignore[arg-type]

    history.idle(14)
    history.commit("Break both", {"mod.py": "A = 1\n", "other.py": "A = 1\n"})
    history.idle(16)
    monkeypatch.setattr(RevisionTree, "__init__", counting)
    patches = [patch(OF_F), patch("vllm.base:Base.step"), patch("vllm.other:g", lambda a, b: None)]
    history.bisect(patches[0])
    alone, opened = opened, []
    found = history.bisect(*patches)
    assert [each.patch for each in found] == patches
    assert [each.outcome for each in found] == ["breaks", "holds", "breaks"]
    assert len(opened) == len(alone) < 12


def test_each_has_its_own_commit(history: History) -> None:
    history.commit("First", {"mod.py": "A = 1\n"})
    history.idle(7)
    history.commit("Second", {"other.py": "A = 1\n"})
    history.idle(7)
    found = history.bisect(patch("vllm.other:g", lambda a, b: None), patch(OF_F))
    assert [each.commit and each.commit.subject for each in found] == ["Second", "First"]


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ([{"idle.py": "A = 1\n"}], "holds"),
        ([{"mod.py": "A = 1\n"}, {"mod.py": F}], "holds"),
        ([{"mod.py": "A = 1\n"}], "breaks"),
    ],
)
def test_a_patch_that_fits_both_ends_holds(
    changes: list[dict[str, str | None]], outcome: str, history: History
) -> None:
    for each in changes:
        history.commit("change", each)
    (found,) = history.bisect(patch(OF_F))
    assert found.outcome == outcome


@pytest.mark.parametrize(
    ("last", "outcome", "sentence"),
    [
        ({"idle.py": "A = 1\n"}, "was-broken", "fits at neither end"),
        ({"mod.py": F}, "mended", "does not fit at the first revision"),
    ],
)
def test_what_did_not_fit_before_is_not_searched(
    last: dict[str, str | None], outcome: str, sentence: str, history: History
) -> None:
    history.commit("Break it", {"mod.py": "A = 1\n"})
    history.git("tag", "broken")
    history.commit("last", last)
    (found,) = history.bisect(patch(OF_F), between="broken..HEAD")
    assert (found.outcome, found.commit, found.verdict) == (outcome, None, None)
    assert sentence in str(found)


def test_of_several_breaks_one_is_found(history: History) -> None:
    for _ in range(3):
        history.commit("Break it", {"mod.py": "A = 1\n"})
        history.commit("Mend it", {"mod.py": F})
    history.commit("Break it", {"mod.py": "A = 1\n"})
    (found,) = history.bisect(patch(OF_F))
    assert found.commit is not None
    assert found.commit.subject == "Break it"


def test_a_merge_counts_as_one_commit(history: History) -> None:
    history.branch("side")
    history.commit("Break it on the side", {"mod.py": "A = 1\n"}, "side")
    history.idle(2, "side")
    history.commit("Meanwhile", {"more.py": "A = 1\n"})
    history.git("reset", "-q", "--hard")
    history.git("merge", "-q", "--no-ff", "-m", "Merge the side", "side")
    (found,) = history.bisect(patch(OF_F))
    assert found.commit is not None
    assert found.commit.subject == "Merge the side"


def test_what_was_found_is_kept(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    history.idle()
    history.commit("Break it", {"mod.py": "A = 1\n"})
    first = history.bisect(patch(OF_F))
    monkeypatch.setattr(RevisionTree, "read", lambda *_: pytest.fail("a file is read again"))
    again = history.bisect(patch(OF_F))
    assert [str(each) for each in again] == [str(each) for each in first]


def test_a_range_is_both_its_ends_to_who_opens_it(history: History) -> None:
    history.idle(1)
    history.git("tag", "v0.32.0")
    source = f"{history.root}@v0.31.0..v0.32.0"
    assert expanded(source) == [f"{history.root}@v0.31.0", f"{history.root}@v0.32.0"]
    assert [tree.version.text for tree in open_trees(source)] == ["0.31.0", "0.32.0"]


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("clone@v1..v2", "v1", "v2"),
        ("../a/clone@v1..", "v1", "HEAD"),
        ("clone@v1", None, None),
        ("../a/clone", None, None),
        ("v1..v2", None, None),
    ],
)
def test_a_range_is_written_with_two_dots(text: str, first: str | None, last: str | None) -> None:
    found = RevisionRange.parse(text)
    assert (found and found.first, found and found.last) == (first, last)


@pytest.mark.parametrize("text", ["clone@..v2", "clone@v1...v2"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match=r"is no range of revisions\. Write PATH@A\.\.B"):
        RevisionRange.parse(text)


@pytest.mark.parametrize(
    ("between", "message"),
    [
        ("v9..HEAD", r"has no revision 'v9'$"),
        ("v0.31.0..v9", r"has no revision 'v9'$"),
        ("HEAD..v0.31.0", r"'HEAD' is no ancestor of 'v0\.31\.0'$"),
        ("side..HEAD", r"'side' is no ancestor of 'HEAD'$"),
        ("HEAD..HEAD", r"is no range: there is no commit in between"),
    ],
)
def test_a_range_that_git_does_not_know_is_refused(
    between: str, message: str, history: History
) -> None:
    history.branch("side")
    history.idle(1, "side")
    history.idle(2)
    with pytest.raises(SourceError, match=message):
        history.bisect(patch(OF_F), between=between)


def test_of_a_shallow_clone_the_remedy_is_said(history: History) -> None:
    history.idle(3)
    shallow = history.root.parent / "shallow"
    history.git("clone", "-q", "--depth", "2", history.root.as_uri(), str(shallow))
    revisions = RevisionRange(shallow, "v0.31.0", "HEAD")
    with pytest.raises(SourceError, match=r"no revision 'v0\.31\.0'.*git fetch --unshallow"):
        bisect([patch(OF_F)], revisions, history.root.parent / "answers")


def test_an_object_that_the_clone_lacks_is_no_verdict(history: History) -> None:
    history.idle(1)
    history.commit("Change it", {"mod.py": "def f(a): return 2 * a\n"})
    blob = history.git("rev-parse", "HEAD:vllm/mod.py")
    history.commit("Break it", {"mod.py": "A = 1\n"})
    history.git("status")
    (history.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(SourceError, match=f"git has no object {blob}"):
        history.bisect(patch(OF_F))
