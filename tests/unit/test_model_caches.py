"""What vLLM caches about models: never served to another implementation, or another source of it.

The caches are those of a fake vLLM (fake_vllm.py), whose keys are vLLM's; tests/engine has the
real files.
"""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from vllm_graft.caches import MODELS
from vllm_graft.models import inside
from vllm_graft.models.choice import Choice
from vllm_graft.models.resolve import Factories, Factory
from vllm_graft.target import Target

from .conftest import ACME_MODEL, Vllm, forget_digests
from .fake_vllm import ACME, LOADER

Start = Callable[..., Vllm]
Write = Callable[[str, str], Path]

PACKED = {"quantization": "packed"}
SMALL = {"quantization": "small"}


@pytest.fixture
def own_acme(write: Write) -> None:
    """Have a package `acme` that a test may change."""
    for path, source in ACME.items():
        write(path, source)


def info_file(here: Vllm, module: str = "acme.packed", name: str = "LlamaForCausalLM") -> str:
    """Return the name of vLLM's file about a class."""
    return str(here.registry._LazyRegisteredModel(module, name)._get_cache_filename())


@pytest.mark.usefixtures("own_acme")
def test_the_file_about_an_implementation_is_named_after_its_package(
    vllm: Start, write: Write
) -> None:
    """vLLM hashes the file of the class alone, not what it inherits its flags from."""
    here = vllm("0.32.0", ACME_MODEL)
    here.model(neuron=PACKED)

    first = info_file(here)
    assert first == info_file(here)
    assert first.startswith("acme-packed-LlamaForCausalLM-")
    names = {first}
    for text in ("changed = 1\n", "changed = 2\n"):
        write("acme/layers.py", text)
        forget_digests()
        names.add(info_file(here))
    write("acme/inner/new.py", "")
    forget_digests()
    names.add(info_file(here))
    assert len(names) == 4


def test_the_file_is_named_after_vllms_version(
    vllm: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flags are inherited from vLLM's classes as well."""
    here = vllm("0.32.0", ACME_MODEL)
    here.model(neuron=PACKED)
    names = {info_file(here)}

    for version in ("0.31.0", "0.32.0+cpu", "0.32.0"):
        monkeypatch.setattr(inside, "JOURNAL", SimpleNamespace(vllm=version))
        names.add(info_file(here))
    assert len(names) == 3


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("vllm.model_executor.models.llama", "LlamaForCausalLM"),
        ("acme.small", "LlamaForCausalLM"),  # nobody has chosen it
        ("acme.packed", "OtherForCausalLM"),
    ],
)
def test_other_files_have_vllms_own_names(vllm: Start, module: str, name: str) -> None:
    """What vLLM has cached about its own models, and about those of others, stays in use."""
    here = vllm("0.32.0", ACME_MODEL)
    here.model()
    here.model(neuron=PACKED)

    assert info_file(here, module, name) == f"{module}-{name}".replace(".", "-") + ".json"


def factors() -> dict[str, object]:
    """Ask vLLM for what is in the keys of its compile caches."""
    found: dict[str, object] = importlib.import_module("vllm.envs").compile_factors()
    return found


@pytest.mark.usefixtures("own_acme")
def test_compile_keys_tell_implementations_apart(vllm: Start, write: Write) -> None:
    """By their names and the sources of their packages; vLLM's own leave the keys alone."""
    here = vllm("0.32.0", ACME_MODEL)
    own = {"VLLM_MLA_DISABLE": None}
    assert factors() == own
    here.model()
    assert factors() == own

    marks = []
    for neuron in (PACKED, SMALL):
        here.model(neuron=neuron)
        found = factors()
        marks.append(found.pop(MODELS))
        assert found == own
    write("acme/layers.py", "changed = 1\n")
    forget_digests()
    marks.append(factors()[MODELS])
    assert len(set(marks)) == 3
    assert [str(mark).partition(" ")[0] for mark in marks] == [
        "acme.packed:LlamaForCausalLM",
        *["acme.packed:LlamaForCausalLM"] * 2,  # by name: this process has used both
    ]


def test_keys_before_0_12_have_it_mixed_in(vllm: Start) -> None:
    """There is one hash only."""
    here = vllm("0.10.1", ACME_MODEL)
    ask = importlib.import_module("vllm.envs").compute_hash

    here.model()
    hashes = [ask()]
    for neuron in (PACKED, SMALL):
        here.model(neuron=neuron)
        hashes.append(ask())
    assert hashes[0] == "vllm's own"
    assert len(set(hashes)) == 3


def test_the_mark_names_all_implementations(factories: Factories) -> None:
    """In one order, whichever model was configured first."""
    one, two = (Target("no_such_package." + name.lower(), name) for name in "AB")
    assert factories.mark() is None

    factories.implementations = {one, two}
    mark = factories.mark()
    factories.implementations = {two, one}
    assert factories.mark() == mark
    assert mark is not None
    assert [part.partition(" ")[0] for part in mark.split(", ")] == [
        "no_such_package.a:A",
        "no_such_package.b:B",
    ]


@pytest.mark.parametrize(
    ("implementation", "off"), [("vllm:upstream", False), ("acme.packed:LlamaForCausalLM", True)]
)
def test_no_compile_cache_where_no_patch_puts_the_mark_into_its_key(
    factories: Factories,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    implementation: str,
    off: bool,
) -> None:
    """A graph of vLLM's own implementation would be served."""
    for name in ("VLLM_DISABLE_COMPILE_CACHE", "VLLM_USE_AOT_COMPILE"):
        monkeypatch.setenv(name, "")
    choice = Choice("LlamaForCausalLM", "f:F", implementation)

    factories._remember(choice, Factory("f:F", None))

    assert (os.environ["VLLM_DISABLE_COMPILE_CACHE"] == "1") is off
    assert any(f"{implementation} is in use" in text for text in caplog.messages) is off


def test_a_class_that_vllm_keeps_is_not_that_of_another_choice(vllm: Start) -> None:
    """Its key has the model's folder and architecture only."""
    here = vllm("0.32.0", ACME_MODEL)
    kept = importlib.import_module(LOADER)._MODEL_ARCH_BY_HASH
    packed, small = here.model(neuron=PACKED), here.model(neuron=SMALL)
    other = here.model("OPTForCausalLM")

    for model, expected in ((packed, "packed"), (small, "small"), (packed, "packed")):
        assert here.cls(model) == f"acme.{expected}:LlamaForCausalLM"
        assert len(kept) == 1
    here.cls(other)
    assert len(kept) == 2
    here.cls(packed)
    assert len(kept) == 2  # the same choice, which is kept


def test_a_release_that_keeps_no_class_has_nothing_to_empty(vllm: Start) -> None:
    """Before 0.11 each question is answered anew."""
    here = vllm("0.10.1", ACME_MODEL)
    packed, small = here.model(neuron=PACKED), here.model(neuron=SMALL)

    for model, expected in ((packed, "packed"), (small, "small"), (packed, "packed")):
        assert here.cls(model) == f"acme.{expected}:LlamaForCausalLM"
