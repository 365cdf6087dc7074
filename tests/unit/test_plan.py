"""The plan: which patch is armed, which is skipped and why, what stops vLLM, in which order."""

import sys
from typing import Any

import pytest

from vllm_graft import Environment, PatchSet
from vllm_graft.builtin import BUILTIN, KNOWN, builtin_sets
from vllm_graft.catalog import Catalog
from vllm_graft.errors import ConflictError, DeclarationError, UnknownVersionError
from vllm_graft.plan import Plan, is_required, make_plan
from vllm_graft.ranges import written
from vllm_graft.settings import Selection, Settings
from vllm_graft.target import Target
from vllm_graft.version import VllmVersion

INSTALLED = {"torch": "2.11.0+cpu", "triton": "3.6.0rc1", "odd": "not-a-version"}


def f(*_args: Any) -> None:
    """Stand for an implementation."""


Declaration = tuple[str, str, dict[str, Any]]


def catalog(*declarations: Declaration) -> Catalog:
    """Return a catalog of sets made of (id, target, options); `operation` is one of the options."""
    sets: dict[str, PatchSet] = {}
    for patch_id, target, options in declarations:
        set_name, _, name = patch_id.partition("/")
        given = {"vllm": ">=0.27,<0.33", "why": "w", "how": "h", "upstream": "u", "remove": "r"}
        given |= {"id": name, **options}
        operation = given.pop("operation", "wrap")
        patch_set = sets.setdefault(set_name, PatchSet(set_name))
        getattr(patch_set, operation)(target, f, **given)
    return Catalog(tuple(sets.values()), {})


def plan(
    catalog: Catalog,
    version: str = "0.32.0",
    patches: str = "",
    *,
    strict: bool = False,
    environ: dict[str, str] | None = None,
    system: str = "Linux",
    there: str = "",
) -> Plan:
    """Return the plan in an environment in which nothing depends on this machine."""
    environment = Environment(
        VllmVersion(version, "a test"),
        environ or {},
        system,
        "x86_64",
        (3, 11),
        INSTALLED.get,
        lambda target: str(target) in there.split(),
    )
    return make_plan(catalog, environment, Settings(True, Selection.parse(patches), strict))


@pytest.mark.parametrize(
    ("patches", "armed"),
    [
        ("", "acme/kv-a acme/kv-b acme/x other/x"),
        ("acme/*", "acme/kv-a acme/kv-b acme/x"),
        ("acme/*,-acme/kv-*", "acme/x"),
        ("-acme/kv-*,acme/*", "acme/x"),
        ("-acme/*", "other/x"),
        ("-*/x", "acme/kv-a acme/kv-b"),
        ("*/x", "acme/x other/x"),
        ("acme/kv-?", "acme/kv-a acme/kv-b"),
        ("acme/kv-[!a]", "acme/kv-b"),
        (" acme/x , other/x ,", "acme/x other/x"),
        ("acme/x,-acme/x", ""),
        ("nobody/*", ""),
    ],
)
def test_selection_by_globs_over_ids(patches: str, armed: str) -> None:
    """VLLM_GRAFT_PATCHES includes and excludes; an exclusion wins wherever it stands."""
    found = plan(
        catalog(
            ("acme/kv-a", "m:a", {}),
            ("acme/kv-b", "m:b", {}),
            ("acme/x", "m:c", {}),
            ("other/x", "m:d", {}),
        ),
        patches=patches,
    )

    assert " ".join(sorted(patch.id for patch in found.armed)) == armed
    for decision in found.decisions:
        expected = (None, "") if decision.armed else ("selection", "not selected by VLLM_GRAFT_PA")
        assert (decision.cause, decision.reason[:29]) == expected


@pytest.mark.parametrize(
    ("options", "cause", "reason"),
    [
        ({}, None, ""),
        ({"vllm": "<0.32"}, "version", "vLLM 0.32.0 (from a test) is outside <0.32"),
        ({"vllm": "==0.32.*"}, None, ""),
        ({"requires": "torch>=2.11,<2.12"}, None, ""),
        ({"requires": "torch==2.11.0"}, None, ""),
        ({"requires": "torch===2.11.0"}, None, ""),
        ({"requires": "torch>2.11"}, "requires", "requires torch>2.11, and 2.11.0+cpu is inst"),
        ({"requires": "triton>=3.5"}, None, ""),
        ({"requires": "triton>=3.6"}, "requires", "requires triton>=3.6, and 3.6.0rc1 is inst"),
        ({"requires": "flash-attn"}, "requires", "requires flash-attn, which is not installed"),
        ({"requires": ("torch", "flash-attn")}, "requires", "requires flash-attn, which is not"),
        ({"requires": "flash-attn; python_version < '3'"}, None, ""),
        ({"requires": "flash-attn; python_version >= '3'"}, "requires", "requires flash-attn"),
        ({"requires": "odd"}, None, ""),
        ({"requires": "odd>=1"}, "requires", "requires odd>=1, and not-a-version is installed"),
        ({"when": lambda env: env.system == "Linux"}, None, ""),
        ({"when": lambda env: env.machine == "aarch64"}, "when", "its condition `when` does not"),
        ({"when": lambda env: env.environ.get("ACME") == "1"}, None, ""),
        ({"when": lambda env: env.python >= (3, 12)}, "when", "its condition `when` does not"),
        ({"when": lambda env: env.installed("flash-attn")}, "when", "its condition `when` does"),
        ({"when": lambda env: env.vllm.version.minor == 32}, None, ""),
    ],
)
def test_cause_and_reason_of_each_skip(
    options: dict[str, Any], cause: str | None, reason: str
) -> None:
    """Range, requirements and condition decide in this order, and the reason says what is so."""
    found = plan(catalog(("acme/x", "m:a", options)), environ={"ACME": "1"})
    (decision,) = found.decisions

    assert decision.cause == cause
    assert decision.reason.startswith(reason)
    assert found.problems == ()


def test_what_is_skipped_for_its_range_is_asked_nothing_more() -> None:
    """A condition written for one range of versions is not run on another."""

    def never(_environment: Environment) -> bool:
        raise AssertionError("asked")

    found = plan(catalog(("acme/x", "m:a", {"vllm": "<0.30", "when": never})))

    assert found.decisions[0].cause == "version"


def test_a_condition_that_raises_stops_vllm() -> None:
    """The problem names the declaration, the patch, what was raised and the way out."""
    found = plan(catalog(("acme/x", "m:a", {"when": lambda env: env.environ["ACME"]})))
    (problem,) = found.problems

    assert isinstance(problem, DeclarationError)
    for part in (__file__, "'acme/x'", "KeyError: 'ACME'", "VLLM_GRAFT_PATCHES=-acme/x"):
        assert part in str(problem)
    assert found.armed == ()


@pytest.mark.parametrize("version", ["dev", "0.1.dev1+g5e40263c3.empty", "0.0.0", ""])
@pytest.mark.parametrize(
    ("options", "patches", "strict", "stops"),
    [
        ({}, "", False, True),
        ({"required": False}, "", False, False),
        ({"required": False}, "", True, True),
        ({}, "-acme/*", False, False),
        ({"requires": "flash-attn"}, "", False, False),
        ({"when": lambda env: env.system == "Windows"}, "", False, False),
    ],
    ids=["required", "optional", "strict", "excluded", "requirement unmet", "condition not met"],
)
def test_an_unknown_version_stops_only_where_a_required_patch_takes_part(
    version: str, options: dict[str, Any], patches: str, strict: bool, stops: bool
) -> None:
    """Nothing is armed on a guess; the error names version, source, patch and VLLM_VERSION."""
    found = plan(catalog(("acme/x", "m:a", options)), version, patches, strict=strict)

    assert found.armed == ()
    assert [type(problem) for problem in found.problems] == [UnknownVersionError] * stops
    if stops:
        for part in (version, "from a test", "acme/x", "VLLM_VERSION=0.32.0", "VLLM_GRAFT_PATCHE"):
            assert part in str(found.problems[0])
    elif not patches and "required" in options:
        assert found.decisions[0].reason.startswith("the version of vLLM is unknown")


@pytest.mark.parametrize(
    ("version", "warned"),
    [
        ("0.27.1", 0),
        ("0.32.0+cpu", 0),
        ("0.33.0rc1", 0),
        ("0.34.0rc1", 1),
        ("0.9.1", 1),
        ("99.0", 1),
        ("dev", 1),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_built_in_patches_never_stop_vllm(version: str, warned: int, strict: bool) -> None:
    """On a vLLM that they do not know they are skipped, with one warning for all of them."""
    found = plan(Catalog(builtin_sets(), {}), version, strict=strict)

    assert found.problems == ()
    assert len(found.warnings) == warned
    if warned:
        assert written(KNOWN) in found.warnings[0]
        assert version in found.warnings[0]
        assert "vllm-graft/engine-core-process" in found.warnings[0]
        assert found.armed == ()
    assert all(
        patch.set_name in BUILTIN and not is_required(patch, Settings(strict=strict))
        for patch_set in builtin_sets()
        for patch in patch_set.patches
    )


def test_no_warning_for_built_in_patches_that_are_excluded() -> None:
    """Who switched them off needs not be told that they are off."""
    found = plan(Catalog(builtin_sets(), {}), "99.0", "-vllm-graft/*,-vllm-cpu/*")

    assert found.warnings == ()


@pytest.mark.parametrize(
    ("required", "strict", "expected"),
    [(True, False, True), (False, False, False), (False, True, True), (True, True, True)],
)
def test_strict_makes_optional_patches_required(
    required: bool, strict: bool, expected: bool
) -> None:
    """VLLM_GRAFT_STRICT=1 leaves no failure unnoticed."""
    (patch,) = catalog(("acme/x", "m:a", {"required": required})).patches

    assert is_required(patch, Settings(strict=strict)) is expected


@pytest.mark.parametrize(
    ("declarations", "expected"),
    [
        ({"a": {}, "b": {}, "c": {}}, "a b c"),
        ({"a": {"order": 1}, "b": {}, "c": {"order": -1}}, "c b a"),
        ({"a": {"after": "b"}, "b": {"after": "c"}, "c": {}}, "c b a"),
        ({"a": {"after": ("b", "c")}, "b": {}, "c": {}}, "b c a"),
        ({"a": {"after": "acme/b"}, "b": {"order": 5}}, "b a"),
        ({"a": {}, "b": {"operation": "replace", "order": 9}}, "b a"),
        ({"a": {"order": 1}, "b": {"operation": "set", "order": 9}, "c": {}}, "b c a"),
        ({"a": {"after": "other/gone"}, "b": {}}, "a b"),
        ({"a": {"after": "b"}, "b": {"vllm": "<0.1"}, "c": {}}, "a c"),
        # `after` moves the patch that has it, and does not lift others over their `order`
        ({"a": {"order": 1}, "b": {"order": 2}, "c": {"after": "b"}}, "a b c"),
    ],
)
def test_order_of_application(declarations: dict[str, dict[str, Any]], expected: str) -> None:
    """What discards comes first, then `order`, then declaration; `after` holds in any case."""
    found = plan(
        catalog(*((f"acme/{name}", "m:f", options) for name, options in declarations.items()))
    )

    assert found.problems == ()
    assert " ".join(patch.id.removeprefix("acme/") for patch in found.armed) == expected


def test_after_reaches_across_sets() -> None:
    """A patch can come after one of another distribution, whichever is loaded first."""
    found = plan(catalog(("acme/x", "m:f", {"after": "other/x"}), ("other/x", "m:f", {})))

    assert [patch.id for patch in found.armed] == ["other/x", "acme/x"]


@pytest.mark.parametrize(
    ("declarations", "words"),
    [
        ([("acme/a", "m:f", {"after": "a"})], ["acme/a after acme/a is a circle"]),
        (
            [
                ("acme/a", "m:f", {"after": "b"}),
                ("acme/b", "m:g", {"after": "c"}),
                ("acme/c", "m:h", {"after": "a"}),
            ],
            ["acme/a after acme/b after acme/c after acme/a is a circle", "Take one"],
        ),
        (
            [("acme/a", "m:f", {"after": "b"}), ("acme/b", "n:f", {})],
            ["'acme/a'", "'acme/b'", "their modules differ (m, n)", "patches of one module"],
        ),
    ],
    ids=["itself", "circle", "other module"],
)
def test_an_after_that_cannot_hold_stops_vllm(
    declarations: list[Declaration], words: list[str]
) -> None:
    """The error names the declaration, the patches and what to do."""
    (problem,) = plan(catalog(*declarations)).problems

    assert isinstance(problem, ConflictError)
    for word in [__file__, *words]:
        assert word in str(problem)


REPLACE = {"operation": "replace"}


@pytest.mark.parametrize(
    ("first", "second", "patches", "version", "conflicts"),
    [
        (REPLACE, REPLACE, "", "0.32.0", 1),
        (REPLACE, {"operation": "set"}, "", "0.32.0", 1),
        ({"operation": "add"}, {"operation": "add"}, "", "0.32.0", 1),
        (REPLACE, {}, "", "0.32.0", 0),
        ({}, {}, "", "0.32.0", 0),
        (REPLACE, REPLACE, "-other/*", "0.32.0", 0),
        (REPLACE, REPLACE, "acme/*", "0.32.0", 0),
        (REPLACE, {**REPLACE, "vllm": "<0.27"}, "", "0.32.0", 0),
        (REPLACE, {**REPLACE, "vllm": "<0.28"}, "", "0.32.0", 0),
        (REPLACE, {**REPLACE, "requires": "flash-attn"}, "", "0.32.0", 0),
        (REPLACE, REPLACE, "", "0.40.0", 0),
    ],
)
def test_conflicts_across_sets(
    first: dict[str, Any], second: dict[str, Any], patches: str, version: str, conflicts: int
) -> None:
    """Two distributions that claim one target stop vLLM, until one of them is excluded."""
    found = plan(catalog(("acme/x", "m:f", first), ("other/y", "m:f", second)), version, patches)

    assert [type(problem) for problem in found.problems] == [ConflictError] * conflicts
    if conflicts:
        for part in ("'acme/x'", "'other/y'", "m:f", __file__, "VLLM_GRAFT_PATCHES=-other/y"):
            assert part in str(found.problems[0])


def test_every_problem_is_reported_at_once() -> None:
    """A broken condition does not hide a conflict."""
    found = plan(
        catalog(
            ("acme/x", "m:f", REPLACE),
            ("other/y", "m:f", REPLACE),
            ("other/z", "m:g", {"when": lambda env: 1 / 0}),
        )
    )

    assert [type(problem) for problem in found.problems] == [DeclarationError, ConflictError]


def test_the_plan_is_pure() -> None:
    """Equal inputs give equal plans, and nothing is imported or written for it."""
    patches = catalog(("acme/x", "no.such.module:f", {}), ("acme/y", "m:f", {"order": -1}))
    before = set(sys.modules)

    assert plan(patches) == plan(patches)
    assert set(sys.modules) == before


def test_every_patch_has_one_decision() -> None:
    """Armed or skipped, no patch is missing from the plan, and the armed come in their order."""
    patches = catalog(
        ("acme/a", "m:f", {"order": 3}), ("acme/b", "m:f", {"vllm": "<0.1"}), ("acme/c", "m:g", {})
    )
    found = plan(patches)

    assert sorted(decision.patch.id for decision in found.decisions) == [
        "acme/a",
        "acme/b",
        "acme/c",
    ]
    assert [patch.id for patch in found.armed] == ["acme/c", "acme/a"]


def test_an_environment_describes_this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left out, the values are those of the process, and `installed` asks the metadata."""
    monkeypatch.setenv("ACME", "1")
    environment = Environment(VllmVersion("0.32.0", "a test"))

    assert environment.environ["ACME"] == "1"
    assert environment.python == sys.version_info[:2]
    assert environment.installed("pytest") == pytest.__version__
    assert environment.installed("no-such-distribution") is None


def test_a_glob_that_matches_nothing_is_told() -> None:
    """A typing mistake in VLLM_GRAFT_PATCHES does not switch patches off in silence."""
    found = plan(catalog(("acme/x", "m:a", {})), "0.32.0", "acme/kvv-*")

    assert found.warnings == (
        "VLLM_GRAFT_PATCHES has 'acme/kvv-*', which matches no installed patch",
    )


def test_a_condition_may_not_import_torch() -> None:
    """`when` is asked before vLLM's first line runs, and must be as light as a declaration."""

    def heavy(_: Environment) -> bool:
        import torch  # noqa: F401

        return True

    (problem,) = plan(catalog(("acme/x", "m:a", {"when": heavy})), "0.32.0").problems

    assert "this imports 'torch'" in str(problem)


@pytest.mark.parametrize(
    ("target", "there", "version", "chosen"),
    [
        ("a:f | b:f", "a:f", "0.32.0", "a:f"),
        ("a:f | b:f", "b:f", "0.32.0", "b:f"),
        ("a:f | b:f", "a:f b:f", "0.32.0", "a:f"),
        ("a:f | b:f | c:C.f", "c:C.f b:g", "0.32.0", "c:C.f"),
        ("a:f >=0.27,<0.30 | b:f", "a:f b:f", "0.29.0", "a:f"),
        ("a:f >=0.27,<0.30 | b:f", "a:f b:f", "0.30.0", "b:f"),
        ("a:f <0.30 | b:f >=0.30", "a:f b:f", "0.30.0+cpu", "b:f"),
        ("a:f >=0.30 | b:f", "a:f b:f", "0.30.0rc1", "b:f"),
        # where one is left there is no choice, and a missing one fails as any target
        ("a:f <0.30 | b:f", "a:f", "0.31.0", "b:f"),
        ("a:f <0.30 | b:f <0.32 | c:f", "a:f c:f", "0.31.0", "c:f"),
        # where none exists, the first in range stands for them
        ("a:f | b:f", "", "0.32.0", "a:f"),
        ("a:f <0.30 | b:f | c:f", "a:f", "0.32.0", "b:f"),
        # a single target is not looked for
        ("a:f", "", "0.32.0", "a:f"),
    ],
)
def test_the_first_target_in_range_that_exists_is_chosen(
    target: str, there: str, version: str, chosen: str
) -> None:
    """Targets whose own versions do not hold are left out, and nothing but `exists` is asked."""
    found = plan(catalog(("acme/x", target, {})), version, there=there)
    (patch,) = found.armed

    assert str(patch.target) == chosen
    assert found.problems == ()
    assert patch.id == "acme/x"


@pytest.mark.parametrize("operation", ["wrap", "run"])
def test_a_run_has_modules_to_choose_from(operation: str) -> None:
    """`run` chooses among modules as the others among names."""
    target = "a | b" if operation == "run" else "a:f | b:f"
    (patch,) = plan(catalog(("acme/x", target, {"operation": operation})), there="b b:f").armed

    assert patch.target.module == "b"


def test_no_target_in_range_is_a_skip_for_the_version() -> None:
    """The reason names all targets with their versions."""
    found = plan(catalog(("acme/x", "a:f <0.28 | b:f >=0.28,<0.30", {})), there="a:f b:f")
    (decision,) = found.decisions

    assert (decision.armed, decision.cause) == (False, "version")
    assert decision.reason == (
        "vLLM 0.32.0 (from a test) is outside the versions of each target: "
        "a:f <0.28 | b:f >=0.28,<0.30"
    )


@pytest.mark.parametrize(
    ("there", "declared"), [("b:f", "b:f"), ("", "a:f | b:f"), ("c:f", "a:f | b:f")]
)
def test_where_no_target_exists_all_are_kept(there: str, declared: str) -> None:
    """What is armed on nothing fails by the names of all that could have been."""
    (patch,) = plan(catalog(("acme/x", "c:f <0.30 | a:f | b:f", {})), there=there).armed

    assert patch.declared_target == declared


def test_existence_is_asked_only_where_it_decides() -> None:
    """A patch that is skipped anyway, or has no choice left, reads no sources."""
    patches = catalog(
        ("acme/skipped", "a:f | b:f", {"requires": "flash-attn"}),
        ("acme/excluded", "a:f | b:f", {}),
        ("acme/one", "a:f <0.30 | b:f", {}),
        ("acme/single", "a:f", {}),
    )

    def exists(target: Target) -> bool:
        raise AssertionError(f"asked for {target}")

    environment = Environment(
        VllmVersion("0.32.0", "a test"), installed=INSTALLED.get, exists=exists
    )
    settings = Settings(True, Selection.parse("-acme/excluded"), False)

    assert len(make_plan(patches, environment, settings).armed) == 2


@pytest.mark.parametrize(
    ("first", "second", "there", "conflicts"),
    [
        ("a:f | b:f", "a:f | c:f", "a:f b:f c:f", 1),
        ("a:f | b:f", "a:f | c:f", "b:f c:f", 0),
        ("a:f | b:f", "c:f | b:f", "b:f", 1),
        ("a:f | b:f", "b:f", "a:f b:f", 0),
        ("a:f | b:f", "b:f", "b:f", 1),
        ("a:f <0.30 | b:f", "a:f", "a:f b:f", 0),
    ],
)
@pytest.mark.parametrize("other", ["acme", "other"])
def test_conflicts_are_judged_on_the_chosen_targets(
    first: str, second: str, there: str, conflicts: int, other: str
) -> None:
    """Two that replace conflict where they meet in this vLLM, in one set as in two."""
    found = plan(catalog(("acme/x", first, REPLACE), (f"{other}/y", second, REPLACE)), there=there)

    assert [type(problem) for problem in found.problems] == [ConflictError] * conflicts


def test_after_is_judged_on_the_chosen_targets() -> None:
    """`after` holds within the module that was chosen."""
    patches = catalog(("acme/x", "a:f | b:f", {"after": "y"}), ("acme/y", "b:f", {}))

    assert [patch.id for patch in plan(patches, there="b:f").armed] == ["acme/y", "acme/x"]
    assert "their modules differ (a, b)" in str(plan(patches, there="a:f b:f").problems[0])


TOGETHER = {"together": "kv"}
NEVER: dict[str, dict[str, Any]] = {
    "version": {"vllm": "<0.30"},
    "requires": {"requires": "flash-attn"},
    "when": {"when": lambda env: False},
    "broken": {"when": lambda env: env.environ["ACME"]},
    "selection": {},
    "candidates": {},
}


@pytest.mark.parametrize("cause", NEVER)
@pytest.mark.parametrize("first", [True, False], ids=["skipped first", "skipped last"])
def test_what_belongs_together_is_skipped_together(cause: str, first: bool) -> None:
    """Whatever one of a group is skipped for, the others are, with a reason that names it."""
    target = "a:f <0.30 | b:f <0.31" if cause == "candidates" else "m:f"
    declarations: list[Declaration] = [
        ("acme/culprit", target, {**TOGETHER, **NEVER[cause]}),
        ("acme/one", "m:g", TOGETHER),
        ("acme/two", "n:f", TOGETHER),
        ("acme/alone", "m:h", {}),
    ]
    patches = catalog(*(declarations if first else reversed(declarations)))
    found = plan(patches, patches="-acme/culprit" if cause == "selection" else "")
    decisions = {decision.patch.id: decision for decision in found.decisions}

    assert [patch.id for patch in found.armed] == ["acme/alone"]
    expected = {"broken": "when", "candidates": "version"}.get(cause, cause)
    assert decisions["acme/culprit"].cause == expected
    for member in ("acme/one", "acme/two"):
        assert decisions[member].cause == "together"
        assert decisions[member].reason == (
            f"together with 'acme/culprit': {decisions['acme/culprit'].reason}"
        )


@pytest.mark.parametrize(
    "declarations",
    [
        [("acme/x", "m:f", {**TOGETHER, "vllm": "<0.30"}), ("other/y", "m:g", TOGETHER)],
        [("acme/x", "m:f", {**TOGETHER, "vllm": "<0.30"}), ("other/y", "m:g", {"together": "b"})],
        [("acme/x", "m:f", {"vllm": "<0.30"}), ("other/y", "m:g", {})],
    ],
    ids=["another set", "another group", "no group"],
)
def test_groups_are_of_one_set(declarations: list[Declaration]) -> None:
    """A group of the same name in another set is another group."""
    assert [patch.id for patch in plan(catalog(*declarations)).armed] == ["other/y"]


def test_a_group_that_is_whole_is_armed() -> None:
    """Nothing is skipped where every member takes part."""
    patches = catalog(("acme/x", "m:f", TOGETHER), ("acme/y", "n:f", TOGETHER))

    assert len(plan(patches).armed) == 2


def test_a_group_that_is_skipped_claims_nothing() -> None:
    """What is skipped for another member conflicts with nobody."""
    found = plan(
        catalog(
            ("acme/x", "m:f", {**REPLACE, **TOGETHER}),
            ("acme/y", "m:g", {**TOGETHER, "vllm": "<0.30"}),
            ("other/z", "m:f", REPLACE),
        )
    )

    assert found.problems == ()
    assert [patch.id for patch in found.armed] == ["other/z"]
