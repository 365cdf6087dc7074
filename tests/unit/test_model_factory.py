"""Factories: what they are told, what they may return, and the error for everything else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from vllm_graft.errors import FactoryError, SettingError, UnsupportedConfigError
from vllm_graft.models import UPSTREAM, ModelFactory, because
from vllm_graft.models.choice import Choice, choose, is_factory, load_factory
from vllm_graft.models.platform import VARIABLE
from vllm_graft.models.rules import asked_quantization, quantization_of, rope_scaling, unaligned
from vllm_graft.models.upstream import upstream
from vllm_graft.target import Target

from .fake_vllm import RELEASES

Python = Callable[..., str]
Write = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def on_trn2(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no platform be looked for, and have a package for factories."""
    monkeypatch.setenv(VARIABLE, "trn2")
    write("acme/__init__.py", "")


class Asked(ModelFactory):
    """Returns what its `neuron_config` says."""

    known_options = ("quantization", "answer")

    @classmethod
    def select(cls, hf_config: Any, neuron_config: Any) -> str:
        """Return the answer."""
        answer: str = cls.options(neuron_config)["answer"]
        return answer


@dataclass(frozen=True)
class Options:
    """A `neuron_config` with attributes."""

    quantization: str | None = "mxfp4"
    answer: str | None = None
    _private: int = 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {}),
        ({}, {}),
        ({"quantization": "mxfp4", "answer": None}, {"quantization": "mxfp4"}),
        (MappingProxyType({"answer": 1}), {"answer": 1}),
        (SimpleNamespace(answer=False), {"answer": False}),
        (Options(), {"quantization": "mxfp4"}),
        (Options(answer="x"), {"quantization": "mxfp4", "answer": "x"}),
    ],
)
def test_options_of_a_mapping_or_an_object(given: Any, expected: dict[str, Any]) -> None:
    """None is no wish, false is one, and what an object keeps to itself is none."""
    assert Asked.options(given) == expected


@pytest.mark.parametrize("wrap", [dict, lambda given: SimpleNamespace(**given)])
@pytest.mark.parametrize("value", ["mxfp4", None])
def test_unknown_options_list_the_known_ones(wrap: Callable[[Any], Any], value: Any) -> None:
    """All of them, however they are given, and whatever they are set to."""
    given = wrap({"quantization": "x", "zeal": value, "quantisation": value})
    with pytest.raises(UnsupportedConfigError) as caught:
        Asked.options(given)
    assert str(caught.value) == (
        "Asked: neuron_config has 'quantisation', 'zeal', which this model does not know. "
        "It knows quantization, answer."
    )


def test_a_factory_without_options() -> None:
    """One with none says so."""

    class Strict(ModelFactory):
        known_options = ()

    with pytest.raises(UnsupportedConfigError, match=r"It knows none\."):
        Strict.options({"x": 1})


@pytest.mark.parametrize("given", ["mxfp4", ["mxfp4"], 1, True])
def test_a_neuron_config_that_is_neither(given: Any) -> None:
    """Silently it would say nothing."""
    with pytest.raises(UnsupportedConfigError) as caught:
        Asked.options(given)
    assert repr(given) in str(caught.value)
    assert "Give a mapping, or an object with attributes" in str(caught.value)


def test_what_a_factory_refuses() -> None:
    """The errors say what was asked, what is valid, and on which platform."""
    assert str(Asked.unsupported("quantization", "fp4", ["bf16", "mxfp4"])) == (
        "Asked: quantization 'fp4' is not supported on 'trn2'. Valid there: bf16, mxfp4."
    )
    assert str(Asked.unsupported("quantization", "fp4", [])).endswith("Valid there: none.")
    assert str(Asked.refused("it has 3 heads")) == "Asked on 'trn2': it has 3 heads."


def test_the_order_of_asking() -> None:
    """Options, then the rules, then the choice: a rule may rely on options that are known."""
    steps: list[str] = []

    class Ordered(ModelFactory):
        known_options = ("ok",)

        @classmethod
        def _validate_config(cls, hf_config: Any, neuron_config: Any) -> None:
            steps.append(f"validate {hf_config} {neuron_config}")
            if hf_config == "bad":
                raise cls.refused("it is bad")

        @classmethod
        def select(cls, hf_config: Any, neuron_config: Any) -> str:
            steps.append(f"select {hf_config} {neuron_config}")
            return UPSTREAM

    with pytest.raises(UnsupportedConfigError, match="does not know"):
        Ordered.choose("hf", {"unknown": 1})
    assert steps == []
    with pytest.raises(UnsupportedConfigError, match="it is bad"):
        Ordered.choose("bad", {"ok": 1})
    assert steps == ["validate bad {'ok': 1}"]
    assert Ordered.choose("hf", {"ok": 1}) == UPSTREAM
    assert steps[1:] == ["validate hf {'ok': 1}", "select hf {'ok': 1}"]


@pytest.mark.parametrize(
    "answer", [None, "", "no colon", "a:b:c", "module:", ":Class", 1, b"m:C", object, ["m:C"]]
)
def test_nonsense_is_no_choice(answer: Any) -> None:
    """The error says what was returned, by which factory, and what it must be."""

    class Odd(ModelFactory):
        @classmethod
        def select(cls, hf_config: Any, neuron_config: Any) -> str:
            return answer  # type: ignore[no-any-return]  # what a factory must not do

    with pytest.raises(FactoryError) as caught:
        Odd.choose(None, None)
    for word in (f"Odd.select returned {answer!r}", "'module:Class'", "or UPSTREAM"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "answer", ["json:Nothing", "no_such_package.model:A", "json.no_module:A", "other:Class.Inner"]
)
def test_an_implementation_that_does_not_exist(write: Write, answer: str) -> None:
    """Module, class and inner class are looked for."""
    write("other.py", "class Class:\n    pass\n")

    with pytest.raises(FactoryError) as caught:
        Asked.choose(None, {"answer": answer})
    for word in (repr(answer), "there is no such class", "Mend the name", "install the package"):
        assert word in str(caught.value)


def test_an_implementation_is_looked_for_without_importing_it(write: Write) -> None:
    """Only what is chosen is imported, and that by vLLM."""
    write("acme/__init__.py", "raise SystemExit('imported')\n")
    write("acme/model.py", "class A:\n    pass\n")

    assert Asked.choose(None, {"answer": "acme.model:A"}) == "acme.model:A"
    assert not {"acme", "acme.model"} & set(sys.modules)


def test_a_choice_may_say_why() -> None:
    """It is a string all the same."""
    chosen = because("the user asks for it", "m:C")

    assert (chosen, chosen.why) == ("m:C", "the user asks for it")
    assert isinstance(chosen, str)
    assert hash(chosen) == hash("m:C")


def test_a_factory_without_a_choice_and_without_instances() -> None:
    """It is a class that is asked, and `select` is what its author writes."""

    class Empty(ModelFactory):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty\.select is not written"):
        Empty.choose(None, None)
    with pytest.raises(TypeError, match=r"Empty is a factory\. Call Empty\.from_configs"):
        Empty("vllm_config", prefix="")


# Asked by its name, as the layer does it.

FACTORY = """
from vllm_graft.models import UPSTREAM, ModelFactory, because

class AcmeForCausalLM(ModelFactory):
    @classmethod
    def select(cls, hf_config, neuron_config):
        {body}

class Outer:
    class Inner(AcmeForCausalLM):
        pass

NO_CLASS = 1
class NoFactory:
    pass
"""


@pytest.mark.parametrize(
    ("body", "expected", "text"),
    [
        ("return UPSTREAM", UPSTREAM, "Acme: acme.f:AcmeForCausalLM chose vllm:upstream"),
        (
            "return because('it rains', 'json:JSONDecoder')",
            "json:JSONDecoder",
            "Acme: acme.f:AcmeForCausalLM chose json:JSONDecoder because it rains",
        ),
    ],
)
def test_a_choice_tells_who_chose_what_and_why(
    write: Write, body: str, expected: str, text: str
) -> None:
    """A plain string, whatever the factory made it of."""
    write("acme/f.py", FACTORY.format(body=body))

    choice = choose("Acme", "acme.f:AcmeForCausalLM", None, None)

    assert (choice.implementation, str(choice)) == (expected, text)
    assert type(choice.implementation) is str
    assert choice.is_upstream is (expected == UPSTREAM)
    assert choice == Choice("Acme", "acme.f:AcmeForCausalLM", expected, choice.why)
    inner = choose("Acme", "acme.f:Outer.Inner", None, None)
    assert inner.implementation == expected


@pytest.mark.parametrize("error", ["KeyError('heads')", "AttributeError('heads')", "OSError()"])
def test_a_factory_that_raises(write: Write, error: str) -> None:
    """The error names factory, architecture, what was raised, and the way out."""
    write("acme/f.py", FACTORY.format(body=f"raise {error}"))

    with pytest.raises(FactoryError) as caught:
        choose("Acme", "acme.f:AcmeForCausalLM", None, None)
    raised = caught.value.__cause__
    assert repr(raised) == error
    for word in (
        f"the factory acme.f:AcmeForCausalLM of 'Acme' raised {type(raised).__name__}: {raised}",
        "Mend it; VLLM_GRAFT_PATCHES can exclude",
    ):
        assert word in str(caught.value)


@pytest.mark.parametrize("error", [UnsupportedConfigError, SettingError, FactoryError])
def test_errors_of_the_layer_are_what_they_are(write: Write, error: type[Exception]) -> None:
    """They are clear already."""
    body = f"from vllm_graft import errors; raise errors.{error.__name__}('clear')"
    write("acme/f.py", FACTORY.format(body=body))

    with pytest.raises(error, match=r"^clear$"):
        choose("Acme", "acme.f:AcmeForCausalLM", None, None)


@pytest.mark.parametrize(
    ("source", "factory", "words"),
    [
        ("import torch\n", "A", ["cannot be imported", "f.py:1", "imports 'torch'"]),
        ("from vllm import LLM\n", "A", ["cannot be imported", "f.py:1", "imports 'vllm'"]),
        ("x = 1\nimport torch.nn as nn\n", "A", ["f.py:2", "imports 'torch.nn'"]),
        ("import heavy\n", "A", ["heavy.py:1", "imports 'torch'"]),
        ("1 / 0\n", "A", ["cannot be imported: ZeroDivisionError: division by zero"]),
        ("def f(:\n", "A", ["cannot be imported: SyntaxError"]),
        (FACTORY.format(body="pass"), "Nothing", ["AttributeError", "'Nothing'"]),
        (FACTORY.format(body="pass"), "Outer.Nothing", ["AttributeError", "'Nothing'"]),
        (FACTORY.format(body="pass"), "NO_CLASS", ["acme.f:NO_CLASS is 1", "no ModelFactory"]),
        (FACTORY.format(body="pass"), "NoFactory", ["<class 'acme.f.NoFactory'>", "no ModelFa"]),
    ],
)
def test_a_factory_that_cannot_be_had(
    write: Write, source: str, factory: str, words: list[str]
) -> None:
    """It imports neither torch nor vLLM, and it is a class of the right kind."""
    write("heavy.py", "import torch\n")
    write("acme/f.py", source)

    with pytest.raises(FactoryError) as caught:
        load_factory(f"acme.f:{factory}")
    for word in [f"acme.f:{factory}", *words]:
        assert word in str(caught.value)


def test_a_factory_may_not_import_torch_although_it_is_there(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would work in one process and fail in another."""
    # A fake torch: what matters is only that sys.modules has one.
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    write("acme/f.py", "import torch\n")

    with pytest.raises(FactoryError, match="imports 'torch'"):
        load_factory("acme.f:A")


def test_a_module_that_is_missing() -> None:
    """As with the entry point of a distribution that is half installed."""
    with pytest.raises(FactoryError, match=r"no_such_package\.f:A cannot be imported: ModuleNot"):
        load_factory("no_such_package.f:A")


# Told from its source.

SOURCES = {
    "by/plain.py": "from vllm_graft.models import ModelFactory\nclass F(ModelFactory): ...\n",
    "by/home.py": "from vllm_graft.models.factory import ModelFactory as M\nclass F(M): ...\n",
    "by/module.py": "import vllm_graft.models\nclass F(vllm_graft.models.ModelFactory): ...\n",
    "by/alias.py": "import vllm_graft.models as models\nclass F(models.ModelFactory): ...\n",
    "by/package.py": "from vllm_graft import models\nclass F(models.ModelFactory): ...\n",
    "by/relative.py": "from .plain import F as Base\nclass F(Base): ...\n",
    "by/reexport.py": "from .relative import F\n",
    "by/inner.py": "from .plain import F as Base\nclass Outer:\n    class F(Base): ...\n",
    "by/several.py": "from .plain import F as B\nclass Mixin: ...\nclass F(Mixin, B): ...\n",
    "by/builtin.py": (
        "from vllm_graft.models.llama3.factory import LlamaForCausalLM as L\nclass F(L): ...\n"
    ),
    "by/condition.py": "if True:\n    from .plain import F as B\n    class F(B): ...\n",
    "by/__init__.py": "from .plain import F as Exported\n",
    "no/plain.py": "class F: ...\n",
    "no/other.py": "from somewhere import ModelFactory\nclass F(ModelFactory): ...\n",
    "no/function.py": "from vllm_graft.models import ModelFactory\ndef F(): return ModelFactory\n",
    "no/instance.py": "from vllm_graft.models import ModelFactory\nF = 1\n",
    "no/circular.py": "class F(G): ...\nclass G(F): ...\n",
    "no/name.py": "class ModelFactory: ...\nclass F(ModelFactory): ...\n",
    "no/broken.py": "class F(:\n",
    "no/loop.py": "from .pool import F\n",
    "no/pool.py": "from .loop import F\n",
    "no/__init__.py": "",
}


@pytest.mark.parametrize("file", [*SOURCES, "no/missing.py"])
def test_a_factory_is_told_from_its_source(write: Write, file: str) -> None:
    """However it is imported and inherited; nothing that may be a model is imported for it."""
    for path, source in SOURCES.items():
        write(path, source)
    module = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    name = {"by": "Exported", "by.inner": "Outer.F"}.get(module, "F")

    assert is_factory(Target(module, name)) is module.startswith("by")
    assert not [name for name in sys.modules if name.partition(".")[0] in ("by", "no")]


def test_the_base_itself_is_no_factory() -> None:
    """There is nothing that it could choose."""
    assert not is_factory(Target("vllm_graft.models.factory", "ModelFactory"))
    assert not is_factory(Target("vllm_graft.models", "ModelFactory"))
    for name in ("GptOss", "Llama"):
        home = {"GptOss": "gpt_oss", "Llama": "llama3"}[name]
        assert is_factory(Target(f"vllm_graft.models.{home}.factory", f"{name}ForCausalLM"))


# Building what was chosen, without an engine.

IMPLEMENTATIONS = """
class Plain:
    def __init__(self, hf_config, neuron_config):
        self.given = (hf_config, neuron_config)

class Engine:
    def __init__(self, *, vllm_config, prefix=""):
        self.given = (vllm_config, prefix)
"""


@contextmanager
def current_config(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a `VllmConfig` in effect. It is a fake: any object is handed through."""
    config = ModuleType("vllm.config")
    vars(config)["get_current_vllm_config"] = lambda: "the VllmConfig"
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "vllm", ModuleType("vllm"))
        patched.setitem(sys.modules, "vllm.config", config)
        yield


@pytest.mark.parametrize(
    ("name", "given"),
    [("Plain", ("hf", {"answer": "impl:Plain"})), ("Engine", ("the VllmConfig", ""))],
)
def test_building_by_both_kinds_of_constructor(
    write: Write, monkeypatch: pytest.MonkeyPatch, name: str, given: Any
) -> None:
    """As vLLM builds a model, or with the two configurations."""
    write("impl.py", IMPLEMENTATIONS)

    with current_config(monkeypatch):
        built = Asked.from_configs("hf", {"answer": f"impl:{name}"})
    assert built.given == given


def test_building_asks_as_the_layer_does(write: Write) -> None:
    """Validation and existence come first."""
    write("impl.py", "raise SystemExit('imported')\n")

    with pytest.raises(UnsupportedConfigError, match="does not know"):
        Asked.from_configs(None, {"unknown": 1})
    with pytest.raises(FactoryError, match="there is no such class"):
        Asked.from_configs(None, {"answer": "impl:Nothing"})


class LlamaForCausalLM(ModelFactory):
    """Chooses vLLM's own."""

    known_options: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def select(cls, hf_config: Any, neuron_config: Any) -> str:
        """Return it."""
        return UPSTREAM


def test_building_vllms_own(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked up by the factory's name in vLLM's table, and that class alone is imported."""
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    for path, source in RELEASES["0.32.0"].items():
        write(path, source)
    own = "vllm.model_executor.models.llama"
    assert upstream("LlamaForCausalLM") == f"{own}:LlamaForCausalLM"
    monkeypatch.setitem(sys.modules, own, made := ModuleType(own))
    vars(made)["LlamaForCausalLM"] = lambda vllm_config, prefix: (vllm_config, prefix)

    with current_config(monkeypatch):
        assert LlamaForCausalLM.from_configs("hf") == ("the VllmConfig", "")


TABLES = """
_MODELS = {
    "AForCausalLM": ("a", "A"),
    "BForCausalLM": ("vllm.models.b", "B"),  # the layout of newer models
    **{"CForCausalLM": ("c", "C")},
}
_GONE = {"DForCausalLM": "0.9.1", "EForCausalLM": ["e", "E"], "FForCausalLM": (MODULE, "F")}
"""


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        ("AForCausalLM", "vllm.model_executor.models.a:A"),
        ("BForCausalLM", "vllm.models.b:B"),
        ("CForCausalLM", "vllm.model_executor.models.c:C"),
        *((f"{name}ForCausalLM", None) for name in "DEFG"),
    ],
)
def test_vllms_own_is_read_in_its_tables(
    write: Write, monkeypatch: pytest.MonkeyPatch, architecture: str, expected: str | None
) -> None:
    """Its registry imports torch; the source is enough. Models that it has given up are none."""
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    write("vllm/__init__.py", "raise SystemExit('imported')\n")
    for package in ("model_executor", "model_executor/models"):
        write(f"vllm/{package}/__init__.py", "")
    write("vllm/model_executor/models/registry.py", TABLES)

    if expected is not None:
        assert upstream(architecture) == expected
    else:
        with pytest.raises(FactoryError, match=f"no implementation of '{architecture}' of its own"):
            upstream(architecture)


# What the built-in factories ask of a checkpoint and of a wish.


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "MXFP4"}, "mxfp4"),
        ({"quant_method": "gpt_oss_mxfp4"}, "mxfp4"),
        ({"quant_method": SimpleNamespace(value="fp8")}, "fp8"),  # an Enum of transformers'
        (SimpleNamespace(quant_method="awq"), "awq"),
    ],
)
def test_how_a_checkpoint_is_quantized(given: Any, expected: str | None) -> None:
    """As a mapping or as transformers' object, under vLLM's names for it too."""
    assert quantization_of(SimpleNamespace(quantization_config=given)) == expected
    assert quantization_of(SimpleNamespace()) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"quantization": "bfloat16"}, "bf16"),
        ({"quantization": "None"}, "bf16"),
        ({"quantization": "BF16"}, "bf16"),
        ({"quantization": "MXFP4"}, "mxfp4"),
        ({"quantization": 4}, "4"),
    ],
)
def test_what_the_user_asks_for(given: dict[str, Any], expected: str | None) -> None:
    """In one spelling; an absent wish is none."""
    assert asked_quantization(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "default"),
        ({"rope_scaling": None, "rope_parameters": None}, "default"),
        ({"rope_parameters": {"rope_theta": 1e4}}, "default"),
        ({"rope_parameters": {"rope_type": "yarn"}, "rope_scaling": {"type": "llama3"}}, "yarn"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "linear"),
    ],
)
def test_the_scaling_of_a_models_rope(given: dict[str, Any], expected: str) -> None:
    """transformers 5's name before that of 4."""
    assert rope_scaling(SimpleNamespace(**given))[0] == expected


def test_sizes_in_blocks() -> None:
    """The first that is none is named; absent is none."""
    assert unaligned({"a": 64}) is None
    assert unaligned({"a": 64, "b": 48, "c": 1}) == "b is 48, and MXFP4 needs a multiple of 32"
    assert unaligned({"c": 48 / 2}) == "c is 24, and MXFP4 needs a multiple of 32"
    assert unaligned({"d": None}) == "d is None, and MXFP4 needs a multiple of 32"


def test_the_public_names_import_neither_torch_nor_vllm(python: Python) -> None:
    """Nor do the built-in factories, each of them asked."""
    found = python(
        """
        import sys
        from types import SimpleNamespace
        import vllm_graft.models as models
        for name in models.__all__:
            getattr(models, name)
        assert sorted(models.__all__) == dir(models)
        for model in models.get_models():
            from vllm_graft.models.choice import load_factory
            load_factory(model.factory)
        try:
            models.nothing
        except AttributeError as error:
            print(error)
        print(sorted({name.partition(".")[0] for name in sys.modules} & {"torch", "vllm"}))
        """
    )
    assert found.splitlines() == ["module 'vllm_graft.models' has no attribute 'nothing'", "[]"]
