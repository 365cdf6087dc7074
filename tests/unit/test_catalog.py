"""Finding the sets of installed distributions: each broken one is reported, and hides no other."""

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from vllm_graft import BrokenSetError, Environment
from vllm_graft.builtin import BUILTIN
from vllm_graft.catalog import BrokenSet, Catalog, load_catalog
from vllm_graft.errors import DeclarationError
from vllm_graft.plan import make_plan
from vllm_graft.settings import Selection, Settings
from vllm_graft.version import VllmVersion

Write = Callable[[str, str], Path]
Install = Callable[..., None]

GOOD = """
from vllm_graft import PatchSet

patches = PatchSet("{name}")
patches.set("vllm.envs:{name}", 1, vllm=">=0.27", why="w", how="h", upstream="u", remove="r")
"""


@pytest.fixture(autouse=True)
def only_ours(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the sets that the interpreter which runs the tests has installed."""
    monkeypatch.setattr(sys, "path", [item for item in sys.path if "-packages" not in item])


@pytest.fixture
def sets(write: Write, install: Install) -> Callable[..., Catalog]:
    """Return a function that installs each module as a set of its own name and loads them all."""

    def sets(**sources: str) -> Catalog:
        for name, source in sources.items():
            write(f"{name}/__init__.py", "")
            write(f"{name}/patches.py", source)
            install(f"dist-{name}", "1.0", sets={name: f"{name}.patches:patches"})
        return load_catalog()

    return sets


Sets = Callable[..., Catalog]


def only(catalog: Catalog) -> BrokenSet:
    """Return the one broken set of a catalog."""
    (broken,) = catalog.broken
    return broken


def test_sets_are_found_through_entry_points(sets: Sets) -> None:
    """The built-in ones come first, then those of the distributions by name, with their origin."""
    catalog = sets(zoo=GOOD.format(name="zoo"), acme=GOOD.format(name="acme"))

    assert tuple(patch_set.name for patch_set in catalog.sets) == (*BUILTIN, "acme", "zoo")
    assert catalog.origins["acme"] == "dist-acme 1.0"
    assert catalog.origins["vllm-cpu"] == "vllm-graft (built in)"
    assert [patch.id for patch in catalog.patches][-2:] == ["acme/acme", "zoo/zoo"]
    assert catalog.broken == ()


def test_a_loaded_set_takes_no_more_patches(sets: Sets) -> None:
    """What is declared after the plan was made would never run, so declaring it is an error."""
    patch_set = sets(acme=GOOD.format(name="acme")).sets[-1]

    with pytest.raises(DeclarationError, match="declared after its set was loaded"):
        patch_set.set("m:x", 1, vllm=">0", why="w", how="h", upstream="u", remove="r")


BROKEN = {
    "imports vllm": ("import vllm\n", ["patches.py:1", "imports 'vllm'", "'module:qualname'"]),
    "imports torch": (
        "import os\nfrom torch import nn\n",
        ["patches.py:2", "imports 'torch'", "Import it inside the implementation"],
    ),
    "imports a submodule": (
        "import torch.nn.functional as F\n",
        ["patches.py:1", "imports 'torch.nn.functional'"],
    ),
    "imports through another": ("import helper\n", ["helper.py:2", "imports 'torch'"]),
    "imports by name": (
        "import importlib\n\nimportlib.import_module('torch')\n",
        ["patches.py:3", "imports 'torch'"],
    ),
    "catches it": (
        "try:\n    import torch\nexcept ImportError:\n    torch = None\n" + GOOD,
        ["patches.py:2", "imports 'torch'"],
    ),
    "raises": ("x = 1\n1 / 0\n", ["patches.py:2: ZeroDivisionError", "Mend that module"]),
    "exits": ("raise SystemExit(3)\n", ["patches.py:1: SystemExit", "Mend that module"]),
    "does not parse": ("def\n", ["SyntaxError", "patches.py"]),
    "imports what is not there": (
        "import no_such_module\n",
        ["patches.py:1: ModuleNotFoundError", "no_such_module"],
    ),
    "has no such name": ("", ["AttributeError", "patches"]),
    "is no set": ("patches = [1]\n", ["'broken.patches:patches' is [1], not a PatchSet"]),
    "is called otherwise": (
        GOOD.format(name="else"),
        ["patches.py:4", "calls itself 'else'", "the same name"],
    ),
    "takes a built-in name": (
        "from vllm_graft.builtin.cpu import patches\n",
        ["calls itself 'vllm-cpu'"],
    ),
    "declares wrongly": (
        "from vllm_graft import PatchSet\npatches = PatchSet('broken')\npatches.set('m:x', 1)\n",
        ["patches.py:3", "keyword 'vllm' is missing"],
    ),
    "contradicts itself": (
        GOOD.format(name="broken") + GOOD.format(name="broken").splitlines()[-1] + "\n",
        ["patches.py:6", "patch id 'broken/broken' is taken"],
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_set_is_reported_and_hides_no_other(write: Write, sets: Sets, kind: str) -> None:
    """The error names file, line, remedy, distribution and how to go on; the good set is there."""
    source, words = BROKEN[kind]
    write("helper.py", "# a module that the set needs\nimport torch\n")
    catalog = sets(acme=GOOD.format(name="acme"), broken=source.replace("{name}", "broken"))
    broken = only(catalog)

    assert catalog.sets[-1].name == "acme"
    assert (broken.name, broken.origin) == ("broken", "dist-broken 1.0")
    assert isinstance(broken.error, BrokenSetError)
    for word in [
        *words,
        "patch set 'broken' (broken.patches:patches, dist-broken 1.0)",
        "VLLM_GRAFT_PATCHES='-broken/*'",
    ]:
        assert word in str(broken.error)
    assert not {"vllm", "torch"} & {name.partition(".")[0] for name in sys.modules}


@pytest.mark.parametrize("source", ["import torch\n", "import helper\n"])
def test_torch_is_refused_although_it_is_loaded(
    write: Write, sets: Sets, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """A set is refused in every process or in none, whatever happened to be imported before."""
    # A fake torch: what matters is only that sys.modules has one.
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    write("helper.py", "import torch\n")

    assert "imports 'torch'" in str(only(sets(broken=source)).error)


def test_the_implementation_may_import_what_it_likes(sets: Sets) -> None:
    """Only the import of the declaration counts; imports inside functions are not run by it."""
    catalog = sets(acme=GOOD.format(name="acme") + "\ndef f(original):\n    import torch\n")

    assert catalog.broken == ()


def test_packages_that_only_begin_with_the_name_are_no_vllm(write: Write, sets: Sets) -> None:
    """vllm_ascend or torch_geometric beside the declaration are nobody's business."""
    write("vllm_acme/__init__.py", "")
    write("torchlike.py", "")

    assert sets(acme="import vllm_acme, torchlike\n" + GOOD.format(name="acme")).broken == ()


def test_importing_works_as_before_after_loading(sets: Sets) -> None:
    """The watch over import statements ends with the loading, after failures as well."""
    import builtins

    before = builtins.__import__
    sets(acme=GOOD.format(name="acme"), broken="import torch\n")

    assert builtins.__import__ is before


def test_a_module_that_is_not_there(write: Write, install: Install) -> None:
    """An entry point that leads nowhere is a broken set."""
    install("dist-broken", "1.0", sets={"broken": "no_such_package.patches:patches"})

    assert "ModuleNotFoundError" in str(only(load_catalog()).error)


def test_two_distributions_with_one_set_name(write: Write, install: Install) -> None:
    """The second is refused, by a message that names the first, its own module and what to do."""
    for package in ("first", "second"):
        write(f"{package}.py", GOOD.format(name="acme"))
        install(f"dist-{package}", "1.0", sets={"acme": f"{package}:patches"})
    catalog = load_catalog()

    assert [patch_set.name for patch_set in catalog.sets].count("acme") == 1
    for part in ("second:patches", "dist-first 1.0 has a set of that name", "Rename one"):
        assert part in str(only(catalog).error)


@pytest.mark.parametrize(
    ("patches", "stops"),
    [
        ("", True),
        ("-broken/*", False),
        ("-*/*", False),
        ("-broken/one", True),
        ("acme/*", False),
        ("broken/*", True),
        ("acme/*,broken/x", True),
        ("acme/*,-broken/*", False),
    ],
)
def test_a_broken_set_stops_vllm_unless_it_is_excluded(
    sets: Sets, patches: str, stops: bool
) -> None:
    """Going on without the patches of a broken set takes somebody who says so."""
    catalog = sets(acme=GOOD.format(name="acme"), broken="1 / 0\n")
    environment = Environment(VllmVersion("0.32.0", "a test"))

    plan = make_plan(catalog, environment, Settings(selection=Selection.parse(patches)))

    assert [type(problem) for problem in plan.problems] == [BrokenSetError] * stops


def test_what_a_module_keeps_of_the_import_system_works_afterwards(
    write: Write, sets: Sets
) -> None:
    """A module that is first loaded with a set may import torch later, inside a function."""
    write("torch.py", "")
    write("late.py", "from importlib import import_module\n")

    found = sets(fine="import late\nfrom vllm_graft import PatchSet\npatches = PatchSet('fine')\n")

    assert found.broken == ()
    assert sys.modules["late"].import_module("torch").__name__ == "torch"


def test_models_are_one_built_in_set(install: Install) -> None:
    """Their factories are declared by entry points of their own, and none is imported."""
    install("acme", "1.0", models={"AcmeForCausalLM": "no_such_package.factory:Acme"})
    catalog = load_catalog()

    models = {patch.id for patch in catalog.patches if patch.set_name == "models"}
    assert models == {"models/gpt_oss", "models/llama3", "models/eagle3_llama", "models/acme"}
    assert catalog.origins["models"] == "vllm-graft (built in)"
    assert catalog.broken == ()


@pytest.mark.parametrize(
    ("patches", "stops"),
    [("", True), ("-models/*", False), ("-models/acme", True), ("acme/*", False)],
)
def test_a_broken_entry_point_of_a_model_hides_nothing_else(
    sets: Sets, install: Install, patches: str, stops: bool
) -> None:
    """The built-in models and all sets are there; going on takes somebody who says so."""
    install("dist-broken", "1.0", models={"AcmeForCausalLM": "no factory"})
    catalog = sets(acme=GOOD.format(name="acme"))
    broken = only(catalog)

    assert broken.name == "models"
    assert "dist-broken 1.0) does not name a factory" in str(broken.error)
    ids = {patch.id for patch in catalog.patches}
    assert {"models/gpt_oss", "models/llama3", "models/eagle3_llama", "acme/acme"} <= ids
    environment = Environment(VllmVersion("0.32.0", "a test"))
    plan = make_plan(catalog, environment, Settings(selection=Selection.parse(patches)))
    assert [type(problem) for problem in plan.problems] == [BrokenSetError] * stops


def test_factories_may_be_given() -> None:
    """As sets may; then no distribution is looked at."""
    given = EntryPoint("AcmeForCausalLM", "acme.factory:Acme", "vllm_graft.models")

    ids = [patch.id for patch in load_catalog((), [given]).patches]
    assert "models/acme" in ids
    assert "models/acme" not in [patch.id for patch in load_catalog(()).patches]


def test_nobody_else_has_a_set_of_models(sets: Sets) -> None:
    """Its name is taken, so that its ids are of factories."""
    broken = only(sets(models=GOOD.format(name="models")))

    assert "vllm-graft (built in) has a set of that name already" in str(broken.error)
