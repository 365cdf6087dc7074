"""What counts as drift from the lock, and which locked version a vLLM is compared with."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from vllm_graft import Patch
from vllm_graft.check.drift import Drift, drift, own_drift
from vllm_graft.check.lock import Lock, LockedPatch, locked_target
from vllm_graft.check.own_source import own_source
from vllm_graft.target import Target
from vllm_graft.version import VllmVersion

from .vllm_trees import resolve

Declare = Callable[..., Patch]

FILES = {
    "a.py": '''
        from .b import moved

        def f(x: int, y="a") -> int:
            """Say what it does."""
            return x  # the same

        class C:
            size = 1

            def run(self):
                return 1

        class P:
            @property
            def size(self): return self.x
            @size.setter
            def size(self, value): self.x = value
            @size.deleter
            def size(self): del self.x
            def other(self): return 3

        exec(text)
        ''',
    "b.py": "def moved():\n    return 1\n",
}


def take(*args: Any, **kwargs: Any) -> Any: ...


def take_otherwise(*args: Any, **kwargs: Any) -> Any:
    return None


@pytest.fixture
def found(tmp_path: Path, declare: Declare) -> Callable[..., Drift | None]:
    """Return how a target that is edited after it was locked has drifted."""

    def found(
        target: str,
        edits: dict[str, tuple[str, str]],
        operation: str = "replace",
        version: str = "0.32.0",
        locked: tuple[str, ...] = ("0.32.0",),
    ) -> Drift | None:
        patch = declare(operation, target, take)
        before = locked_target(resolve(tmp_path / "before", target, FILES), operation)
        entry = LockedPatch(own_source(patch), {Version(each): before for each in locked})
        files = dict(FILES)
        for name, (old, new) in edits.items():
            assert old in files[name]
            files[name] = files[name].replace(old, new)
        now = resolve(tmp_path / "now", target, files)
        return drift(patch, now, VllmVersion(version, "a test"), Lock({patch.id: entry}))

    return found


@pytest.mark.parametrize(
    ("target", "edit", "differences"),
    [
        ("vllm.a:f", ("return x", "return x + 1"), ("body",)),
        ("vllm.a:f", ("x: int,", "x: int, z: int,"), ("signature",)),
        ("vllm.a:f", ('y="a"', "y='a'"), ()),
        ("vllm.a:f", ('y="a"', 'y="b"'), ("signature",)),
        ("vllm.a:f", ("  # the same", ""), ()),
        ("vllm.a:f", ("Say what", "Tell what"), ()),
        ("vllm.a:f", ("return 1", "return 2"), ()),
        ("vllm.a:f", ("def f", "@cache\n        def f"), ("body",)),
        ("vllm.a:f", ("def f(", "def g("), ("nature",)),
        ("vllm.a:C", ("size = 1", "size = 2"), ("body",)),
        ("vllm.a:C.size", ("size = 1", "size = 2"), ("body",)),
        ("vllm.a:C.run", ("return 1", "return 2"), ("body",)),
        ("vllm.a:C.run", ("size = 1", "size = 2"), ()),
        ("vllm.a:P.size", ("return self.x", "return self.y"), ("body",)),
        ("vllm.a:P.size", ("= value", "= value + 1"), ("body",)),
        ("vllm.a:P.size", ("del self.x", "del self.y"), ("body",)),
        ("vllm.a:P.size", ("return 3", "return 4"), ()),
        ("vllm.a:moved", ("from .b import moved", "def moved():\n            return 1"), "place"),
        ("vllm.a:moved", ("from .b import moved", "def moved():\n            return 2"), "both"),
    ],
)
def test_what_differs(
    found: Callable[..., Drift | None],
    target: str,
    edit: tuple[str, str],
    differences: tuple[str, ...] | str,
) -> None:
    expected = {"place": ("location",), "both": ("body", "location")}.get(str(differences))
    answer = found(target, {"a.py": edit})
    assert (answer.differences if answer else ()) == (expected or differences)


def test_only_body_and_signature_are_a_change(found: Callable[..., Drift | None]) -> None:
    moved = found("vllm.a:moved", {"a.py": ("from .b import moved", "def moved(): return 1")})
    assert moved is not None
    assert not moved.is_changed
    assert str(moved) == (
        "it is defined at vllm.a:moved (vllm/a.py), and was at vllm.b:moved (vllm/b.py)"
    )
    edited = found("vllm.a:f", {"a.py": ("return x", "return x + 1")})
    assert edited is not None
    assert edited.is_changed
    assert str(edited) == "the body of vllm.a:f differs"


def test_both_signatures_are_told(found: Callable[..., Drift | None]) -> None:
    answer = found("vllm.a:f", {"a.py": ("x: int,", "x: int, z: int,")})
    assert answer is not None
    assert answer.is_changed
    assert answer.signatures == ("(x: int, y='a') -> int", "(x: int, z: int, y='a') -> int")
    for signature in answer.signatures:
        assert signature in str(answer)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("(x: int, y = 'a') -> int", True),
        ('(x: int, y=("a")) -> int', True),
        ("(x: int, y='b') -> int", False),
        ("(x: int, y=) -> int", False),
    ],
)
def test_signatures_are_compared_by_what_they_say(
    tmp_path: Path, declare: Declare, text: str, same: bool
) -> None:
    """Pythons write the same default or annotation a little differently."""
    patch = declare("replace", "vllm.a:f", take)
    now = resolve(tmp_path, "vllm.a:f", FILES)
    target = replace(locked_target(now, "replace"), signature=text)
    lock = Lock({patch.id: LockedPatch(own_source(patch), {Version("0.32.0"): target})})
    assert (drift(patch, now, VllmVersion("0.32.0+cpu", "a test"), lock) is None) is same


@pytest.mark.parametrize(
    ("version", "locked", "compared"),
    [
        ("0.32.0", ("0.31.0", "0.32.0"), None),
        ("0.32.0", ("0.30.0", "0.31.0", "0.33.0"), "0.31.0"),
        ("0.32.0", ("0.33.0", "0.34.0"), "0.33.0"),
        ("0.32.1.dev5", ("0.32.0", "0.32.1"), "0.32.0"),
        ("0.10.0", ("0.9.2", "0.11.0"), "0.9.2"),
    ],
)
def test_a_version_that_is_not_locked_is_compared_with_the_nearest_below(
    found: Callable[..., Drift | None], version: str, locked: tuple[str, ...], compared: str | None
) -> None:
    answer = found("vllm.a:f", {}, version=version, locked=locked)
    assert (answer.locked if answer else None) == compared
    if answer is not None:
        assert answer.differences == ("unlocked",)
        assert str(answer) == (
            f"vLLM {version} is not in the lock; compared with {compared}: as it was"
        )
        assert not answer.is_changed


def test_a_change_since_the_nearest_version_is_one(found: Callable[..., Drift | None]) -> None:
    answer = found("vllm.a:f", {"a.py": ("return x", "return 2")}, version="0.33.0")
    assert answer is not None
    assert answer.differences == ("unlocked", "body")
    assert answer.is_changed
    assert "compared with 0.32.0: the body of vllm.a:f differs" in str(answer)


@pytest.mark.parametrize(
    ("operation", "target", "edit", "differences"),
    [
        ("add", "vllm.a:new", ("return x", "return 2"), None),
        ("run", "vllm.a", ("return x", "return 2"), ("body",)),
        ("run", "vllm.a", ("  # the same", ""), None),
        ("run", "vllm.a", ("Say what", "Tell what"), None),
        ("wrap", "torch.nn:Linear.forward", ("return x", "return 2"), None),
    ],
)
def test_operations_without_a_definition(
    found: Callable[..., Drift | None],
    operation: str,
    target: str,
    edit: tuple[str, str],
    differences: tuple[str, ...] | None,
) -> None:
    """What is added is not there, what runs meets the whole module, torch is not looked at."""
    answer = found(target, {"a.py": edit}, operation)
    assert (answer.differences if answer else None) == differences


def test_a_name_that_is_bound_at_run_time_is_locked_as_such(
    tmp_path: Path, declare: Declare
) -> None:
    """Whatever the reason, until there is a definition to go by."""
    target = "vllm.a:f.attribute"
    patch = declare("set", target, 1)
    now = resolve(tmp_path, target, FILES)
    locked = locked_target(now, "set")
    assert (now.state, locked.nature, locked.body) == ("unknown", "unknown", "")
    lock = Lock({patch.id: LockedPatch(own_source(patch), {Version("0.32.0"): locked})})
    assert drift(patch, now, VllmVersion("0.32.0", "a test"), lock) is None


def test_the_patch_itself_differs(tmp_path: Path, declare: Declare) -> None:
    """Whatever vLLM it meets, so its target has not drifted."""
    patch = declare("replace", "vllm.a:f", take)
    now = resolve(tmp_path, "vllm.a:f", FILES)
    entry = LockedPatch(own_source(patch), {Version("0.32.0"): locked_target(now, "replace")})
    lock = Lock({patch.id: entry})
    assert own_drift(patch, lock) is None
    edited = declare("replace", "vllm.a:f", take_otherwise)
    answer = own_drift(edited, lock)
    assert answer is not None
    assert answer.is_locked
    assert str(answer) == "the patch's own source differs"
    assert drift(edited, now, VllmVersion("0.32.0", "a test"), lock) is None


def test_another_candidate_is_told(tmp_path: Path, declare: Declare) -> None:
    patch = declare("replace", "vllm.b:moved | vllm.a:moved", take)
    first = resolve(tmp_path, "vllm.a:moved", FILES)
    entry = LockedPatch(own_source(patch), {Version("0.32.0"): locked_target(first, "replace")})
    second = resolve(tmp_path, "vllm.b:moved")
    answer = drift(patch, second, VllmVersion("0.32.0", "a test"), Lock({patch.id: entry}))
    assert answer is not None
    assert answer.differences == ("target",)
    assert str(answer) == "the target is vllm.b:moved, and was vllm.a:moved"


@pytest.mark.parametrize(
    ("lock", "words"),
    [
        (Lock(), "it is not in the lock"),
        (Lock({"acme/x": LockedPatch("50", {})}), "it is not in the lock"),
        (
            Lock(missing=Path("locks/own.lock")),
            "the lock locks/own.lock, which pyproject.toml names, does not exist. Write it with: "
            "vllm-graft lock",
        ),
    ],
)
def test_a_patch_that_nobody_locked(
    tmp_path: Path, declare: Declare, lock: Lock, words: str
) -> None:
    patch = declare("replace", "vllm.a:f", take, id="x")
    now = resolve(tmp_path, "vllm.a:f", FILES)
    assert drift(patch, now, VllmVersion("0.32.0", "a test"), lock) is None
    answer = own_drift(patch, lock)
    assert answer is not None
    assert not answer.is_locked
    assert str(answer) == words


def test_a_vllm_of_unknown_version_is_compared_with_nothing(
    found: Callable[..., Drift | None],
) -> None:
    answer = found("vllm.a:f", {}, version="dev")
    assert answer is not None
    assert (answer.locked, answer.differences) == (None, ("unlocked",))
    assert str(answer) == "what has no known version cannot be compared with the lock"


@pytest.mark.parametrize("path", ["compiled.so", "folder/data.txt"])
def test_what_has_no_source_is_locked_as_known_at_run_time(tmp_path: Path, path: str) -> None:
    file = tmp_path / "vllm" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    target = f"vllm.{path.partition('.')[0].partition('/')[0]}"
    locked = locked_target(resolve(tmp_path, target, FILES), "run")
    assert (locked.nature, locked.body) == ("unknown", "")


def test_the_path_is_that_of_the_tree(tmp_path: Path) -> None:
    locked = locked_target(resolve(tmp_path, "vllm.a:moved", FILES), "wrap")
    assert (locked.path, locked.where) == ("vllm/b.py", "vllm.b:moved")
    assert Target.parse(locked.target) == Target("vllm.a", "moved")
