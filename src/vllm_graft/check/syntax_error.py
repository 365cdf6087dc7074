"""Why a text is not Python, as people look it up: the reason and the line, without a file name."""


def told(error: SyntaxError | ValueError) -> str:
    """Return what is wrong, and in which line where there is one."""
    if not isinstance(error, SyntaxError):
        return str(error)
    return f"{error.msg} (line {error.lineno})" if error.lineno else error.msg
