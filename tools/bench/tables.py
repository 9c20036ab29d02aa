#!/usr/bin/env python3
"""Prints Markdown tables of results that `minuet bench`, `replay_bench` and `startup.py` wrote.

usage: tables.py [--stages] [RESULT.json ...]      default: every file below tools/bench/results
       tables.py --readme README.md [--check]      rewrites (or compares) the tables between its two markers
"""

import argparse
import json
import pathlib
import sys

MARKERS = {"replays": "<!-- tools/bench/tables.py replays: {} -->", "clouds": "<!-- tools/bench/tables.py: {} -->",
           "starts": "<!-- tools/bench/tables.py starts: {} -->"}
# Maps each kind of result to a key by which its files are recognized. If a file has several of these keys, the first
# one decides.
KEYS = {"replays": "capacity_factor", "clouds": "clouds", "starts": "starts"}
# Maps each part of the time from the start of a process to its first inference (startup.py) to the title of its column.
# The column "other" has the rest of this time.
PARTS = {"open_device_ms": "open the GPU", "create_network_ms": "create the network",
         "plan_compile_ms": "find or compile kernels", "load_ms": "load", "create_execution_ms": "create an execution",
         "first_run_ms": "prepare and run"}
LOADED = ("load_kernels_ms", "load_gemms_ms", "load_parameters_ms")
STAGES = ("sort", "map", "gather", "gemm", "scatter", "other")


def count(number):
    return f"{number:,.0f}"


def milliseconds(number):
    return f"{number:.2f}" if number >= 1 else f"{number:.3f}"


def wall_rows(result):
    for cloud in result["clouds"]:
        wall, counters = cloud["wall_ms"], cloud["counters"]
        yield (result["network"], cloud["cloud"], count(cloud["voxels"]["unthinned"]), milliseconds(wall["median"]),
               f"{milliseconds(wall['p10'])} - {milliseconds(wall['p90'])}", milliseconds(wall["min"]),
               count(counters["launches"]), count(counters["host_syncs"]))


def stage_rows(result):
    for cloud in result["clouds"]:
        yield (result["network"], cloud["cloud"], *(milliseconds(cloud["stages_ms"][stage]) for stage in STAGES))


def table(titles, rows):
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def origin(result):
    parts = [result["device"], f"driver {result['driver']}" if result["driver"] else "",
             f"NVRTC {result['toolkit']}" if result["arch"] else "", result["dtype"],
             f"commit {result['commit']}" if "commit" in result else f"version {result['version']}"]
    return ", ".join(part for part in parts if part)


def read(paths):
    """Returns the results by kind. Results of other kinds are ignored, because they have no table."""
    results = {kind: [] for kind in MARKERS}
    for path in paths:
        try:
            result = json.loads(path.read_text())
            kind = next((kind for kind, key in KEYS.items() if key in result), None)
            if kind:
                results[kind].append(result)
        except (OSError, ValueError, TypeError) as error:
            sys.exit(f"tables.py: {path} is no result: {error!r}")
    return results


def start_row(kind, run):
    """Returns a table row. A part that an older result lacks is a dash, and its time is in "other"."""
    other = run["first_inference_ms"] - sum(run.get(part, 0) for part in PARTS)
    known = lambda key: milliseconds(run[key]) if key in run else "-"
    return (kind, known("first_inference_ms"), f"{known('least_ms')} - {known('greatest_ms')}",
            *(known(part) for part in PARTS), milliseconds(other), known("compile_ms"),
            " / ".join(known(part) for part in LOADED),
            "{compiled} / {bundle_hits} / {disk_hits}".format(**run["kernels"]))


def render_starts(results):
    titles = ("start", "first inference done", "least - greatest", *PARTS.values(), "other", "compile alone",
              "load kernels / GEMMs / weights, beside one another", "compiled / bundle / disk")
    lines = []
    for result in results:
        lines += ["", f"{result['device']}, driver {result['driver']}, {result['network']} in {result['dtype']}, "
                      f"{result['cpu_cores']} CPU cores, commit {result['commit']}: ms from the start of a process, "
                      f"{result.get('of', 'each the median of several')}:", ""]
        lines += table(titles, (start_row(kind, run) for kind, run in result["starts"].items()))
    return "\n".join(lines) + "\n"


def replay_rows(result):
    for cloud in result["clouds"]:
        replay, exact = cloud["replay"], cloud["exact"]
        yield (result["network"], cloud["cloud"], cloud["maps"], cloud.get("bounds", "tight"), count(cloud["voxels"]),
               milliseconds(replay["median_ms"]),
               f"{milliseconds(replay['p10_ms'])} - {milliseconds(replay['p90_ms'])}", milliseconds(replay["max_ms"]),
               milliseconds(cloud["replay_maps_alone"]["median_ms"]),
               milliseconds(cloud["replay_maps_alone_gpu"]["median_ms"]), milliseconds(exact["median_ms"]))


def render_replays(results):
    groups, lines = {}, []
    for result in results:
        groups.setdefault(f"{result['device']}, {result['dtype']}, commit {result['commit']}", []).extend(replay_rows(result))
    for title, rows in groups.items():
        lines += ["", f"{title}:", ""]
        titles = ("network", "cloud", "maps", "bounds", "voxels", "graph, ms", "p10 - p90", "most", "its maps alone",
                  "on the GPU", "exact mode")
        lines += table(titles, rows)
    return "\n".join(lines) + "\n"


def render_clouds(results, stages):
    groups, lines = {}, []
    for result in results:
        groups.setdefault(origin(result), []).append(result)
    for title, group in groups.items():
        lines += ["", f"{title}:", ""]
        lines += table(("network", "cloud", "voxels", "median, ms", "p10 - p90", "least", "launches", "host waits"),
                       (row for result in group for row in wall_rows(result)))
        if stages:
            lines += ["", "Stages, ms (profiled):", ""]
            lines += table(("network", "cloud", *STAGES), (row for result in group for row in stage_rows(result)))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readme", type=pathlib.Path, help="the file to rewrite between its markers")
    parser.add_argument("--check", action="store_true", help="with --readme: only compare")
    parser.add_argument("--stages", action="store_true", help="the time of each stage too")
    parser.add_argument("results", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    paths = arguments.results or sorted((pathlib.Path(__file__).parent / "results").rglob("*.json"))
    if not paths:
        sys.exit("tables.py: no results; `minuet bench` makes some")
    results = read(paths)
    texts = {"replays": render_replays(results["replays"]),
             "clouds": render_clouds(results["clouds"], arguments.stages or arguments.readme is not None),
             "starts": render_starts(results["starts"])}
    if arguments.readme is None:
        print("".join(texts.values()))
        return
    readme = updated = arguments.readme.read_text()
    for kind, marker in MARKERS.items():
        before, rest = updated.split(marker.format("begin"))
        after = rest.split(marker.format("end"))[1]
        updated = before + marker.format("begin") + "\n" + texts[kind] + marker.format("end") + after
    if arguments.check and updated != readme:
        sys.exit(f"tables.py: {arguments.readme} does not show the recorded results: run tools/bench/tables.py --readme")
    if not arguments.check:
        arguments.readme.write_text(updated)


if __name__ == "__main__":
    main()
