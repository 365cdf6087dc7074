"""The fingerprint in vLLM's cache keys: the same for the same patches, another for others."""

import functools
import hashlib
import importlib
import json
import math
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version

from vllm_graft import ApplyError, Environment, Patch, PatchSet, Value
from vllm_graft.builtin import builtin_sets, layer
from vllm_graft.caches import FINGERPRINT, PLACED_BY, fingerprint
from vllm_graft.catalog import Catalog
from vllm_graft.journal import Journal
from vllm_graft.plan import Plan, make_plan
from vllm_graft.settings import Selection, Settings
from vllm_graft.testing import armed
from vllm_graft.version import VllmVersion

Declare = Callable[..., Patch]
Make = Callable[..., ModuleType]
Python = Callable[..., str]
Write = Callable[[str, str], Path]
REASONS: Any = {"vllm": ">=0.9", "why": "w", "how": "h", "upstream": "u", "remove": "r"}


def f(*_args: Any) -> int:
    """Stand for an implementation."""
    return 1


def g(*_args: Any) -> int:
    """Stand for another implementation in the same file."""
    return 2


def test_no_fingerprint_without_anybodys_patches() -> None:
    """Built-in patches do not change what vLLM computes, so they leave its cache keys alone."""
    built_in = [patch for patch_set in builtin_sets() for patch in patch_set.patches]

    assert built_in
    assert fingerprint([]) is None
    assert fingerprint(built_in) is None


def test_built_in_patches_do_not_count(declare: Declare) -> None:
    """A new release of the layer does not make vLLM compile again."""
    built_in = [patch for patch_set in builtin_sets() for patch in patch_set.patches]
    mine = declare("wrap", "m:f", f)

    assert fingerprint([mine, *built_in]) == fingerprint([mine])


def limited(limit: int, *, strict: bool = False) -> Callable[..., Any]:
    """Return an implementation that a closure makes what it is."""
    return lambda original: (original, limit, strict)


def after(default: int) -> Callable[..., Any]:
    """Return an implementation that a default makes what it is."""

    def implementation(original: Any, limit: int = default) -> Any:
        return original, limit

    return implementation


@dataclass(frozen=True)
class Limit:
    """A value with an implementation as its method."""

    limit: int

    def of(self, original: Any) -> Any:
        """Stand for an implementation."""
        return original, self.limit

    def __call__(self, original: Any) -> Any:
        """Stand for another one."""
        return original, self.limit


# fmt: off
ON_ONE_LINE = [lambda original: 1, lambda original: 2, lambda original: (lambda: 3), lambda original: (lambda: 4)]  # noqa: E501
# fmt: on

DIFFERENT: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("wrap", "m:f", f, {}),
    ("wrap", "m:f", f, {"id": "other"}),
    ("wrap", "m:g", f, {}),
    ("wrap", "n:f", f, {}),
    ("replace", "m:f", f, {}),
    ("wrap", "m:f", g, {}),
    ("wrap", "m:f", "acme_impl:f", {}),
    ("wrap", "m:f", f, {"vllm": ">=0.28"}),
    ("wrap", "m:f", f, {"order": 1}),
    ("set", "m:f", 1, {}),
    ("set", "m:f", 2, {}),
    ("set", "m:f", "1", {}),
    ("set", "m:f", "acme_impl:f", {}),
    ("set", "m:f", Value("acme_impl:f"), {}),
    ("set", "m:f", [1, {"a": 2}], {}),
    ("set", "m:f", f, {}),
    ("wrap", "m:f | n:f", f, {"vllm": ">=0.28,<0.30"}),
    ("wrap", "m:f", f, {"process": "worker"}),
    ("wrap", "m:f", f, {"after": "other/x"}),
    *(("wrap", "m:f", given, {}) for given in ON_ONE_LINE),
    ("wrap", "m:f", limited(1), {}),
    ("wrap", "m:f", limited(2), {}),
    ("wrap", "m:f", limited(1, strict=True), {}),
    ("wrap", "m:f", after(1), {}),
    ("wrap", "m:f", after(2), {}),
    ("wrap", "m:f", Limit(1).of, {}),
    ("wrap", "m:f", Limit(2).of, {}),
    ("wrap", "m:f", Limit(1), {}),
    ("wrap", "m:f", Limit(2), {}),
    ("replace", "m:f", Limit, {}),
    ("replace", "m:f", PatchSet, {}),
    ("wrap", "m:f", functools.partial(f, 1), {}),
    ("wrap", "m:f", functools.partial(f, 2), {}),
    ("wrap", "m:f", functools.partial(limited, strict=True), {}),
    ("wrap", "m:f", functools.partial(g, 1), {}),
    ("set", "m:f", (1, 2), {}),
    ("set", "m:f", [1, 2], {}),
    ("set", "m:f", {1, 2}, {}),
    ("set", "m:f", {1: 2}, {}),
    ("set", "m:f", None, {}),
    ("set", "m:f", True, {}),
    ("set", "m:f", ["1, 2"], {}),
    ("set", "m:f", ["1", "2"], {}),
    ("set", "m:f", math, {}),
]


def test_it_covers_all_that_decides_what_is_patched(declare: Declare) -> None:
    """Id, operation, target, range, order, implementation and value: each changes it."""
    prints = [
        fingerprint([declare(operation, target, given, **options)])
        for operation, target, given, options in DIFFERENT
    ]

    assert len(set(prints)) == len(DIFFERENT)
    assert all(isinstance(each, str) and len(each) == 64 for each in prints)


def test_what_does_not_decide_does_not_count(declare: Declare) -> None:
    """A better description, and where it is declared, do not make vLLM compile again."""
    assert fingerprint([declare("wrap", "m:f", f)]) == fingerprint(
        [declare("wrap", "m:f", f, why="another reason", remove="sooner", required=False)]
    )


def test_the_order_of_declaration_does_not_count() -> None:
    """Distributions may be found in any order."""
    patches = PatchSet("acme")
    for name in ("a", "b", "c"):
        patches.wrap(
            f"m:{name}", f, id=name, vllm=">=0.27", why="w", how="h", upstream="u", remove="r"
        )
    forwards = patches.patches

    assert fingerprint(forwards) == fingerprint(reversed(forwards))
    assert fingerprint(forwards) != fingerprint(forwards[:2])


@pytest.mark.parametrize("how", ["lazy", "function", "class", "decorated"])
def test_it_changes_with_the_source_of_the_implementation(
    make: Make, declare: Declare, how: str
) -> None:
    """An edited implementation, or what it calls in its file, gives another fingerprint."""
    source = (
        "import functools\n"
        "def decorate(f):\n"
        "    return functools.wraps(f)(lambda *args: f(*args))\n"
        "def helper():\n    return {}\n"
        "def function(original):\n    return helper()\n"
        "class Class:\n    value = helper()\n"
        "@decorate\ndef decorated(original):\n    return helper()\n"
    )

    def printed(value: int) -> str | None:
        module = make(source.format(value), "acme_impl")
        given: Any = (
            "acme_impl:function"
            if how == "lazy"
            else getattr(module, how.capitalize() if how == "class" else how)
        )
        return fingerprint([declare("replace", "m:f", given)])

    assert printed(1) == printed(1)
    assert printed(1) != printed(2)


def test_a_lazy_implementation_is_not_imported_for_it(write: Write, declare: Declare) -> None:
    """The file is read, never run."""
    write("acme_impl.py", "raise SystemExit('imported')\n")

    assert fingerprint([declare("wrap", "m:f", "acme_impl:f")]) is not None


def itself() -> list[Any]:
    """Return a value that contains itself."""
    value: list[Any] = [1]
    value.append({"self": value})
    return value


def recursive() -> Callable[..., int]:
    """Return a function that has itself in its closure."""

    def function(count: int) -> int:
        return function(count - 1) if count else 0

    return function


def unbound() -> Callable[..., int]:
    """Return a function whose closure has a name without a value."""

    def function() -> int:
        return later

    if TYPE_CHECKING:
        later = 1
    return function


@pytest.mark.parametrize(
    "given",
    [
        math.sqrt,
        float,
        functools.partial(f, 1),
        "no_such_module:f",
        "no_such_package.module:f",
        "math:sqrt",
        float("nan"),
        eval("lambda *_: 1"),
        itself(),
        recursive(),
        unbound(),
        math,
        str.join,
        "x".join,
    ],
    ids=[
        "C function",
        "C class",
        "partial",
        "no module",
        "no package",
        "C module",
        "nan",
        "eval",
        "in itself",
        "recursive",
        "unbound",
        "module",
        "C method",
        "bound C method",
    ],
)
def test_anything_that_can_be_given_has_a_fingerprint(declare: Declare, given: Any) -> None:
    """Values without a source, and implementations that cannot be found, do not stop vLLM."""
    assert fingerprint([declare("set", "m:f", given)]) is not None


def test_a_package_is_not_imported_for_it(write: Write, declare: Declare) -> None:
    """The file of a lazy implementation is found without running those of its parents."""
    write("acme_package/__init__.py", "raise SystemExit('imported')\n")
    prints = set()
    for value in (1, 2, 1):
        write("acme_package/impl.py", f"def f(original):\n    return {value}\n")
        prints.add(fingerprint([declare("wrap", "m:f", "acme_package.impl:f")]))

    assert len(prints) == 2


def test_a_decorated_implementation_counts_with_its_own_file(make: Make, declare: Declare) -> None:
    """The decorator may be in another file than what it decorates."""
    make(
        "import functools\n"
        "def decorate(f):\n"
        "    return functools.wraps(f)(lambda *args: f(*args))\n",
        "acme_decorators",
    )
    source = (
        "from acme_decorators import decorate\n"
        "def helper():\n    return {}\n"
        "@decorate\ndef decorated(original):\n    return helper()\n"
    )
    prints = {
        fingerprint([declare("wrap", "m:f", make(source.format(value), "acme_impl").decorated)])
        for value in (1, 2, 1)
    }

    assert len(prints) == 2


def test_it_is_equal_in_every_process(
    python: Python, write: Write, site: Path, tmp_path: Path
) -> None:
    """No hash seeds, addresses or folders are in it: workers and machines share one cache."""
    write(
        "acme_impl.py",
        """
        import functools, math
        from dataclasses import dataclass
        NAMES = {"alpha", "beta", "gamma", "delta"}
        def f(original):
            return original
        def made(names):
            return lambda original: (original, names)
        @dataclass
        class Data:
            names: set
            helper: object = f
        class Callable:
            def __call__(self, original):
                return original
        GIVEN = {
            "function": ("wrap", f),
            "lazy": ("wrap", "acme_impl:f"),
            "callable": ("wrap", Callable()),
            "subclass": ("subclass", f),
            "values": ("set", {"b": 1, "a": [1.5, None, True]}),
            "set": ("set", {"alpha", "beta", "gamma", "delta"}),
            "frozenset": ("set", frozenset({"alpha", "beta", "gamma", "delta"})),
            "nested": ("set", ("x", {"key": {"alpha", "beta", "gamma", "delta"}})),
            "instance": ("set", Callable()),
            "partial": ("set", functools.partial(f, 1)),
            "lambda": ("wrap", lambda original: original in {"alpha", "beta", "gamma", "delta"}),
            "closure": ("wrap", made(NAMES)),
            "bound": ("wrap", Callable().__call__),
            "dataclass": ("set", Data(NAMES)),
            "class": ("replace", Data),
            "module": ("set", functools),
            "C function": ("set", math.sqrt),
            "bound C function": ("set", [].append),
        }
        """,
    )
    folder = tmp_path / "elsewhere"
    shutil.copytree(site, folder)
    script = """
        import json, os
        os.chdir(os.environ.get("CWD", "."))
        memory = [object() for _ in range(hash("x") % 1000)]  # moves what is made after it
        from acme_impl import GIVEN
        from vllm_graft import PatchSet
        from vllm_graft.caches import fingerprint
        reasons = dict(vllm=">=0.27", why="w", how="h", upstream="u", remove="r")
        prints = {}
        for name, (operation, given) in GIVEN.items():
            patches = PatchSet("acme")
            getattr(patches, operation)("m:f", given, id="it", **reasons)
            prints[name] = fingerprint(patches.patches)
        print(json.dumps(prints))
        """
    one, two, three = (
        json.loads(python(script, **environ))
        for environ in (
            {"PYTHONHASHSEED": "1"},
            {"PYTHONHASHSEED": "2", "PYTHONPATH": str(folder), "CWD": "/"},
            {
                "VLLM_GRAFT_TRACE": str(tmp_path / "trace"),
                "VLLM_GRAFT_STRICT": "1",
                "VLLM_GRAFT_RUN": str(tmp_path / "run"),
                "VLLM_VERSION": "0.32.0",
            },
        )
    )

    assert one == two
    assert one == three
    assert len(set(one.values())) == len(one)


RELEASES = """
    0.9.2 0.10.0 0.10.1 0.10.1.1 0.10.2 0.11.0 0.11.1 0.11.2 0.12.0 0.13.0 0.14.0 0.14.1 0.15.0
    0.15.1 0.16.0 0.17.0 0.17.1 0.18.0 0.18.1 0.19.0 0.19.1 0.20.0 0.20.1 0.20.2 0.21.0 0.22.0
    0.22.1 0.23.0 0.24.0 0.25.0 0.25.1 0.26.0 0.27.0 0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0
    0.33.0
    """
"""The releases of vLLM whose sources the built-in patches were read in."""


def planned(version: str, *sets: PatchSet, patches: str = "") -> Plan:
    """Return the plan for the built-in sets and others."""
    environment = Environment(VllmVersion(version, "a test"), exists=lambda _: True)
    settings = Settings(selection=Selection.parse(patches))
    return make_plan(Catalog((*builtin_sets(), *sets), {}), environment, settings)


@pytest.mark.parametrize("version", RELEASES.split())
def test_each_release_has_its_way_into_the_keys(version: str) -> None:
    """One patch for the compile caches' keys, one for their folder, and one for model infos."""
    chosen = {patch.id: str(patch.target) for patch in planned(version).armed}
    release = Version(version)

    keys = [patch_id for patch_id in PLACED_BY if patch_id in chosen]
    old = release < Version("0.12")
    assert keys == [f"vllm-graft/{'compute-hash' if old else 'compile-factors'}"]
    assert chosen[keys[0]] == f"vllm.envs:{'compute_hash' if old else 'compile_factors'}"
    home = "vllm.config" if release < Version("0.10.1") else "vllm.config.compilation"
    assert chosen["vllm-graft/compile-cache-dir"] == f"{home}:CompilationConfig.__post_init__"
    assert ("vllm-graft/model-info-cache" in chosen) == (release >= Version("0.11"))


# Modules of vLLM with what the patches are about: envs.py of 0.33.0 and 0.9.2, the registry of
# 0.33.0 and the compilation config, a dataclass of pydantic's there. They are written out here
# since a test of a key needs many versions and selections; tests/engine has the real caches.
VLLM = {
    "vllm/__init__.py": "",
    "vllm/config/__init__.py": "",
    "vllm/model_executor/__init__.py": "",
    "vllm/model_executor/models/__init__.py": "",
    "vllm/envs.py": """
        import hashlib, os

        environment_variables = {
            "VLLM_USE_MODELSCOPE": lambda: os.environ.get("VLLM_USE_MODELSCOPE"),
            "VLLM_MLA_DISABLE": lambda: os.environ.get("VLLM_MLA_DISABLE"),
        }

        def __getattr__(name):
            if name in environment_variables:
                return environment_variables[name]()
            raise AttributeError(name)

        def compile_factors() -> dict[str, object]:
            ignored_factors = {"VLLM_USE_MODELSCOPE"}
            factors = {}
            for factor, getter in environment_variables.items():
                if factor in ignored_factors:
                    continue
                factors[factor] = getter()
            return factors

        def compute_hash() -> str:
            factors = [__getattr__("VLLM_MLA_DISABLE")]
            return hashlib.md5(str(factors).encode(), usedforsecurity=False).hexdigest()
        """,
    "vllm/model_executor/models/registry.py": """
        from dataclasses import dataclass

        @dataclass(frozen=True)
        class _LazyRegisteredModel:
            module_name: str
            class_name: str

            def _get_cache_filename(self) -> str:
                cls_name = f"{self.module_name}-{self.class_name}".replace(".", "-")
                return f"{cls_name}.json"
        """,
    "vllm/config/compilation.py": """
        from dataclasses import field
        from pydantic.dataclasses import dataclass

        @dataclass
        class CompilationConfig:
            cache_dir: str = ""
            local_cache_dir: str = field(default=None, init=False)

            def __post_init__(self) -> None:
                self.local_cache_dir = None
        """,
}


@pytest.fixture
def vllm(write: Write) -> None:
    """Write those modules."""
    for path, source in VLLM.items():
        write(path, source)


def mine(value: int = 1) -> PatchSet:
    """Return a set whose fingerprint depends on a value."""
    patches = PatchSet("acme")
    patches.set("subject:LIMIT", value, **REASONS)
    return patches


def asked(question: Callable[[], Any], version: str, *sets: PatchSet, select: str = "") -> Any:
    """Return an answer of those modules, imported and asked with the layer's patches in effect."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]
    with armed(layer.patches, *sets, vllm=version, select=select):
        return question()


def factors() -> dict[str, object]:
    """Ask vLLM for what is in its keys from 0.12 on."""
    import vllm.envs

    found: dict[str, object] = vllm.envs.compile_factors()
    return found


def hashed() -> str:
    """Ask vLLM for what is in its keys before 0.12."""
    import vllm.envs

    return str(vllm.envs.compute_hash())


def model_info() -> str:
    """Ask vLLM for the file of what it knows about a model."""
    from vllm.model_executor.models.registry import _LazyRegisteredModel

    model = _LazyRegisteredModel("vllm.model_executor.models.opt", "OPTForCausalLM")
    return str(model._get_cache_filename())


def cache_folder(given: str = "/cache") -> str:
    """Ask vLLM for the folder of a compile cache that the user has placed."""
    from vllm.config.compilation import CompilationConfig

    return str(CompilationConfig(cache_dir=given).cache_dir)


PLAIN = {
    factors: {"VLLM_MLA_DISABLE": None},
    hashed: hashlib.md5(b"[None]", usedforsecurity=False).hexdigest(),
    model_info: "vllm-model_executor-models-opt-OPTForCausalLM.json",
    cache_folder: "/cache",
}
KEYS = [(factors, "0.32.0"), (hashed, "0.11.2"), (model_info, "0.32.0"), (cache_folder, "0.32.0")]


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize(("question", "version"), KEYS)
def test_keys_are_vllms_own_without_anybodys_patches(
    question: Callable[[], Any], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No patches, none selected: what vLLM has cached without the layer is served with it."""
    monkeypatch.setenv("VLLM_GRAFT_TRACE", "somewhere")

    assert asked(question, version) == PLAIN[question]
    assert asked(question, version, mine(), select="-acme/*") == PLAIN[question]
    assert asked(question, version, PatchSet("acme")) == PLAIN[question]


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize(("question", "version"), KEYS)
def test_keys_tell_patches_apart(
    question: Callable[[], Any], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for the same patches, another for others, whatever is traced."""
    answers = [asked(question, version, mine(value)) for value in (1, 2)]
    monkeypatch.setenv("VLLM_GRAFT_TRACE", "somewhere")

    assert asked(question, version, mine(1)) == answers[0]
    assert answers[0] != answers[1]
    assert PLAIN[question] not in answers


@pytest.mark.usefixtures("vllm")
def test_what_the_keys_are_with_patches() -> None:
    """Everything of vLLM's own stays in them, in vLLM's form."""
    printed = fingerprint(mine().patches)

    assert asked(factors, "0.33.0", mine()) == {"VLLM_MLA_DISABLE": None, FINGERPRINT: printed}
    assert asked(model_info, "0.33.0", mine()) == (
        f"vllm-model_executor-models-opt-OPTForCausalLM-{printed}.json"
    )
    assert asked(cache_folder, "0.33.0", mine()) == f"/cache/{printed}"
    assert asked(lambda: cache_folder(""), "0.33.0", mine()) == ""
    assert asked(lambda: cache_folder(f"/cache/{printed}"), "0.33.0", mine()) == (
        f"/cache/{printed}"
    )
    assert len(asked(hashed, "0.11.0", mine())) == 64


@pytest.mark.usefixtures("vllm")
def test_vllms_own_factors_are_still_in_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that vLLM counts changes the key with patches as it does without."""
    before = asked(factors, "0.32.0", mine()), asked(hashed, "0.11.2", mine())
    monkeypatch.setenv("VLLM_MLA_DISABLE", "1")
    after = asked(factors, "0.32.0", mine()), asked(hashed, "0.11.2", mine())

    assert before[0] != after[0]
    assert before[1] != after[1]


OFF = {"VLLM_DISABLE_COMPILE_CACHE": "1", "VLLM_USE_AOT_COMPILE": "0"}


@pytest.fixture
def caches(monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, str | None]]:
    """Unset the variables of vLLM's compile cache; return a function that reads them."""
    for name in OFF:
        monkeypatch.setenv(name, "to be restored")
        monkeypatch.delenv(name)
    return lambda: {name: os.environ.get(name) for name in OFF}


Caches = Callable[[], dict[str, str | None]]


@pytest.mark.parametrize(
    ("version", "patches", "sets", "off"),
    [
        ("0.32.0", "", (mine(),), False),
        ("0.9.2", "", (mine(),), False),
        ("0.40.0", "", (mine(),), True),
        ("0.9.1", "", (mine(),), True),
        ("0.32.0", "-vllm-graft/*", (mine(),), True),
        ("0.32.0", "-vllm-graft/compile-factors", (mine(),), True),
        ("0.32.0", "-vllm-graft/compute-hash", (mine(),), False),
        ("0.32.0", "acme/*", (mine(),), False),
        ("0.40.0", "", (), False),
        ("0.40.0", "-acme/*", (mine(),), False),
        ("0.40.0", "-vllm-graft/*", (), False),
    ],
)
def test_where_nothing_puts_it_into_the_keys_the_caches_are_off(
    version: str,
    patches: str,
    sets: tuple[PatchSet, ...],
    off: bool,
    caches: Caches,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Both caches of compiled graphs, with one warning, and only where patches are selected."""
    Journal().begin(planned(version, *sets, patches=patches))

    warnings = [message for message in caplog.messages if "compile cache is off" in message]
    assert caches() == (OFF if off else dict.fromkeys(OFF))
    assert len(warnings) == off


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ({}, 1),
        ({"VLLM_DISABLE_COMPILE_CACHE": "0", "VLLM_USE_AOT_COMPILE": "1"}, 1),
        ({"VLLM_DISABLE_COMPILE_CACHE": "1"}, 1),
        ({"VLLM_DISABLE_COMPILE_CACHE": "1", "VLLM_USE_AOT_COMPILE": "1"}, 1),
        (OFF, 0),
    ],
)
def test_what_the_user_has_set_does_not_keep_them_on(
    given: dict[str, str],
    warned: int,
    caches: Caches,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A wrong graph is worse than a slow start; who inherits the variables warns no more."""
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    for _ in range(2):  # the second as a child would
        Journal().begin(planned("0.32.0", mine(), patches="-vllm-graft/*"))

    assert caches() == OFF
    assert len(caplog.messages) == warned


@pytest.mark.parametrize("name", ["compile-factors", "env-variables"])
@pytest.mark.parametrize("sets", [(mine(),), ()], ids=["patches", "none"])
def test_where_it_could_not_be_put_into_the_keys_the_caches_are_off(
    name: str, sets: tuple[PatchSet, ...], caches: Caches, caplog: pytest.LogCaptureFixture
) -> None:
    """The one that places it is optional, and its failure costs time and nothing else."""
    plan = planned("0.32.0", *sets)
    journal = Journal()
    journal.begin(plan)
    before = caches()
    (patch,) = [patch for patch in plan.armed if patch.id == f"vllm-graft/{name}"]

    journal.failed(patch, ApplyError("vllm.envs has no 'it'\n  more"), fatal=False)

    off = name == "compile-factors" and bool(sets)
    assert before == dict.fromkeys(OFF)
    assert caches() == (OFF if off else before)
    assert len(caplog.messages) == off
    if off:
        assert "into its key (vllm.envs has no 'it')" in caplog.messages[0]


def test_a_child_that_inherits_the_variables_does_not_warn_again(
    python: Python, write: Write
) -> None:
    """The warning is one for a run."""
    write(
        "begin.py",
        """
        from vllm_graft import PatchSet
        from vllm_graft.builtin import builtin_sets
        from vllm_graft.catalog import Catalog
        from vllm_graft.journal import JOURNAL
        from vllm_graft.plan import Environment, make_plan
        from vllm_graft.settings import Settings
        from vllm_graft.version import VllmVersion

        patches = PatchSet("acme")
        patches.set("m:LIMIT", 1, vllm=">=0.27", why="w", how="h", upstream="u", remove="r")
        catalog = Catalog((*builtin_sets(), patches), {})
        version = VllmVersion("0.40.0", "a test")
        JOURNAL.begin(make_plan(catalog, Environment(version), Settings()))
        """,
    )
    assert (
        python("""
        import subprocess, sys
        child = [sys.executable, "-c", "import begin"]
        outer = subprocess.run(child, stderr=subprocess.PIPE, text=True).stderr
        import begin
        inner = subprocess.run(child, stderr=subprocess.PIPE, text=True).stderr
        print(outer.count("compile cache is off"), inner.count("compile cache is off"))
        """)
        == "1 0"
    )


def test_a_lazy_implementation_counts_with_where_its_name_comes_from(
    write: Write, declare: Declare
) -> None:
    """A package that re-exports an implementation hides no change of the module that has it."""
    write("impl/__init__.py", "from .inner import f")
    write("impl/inner.py", "def f(): return 1")
    patch = declare("replace", "vllm.a:f", "impl:f")
    before = fingerprint([patch])
    write("impl/inner.py", "def f(): return 2")
    assert fingerprint([patch]) != before


def test_an_implementation_in_an_archive_counts_with_its_source(
    site: Path, monkeypatch: pytest.MonkeyPatch, declare: Declare
) -> None:
    """What only a loader can read, as from a zip file, is in the fingerprint too."""
    found = []
    for number in (1, 2):
        archive = site / f"packed{number}.zip"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("zipped.py", f"def f(): return {number}")
        with monkeypatch.context() as patched:
            patched.syspath_prepend(str(archive))
            importlib.invalidate_caches()
            found.append(fingerprint([declare("replace", "vllm.a:f", "zipped:f")]))
    assert found[0] != found[1]
