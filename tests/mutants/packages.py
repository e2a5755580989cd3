"""`python -m tests.mutants --packages --draw 20 --seed 1`: breaks lines of drawn packages, and checks that the
tests of their folder notice.

Unlike the mutants of rows, these reach every package of a node and need no marks. Only the tests of the drawn
packages are measured, so that a run fits into continuous integration.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from tests.mutants.copies import ROOT, make_copy
from tests.mutants.drawing import MUTANT_SECONDS_MAX, Drawn, broken, measure
from tests.mutants.judging import Unusable, Verdict, judge
from tests.mutants.operators import breaks

#: Mutants of one drawn package.
SHARE = 4
#: Seconds in which the stories of the simulator, which judge a survivor last, run.
STORIES_SECONDS = 200
#: Seconds that must be left for a mutant. Tests may take half of the time that is left.
SECONDS_MIN = 60


def packages(root: Path) -> dict[str, list[str]]:
    """Folder of tests -> the files of the product that these tests are about: the nearest folder with tests."""
    found = defaultdict[str, list[str]](list)
    for file in sorted([*root.glob("sitestack/**/*.py"), *root.glob("relay/**/*.py")]):
        path = file.relative_to(root)
        home = next((each for each in path.parents if [*(root / "tests" / each).glob("test_*.py")]), None)
        if home is not None and len(home.parts) > 1 and path.name != "__init__.py":
            found[f"tests/{home}"].append(str(path))
    return dict(found)


def draw_in(folder: str, files: list[str], original: Path, rng: random.Random, seconds_max: float) -> list[Drawn]:
    """Return mutants of one package, whose lines its tests run. Raises Unusable."""
    tests = [str(test.relative_to(original)) for test in sorted((original / folder).glob("test_*.py"))]
    runs = measure(original, tests, seconds_max)
    found = []
    for file in files:
        lines = runs.get(file, {})
        ran = {line for line, names in lines.items() if any(names)}
        for change in breaks((original / file).read_text(encoding="utf-8"), ran):
            found.append(Drawn(folder, file, change, tuple(sorted(filter(None, lines[change.line]))), ()))
    kept = [each for each in found if not each.is_equivalent()]
    return rng.sample(kept, min(SHARE, len(kept)))


def try_packages(count: int, seed: int, minutes: float) -> bool:
    """Draw mutants and print the results, until the time is up; True when some are killed and none survives."""
    began, rng = time.monotonic(), random.Random(seed)

    def left() -> float:
        return began + 60 * minutes - time.monotonic()

    print(f"up to {count} mutants of packages in {minutes:g} minutes, drawn with seed {seed}", flush=True)
    told: list[Verdict] = []
    with tempfile.TemporaryDirectory() as name:
        original = Path(name)
        make_copy(ROOT, original)
        known = packages(original)
        for folder in rng.sample(sorted(known), len(known)):
            try:
                drawn = draw_in(folder, known[folder], original, rng, left() / 2)
            except Unusable as error:
                print(f"{folder}: not measured. {str(error).splitlines()[0]}", flush=True)
                continue
            for each in drawn[: count - len(told)]:
                if left() >= SECONDS_MIN:
                    told.append(_judge(original, each, min(MUTANT_SECONDS_MAX, left() / 2)))
            if len(told) >= count or left() < SECONDS_MIN:
                break
    killed, alive, slow = [told.count(each) for each in (Verdict.KILLED, Verdict.SURVIVED, Verdict.TIMEOUT)]
    print(f"{killed} killed, {alive} alive, {slow} not judged in time, in {time.monotonic() - began:.0f} s", flush=True)
    return killed > 0 and not alive


def _judge(original: Path, drawn: Drawn, seconds_max: float) -> Verdict:
    """Run the tests on one mutant and print the result. A busy machine may use up the time of one that would survive."""
    with broken(original / drawn.file, drawn.change):
        verdict, test = judge(original, drawn.own, seconds_max)
        if verdict is Verdict.SURVIVED:  # only the first parameters of each test were measured
            verdict, test = judge(original, [drawn.row], seconds_max)
        if verdict is Verdict.SURVIVED and seconds_max >= STORIES_SECONDS:
            verdict, test = judge(original, ["tests/simulation", "-m", "not long"], seconds_max)
    change = drawn.change
    print(f"{verdict.value:8} {drawn.file}:{change.line}  {change.operator}  {test}", flush=True)
    if verdict is Verdict.SURVIVED:
        print(f"    - {change.before.strip()}\n    + {change.after.strip()}", flush=True)
    return verdict
