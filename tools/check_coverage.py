"""Hold every module of the pure floors to its own test file: one must exist, and cover 95 % of its branches.

    python tools/check_coverage.py [--files-only] [MODULE …]

Each test file runs alone under coverage, so that no other test's detour through a module counts.
A module without any function (words, limits, identifiers) needs no test file.
"""

import argparse
import ast
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "warmroute"
FLOORS = ("core", "wire", "routing", "resources", "engine", "observe", "workload", "auth", "sim")
PERCENT_MIN = 95.0
SECONDS_MAX = 300


def modules() -> list[Path]:
    """Return the modules of the pure floors that have a function to test."""
    found = (path for floor in FLOORS for path in sorted((SOURCE / floor).rglob("*.py")))
    return [path for path in found if has_functions(path)]


def has_functions(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) for node in ast.walk(tree)
    )


def test_file_of(module: Path) -> Path:
    relative = module.relative_to(SOURCE)
    name = f"{relative.parent.name}" if module.name == "__init__.py" else module.stem
    return ROOT / "tests" / "unit" / relative.parent / f"test_{name}.py"


def measure(module: Path) -> tuple[float, str]:
    """Return the share of lines and branches a module's own test file covers, and what it misses."""
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        environment = {**os.environ, "COVERAGE_FILE": str(data)}
        pytest = ["pytest", "-q", "-p", "no:cacheprovider", str(test_file_of(module))]
        run = subprocess.run(
            [sys.executable, "-m", "coverage", "run", "-m", *pytest],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        if run.returncode != 0:
            return 0.0, f"its tests fail:\n{run.stdout[-2000:]}"
        report = Path(directory) / "report.json"
        subprocess.run(
            [sys.executable, "-m", "coverage", "json", "-q", "-o", str(report), f"--include={module}"],
            cwd=ROOT,
            env=environment,
            check=True,
        )
        (file,) = json.loads(report.read_text())["files"].values()
    missing = [str(line) for line in file["missing_lines"]]
    missing += [
        f"{start}->{end}" for start, end in file["missing_branches"] if start not in file["missing_lines"]
    ]
    return file["summary"]["percent_covered"], " ".join(missing)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files-only", action="store_true", help="check only that the test files are there")
    parser.add_argument("modules", nargs="*", type=Path, help="only these modules")
    arguments = parser.parse_args()
    chosen = [path.resolve() for path in arguments.modules] or modules()
    without = [module for module in chosen if not test_file_of(module).exists()]
    for module in without:
        print(f"{module.relative_to(ROOT)}: no {test_file_of(module).relative_to(ROOT)}")
    if arguments.files_only:
        return bool(without)
    tested = [module for module in chosen if module not in without]
    failed = len(without)
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for module, (percent, missing) in zip(tested, pool.map(measure, tested), strict=True):
            enough = percent >= PERCENT_MIN
            failed += not enough
            note = "" if enough else f"  below {PERCENT_MIN:g} %, misses {missing}"
            print(f"{percent:6.1f} %  {module.relative_to(SOURCE)}{note}", flush=True)
    print(f"{len(tested)} modules measured, {failed} below the bar or without a test file")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
