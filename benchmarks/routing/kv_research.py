"""The figures of docs/concepts/kv-aware.md: what each number in KV_AWARE's rule is worth, and what breaks it.

    python benchmarks/routing/kv_research.py                    all studies; WARMROUTE_DATA adds recordings
    python benchmarks/routing/kv_research.py harm signals       some of them
    python benchmarks/routing/kv_research.py --draw             only draw again what was measured

Every study changes one parameter of the simulator over a few sub-cases and compares with the default,
seed by seed. Results are kept as JSON beside this file, figures beside the page.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from warmroute.app.simulate import Broken, Done, Job, data_directory, run_all
from warmroute.core.errors import ConfigurationError
from warmroute.report.simulation import paired_change
from warmroute.sim.suite import FULL, SHORT, SubCase

HERE = Path(__file__).parent
RESULTS = HERE / "kv_research.json"
PICTURES = HERE.parents[1] / "docs" / "concepts" / "kv-aware"
SEEDS = 5
EXACT, ESTIMATED = "KV_AWARE", "KV_AWARE:estimated"
CASES = (
    "aws-long@112", "pressure@12", "prefixes@112+quarter", "hot@56/8b", "mooncake@2x", "agents@100",
)  # fmt: skip
"""Of the short suite, those in which the numbers matter most."""
MEASURES = (
    ("ttft_mean_ms", "mean TTFT"),
    ("ttft_p90_ms", "P90 TTFT"),
    ("throughput_rps", "throughput"),
)


@dataclass(frozen=True)
class Study:
    """One parameter over several values.

    Attributes:
        title: What is asked.
        settings: Overrides by the value shown; the first is what the others are compared with.
        policy: Which one.
    """

    title: str
    settings: Mapping[str, Mapping[str, str]]
    policy: str = EXACT


def _one(name: str, default: str, *values: str) -> dict[str, dict[str, str]]:
    return {value: {name: value} for value in (default, *values)}


STUDIES: Mapping[str, Study] = {
    "anchor": Study(
        "kv_anchor: what a copy off home costs at least",
        _one("kv_anchor", "0.1", "0", "0.05", "0.25", "0.5", "1", "2"),
    ),
    "price": Study(
        "kv_price: the same per share of evicted blocks asked for again",
        _one("kv_price", "0.5", "0", "0.25", "1", "2"),
    ),
    "harm": Study(
        "kv_harm: what others in flight wait for our prefill",
        _one("kv_harm", "0.03", "0", "0.01", "0.1", "0.3", "1"),
    ),
    "answers": Study(
        "kv_answers: what slower answers count, learnt; 0 keeps kv_decode",
        _one("kv_answers", "0.1", "0", "0.03", "0.3", "1"),
    ),
    "decode": Study(
        "kv_decode: what answers wait for each other's context, when it is not learnt",
        {
            value: {"kv_answers": "0", "kv_decode": value}
            for value in ("5e-5", "0", "2e-5", "1e-4", "2e-4", "5e-4")
        },
    ),
    "spread": Study(
        "kv_spread: how popular a home key may be", _one("kv_spread", "4", "0.5", "1", "2", "8", "32")
    ),
    "room": Study(
        "kv_room: what the fullest cache costs more than an empty one",
        _one("kv_room", "0.25", "0", "0.1", "0.5", "1"),
    ),
    "copies": Study(
        "kv_copies: what a copy of a popular start saves later",
        _one("kv_copies", "0.5", "0", "0.25", "0.75", "1"),
    ),
    "signals": Study(
        "age of what engines tell, and what gets lost",
        {
            **{f"{age} ms": {"signal_ms": age} for age in ("0", "50", "200", "1000")},
            "1 % lost": {"signal_loss": "0.01", "signal_resync_ms": "1000"},
            "10 % lost": {"signal_loss": "0.1", "signal_resync_ms": "1000"},
            "10 %, no resync": {"signal_loss": "0.1"},
        },
    ),
    "routers": Study("routers that share nothing; engines tell", _one("routers", "1", "2", "4", "8")),
    "routers-estimated": Study(
        "routers that share nothing, each on its own record", _one("routers", "1", "2", "4", "8"), ESTIMATED
    ),
    "blind": Study(
        "kv_blind with four routers, each on its own record",
        {value: {"routers": "4", "kv_blind": value} for value in ("1", "0", "0.25", "0.5", "2", "4")},
        ESTIMATED,
    ),
}


def main() -> int:
    """Run studies and draw them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=", ".join(STUDIES))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--draw", action="store_true", help="draw what was measured before")
    given = parser.parse_args()
    unknown = [name for name in given.studies if name not in STUDIES]
    if unknown:
        parser.error(f"there is no study {unknown[0]}; there are {', '.join(STUDIES)}")
    kept: dict[str, list[dict[str, object]]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in given.studies or STUDIES:
        if not given.draw:
            kept[name] = _measure(name, STUDIES[name], range(1, given.seeds + 1), given.jobs)
            lines = ",\n".join(
                f"{json.dumps(study)}: [\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]"
                for study, rows in sorted(kept.items())
            )
            RESULTS.write_text("{\n" + lines + "\n}\n")
        if name in kept:
            _show(name, STUDIES[name], kept[name])
            _draw(name, STUDIES[name], kept[name])
    return 0


def _measure(name: str, study: Study, seeds: Sequence[int], processes: int) -> list[dict[str, object]]:
    data = data_directory(os.environ)
    jobs = [
        _job(sub_case.having(overrides), value, study.policy, seed, data)
        for sub_case in _sub_cases(data)
        for value, overrides in study.settings.items()
        for seed in seeds
    ]
    rows: list[dict[str, object]] = []
    for count, done in enumerate(run_all(jobs, processes=processes), 1):
        print(f"\r{name}: {count} of {len(jobs)} runs", end="", file=sys.stderr)
        if isinstance(done, Broken):
            raise SystemExit(f"{done.error}\n{done.job.command()}")
        rows.append(_kept(done))
    print(file=sys.stderr)
    return sorted(rows, key=lambda row: (str(row["case"]), str(row["value"]), str(row["seed"])))


def _sub_cases(data: Path | None) -> list[SubCase]:
    every = {**FULL, **SHORT}
    found = [every[name] for name in CASES]
    return [each for each in found if data is not None or not each.scenario.data]


def _job(sub_case: SubCase, value: str, policy: str, seed: int, data: Path | None) -> Job:
    name = f"{sub_case.name}|{value}"
    return Job(sub_case.case, sub_case.overrides, policy, seed, data, name=name)


def _kept(done: Done) -> dict[str, object]:
    case, _, value = str(done.row["case"]).rpartition("|")
    numbers = {field: done.row[field] for field, _ in MEASURES} | {"hit_rate": done.row["hit_rate"]}
    return {"case": case, "value": value, "seed": done.row["seed"], **numbers}


def _changes(
    study: Study, rows: Sequence[Mapping[str, object]], field: str
) -> dict[str, dict[str, tuple[float, float]]]:
    """Return, by case and value, the change against the default: mean and half of the 95 % interval, in %."""
    base, *_ = study.settings
    table: dict[str, dict[str, tuple[float, float]]] = {}
    for case in dict.fromkeys(str(row["case"]) for row in rows):
        of_case = {
            value: [row for row in rows if row["case"] == case and row["value"] == value]
            for value in study.settings
        }
        table[case] = {}
        for value, its in of_case.items():
            change = paired_change(its, of_case[base], field)  # type: ignore[arg-type]
            if change is not None:
                table[case][value] = (100 * change.mean, 100 * (change.half or 0.0))
    return table


def _show(name: str, study: Study, rows: Sequence[Mapping[str, object]]) -> None:
    base, *others = study.settings
    for field, label in MEASURES:
        print(f"\n{name}: {study.title}; {label}, change in % against {base}")
        print(f"{'':24}" + "".join(f"{value:>18}" for value in others))
        for case, by_value in _changes(study, rows, field).items():
            cells = (by_value.get(value, (float("nan"), 0.0)) for value in others)
            print(f"{case:24}" + "".join(f"{mean:+10.1f} ± {half:<5.1f}" for mean, half in cells))


def _draw(name: str, study: Study, rows: Sequence[Mapping[str, object]]) -> None:
    try:
        import matplotlib as mpl  # noqa: PLC0415  (an extra)
    except ImportError:
        raise ConfigurationError('figures need matplotlib: pip install "warmroute[report]"') from None
    from matplotlib.figure import Figure  # noqa: PLC0415  (an extra)

    values = sorted(study.settings, key=_place)
    with mpl.rc_context(
        {"font.size": 9, "svg.hashsalt": "warmroute", "axes.spines.top": False, "axes.spines.right": False}
    ):
        figure = Figure(figsize=(9.5, 3.2), layout="constrained")
        figure.suptitle(study.title, fontsize=10)
        for axes, (field, label) in zip(figure.subplots(1, len(MEASURES)), MEASURES, strict=True):
            for case, by_value in _changes(study, rows, field).items():
                known = [value for value in values if value in by_value]
                means = [by_value[value][0] for value in known]
                halves = [by_value[value][1] for value in known]
                places = [values.index(value) for value in known]
                axes.errorbar(
                    places,
                    means,
                    yerr=halves,
                    marker="o",
                    markersize=3,
                    linewidth=1.2,
                    elinewidth=0.6,
                    label=case,
                )
            axes.axhline(0, color="#888", linewidth=0.8)
            axes.set_xticks(range(len(values)), values, rotation=30 if max(map(len, values)) > 5 else 0)
            low, high = axes.get_ylim()
            axes.set_ylim(max(low, -40), min(high, 60))
            axes.set_title(f"{label}, change in %", fontsize=9)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
        PICTURES.mkdir(parents=True, exist_ok=True)
        figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None})


def _place(value: str) -> float:
    number = value.split(maxsplit=1)[0]
    try:
        return float(number) + (1e6 if "%" in value else 0) + (1 if "," in value else 0)
    except ValueError:
        return 1e9


if __name__ == "__main__":
    sys.exit(main())
