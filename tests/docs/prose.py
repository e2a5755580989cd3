"""Count the habits that make prose hard to read: `python -m tests.docs.prose [PATH]` prints figures and places.

Only prose counts. Code blocks, code spans, quoted text, link targets, identifiers, tool directives and generated pages do not.
`--long` also lists sentences of more than 30 words; `--write-ceilings` stores the present counts in `prose_ceilings.json`.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.docs.prose_policy import GENERATED, HABITS, PAGES, ROOMS, WORDS_IN_A_SENTENCE_MAX

ROOT = Path(__file__).parents[2]
CEILINGS = Path(__file__).with_name("prose_ceilings.json")

_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*|\d[\d,.]*")
_MASKS = (
    re.compile(r"<!-- generated.*?<!-- end -->", re.DOTALL),
    re.compile(r"^( *)(```|~~~).*?^ *\2 *$", re.MULTILINE | re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"(?<!`)(`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)\1(?!`)", re.DOTALL),
    re.compile(r'"[^"\n]{1,100}"'),
    re.compile(r"\]\([^)\s]*\)"),
    re.compile(r"https?://\S+"),
    re.compile(r"<[^>\n]{1,100}>"),
    re.compile(r"\b\w+(?:\.\w+)*\(\)|\b\w+_\w+\b"),
)
#: A comment for a tool, which no person reads as a sentence.
_DIRECTIVE = re.compile(r"#\s*(?:type:|noqa|pragma|ruff:|mypy:|!|fmt:)")
#: The end of a sentence, a paragraph, a list item, a heading or a table cell.
_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[A-Z*(\[`\"\x00])|\n\s*\n|\n(?=\s*(?:[-*#]|\d+\.) )|(?<=\n)#+ |\s\|\s?|\|\n")


class Place(NamedTuple):
    """A habit in a file."""

    path: str
    line: int
    habit: str
    text: str


class Sample(NamedTuple):
    """Prose of one file: words, offences and long sentences."""

    words: int
    places: list[Place]
    long: list[Place]


def mask(text: str) -> str:
    """Return the text with everything that is not prose replaced by one neutral character a span, lines kept."""
    for pattern in _MASKS:
        text = pattern.sub(lambda match: "\x00" + "\n" * match[0].count("\n"), text)
    return text


def python_prose(source: str) -> str:
    """Return the comments and docstrings of a module at their lines, with nothing between them but empty lines."""
    lines: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            lines[token.start[0]] = token.string.lstrip("#: ")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                for number, line in enumerate(first.value.value.split("\n")):
                    lines[first.lineno + number] = line.strip()
                lines.setdefault((first.end_lineno or first.lineno) + 1, "")
    return "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))


def judge(path: str, text: str) -> Sample:
    """Count words, habits and long sentences in the text of a page (.md) or module (.py)."""
    masked = mask(python_prose(text) if path.endswith(".py") else text)
    places = [
        Place(path, masked.count("\n", 0, match.start()) + 1, name, _around(masked, match))
        for name, habit in HABITS.items()
        for match in habit.pattern.finditer(masked)
    ]
    return Sample(len(_WORD.findall(masked)), places, list(_long_sentences(path, masked)))


def _around(text: str, match: re.Match[str]) -> str:
    excerpt = text[max(0, match.start() - 40) : match.end() + 40]
    return " ".join(excerpt.replace("\x00", "_").split())


def _long_sentences(path: str, masked: str) -> Iterator[Place]:
    start = 0
    for match in [*_END.finditer(masked), None]:
        end = match.start() if match else len(masked)
        sentence = masked[start:end]
        if (count := len(_WORD.findall(sentence))) > WORDS_IN_A_SENTENCE_MAX:
            begin = start + len(sentence) - len(sentence.lstrip())
            line = masked.count("\n", 0, begin) + 1
            yield Place(path, line, f"{count} words", " ".join(sentence.replace("\x00", "_").split()))
        start = match.end() if match else end


def room_of(path: str) -> str:
    """Return the row of the table that a file counts in: the longest listed folder, or "docs" for pages."""
    if path.endswith(".md"):
        return "docs"
    return max((room for room in ROOMS if path.startswith(f"{room}/")), key=len, default="other")


def project_files() -> list[str]:
    """Return the modules and pages of the checkout that are judged, tracked or new."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", *PAGES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return sorted({path for path in listed if path not in GENERATED and (ROOT / path).is_file()})


def judge_files(paths: Iterable[str]) -> dict[str, list[Sample]]:
    """Judge files, by room."""
    rooms: dict[str, list[Sample]] = {}
    for path in paths:
        sample = judge(path, (ROOT / path).read_text(encoding="utf-8"))
        rooms.setdefault(room_of(path), []).append(sample)
    return rooms


def counts(samples: Iterable[Sample]) -> Counter[str]:
    """Return words, long sentences and offences of each habit."""
    total: Counter[str] = Counter(dict.fromkeys(HABITS, 0))
    for sample in samples:
        total["words"] += sample.words
        total["long"] += len(sample.long)
        total.update(place.habit for place in sample.places)
    return total


def table(rooms: dict[str, list[Sample]]) -> str:
    """Return figures per 1,000 words by room, with the goals in the last row."""
    names = [*HABITS, "long"]
    lines = [f"{'per 1,000 words':28} {'words':>7} " + " ".join(f"{name:>9}" for name in names)]
    for room, samples in sorted({**rooms, "total": [each for some in rooms.values() for each in some]}.items()):
        total = counts(samples)
        rates = [1000 * total[name] / max(1, total["words"]) for name in names]
        lines.append(f"{room:28} {total['words']:7} " + " ".join(f"{rate:9.2f}" for rate in rates))
    return "\n".join([*lines, f"{'goal':36} " + " ".join(f"{'< ' + str(habit.goal):>9}" for habit in HABITS.values())])


def main() -> None:
    """Print the table, then each offence of the given files."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs.prose", description=__doc__)
    parser.add_argument("path", nargs="*", help="files or folders; the whole checkout without one, and then no places")
    parser.add_argument("--long", action="store_true", help=f"list sentences above {WORDS_IN_A_SENTENCE_MAX} words too")
    parser.add_argument("--write-ceilings", action="store_true", help="store the present counts as ceilings")
    arguments = parser.parse_args()
    wanted = [Path(each).resolve().relative_to(ROOT).as_posix() for each in arguments.path]
    files = [
        file for file in project_files() if not wanted or any(f"{file}/".startswith(f"{each}/".lstrip("./")) for each in wanted)
    ]
    rooms = judge_files(files)
    if arguments.write_ceilings:
        ceilings = {
            room: {name: counts(samples)[name] for name in HABITS} for room, samples in sorted(rooms.items()) if room != "docs"
        }
        CEILINGS.write_text(json.dumps(ceilings, indent=1) + "\n", encoding="utf-8")
    print(table(rooms))
    for sample in [each for some in rooms.values() for each in some] if wanted else ():
        for place in sorted([*sample.places, *(sample.long if arguments.long else ())], key=lambda each: each.line):
            print(f"{place.path}:{place.line}: {place.habit}: {place.text}")


if __name__ == "__main__":
    main()
