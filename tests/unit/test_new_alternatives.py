"""Old files that choose: by what can be imported, by vLLM's version, by the environment."""

import ast
from itertools import product
from pathlib import Path
from textwrap import dedent

import pytest
from packaging.specifiers import SpecifierSet

from vllm_graft.declare import PatchSet
from vllm_graft.new.conditions import condition, inverse, joined
from vllm_graft.new.declaration import Declaration
from vllm_graft.new.imported import Choice, Imported
from vllm_graft.new.names import Names
from vllm_graft.new.writing import declarations

from .old_files import VLLM, Workshop, shown

STEP = """
    def step(self, count=1):
        return "ours"
    """
IS = """
    def vllm_version_is(version):
        return version == "0.32.0"
    """


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("VLLM_GRAFT", "0")
    return Workshop(tmp_path)


def told(each: Declaration) -> str:
    """Return what a declaration says of where and when."""
    return " @ ".join(filter(None, [each.target, each.vllm, each.when]))


CHOICES = {
    "a name from one of two modules": (
        """
        try:
            from vllm.core import Engine
        except ImportError:
            from vllm.older import Engine
        Engine.step = step
        """,
        ["vllm.core:Engine.step | vllm.older:Engine.step @ ==0.32.*"],
    ),
    "the first is the one that is gone": (
        """
        try:
            from vllm.newer import Engine
        except (ImportError, AttributeError):
            from vllm.core import Engine
        Engine.step = step
        """,
        ["vllm.newer:Engine.step | vllm.core:Engine.step @ ==0.32.*"],
    ),
    "a module by another name": (
        """
        try:
            import vllm.newer as core
        except ModuleNotFoundError:
            import vllm.core as core
        setattr(core.Engine, "step", step)
        """,
        ["vllm.newer:Engine.step | vllm.core:Engine.step @ ==0.32.*"],
    ),
    "one of three, and a name for it": (
        """
        try:
            from vllm.newer import Engine as E
        except ImportError:
            try:
                from vllm.newest import Motor as E
            except ImportError:
                from vllm.core import Engine as E
        Alias = E
        Alias.step = step
        """,
        [
            "vllm.newer:Engine.step | vllm.newest:Motor.step | vllm.core:Engine.step @ ==0.32.*",
        ],
    ),
    "in the function that applies": (
        """
        def apply():
            try:
                from vllm.newer import Engine
            except ImportError:
                from vllm.core import Engine
            Engine.step = step
        apply()
        """,
        ["vllm.newer:Engine.step | vllm.core:Engine.step @ ==0.32.*"],
    ),
    "assigned in both blocks": (
        """
        try:
            import vllm.newer
            vllm.newer.Engine.step = step
        except ImportError:
            import vllm.core
            vllm.core.Engine.step = step
        """,
        ["vllm.newer:Engine.step | vllm.core:Engine.step @ ==0.32.*"],
    ),
    "an import by version": (
        """
        if vllm_version_is("0.32.0"):
            from vllm.core import Engine
        else:
            from vllm.older import Engine
        Engine.step = step
        """,
        ["vllm.core:Engine.step ==0.32.0 | vllm.older:Engine.step !=0.32.0 @ ==0.32.*"],
    ),
    "an import for one version only": (
        """
        if vllm_version_is("0.32.0"):
            from vllm.core import Engine
            Engine.step = step
        """,
        ["vllm.core:Engine.step @ ==0.32.0"],
    ),
    "an assignment by version": (
        """
        import vllm.core
        if not vllm_version_is("0.32.0"):
            vllm.core.Engine.step = None
        else:
            vllm.core.Engine.step = step
        """,
        ["vllm.core:Engine.step @ !=0.32.0", "vllm.core:Engine.step @ ==0.32.0"],
    ),
    "functions that apply by version": (
        """
        import vllm.core
        def old():
            vllm.core.Engine.step = lambda self: None
        def new():
            vllm.core.Engine.step = step
        if vllm_version_is("0.32.0"):
            new()
        elif vllm_version_is("0.31.0"):
            old()
        """,
        ["vllm.core:Engine.step @ ==0.31.0", "vllm.core:Engine.step @ ==0.32.0"],
    ),
    "an original": (
        """
        try:
            from vllm.newer import Engine
        except ImportError:
            from vllm.core import Engine
        original = Engine.step
        def longer(self, count=1): return f"ours, {original(self, count)}"
        Engine.step = longer
        """,
        ["vllm.newer:Engine.step | vllm.core:Engine.step @ ==0.32.*"],
    ),
    "originals by version": (
        """
        if vllm_version_is("0.32.0"):
            from vllm.core import Engine
            original = Engine.step
        else:
            from vllm.older import Engine
            original = Engine.old_step
        def longer(self, count=1): return f"ours, {original(self, count)}"
        Engine.step = longer
        """,
        ["vllm.core:Engine.step ==0.32.0 | vllm.older:Engine.step !=0.32.0 @ ==0.32.*"],
    ),
    "a function that ends where nothing can be imported": (
        """
        def apply():
            try:
                from vllm.core import Engine
            except ImportError:
                return
            Engine.step = step
        apply()
        """,
        ["vllm.core:Engine.step @ ==0.32.*"],
    ),
    "a class that may not be there": (
        """
        try:
            from vllm.core import Engine
        except ImportError:
            Engine = None
        if Engine is not None:
            Engine.step = step
        """,
        ["vllm.core:Engine.step @ ==0.32.*"],
    ),
}


@pytest.mark.parametrize("case", CHOICES, ids=str)
def test_alternatives_are_places_of_one_target(workshop: Workshop, case: str) -> None:
    """And what is armed does in vLLM 0.32.0 what the file did."""
    text, expected = CHOICES[case]
    file = workshop.old("".join(map(dedent, (IS, STEP, text))))
    done = workshop.translated(file)
    assert sorted(map(told, done.declarations)) == sorted(expected)
    before = workshop.run_nothing()
    assert before["step"] != (old := workshop.run_old(file))["step"]
    assert workshop.run_new(done) == old, shown(old)
    assert workshop.failed == []


FALLBACK = dedent("""
    try:
        from vllm.newer import Engine
    except ImportError:
        from vllm.core import Engine

    def step(self, count=1):
        return "ours"

    Engine.step = step
    """)


def test_each_alternative_is_looked_for_in_each_vllm(workshop: Workshop) -> None:
    newer = workshop.other_vllm("0.33.0", core="", newer=VLLM["core.py"])
    done = workshop.translated(workshop.old(FALLBACK), vllm=(workshop.vllm, newer))
    (declaration,) = done.declarations
    assert told(declaration) == "vllm.newer:Engine.step | vllm.core:Engine.step @ >=0.32,<0.34"
    assert "remove" not in declaration.reasons.question
    assert declaration.reasons.text("remove") == "FILL IN: when the patch can be deleted"


def test_an_alternative_that_no_checked_vllm_has_is_a_gap(workshop: Workshop) -> None:
    """Also where the file says when the patch can go: nobody has looked at that place."""
    said = "# Remove when: upstream has it.\n"
    file = workshop.old(FALLBACK.replace("Engine.step =", f"{said}Engine.step ="))
    done = workshop.translated(file)
    (declaration,) = done.declarations
    assert declaration.reasons.text("remove").startswith(
        "FILL IN: for which versions is vllm.newer:Engine.step, which none that was checked has?"
    )
    patches = loaded(declarations(done, Names("acme-vllm")))
    assert "remove" in patches.patches[0].gaps


def test_a_place_outside_of_vllm_is_no_question(workshop: Workshop) -> None:
    """Whether it is there is no matter of vLLM's version."""
    file = workshop.old("""
        try:
            import torchair as compiler
        except ImportError:
            import npugraph as compiler
        compiler.core.LIMIT = 3
        """)
    (declaration,) = workshop.translated(file).declarations
    assert declaration.target == "torchair:core.LIMIT | npugraph:core.LIMIT"
    assert declaration.reasons.question == ""


def test_a_version_that_was_not_checked_is_declared_as_the_file_has_it(workshop: Workshop) -> None:
    text = "import vllm.core\nif vllm_version_is('0.30.1'):\n    vllm.core.LIMIT = 3\n"
    (declaration,) = workshop.translated(workshop.old(text)).declarations
    assert told(declaration) == "vllm.core:LIMIT @ ==0.30.1"
    assert any("for vLLM ==0.30.1, which was not checked" in each for each in declaration.comments)


@pytest.mark.parametrize(
    ("test", "body", "otherwise"),
    [
        ('Version(vllm.__version__) >= Version("0.31.5")', ">=0.31.5,<0.33", ">=0.30,<0.31.5"),
        ('Version("0.31.5") > Version(vllm.__version__)', ">=0.30,<0.31.5", ">=0.31.5,<0.33"),
        ('vllm.__version__ == "0.30.0"', "==0.30.0", ">=0.32,<0.33"),
    ],
)
def test_what_a_condition_leaves_open_is_what_was_checked(
    workshop: Workshop, test: str, body: str, otherwise: str
) -> None:
    older = workshop.other_vllm("0.30.0")
    file = workshop.old(f"""
        import vllm, vllm.core, vllm.other
        from packaging.version import Version
        if {test}:
            vllm.core.LIMIT = 3
        else:
            vllm.other.STATE = 3
        """)
    done = workshop.translated(file, vllm=(older, workshop.vllm))
    assert [each.vllm for each in done.declarations] == [body, otherwise]


BY_VERSION = """
    import vllm
    if vllm_version_is("0.31.0"):
        import vllm.older as home
    else:
        import vllm.core as home
    """

NARROWED = {
    "both branches": (
        """
        if vllm_version_is("0.31.0"):
            home.area = step
        else:
            home.LIMIT = 2
        """,
        ["vllm.older:area @ ==0.31.0", "vllm.core:LIMIT @ >=0.32,<0.33"],
        ["vllm.older.area = step", "vllm.core.LIMIT = 2"],
    ),
    "a range that has one of them": (
        """
        if vllm.__version__ not in ("0.31.0", "0.31.1"):
            home.LIMIT = 2
        """,
        ["vllm.core:LIMIT @ >=0.32,<0.33"],
        ["vllm.core.LIMIT = 2"],
    ),
    "a range that has both": (
        """
        if Version("0.9") <= Version(vllm.__version__) < Version("0.40"):
            home.LIMIT = 2
        """,
        ["vllm.older:LIMIT ==0.31.0 | vllm.core:LIMIT !=0.31.0 @ >=0.9,<0.40"],
        ["vllm.core.LIMIT = 2"],
    ),
}


@pytest.mark.parametrize("case", NARROWED, ids=str)
def test_a_condition_leaves_the_alternatives_that_may_be(workshop: Workshop, case: str) -> None:
    """What it rules out is neither declared nor asked for, and comments name what is taken."""
    text, targets, codes = NARROWED[case]
    (workshop.vllm / "vllm" / "__init__.py").write_text('__version__ = "0.32.0"\n')
    start = "from packaging.version import Version\n"
    file = workshop.old(start + "".join(map(dedent, (IS, STEP, BY_VERSION, text))))
    done = workshop.translated(file)
    assert list(map(told, done.declarations)) == targets
    assert [each.comments[0].partition(": ")[2] for each in done.declarations] == codes
    asked = [bool(each.reasons.question) for each in done.declarations]
    assert asked == ["|" in each for each in targets]
    assert workshop.run_new(done) == workshop.run_old(file)


def test_names_that_differ_at_their_end_only_are_told(workshop: Workshop) -> None:
    file = workshop.old("""
        from vllm.core import Engine
        def step(self, count=1): return "ours"
        try:
            Engine.step = step
        except AttributeError:
            Engine.stride = step
        """)
    (declaration,) = workshop.translated(file).declarations
    assert declaration.comments[:3] == (
        "old_patch.py:5: vllm.core.Engine.step = step",
        "old_patch.py:7: vllm.core.Engine.stride = step",
        "The file takes the first of these that it can assign: vllm.core.Engine.step | "
        "vllm.core.Engine.stride.",
    )


CONDITIONS = {
    "a call": (
        """
        import os
        def apply():
            Engine.step = step
        if os.environ.get("ACME") == "1":
            apply()
        """,
        'environment.environ.get("ACME") == "1"',
    ),
    "a call, by a name for the condition": (
        """
        from os import getenv
        WANTED = getenv("ACME", "0") == "1"
        def apply():
            Engine.step = step
        if WANTED:
            apply()
        """,
        'environment.environ.get("ACME", "0") == "1"',
    ),
    "the other branch": (
        """
        import os
        def apply():
            Engine.step = step
        if os.environ.get("ACME") != "1":
            pass
        else:
            apply()
        """,
        'environment.environ.get("ACME") == "1"',
    ),
    "an early return": (
        """
        import os
        def apply():
            if os.environ.get("ACME") != "1":
                return
            Engine.step = step
        apply()
        """,
        'environment.environ.get("ACME") == "1"',
    ),
    "a call in a call": (
        """
        import os
        def inner():
            if "HOME" in os.environ:
                Engine.step = step
        def apply():
            inner()
        if os.environ.get("ACME") == "1":
            apply()
        """,
        'environment.environ.get("ACME") == "1" and "HOME" in environment.environ',
    ),
    "two calls": (
        """
        import os
        def apply():
            Engine.step = step
        if os.environ.get("ACME") == "1":
            apply()
        if os.environ.get("OTHER"):
            apply()
        """,
        'environment.environ.get("ACME") == "1" or environment.environ.get("OTHER")',
    ),
    "one of two calls": (
        """
        import os
        def apply():
            Engine.step = step
        def all_of_it():
            apply()
        if os.environ.get("OTHER"):
            apply()
        all_of_it()
        """,
        "",
    ),
    "with the version": (
        """
        import os
        def apply():
            Engine.step = step
        if os.environ.get("ACME") == "1" and vllm_version_is("0.32.0"):
            apply()
        """,
        'environment.environ.get("ACME") == "1"',
    ),
    "a name in the function": (
        """
        import os
        def apply():
            wanted = os.environ.get("ACME") == "1"
            if wanted:
                Engine.step = step
        apply()
        """,
        'environment.environ.get("ACME") == "1"',
    ),
    "once, by a mark that another function puts": (
        """
        MARK = "_is_ours"
        def marked(function):
            setattr(function, MARK, True)
            return function
        def apply():
            if not getattr(Engine.step, MARK, False):
                Engine.step = marked(step)
        apply()
        """,
        "",
    ),
    "once, by a mark": (
        """
        MARK = "_is_ours"
        def apply():
            if getattr(Engine.step, MARK, False):
                return
            setattr(step, MARK, True)
            Engine.step = step
        apply()
        """,
        "",
    ),
    "once": (
        """
        done = False
        def apply():
            global done
            if done:
                return
            done = True
            Engine.step = step
        apply()
        """,
        "",
    ),
}


@pytest.mark.parametrize("case", CONDITIONS, ids=str)
@pytest.mark.parametrize("acme", ["0", "1"])
def test_a_condition_on_the_environment_is_when(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, case: str, acme: str
) -> None:
    monkeypatch.setenv("ACME", acme)
    text, when = CONDITIONS[case]
    file = workshop.old("".join(map(dedent, ("from vllm.core import Engine\n", IS, STEP, text))))
    done = workshop.translated(file)
    (declaration,) = done.declarations
    assert (declaration.target, declaration.when) == ("vllm.core:Engine.step", when)
    assert done.left == []
    assert workshop.run_new(done)["step"] == workshop.run_old(file)["step"]


LEFT = {
    "a call under what only the file can ask": (
        """
        import sys
        import vllm.core
        def apply():
            if not sys.flags.optimize:
                return
            vllm.core.LIMIT = 2
        apply()
        """,
        [(7, "it is after `if not sys.flags.optimize`, where the function may end")],
    ),
    "a condition on what is changed": (
        """
        import vllm.core
        def apply():
            if vllm.core.LIMIT > 3:
                return
            vllm.core.LIMIT = 2
        apply()
        """,
        [(6, "it is after `if vllm.core.LIMIT > 3`, where the function may end")],
    ),
    "a call that may end on the way": (
        """
        import os
        import vllm.core
        def apply():
            for name in ("A", "B"):
                if name in os.environ:
                    return
            vllm.core.LIMIT = 2
        apply()
        """,
        [(8, "it is after `for name in ('A', 'B')`, where the function may end")],
    ),
    "what is only defined where something can be imported": (
        """
        try:
            from vllm.core import Engine
        except ImportError:
            Engine = None
        if Engine is not None:
            def step(self: Engine, count=1): return "ours"
            Engine.step = step
        """,
        [(8, "it is under the condition `if Engine is not None`")],
    ),
    "a name that a condition takes away": (
        """
        from vllm.core import Engine
        class Ours: ...
        if Engine.slots:
            Engine = Ours
        Engine.step = None
        """,
        [(6, "what `Engine.step` is, is only known at run time")],
    ),
    "calls under conditions that have no common words": (
        """
        import os
        import vllm.core
        def apply():
            vllm.core.LIMIT = 2
        if os.environ.get("ACME"):
            apply()
        if vllm_version_is("0.32.0"):
            apply()
        """,
        [(5, "apply is called under several conditions")],
    ),
    "names that the environment chooses": (
        """
        import os
        if os.environ.get("ACME"):
            import vllm.core as module
        else:
            import vllm.other as module
        module.STATE = 2
        """,
        [(7, "what `module.STATE` is, is only known at run time")],
    ),
    "a fallback that assigns something else": (
        """
        import vllm.core
        try:
            import vllm.newer
            vllm.newer.LIMIT = 2
        except ImportError:
            vllm.core.LIMIT = 3
        """,
        [(7, "it is in an `except` block")],
    ),
    "versions as texts are ordered": (
        """
        import vllm, vllm.core
        if vllm.__version__ >= "0.9":
            vllm.core.LIMIT = 2
        """,
        [(4, "it is under the condition `if vllm.__version__ >= '0.9'`")],
    ),
}


@pytest.mark.parametrize("case", LEFT, ids=str)
def test_what_no_declaration_can_say_is_told(workshop: Workshop, case: str) -> None:
    text, left = LEFT[case]
    done = workshop.translated(workshop.old(text))
    assert [(each.line, each.reason) for _, each in done.remarks] == left
    assert any(each.operation == "run" for each in done.declarations)


PARSED = "from packaging.version import Version as Parsed"


@pytest.mark.parametrize(
    ("test", "vllm", "when", "not_vllm"),
    [
        ('vllm_version_is("0.27.1")', "==0.27.1", "", "!=0.27.1"),
        ('utils.vllm_version_is("0.27.1")', "==0.27.1", "", "!=0.27.1"),
        ('not vllm_version_is("0.27.1")', "!=0.27.1", "", "==0.27.1"),
        ('Version(vllm.__version__) < Version("0.28")', "<0.28", "", ">=0.28"),
        ('version.parse(vllm.__version__) > version.parse("0.28")', ">0.28", "", "<=0.28"),
        ('Version(metadata.version("vllm")) >= Version("0.28")', ">=0.28", "", "<0.28"),
        ('vllm.__version__.startswith("0.28.")', "==0.28.*", "", "!=0.28.*"),
        ('vllm.__version__.startswith("0.28")', "==0.28.*", "", "!=0.28.*"),
        ('vllm.__version__.startswith("0.2")', None, "", None),
        ('vllm.__version__ in SpecifierSet("<0.30,>=0.27")', ">=0.27,<0.30", "", None),
        ('SpecifierSet("==0.27.*").contains(vllm.__version__)', "==0.27.*", "", "!=0.27.*"),
        (
            'Version(vllm.__version__) >= Version("0.27") and not vllm_version_is("0.28.0")',
            ">=0.27,!=0.28.0",
            "",
            None,
        ),
        ('V >= Version("0.28")', ">=0.28", "", "<0.28"),
        ('Version("0.9") <= V < Version("0.33")', ">=0.9,<0.33", "", None),
        ('Version("0.9") <= V <= torch.V', None, "", None),
        ('Version("0.28") > V', "<0.28", "", ">=0.28"),
        ('Parsed(vllm.__version__) < Parsed("0.28")', "<0.28", "", ">=0.28"),
        ('vllm.__version__ in ("0.31.0",)', "==0.31.0", "", "!=0.31.0"),
        ('vllm.__version__ not in ["0.31.0", "0.32.0"]', "!=0.31.0,!=0.32.0", "", None),
        ('vllm.__version__ in ("0.31.0", "0.32.0")', None, "", "!=0.31.0,!=0.32.0"),
        ('V in {Version("0.31.0")}', "==0.31.0", "", "!=0.31.0"),
        ('V in ("0.31.0",)', None, "", None),
        ("vllm.__version__ in ()", None, "", None),
        ('vllm.__version__ in ("0.31.0", other)', None, "", None),
        ('"dev" in vllm.__version__', None, "", None),
        ("None is not vllm.__version__", None, "", None),
        ('vllm.__version__ == "0.31.*"', None, "", None),
        ('vllm_version_is("0.31.0,!=0.31.0")', None, "", None),
        ('Version(torch.__version__) >= Version("2")', None, "", None),
        ('vllm_version_is("not one")', None, "", None),
        ('os.environ.get("A")', "", 'environment.environ.get("A")', ""),
        ('"A" in os.environ and int(os.getenv("B", "0")) > 1', "", "AND", ""),
        ('vllm_version_is("0.27.1") and os.getenv("A")', "==0.27.1", "WHEN", None),
        ("os.path.exists('x')", None, "", None),
        ('mine.get("A")', None, "", None),
    ],
)
def test_the_conditions_that_are_understood(
    test: str, vllm: "str | None", when: str, not_vllm: "str | None"
) -> None:
    names = {
        "AND": '"A" in environment.environ and int(environment.environ.get("B", "0")) > 1',
        "WHEN": 'environment.environ.get("A")',
    }
    imported = Imported()
    for line in ("import os, torch, vllm", "from importlib import metadata", PARSED):
        statement = ast.parse(line).body[0]
        assert isinstance(statement, (ast.Import, ast.ImportFrom))
        imported.read(statement)
    values = {"V": ast.parse("Version(vllm.__version__)", mode="eval").body}
    parsed = ast.parse(test, mode="eval").body
    found = condition(parsed, imported, values)
    opposite = condition(inverse(parsed), imported, values)
    assert (found and found.vllm) == vllm
    assert (found.when if found else "") == names.get(when, when)
    assert (opposite and opposite.vllm) == not_vllm


@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not"])
@pytest.mark.parametrize("version", ["vllm.__version__", "Version(vllm.__version__)"])
def test_any_comparison_is_said_or_not_said(version: str, sign: str) -> None:
    """In either order, negated and in a chain; whatever the version is compared with."""
    imported = Imported()
    imported.bind("vllm", (Choice("vllm", "vllm"),))
    others = ['"0.9"', '"dev"', '""', "b'0'", "None", "9", "0.9", "()", '("0.9",)', "[*all]", "{}"]
    others += [
        'Version("0.9")',
        "Version(*all)",
        "Version()",
        'SpecifierSet("x")',
        version,
        "other",
    ]
    for other, link in product(others, ("{0} {1} {2}", "{2} {1} {0}", "{0} {1} {2} {1} {0}")):
        test = ast.parse(link.format(version, sign, other), mode="eval").body
        for each in (test, inverse(test), ast.UnaryOp(ast.Not(), test)):
            found = condition(each, imported, {})
            assert found is None or SpecifierSet(found.vllm)


@pytest.mark.parametrize(
    ("specifiers", "expected"),
    [
        (["", ""], ""),
        (["<0.34", ">=0.27"], ">=0.27,<0.34"),
        ([">=0.32", ">=0.32"], ">=0.32"),
        ([">=0.30", ">=0.32,<0.40", "<0.34"], ">=0.32,<0.34"),
        (["!=0.31.0", ">=0.32"], ">=0.32"),
        (["!=0.31.0", ">=0.30"], ">=0.30,!=0.31.0"),
        (["==0.31.0", "<0.32"], "==0.31.0"),
        (["==0.31.0", ">=0.32"], "==0.31.0,>=0.32"),
        (["==0.31.*", "!=0.31.1"], "==0.31.*,!=0.31.1"),
    ],
)
def test_conditions_of_conditions_are_one_range(specifiers: list[str], expected: str) -> None:
    assert joined(*specifiers) == expected


def loaded(text: str) -> PatchSet:
    """Return the patch set of a module of declarations."""
    names: dict[str, PatchSet] = {}
    exec(compile(text, "patches.py", "exec"), names)
    return names["patches"]
