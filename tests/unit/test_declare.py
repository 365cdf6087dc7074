"""Declaring patches: six operations, every keyword, and every mistake with place and remedy."""

import linecache
import re
from collections.abc import Callable
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from vllm_graft import ConflictError, DeclarationError, Environment, Patch, PatchSet, Value
from vllm_graft.patch import Candidate
from vllm_graft.target import Target

REASONS: dict[str, Any] = {
    "vllm": ">=0.27,<0.33",
    "why": " what goes wrong ",
    "how": "what it does",
    "upstream": "https://github.com/vllm-project/vllm/pull/40860",
    "remove": "when it is merged",
}
OPERATIONS = ("replace", "wrap", "add", "set", "subclass", "run")


def my_implementation(*_args: Any) -> None:
    """Stand for an implementation."""


class Heavy:
    """Stand for an implementation that is a class."""


@pytest.fixture
def patches() -> PatchSet:
    """Return an empty set."""
    return PatchSet("acme")


def target_of(operation: str) -> str:
    """Return a target that fits an operation."""
    return "vllm.v1.core" if operation == "run" else "vllm.v1.core:Scheduler.schedule"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_a_decorator(patches: PatchSet, operation: str) -> None:
    """Used as a decorator, it declares the function and leaves it as it is."""
    decorate = getattr(patches, operation)(target_of(operation), **REASONS)
    assert not patches.patches

    assert decorate(my_implementation) is my_implementation

    (patch,) = patches.patches
    assert (patch.id, patch.operation) == ("acme/my-implementation", operation)
    assert patch.implementation is my_implementation
    assert str(patch.target) == target_of(operation)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("lazy", [False, True])
def test_every_operation_takes_the_implementation_directly(
    patches: PatchSet, operation: str, lazy: bool
) -> None:
    """A function, or a lazy string that is imported when the target is; it declares at once."""
    implementation = "acme.impl.kv:my_implementation" if lazy else my_implementation

    getattr(patches, operation)(target_of(operation), implementation, **REASONS)

    (patch,) = patches.patches
    assert patch.id == "acme/my-implementation"
    assert patch.lazy == (implementation if lazy else None)
    assert patch.set_name == "acme"


def test_every_keyword(patches: PatchSet) -> None:
    """Each keyword ends up in the patch, in the type that its readers need."""
    here = linecache.getlines(__file__)

    def condition(environment: Environment) -> bool:
        return environment.system == "Linux"

    patches.wrap(
        "vllm.v1.core:f",
        my_implementation,
        **REASONS,
        id="kv-sizes",
        required=False,
        process=("worker", "engine_core"),
        when=condition,
        requires=("torch>=2.11,<2.12", "flash-attn; sys_platform == 'linux'"),
        order=-3,
        after=("other", "elsewhere/thing"),
        together="kv",
    )
    (patch,) = patches.patches
    assert patch == Patch(
        id="acme/kv-sizes",
        operation="wrap",
        target=Target("vllm.v1.core", "f"),
        implementation=my_implementation,
        vllm=SpecifierSet(">=0.27,<0.33"),
        why="what goes wrong",
        how="what it does",
        upstream="https://github.com/vllm-project/vllm/pull/40860",
        remove="when it is merged",
        location=patch.location,
        required=False,
        process=frozenset({"worker", "engine_core"}),
        when=condition,
        requirements=("torch>=2.11,<2.12", 'flash-attn; sys_platform == "linux"'),
        order=-3,
        after=("acme/other", "elsewhere/thing"),
        together="kv",
        candidates=(Candidate(Target("vllm.v1.core", "f")),),
    )
    assert patch.group == "acme/kv"
    assert patch.location.file == __file__
    assert "patches.wrap(" in here[patch.location.line - 1]


def test_what_is_left_out_has_the_safe_value(patches: PatchSet) -> None:
    """A patch is required, in every process, unconditional and in the order of declaration."""
    patches.wrap("m:f", my_implementation, **REASONS)
    (patch,) = patches.patches

    assert patch.required is True
    assert (patch.process, patch.when, patch.requires) == (None, None, ())
    assert (patch.order, patch.after) == (0, ())
    assert (patch.together, patch.group) == (None, None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"process": "worker"}, ("process", frozenset({"worker"}))),
        ({"process": ["main", "api_server"]}, ("process", frozenset({"main", "api_server"}))),
        ({"process": {"coordinator", "inspection"}}, ("process", {"coordinator", "inspection"})),
        ({"requires": "torch"}, ("requires", (Requirement("torch"),))),
        ({"after": "first"}, ("after", ("acme/first",))),
    ],
)
def test_one_or_several(
    patches: PatchSet, given: dict[str, Any], expected: tuple[str, Any]
) -> None:
    """What can be several can be given alone, as a string."""
    patches.wrap("m:f", my_implementation, **REASONS, **given)

    assert getattr(patches.patches[0], expected[0]) == expected[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m:f", [("m:f", None)]),
        ("m:f >=0.27,<0.30", [("m:f", ">=0.27,<0.30")]),
        ("m:f>=0.27", [("m:f", ">=0.27")]),
        ("m:f | n:C.f", [("m:f", None), ("n:C.f", None)]),
        (
            "m:f <0.30 | n:f >=0.30, <0.32|o.p:f",
            [("m:f", "<0.30"), ("n:f", ">=0.30,<0.32"), ("o.p:f", None)],
        ),
    ],
)
def test_a_target_may_have_several_places(
    patches: PatchSet, text: str, expected: list[tuple[str, str | None]]
) -> None:
    """Each place has the versions that it is for, or none; the first stands for all."""
    patches.wrap(text, my_implementation, **REASONS)
    (patch,) = patches.patches

    assert [
        (str(each.target), each.vllm if each.vllm is None else str(each.vllm))
        for each in patch.candidates
    ] == [(target, versions and str(SpecifierSet(versions))) for target, versions in expected]
    assert patch.target == patch.candidates[0].target
    assert patch.declared_target == " | ".join(map(str, patch.candidates))


@pytest.mark.parametrize(
    ("operation", "target", "implementation", "name"),
    [
        ("wrap", "m:f", my_implementation, "my-implementation"),
        ("wrap", "m:f", "acme.impl:Kv.resolve_sizes", "resolve-sizes"),
        ("wrap", "m:C.__init__", lambda original: None, "init"),
        ("replace", "m:C", Heavy, "heavy"),
        ("set", "m:MAX_TOKENS", 5, "max-tokens"),
        ("set", "m:NAME", "plain text", "name"),
        ("set", "m:NAME", Value("acme.impl:name"), "name"),
        ("run", "vllm.envs", "acme.old_patches.sched_fix", "sched-fix"),
        ("run", "vllm.envs", "acme.old:patch_it", "patch-it"),
    ],
)
def test_default_id(
    patches: PatchSet, operation: str, target: str, implementation: Any, name: str
) -> None:
    """Without an id, the patch is called like its implementation, or else like its target."""
    getattr(patches, operation)(target, implementation, **REASONS)

    assert patches.patches[0].id == f"acme/{name}"


@pytest.mark.parametrize(
    ("given", "lazy"),
    [
        ("acme.impl:value", "acme.impl:value"),
        (Value("acme.impl:value"), None),
        ("no reference", None),
        ("acme.impl", None),
        (5, None),
        (None, None),
    ],
)
def test_a_string_that_looks_lazy_is_lazy_unless_it_is_a_value(
    patches: PatchSet, given: Any, lazy: str | None
) -> None:
    """`set` and `add` take any value; Value marks a string that only looks like a reference."""
    patches.set("m:NAME", given, id="it", **REASONS)

    assert patches.patches[0].lazy == lazy


def without(key: str) -> dict[str, Any]:
    """Return the required keywords but one."""
    return {name: value for name, value in REASONS.items() if name != key}


MISTAKES = [
    # operation, target, implementation, keywords, what the message says
    *(
        ("wrap", "m:f", my_implementation, without(key), [f"keyword {key!r} is missing", f"{key}="])
        for key in REASONS
    ),
    *(
        ("wrap", "m:f", my_implementation, {**REASONS, key: value}, [f"keyword {key!r} is"])
        for key in REASONS
        for value in ("", "  ", None, 5)
    ),
    ("wrap", "m:f", None, {**REASONS, "orders": 1}, ["'orders'", "mean 'order'? The keywords are"]),
    ("wrap", "m:f", None, {**REASONS, "vlm": "1"}, ["unknown keyword 'vlm'", "mean 'vllm'?"]),
    (
        "wrap",
        "m:f",
        None,
        {**REASONS, "xyz": 1},
        ["unknown keyword 'xyz'", "The keywords are vllm"],
    ),
    (
        "wrap",
        "m:f",
        None,
        {**REASONS, "vllm": "0.32"},
        ["vllm='0.32' is not a version sp", ">=0.2"],
    ),
    ("wrap", "m:f", None, {**REASONS, "vllm": ">=x"}, ["is not a version specifier"]),
    ("wrap", "m:f", None, {**REASONS, "required": 1}, ["required=1", "of type bool"]),
    ("wrap", "m:f", None, {**REASONS, "required": "no"}, ["required='no'", "of type bool"]),
    ("wrap", "m:f", None, {**REASONS, "order": 1.5}, ["order=1.5", "of type int"]),
    ("wrap", "m:f", None, {**REASONS, "order": True}, ["order=True", "of type int"]),
    (
        "wrap",
        "m:f",
        None,
        {**REASONS, "process": "gpu"},
        ["'gpu'", "main, api_server, engine_core"],
    ),
    ("wrap", "m:f", None, {**REASONS, "process": ()}, ["names no role", "Leave it out"]),
    ("wrap", "m:f", None, {**REASONS, "process": 5}, ["process=5", "a string or several"]),
    (
        "wrap",
        "m:f",
        None,
        {**REASONS, "when": True},
        ["when=True", "a function of the Environment"],
    ),
    ("wrap", "m:f", None, {**REASONS, "requires": "a b"}, ["requires='a b' is not a requirement"]),
    ("wrap", "m:f", None, {**REASONS, "requires": 5}, ["requires=5", "a string or several"]),
    ("wrap", "m:f", None, {**REASONS, "after": [5]}, ["after=[5]", "a string or several"]),
    ("wrap", "m:f", None, {**REASONS, "id": "KV"}, ["the id is 'KV'", "lower case"]),
    ("wrap", "m:f", None, {**REASONS, "id": "acme/kv"}, ["the id is 'acme/kv'", "after the set's"]),
    ("wrap", "m:f", None, {**REASONS, "id": "a b"}, ["the id is 'a b'"]),
    ("wrap", "m:f", None, {**REASONS, "id": 5}, ["the id is 5"]),
    ("wrap", "m.f", None, REASONS, ["the target has no qualified name", "'m.f:<name>'", "`run`"]),
    ("wrap", "", None, REASONS, ["not of the form 'module:qualname'", "Write for example"]),
    ("wrap", "m:", None, REASONS, ["not of the form 'module:qualname'"]),
    ("wrap", ":f", None, REASONS, ["not of the form 'module:qualname'"]),
    ("wrap", "m/f.py:f", None, REASONS, ["not of the form 'module:qualname'"]),
    ("wrap", "m:f()", None, REASONS, ["not of the form 'module:qualname'"]),
    ("wrap", "m:a:b", None, REASONS, ["not of the form 'module:qualname'"]),
    ("wrap", Heavy, None, REASONS, ["not of the form 'module:qualname'"]),
    ("wrap", "m:f |", None, REASONS, ["not of the form", "'vllm.a:f >=0.27,<0.30 | vllm.b:f'"]),
    ("wrap", "m:f | m.g", None, REASONS, ["the target has no qualified name", "'m.g:<name>'"]),
    ("wrap", "m:f >=x", None, REASONS, ["'>=x' is not a version specifier"]),
    ("wrap", "m:f 0.27", None, REASONS, ["not of the form 'module:qualname'"]),
    ("run", "m | n:f", None, REASONS, ["the target of `run` is a module", "Write 'n'"]),
    ("wrap", "m:f", None, {**REASONS, "together": "K V"}, ["together='K V' is no name"]),
    ("wrap", "m:f", None, {**REASONS, "together": 5}, ["together=5", "together='kv-cross-cp'"]),
    ("run", "m:f", None, REASONS, ["the target of `run` is a module", "Write 'm'"]),
    ("wrap", "m:f", 5, REASONS, ["the implementation is 5", "'module:qualname'."]),
    (
        "wrap",
        "m:C.f",
        classmethod(my_implementation),
        REASONS,
        ["the implementation is a classmethod", "Give its function"],
    ),
    (
        "replace",
        "m:C.f",
        property(my_implementation),
        REASONS,
        ["the implementation is a property", "Give its function"],
    ),
    ("wrap", "m:f", "acme.impl", REASONS, ["the implementation is 'acme.impl'"]),
    ("subclass", "m:C", "not lazy", REASONS, ["the implementation is 'not lazy'"]),
    ("run", "m", 5, REASONS, ["the implementation is 5", "or 'module'."]),
    ("run", "m", "no module", REASONS, ["the implementation is 'no module'"]),
]


@pytest.mark.parametrize(("operation", "target", "implementation", "options", "words"), MISTAKES)
def test_every_mistake_names_its_place_and_remedy(
    patches: PatchSet,
    operation: str,
    target: Any,
    implementation: Any,
    options: dict[str, Any],
    words: list[str],
) -> None:
    """A wrong declaration raises where it stands, with file, line, operation, target and remedy."""
    given = my_implementation if implementation is None else implementation

    with pytest.raises(DeclarationError) as caught:
        getattr(patches, operation)(target, given, **options)

    message = str(caught.value)
    place = re.match(re.escape(__file__) + r":(\d+): (\w+) of ", message)
    assert place is not None, message
    assert "getattr(patches, operation)(" in linecache.getline(__file__, int(place[1]))
    assert place[2] == operation
    assert repr(target) in message
    for word in words:
        assert word in message
    assert isinstance(caught.value, ValueError)
    assert patches.patches == ()


@pytest.mark.parametrize("name", ["", "Acme", "a b", "acme/x", "-acme", "acme-", None, 5])
def test_a_set_needs_a_name_that_globs_and_ids_can_hold(name: Any) -> None:
    """The name of a set is lower case without blanks; the error gives place and an example."""
    with pytest.raises(DeclarationError) as caught:
        PatchSet(name)

    for word in (f"{__file__}:", repr(name), "for example 'acme'"):
        assert word in str(caught.value)


@pytest.mark.parametrize("name", ["acme", "acme-2", "a.b_c", "0"])
def test_a_set_knows_where_it_is_declared(name: str) -> None:
    """Its location is that of the call."""
    patch_set = PatchSet(name)

    assert patch_set.location.file == __file__
    assert "PatchSet(name)" in linecache.getline(__file__, patch_set.location.line)
    assert repr(patch_set) == f"PatchSet({name!r}, 0 patches)"


def test_a_duplicate_id_names_both_declarations(patches: PatchSet) -> None:
    """Two patches of one set cannot have one id, whatever their targets."""
    patches.wrap("m:f", my_implementation, **REASONS)

    with pytest.raises(DeclarationError) as caught:
        patches.wrap("m:g", my_implementation, **REASONS)

    message = str(caught.value)
    assert message.count(f"{__file__}:") == 2
    assert "'acme/my-implementation' is taken" in message
    assert "id='…'" in message
    assert len(patches.patches) == 1


@pytest.mark.parametrize(
    ("first", "second", "second_range", "conflict"),
    [
        ("replace", "replace", ">=0.32", True),
        ("replace", "replace", ">=0.33", False),
        ("replace", "replace", "==0.27.*", True),
        ("replace", "set", ">=0.27", True),
        ("set", "set", ">=0.27", True),
        ("add", "add", ">=0.27", True),
        ("replace", "wrap", ">=0.27", False),
        ("wrap", "wrap", ">=0.27", False),
        ("subclass", "subclass", ">=0.27", False),
    ],
)
def test_two_patches_that_discard_one_target_need_disjoint_ranges(
    patches: PatchSet, first: str, second: str, second_range: str, conflict: bool
) -> None:
    """Of two replaces in one version the second would undo the first: an error for both places."""
    getattr(patches, first)("m:f", my_implementation, id="one", **REASONS)
    declare: Callable[..., Any] = getattr(patches, second)
    options = {**REASONS, "vllm": second_range}

    if not conflict:
        declare("m:f", my_implementation, id="two", **options)
        assert len(patches.patches) == 2
        return
    with pytest.raises(ConflictError) as caught:
        declare("m:f", my_implementation, id="two", **options)
    message = str(caught.value)
    assert message.count(f"{__file__}:") == 2
    for word in ("'acme/one'", "'acme/two'", "claim m:f", "`wrap`", "disjoint", second_range):
        assert word in message
    assert [patch.id for patch in patches.patches] == ["acme/one"]


def test_the_same_name_in_another_place_is_no_conflict(patches: PatchSet) -> None:
    """Targets are the same only with the same module and qualified name, and without a choice."""
    for index, target in enumerate(("m:f", "n:f", "m:C.f", "m:f | n:f", "m:f | o:f")):
        patches.replace(target, my_implementation, id=f"p{index}", **REASONS)

    assert len(patches.patches) == 5


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_sealed_set_takes_nothing_more(patches: PatchSet, operation: str) -> None:
    """What is declared after loading would never run, so it is an error with its place."""
    patches.seal()

    with pytest.raises(DeclarationError, match="declared after its set was loaded") as caught:
        getattr(patches, operation)(target_of(operation), **REASONS)(my_implementation)

    assert str(caught.value).startswith(f"{__file__}:")
    assert patches.patches == ()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_forgotten_implementation_is_an_error(patches: PatchSet, operation: str) -> None:
    """A call that was given none, and decorated nothing, does not pass for a patch."""
    getattr(patches, operation)(target_of(operation), **REASONS)

    with pytest.raises(DeclarationError, match="has no implementation") as caught:
        patches.seal()

    assert str(caught.value).startswith(f"{__file__}:")


def test_a_decorator_without_arguments_is_an_error(patches: PatchSet) -> None:
    """`@patches.wrap` alone takes the function for its target, and says what to write."""
    with pytest.raises(DeclarationError, match=r"Write @acme\.wrap\('module:qualname'"):
        patches.wrap(my_implementation)  # type: ignore[arg-type]  # the mistake itself
