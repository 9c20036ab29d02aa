#!/usr/bin/env python3
"""Times the start of a process up to its first inference: cold, from a warm cache folder, and from a bundle.

Writes the file named by --output, for example results/<device>/startup.json. Each process runs `minuet run --trace`.
Times in a trace are of CLOCK_MONOTONIC, as Python's time.monotonic() is, so the start of the process counts too.
`--device cpu --bundle none` tries this script without a GPU; the CPU device compiles nothing.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Maps each part of the time from the start of the process to its first inference to a function that selects the part's
# spans in the trace. The rest of the time is other work, such as loading libraries and reading the cloud.
PARTS = {
    "open_device_ms": lambda span: span["cat"] == "device",
    "create_network_ms": lambda span: (span["cat"], span["name"]) == ("plan", "create"),
    "plan_compile_ms": lambda span: span["name"].startswith("compile for"),
    "load_ms": lambda span: span["name"].startswith("load onto"),
    "create_execution_ms": lambda span: span["name"] == "create an execution",
    "first_run_ms": lambda span: span["cat"] == "run" and span["name"] in ("prepare", "run", "synchronize"),
}
# Maps each more detailed time to a function that selects its spans in the trace. These spans lie inside those of PARTS
# and may be on several threads.
DETAILS = {
    "open_cache_and_bundles_ms": lambda span: span["name"].startswith("open bundles"),
    "identify_compiler_ms": lambda span: span["name"] == "identify the compiler",
    "find_in_bundles_ms": lambda span: span["cat"] == "bundle",
    "find_on_disk_ms": lambda span: span["cat"] == "disk",
    "compile_ms": lambda span: span["cat"] == "compile",
    "load_kernels_ms": lambda span: span["name"] == "load kernels",
    "load_gemms_ms": lambda span: span["name"] == "load GEMMs",
    "load_parameters_ms": lambda span: span["name"] == "convert and upload parameters",
}


def covered(times):
    """Returns the length of the union of the (begin, end) intervals, because intervals of threads overlap."""
    total, until = 0, 0
    for begin, end in sorted(times):
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total


def measure(spans, start):
    """Returns the milliseconds from `start` (microseconds, as the spans' times are) to the end of the first inference,
    and those of PARTS and DETAILS. A moment counts for one part only, so PARTS and other_ms add up to the whole."""
    done = min(span["ts"] + span["dur"] for span in spans if span["name"] == "synchronize")

    def times(keep):
        return [(span["ts"], min(span["ts"] + span["dur"], done)) for span in spans if keep(span) and span["ts"] < done]

    result, taken = {"first_inference_ms": (done - start) / 1e3}, []
    for part, keep in PARTS.items():
        before = covered(taken)
        taken += times(keep)
        result[part] = (covered(taken) - before) / 1e3
    result["other_ms"] = (done - start - covered(taken)) / 1e3
    for detail, keep in DETAILS.items():
        result[detail] = covered(times(keep)) / 1e3
    return result


def run(minuet, cloud, network, device, cache, settings, folder):
    """Runs one process and returns its times, its kernel counters and the device's description."""
    trace, report = folder / "trace.json", folder / "report.json"
    environment = {k: v for k, v in os.environ.items() if k not in ("MINUET_NO_JIT", "MINUET_BUNDLE_PATH")}
    environment.update(settings)
    command = [minuet, "run", *cloud, "--network", network, "--dtype", "fp16", "--device", device, "--repeat", "1",
               "--cache", cache, "--trace", trace, "--json", report]
    start = time.monotonic()
    subprocess.run([str(word) for word in command], env=environment, check=True, stdout=subprocess.DEVNULL)
    facts = json.loads(report.read_text())
    spans = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    times = measure(spans, start * 1e6)
    # The report of a run on the CPU has no field "kernels".
    kernels = facts.get("kernels", {"compiled": 0, "bundle_hits": 0, "disk_hits": 0})
    return {**times, "kernels": kernels, "device": facts["description"]}


def summary(runs):
    """Returns all times of the process with the median total, so that its parts add up, and the range of all totals."""
    runs = sorted(runs, key=lambda run: run["first_inference_ms"])
    result = {key: value for key, value in runs[len(runs) // 2].items() if key != "device"}
    result.update(least_ms=runs[0]["first_inference_ms"], greatest_ms=runs[-1]["first_inference_ms"],
                  processes=len(runs))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minuet", default=ROOT / "build/release/bin/minuet", type=pathlib.Path)
    parser.add_argument("--bundle", required=True, help="minuet-<arch>.bundle of the network, in fp16")
    parser.add_argument("--network", default="minkunet42")
    parser.add_argument("--device", default="cuda:0")
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
                runs.append(run(arguments.minuet, arguments.cloud, arguments.network, arguments.device, cache, settings,
                                folder))
            device = runs[-1]["device"]
            results[kind] = summary(runs)
    info = subprocess.run([str(arguments.minuet), "info"], capture_output=True, text=True, check=True).stdout
    facts = dict(line.split(None, 1) for line in info.splitlines() if line.startswith(("driver", "NVRTC")))
    text = {"cpu_cores": os.cpu_count(), "device": device, "driver": facts.get("driver"),
            "nvrtc": facts.get("NVRTC", "").split(" ")[0],
            "commit": arguments.commit, "network": arguments.network, "dtype": "fp16", "cloud": arguments.cloud,
            "of": "the one in the middle of several; its parts, other with them, add up", "starts": results}
    arguments.output.write_text(json.dumps(text, indent=1) + "\n")
    print(json.dumps(text, indent=1))


if __name__ == "__main__":
    main()
