#!/usr/bin/env python3
"""Time from the start of a process to its first inference: cold, from a warm cache folder, and from a bundle.

Writes results/<device>/startup.json. Each process runs `minuet run --trace`: a trace's times are those of
CLOCK_MONOTONIC, as Python's are, so the start of the process counts too. Needs a GPU.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(minuet, cloud, network, cache, settings, folder):
    """One process: milliseconds to the first inference, and what the trace says of them."""
    trace, report = folder / "trace.json", folder / "report.json"
    environment = {k: v for k, v in os.environ.items() if k not in ("MINUET_NO_JIT", "MINUET_BUNDLE_PATH")}
    environment.update(settings)
    command = [minuet, "run", *cloud, "--network", network, "--dtype", "fp16", "--device", "cuda:0", "--repeat", "1",
               "--cache", cache, "--trace", trace, "--json", report]
    start = time.monotonic()
    subprocess.run([str(word) for word in command], env=environment, check=True, stdout=subprocess.DEVNULL)
    spans = json.loads(trace.read_text())["traceEvents"]
    facts = json.loads(report.read_text())

    def ends(name):
        return [(span["ts"] + span["dur"]) / 1e3 - start * 1e3 for span in spans if span["name"] == name]

    def wall(keep):
        """Milliseconds in which at least one such span was open: threads overlap."""
        times = sorted((span["ts"], span["ts"] + span["dur"]) for span in spans if keep(span))
        total, until = 0, 0
        for begin, end in times:
            total += max(0, end - max(begin, until))
            until = max(until, end)
        return total / 1e3

    return {
        "first_inference_ms": ends("synchronize")[0],
        "open_device_ms": wall(lambda s: s["cat"] == "device"),
        "open_cache_and_bundles_ms": wall(lambda s: s["name"].startswith("open bundles")),
        "identify_compiler_ms": wall(lambda s: s["name"] == "identify the compiler"),
        "find_in_bundles_ms": wall(lambda s: s["cat"] == "bundle"),
        "find_on_disk_ms": wall(lambda s: s["cat"] == "disk"),
        "compile_ms": wall(lambda s: s["cat"] == "compile"),
        "plan_compile_ms": wall(lambda s: s["name"].startswith("compile for")),
        "load_ms": wall(lambda s: s["name"].startswith("load onto")),
        "kernels": facts["kernels"],
    }


def summary(runs):
    """The median of every number, and the spread of the whole."""
    result = {key: statistics.median(r[key] for r in runs) for key in runs[0] if key.endswith("_ms")}
    whole = [r["first_inference_ms"] for r in runs]
    result.update(least_ms=min(whole), greatest_ms=max(whole), processes=len(runs), kernels=runs[-1]["kernels"])
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minuet", default=ROOT / "build/release/bin/minuet", type=pathlib.Path)
    parser.add_argument("--bundle", required=True, help="minuet-<arch>.bundle of the network, in fp16")
    parser.add_argument("--network", default="minkunet42")
    parser.add_argument("--cloud", nargs="*", default=["--synthetic", "lidar"], help="arguments of `minuet run`")
    parser.add_argument("--cold", type=int, default=3, help="processes on an empty folder")
    parser.add_argument("--warm", type=int, default=9, help="processes on a full folder, and with the bundle")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--output", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        bundle = {"MINUET_BUNDLE_PATH": arguments.bundle, "MINUET_NO_JIT": "1", "MINUET_NVRTC": "/nowhere"}
        kinds = [("cold", arguments.cold, {}), ("warm disk", arguments.warm, {}), ("bundle", arguments.warm, bundle)]
        for kind, count, settings in kinds:
            runs = []
            for _ in range(count):
                cache = folder / ("none" if kind == "bundle" else "cache")
                if kind == "cold":
                    shutil.rmtree(cache, ignore_errors=True)
                runs.append(run(arguments.minuet, arguments.cloud, arguments.network, cache, settings, folder))
            results[kind] = summary(runs)
    info = subprocess.run([str(arguments.minuet), "info"], capture_output=True, text=True, check=True).stdout
    facts = dict(line.split(None, 1) for line in info.splitlines() if line.startswith(("driver", "NVRTC")))
    devices = [line.split(": ", 1)[1].split(",")[0] for line in info.splitlines() if "cuda:0: " in line]
    text = {"cpu_cores": os.cpu_count(), "device": devices[0], "driver": facts.get("driver"),
            "nvrtc": facts.get("NVRTC", "").split(" ")[0],
            "commit": arguments.commit, "network": arguments.network, "dtype": "fp16", "cloud": arguments.cloud,
            "starts": results}
    arguments.output.write_text(json.dumps(text, indent=1) + "\n")
    print(json.dumps(text, indent=1))


if __name__ == "__main__":
    main()
