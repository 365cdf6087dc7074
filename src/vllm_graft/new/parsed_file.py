"""A file of Python, decoded and parsed."""

import ast
import importlib.util
from pathlib import Path

from ..check.syntax_error import told
from ..errors import NewPackageError


def parsed_file(path: Path) -> tuple[str, ast.Module]:
    """Return the text and tree of a file; raise `NewPackageError` where it is none of Python."""
    try:
        text = importlib.util.decode_source(path.read_bytes())
    except OSError as error:
        raise NewPackageError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except (SyntaxError, UnicodeDecodeError) as error:
        raise NewPackageError(f"{str(path)!r} cannot be decoded: {error}") from error
    try:
        return text, ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise NewPackageError(f"{str(path)!r} is not Python: {told(error)}") from error
