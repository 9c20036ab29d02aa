#!/usr/bin/env python3
"""Prints Markdown tables of results that `minuet bench`, `replay_bench`, `startup.py`, `peers.py`, `training_step.py` and
`scale.py` wrote.

usage: tables.py [--stages] [RESULT.json ...]      default: every file below tools/bench/results
       tables.py --pages [--check] [--root ROOT]   rewrites (or compares) the tables between their markers in the pages
"""

import argparse
import json
import pathlib
import sys

MARKER = "<!-- tools/bench/tables.py {}: {} -->"
# Maps each kind of table to the page that shows it between two markers.
PAGES = {"peers": "README.md", "replays": "tools/bench/RESULTS.md", "clouds": "tools/bench/RESULTS.md",
         "trainings": "tools/bench/RESULTS.md", "steps": "tools/bench/RESULTS.md",
         "precisions": "tools/bench/RESULTS.md", "scales": "tools/bench/RESULTS.md", "starts": "codegen/cache/CACHING.md"}
# Maps each kind of result to a key by which its files are recognized. If a file has several of these keys, the first
# one decides. The clouds of `minuet bench --training` have the key OF_TRAINING.
KEYS = {"replays": "capacity_factor", "clouds": "clouds", "starts": "starts", "peers": "torch",
        "scales": "device_counts", "steps": "versions", "precisions": "commit_before"}
OF_TRAINING = "kept_bytes"
# Maps each part of the time from the start of a process to its first inference (startup.py) to the title of its column.
# The column "other" has the rest of this time.
PARTS = {"open_device_ms": "open the GPU", "create_network_ms": "create the network",
         "plan_compile_ms": "find or compile kernels", "load_ms": "load", "create_execution_ms": "create an execution",
         "first_run_ms": "prepare and run"}
LOADED = ("load_kernels_ms", "load_gemms_ms", "load_parameters_ms")
# The engine and the mode with which peers are compared.
OWN, EXACT = "Minuet", "exact"
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


def known(value, form):
    """Returns a cell, which is a dash for what was not measured."""
    return "-" if value is None else form(value)


def table(titles, rows):
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def origin(result):
    parts = [result["device"], f"driver of CUDA {result['driver']}" if result["driver"] else "",
             f"NVRTC {result['toolkit']}" if result["arch"] else "", result["dtype"],
             f"commit {result['commit']}" if "commit" in result else f"version {result['version']}"]
    return ", ".join(part for part in parts if part)


def read(paths):
    """Returns the results by kind. Results of other kinds are ignored, because they have no table."""
    results = {kind: [] for kind in PAGES}
    for path in paths:
        try:
            result = json.loads(path.read_text())
            kind = next((kind for kind, key in KEYS.items() if key in result), None)
            if kind == "clouds" and any(OF_TRAINING in cloud for cloud in result["clouds"]):
                kind = "trainings"
            if kind:
                results[kind].append(result)
        except (OSError, ValueError, TypeError) as error:
            sys.exit(f"tables.py: {path} is no result: {error!r}")
    return results


def start_row(kind, run):
    """Returns a table row. A part that an older result lacks is a dash, and its time is in "other"."""
    other = run["first_inference_ms"] - sum(run.get(part, 0) for part in PARTS)
    cell = lambda key: known(run.get(key), milliseconds)
    return (kind, cell("first_inference_ms"), f"{cell('least_ms')} - {cell('greatest_ms')}",
            *(cell(part) for part in PARTS), milliseconds(other), cell("compile_ms"),
            " / ".join(cell(part) for part in LOADED),
            "{compiled} / {bundle_hits} / {disk_hits}".format(**run["kernels"]))


def render_starts(results):
    titles = ("start", "first inference done", "least - greatest", *PARTS.values(), "other", "compile alone",
              "load kernels / GEMMs / weights, beside one another", "compiled / bundle / disk")
    lines = []
    for result in results:
        once = "".join(f"; the {kind} start was measured once" for kind, run in result["starts"].items()
                       if run.get("processes") == 1)
        lines += ["", f"{result['device']}, driver of CUDA {result['driver']}, {result['network']} in {result['dtype']}, "
                      f"{result['cpu_cores']} CPU cores, commit {result['commit']}: ms from the start of a process, "
                      f"{result.get('of', 'each the median of several')}{once}:", ""]
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


def training_rows(result):
    for cloud in result["clouds"]:
        wall = cloud["wall_ms"]
        yield (result["network"], cloud["cloud"], count(cloud["voxels"]["unthinned"]), milliseconds(wall["median"]),
               f"{milliseconds(wall['p10'])} - {milliseconds(wall['p90'])}",
               *(milliseconds(cloud[part]["median"]) for part in ("maps_ms", "forward_ms", "backward_ms")),
               *(count(cloud[part] / 1e6) for part in (OF_TRAINING, "backward_workspace_bytes")))


def render_trainings(results):
    lines = []
    for result in results:
        lines += ["", f"{origin(result)}; {result['method']}:", ""]
        lines += table(("network", "cloud", "voxels", "step, ms", "p10 - p90", "maps", "forward", "backward", "kept, MB",
                        "workspace, MB"), training_rows(result))
    return "\n".join(lines) + "\n"


def step_row(row):
    """Returns a table row. A dash marks what was not measured."""
    wall, memory, series = row["wall_ms"], row.get("memory_mib") or {}, row.get("in_series_ms") or {}
    return (f"{row['engine']}, {row['mode']}", row.get("what", "training step"), row["cloud"], count(row["voxels"]),
            milliseconds(wall["median"]), f"{milliseconds(wall['p10'])} - {milliseconds(wall['p90'])}",
            known(series.get("median"), milliseconds), known(row.get("busy_ms"), milliseconds), known(row.get("launches"), count),
            known(memory.get("peak_of_tensors"), count))


def render_steps(results):
    lines = []
    for result in results:
        versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        lines += ["", f"{result['device']}, driver of CUDA {result['driver']}, {result['host_cpu']}, {result['network']} in "
                      f"{result['dtype']}, commit {result['commit']}; {versions}:"]
        steps, ops, alone = ([row for row in result["rows"] if key in row] for key in ("wall_ms", "op", "convolutions_ms"))
        if steps:
            lines.append("")
            lines += table(("engine", "what", "cloud", "voxels", "wall, ms", "p10 - p90", "in a series, ms",
                            "GPU busy, ms", "launches", "memory of tensors, MiB"), map(step_row, steps))
        if ops:
            lines += ["", "Single ops on the host, us:", ""]
            lines += table(("op", "mode", "cloud", "channels", "forward", "backward"), (
                (row["op"], row["mode"], row["cloud"], count(row["channels"]), f"{row['forward_us']['median']:.0f}",
                 f"{row['backward_us']:.0f}") for row in ops))
        if alone:
            lines += ["", "The convolutions and their gradients alone, ms:", ""]
            lines += table(("cloud", "voxels", "sets and maps", "convolutions and gradients", "both"), (
                (row["cloud"], count(row["voxels"]), *(milliseconds(row[part]["median"]) for part in (
                    "maps_ms", "convolutions_ms", "both_ms"))) for row in alone))
    return "\n".join(lines) + "\n"


def precision_rows(result):
    """Gives a row for each cloud in each round: fp16 at the commit before, fp16 and 8 bits. A dash marks what was not
    measured."""
    rounds = {}
    for row in result["rows"]:
        column = (row["commit"] == result["commit_before"], row["precision"])
        rounds.setdefault((row["network"], row["cloud"], row["run"], row["round"]), {})[column] = row
    ratio = lambda above, below: f"{above / below:.3f}" if above and below else "-"
    for (network, cloud, run, number), found in sorted(rounds.items()):
        before, now, small = (found[column]["graph_ms"]["median"] if column in found else None
                              for column in ((True, "fp16"), (False, "fp16"), (False, "int8")))
        newest = found[min(found)]
        yield (network, cloud, count(newest["voxels"]), newest["commit"], f"{run}.{number}",
               known(before, milliseconds), known(now, milliseconds), ratio(now, before), known(small, milliseconds),
               ratio(small, now))


def render_precisions(results):
    lines = []
    for result in results:
        lines += ["", f"{result['device']}, driver {result['driver']}, {result['toolkit']}; before: commit "
                      f"{result['commit_before']}:", ""]
        lines += table(("network", "cloud", "voxels", "commit", "run and round", "fp16 before, ms", "fp16, ms",
                        "fp16 / before", "8 bits, ms", "8 bits / fp16"), precision_rows(result))
    return "\n".join(lines) + "\n"


def pace(row):
    """Returns the voxels that each device gets done in a millisecond, waiting included."""
    return row["voxels"] / row["wall_ms"]["median"] / row["devices"]


def scale_rows(rows):
    """Gives a table row for each measurement. Its efficiency is its pace in terms of that with the fewest devices."""
    first = {}
    for row in rows:
        key = tuple(row[name] for name in ("framework", "scaling", "what", "mode", "cloud"))
        efficiency = pace(row) / pace(first.setdefault(key, row))
        ranks = row["ranks"]
        waits = [rank["waiting_ms"]["median"] for rank in ranks]
        kernels = [rank["kernels_ms"] for rank in ranks if rank["kernels_ms"]]
        tensors = [rank["memory_mib"]["peak_of_tensors"] for rank in ranks if "peak_of_tensors" in rank["memory_mib"]]
        wall = row["wall_ms"]
        yield (*key, str(row["devices"]), count(row["voxels"]), milliseconds(wall["median"]),
               f"{milliseconds(wall['p10'])} - {milliseconds(wall['p90'])}", f"{efficiency:.2f}",
               milliseconds(row["communication_ms"]["median"]), f"{milliseconds(min(waits))} - {milliseconds(max(waits))}",
               *(milliseconds(max(each[part] for each in kernels)) if kernels else "-" for part in ("ours", "exchange")),
               count(max(tensors)) if tensors else "-")


def start_cells(row):
    """Returns a table row. The counters of JAX's custom calls are not known."""
    kernels = row["kernels"]
    counted = [count(kernels[name]) if row["framework"] != "JAX" else "-" for name in ("compiled", "disk_hits")]
    return (row["framework"], str(row["devices"]), row["start"], str(row["processes"]), f"{row['seconds']:.1f}", *counted,
            count(kernels["cached"]))


def render_scales(results):
    """Returns the tables of training and inference over several devices."""
    lines = []
    for result in results:
        versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
        lines += ["", f"{result['device']}, driver of CUDA {result['driver']}, {result['host_cpu']}, {result['network']} in "
                      f"{result['dtype']}, commit {result['commit']}; {versions}:", ""]
        starts, rows = ([row for row in result["rows"] if key in row] for key in ("start", "wall_ms"))
        lines += table(("framework", "scaling", "what", "mode", "cloud", "devices", "voxels of all", "step, ms",
                        "p10 - p90", "efficiency", "exchange that shows", "least - longest wait", "our kernels",
                        "kernels of exchange", "memory of tensors, MiB"), scale_rows(rows))
        lines += ["", "Starts until the first step is done:", ""]
        lines += table(("framework", "devices", "start", "processes", "seconds", "kernels compiled", "from the cache", "in the cache"),
                       map(start_cells, starts))
    return "\n".join(lines) + "\n"


def render_peers(results):
    """Returns one table per result: a row for each network and cloud, and a column for each engine and its mode."""
    lines = []
    for result in results:
        columns = list(dict.fromkeys((row["engine"], row["mode"]) for row in result["rows"]))
        workloads = {}
        for row in result["rows"]:
            key = (row["network"], row["cloud"], count(row["voxels"]))
            workloads.setdefault(key, {})[row["engine"], row["mode"]] = row
        titles = ["network", "cloud", "voxels"]
        for engine, mode in columns:
            titles += [f"{engine}, {mode}"] + ([f"times slower than {OWN}, {EXACT}"] if engine != OWN else [])
        rows = ([*key, *(cell for column in columns for cell in peer_cells(column, found))]
                for key, found in workloads.items())
        lines += ["", f"{result['device']}, driver of CUDA {result['driver']}, CUDA {result['toolkit']}, PyTorch "
                      f"{result['torch']}, {result['dtype']}, commit {result['commit']}; ms of wall time, and in "
                      "brackets the ms in which the GPU is busy:", "", *table(titles, rows)]
    return "\n".join(lines) + "\n"


def peer_cells(column, found):
    """Returns the time of an engine, and for a peer how many times that of Minuet it is. A dash marks what is unknown."""
    row, own = found.get(column), found.get((OWN, EXACT))
    time = "-"
    if row:
        time = milliseconds(row["wall_ms"]["median"])
        time += f" ({milliseconds(row['busy_ms'])})" if row.get("busy_ms") is not None else ""
    if column[0] == OWN:
        return (time,)
    return (time, f"{row['wall_ms']['median'] / own['wall_ms']['median']:.1f}" if row and own else "-")


def update_pages(root, texts, check):
    """Writes the tables into the pages below `root`, or with `check` only compares them."""
    for name in dict.fromkeys(PAGES.values()):
        page = updated = (root / name).read_text()
        for kind in (kind for kind, place in PAGES.items() if place == name):
            begin, end = MARKER.format(kind, "begin"), MARKER.format(kind, "end")
            if updated.count(begin) != 1 or updated.count(end) != 1:
                sys.exit(f"tables.py: {name} must have the lines '{begin}' and '{end}' once each")
            before, rest = updated.split(begin)
            updated = before + begin + "\n" + texts[kind] + end + rest.split(end)[1]
        if check and updated != page:
            sys.exit(f"tables.py: {name} does not show the recorded results: run tools/bench/tables.py --pages")
        if not check:
            (root / name).write_text(updated)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", action="store_true", help="rewrite the tables in the pages")
    parser.add_argument("--check", action="store_true", help="with --pages: only compare")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2],
                        help="with --pages: the folder in which the pages and results are")
    parser.add_argument("--stages", action="store_true", help="the time of each stage too")
    parser.add_argument("results", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    paths = arguments.results or sorted((arguments.root / "tools/bench/results").rglob("*.json"))
    if not paths:
        sys.exit("tables.py: no results; `minuet bench` makes some")
    results = read(paths)
    texts = {"peers": render_peers(results["peers"]), "replays": render_replays(results["replays"]),
             "clouds": render_clouds(results["clouds"], arguments.stages or arguments.pages),
             "trainings": render_trainings(results["trainings"]), "steps": render_steps(results["steps"]),
             "precisions": render_precisions(results["precisions"]), "scales": render_scales(results["scales"]),
             "starts": render_starts(results["starts"])}
    if arguments.pages:
        if not results["scales"]:
            texts["scales"] = "\nNothing is recorded yet.\n"
        update_pages(arguments.root, texts, arguments.check)
    else:
        print("".join(texts.values()))


if __name__ == "__main__":
    main()
