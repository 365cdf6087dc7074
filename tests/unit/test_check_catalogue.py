"""`vllm-graft docs`: the catalogue says what is declared and found; nothing else changes it."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner, Result
from markdown_it import MarkdownIt

from vllm_graft.check.markdown import code, inline
from vllm_graft.check.output import write_whole
from vllm_graft.cli import main

from .vllm_trees import write_tree

FIELDS = {
    "why": "Requests are <b>lost</b>.",
    "how": "Keep | them.",
    "upstream": "https://example.org/pull/40_860_, and _more_",
    "remove": "When *all* is `well`.",
    "vllm": ">=0.31,<0.34",
}
TREE = {"a.py": "def f(x): pass\n", "b.py": "def g(x): pass\n"}
LATER = {"a.py": "\n\ndef f(x): pass\n", "c.py": TREE["b.py"]}

Docs = Callable[..., Result]


class Project:
    """A project with two patches, and the releases that it is checked against."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fields: dict[str, str] = dict(FIELDS)
        self.target = "vllm.a:f"
        self.releases = [
            str(write_tree(root.parent / name, files, name))
            for name, files in {"0.31.0": TREE, "0.32.0": TREE, "0.33.0": LATER}.items()
        ]
        (root / "src").mkdir(parents=True)

    def docs(self, *arguments: str) -> Result:
        """Write the project anew and run the command in it."""
        sys.modules.pop("acme_documented", None)
        words = "".join(f", {key}={value!r}" for key, value in self.fields.items())
        (self.root / "src/acme_documented.py").write_text(
            dedent(
                f"""
                from vllm_graft import PatchSet
                patches = PatchSet("acme")
                patches.replace("vllm.b:g", lambda x: 1, id="z"{words})
                patches.wrap({self.target!r}, lambda original, x: 1, id="a"{words})
                """
            )
        )
        (self.root / "pyproject.toml").write_text(
            '[tool.vllm-graft]\nsets = ["acme_documented:patches"]\n'
            f"vllm = {self.releases!r}\n".replace("'", '"')
        )
        return CliRunner().invoke(main, ["docs", *arguments])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr(sys, "path", list(sys.path))
    made = Project(tmp_path / "project")
    monkeypatch.chdir(made.root)
    return made


def test_the_document_is_what_it_is(project: Project) -> None:
    result = project.docs("--select", "acme/z")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "# Patches on vLLM\n\n"
        "<!-- Written by `vllm-graft docs`; what is changed here is lost. -->\n\n"
        "1 patch, checked against vLLM 0.31.0, 0.32.0, 0.33.0.\n\n"
        "## acme\n\n"
        "### src/acme_documented.py\n\n"
        "#### acme/z\n\n"
        "- **File**: `src/acme_documented.py:4`\n"
        "- **Target**: `vllm.b:g` (replace)\n"
        "- **Why**: Requests are \\<b\\>lost\\</b\\>.\n"
        "- **How**: Keep \\| them.\n"
        "- **Upstream**: <https://example.org/pull/40_860_>, and \\_more\\_\n"
        "- **Removal**: When \\*all\\* is \\`well\\`.\n"
        "- **Versions**: `>=0.31,<0.34`\n\n"
        "| vLLM | state | |\n|---|---|---|\n"
        "| 0.31.0, 0.32.0 | ok |  |\n"
        "| 0.33.0 | moved | it is at vllm.c:g |\n"
    )


def test_it_is_in_order_and_names_no_folder_of_the_machine(project: Project) -> None:
    text = project.docs().stdout
    assert re.findall("^#### (.*)$", text, re.M) == ["acme/a", "acme/z"]
    assert str(project.root.parent) not in text


def test_what_was_written_is_up_to_date(project: Project) -> None:
    assert project.docs("--output", "PATCHES.md").exit_code == 0
    assert (project.root / "PATCHES.md").read_text() == project.docs().stdout
    again = project.docs("--output", "PATCHES.md", "--check")
    assert (again.exit_code, again.output) == (0, "")


@pytest.mark.parametrize("field", ["why", "how", "upstream", "remove", "vllm"])
def test_a_changed_field_is_out_of_date(project: Project, field: str) -> None:
    project.docs("--output", "PATCHES.md")
    written = (project.root / "PATCHES.md").read_bytes()
    project.fields[field] = ">=0.31,<0.35" if field == "vllm" else "Otherwise."
    result = project.docs("--output", "PATCHES.md", "--check")
    assert result.exit_code == 1
    assert re.search(r"^-- \*\*\w+\*\*: .*\n(.*\n)?\+- \*\*\w+\*\*: ", result.stdout, re.M)
    assert "vllm-graft docs --output PATCHES.md" in result.stderr
    assert (project.root / "PATCHES.md").read_bytes() == written


def test_another_target_is_out_of_date(project: Project) -> None:
    project.docs("--output", "PATCHES.md")
    project.target = "vllm.a:f | vllm.b:g"
    result = project.docs("--output", "PATCHES.md", "--check")
    assert result.exit_code == 1
    assert "+- **Target**: `vllm.a:f | vllm.b:g` (wrap)\n" in result.stdout


def test_another_verdict_is_out_of_date(project: Project) -> None:
    project.docs("--output", "PATCHES.md")
    write_tree(Path(project.releases[0]), {"a.py": "def other(): pass\n"}, "0.31.0")
    result = project.docs("--output", "PATCHES.md", "--check")
    assert result.exit_code == 1
    assert "+| 0.31.0 | missing | " in result.stdout


def test_what_is_declared_elsewhere_in_the_file_is_out_of_date(project: Project) -> None:
    project.docs("--output", "PATCHES.md")
    file = project.root / "PATCHES.md"
    file.write_text(file.read_text().replace("documented.py:5", "documented.py:6"))
    assert project.docs("--output", "PATCHES.md", "--check").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--check"], "name it with --output"),
        (["--output", "src"], "is a directory"),
        (["--output", "none/PATCHES.md"], "none/PATCHES.md cannot be written"),
        (["--output", "binary", "--check"], "binary cannot be read"),
        (["--vllm", "nowhere/else"], "nowhere/else"),
        (["--select", "none/*"], "none/*"),
    ],
)
def test_bad_input_is_told(project: Project, arguments: list[str], message: str) -> None:
    (project.root / "binary").write_bytes(b"\xff\xfe\x00")
    result = project.docs(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert sorted(each.name for each in project.root.iterdir()) == [
        "binary",
        "pyproject.toml",
        "src",
    ]


def test_a_file_that_is_not_there_is_out_of_date(project: Project) -> None:
    result = project.docs("--output", "PATCHES.md", "--check")
    assert result.exit_code == 1
    assert "+# Patches on vLLM\n" in result.stdout


def test_a_set_that_cannot_be_loaded_stops_it(project: Project) -> None:
    project.fields["misspelt"] = "x"
    result = project.docs("--output", "PATCHES.md")
    assert result.exit_code == 1
    assert "misspelt" in result.stderr
    assert not (project.root / "PATCHES.md").exists()


@pytest.mark.parametrize(
    "text",
    [
        "*a* **b** _c_ __d__ ~~e~~ `f`",
        "a_b __init__ _x",
        "<b>bold</b> &amp; <!-- x -->",
        "[link](javascript:alert(1)) ![image](x)",
        "a | b || c",
        "back\\slash \\* $x$",
        "javascript:alert(1)",
    ],
)
def test_text_is_shown_as_it_is(text: str) -> None:
    table = f"| vLLM | state |\n|---|---|\n| {inline(text)} | x |\n"
    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for document in (f"- **Why**: {inline(text)}", table):
        html = markdown.render(document)
        tags = set(re.findall(r"<(\w+)", html))
        assert tags <= {"ul", "li", "strong", "table", "thead", "tbody", "tr", "th", "td"}
        assert _plain(text) in html


@pytest.mark.parametrize("text", ["a", "a`b", "``a``", "a | b", "<b>"])
def test_code_is_shown_as_it_is(text: str) -> None:
    assert MarkdownIt().render(code(text)) == f"<p><code>{_plain(text)}</code></p>\n"


def test_addresses_are_links() -> None:
    html = MarkdownIt().render(inline("see https://example.org/a_b_?c=1&d|e. And ftp://x"))
    assert re.findall('href="(.*?)"', html) == ["https://example.org/a_b_?c=1&amp;d%7Ce"]
    assert html.endswith("</a>. And ftp://x</p>\n")


def _plain(text: str) -> str:
    for each, entity in {"&": "&amp;", "<": "&lt;", ">": "&gt;"}.items():
        text = text.replace(each, entity)
    return text


def test_a_file_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "PATCHES.md"
    file.write_text("old")
    file.chmod(0o664)
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(UnicodeEncodeError):
        write_whole(file, "new \ud800")
    assert file.read_text() == "old"
    write_whole(tmp_path / "link", "new")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o664)
    assert (tmp_path / "link").is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["PATCHES.md", "link"]


def test_what_is_no_file_stays_what_it_is(tmp_path: Path) -> None:
    """A pipe, or /dev/null, is written to and not replaced."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "text")
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
