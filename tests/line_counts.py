"""Lines of code by folder, without docstrings, comments and blank lines: python -m tests.line_counts, or make lines."""

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

HOUSES = ("elmo", "tasks", "results")
NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: str) -> int:
    """How many lines of a module hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def counts(root: Path) -> Counter[str]:
    """Lines of code of each folder that holds Python files."""
    found: Counter[str] = Counter()
    for house in HOUSES:
        for path in sorted((root / house).rglob("*.py")):
            found[path.parent.relative_to(root).as_posix()] += code_lines(path.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Prints the folders with their counts, and the sum."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    found = counts(Path(__file__).parents[1])
    for folder in sorted(found):
        print(f"{found[folder]:7,}  {folder}")
    print(f"{sum(found.values()):7,}  in all")


if __name__ == "__main__":
    main()
