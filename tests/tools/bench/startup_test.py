#!/usr/bin/env python3
"""tools/bench/startup.py takes a start apart, and tables.py shows the parts: they add up to the whole."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools/bench"))
import startup  # noqa: E402
import tables  # noqa: E402


def span(category, name, begin, end):
    """From and to milliseconds; a trace has microseconds."""
    return {"cat": category, "name": name, "ts": begin * 1000, "dur": (end - begin) * 1000}


# The process begins at 100.
SPANS = [
    span("cache", "open bundles and cache folder", 110, 111),
    span("device", "open cuda:0", 112, 130),
    span("plan", "create", 125, 150),  # another thread's: 5 of it belong to the device
    span("plan", "compile for sm_90a", 151, 190),
    span("compile", "gather", 152, 180),
    span("compile", "scatter", 160, 185),
    span("plan", "load onto the device", 190, 220),
    span("plan", "load kernels", 191, 210),
    span("plan", "load GEMMs", 191, 200),
    span("plan", "load GEMMs", 205, 215),
    span("plan", "convert and upload parameters", 192, 219),
    span("run", "create an execution", 221, 225),
    span("run", "prepare", 230, 240),
    span("run", "run", 240, 241),
    span("run", "synchronize", 241, 250),
    span("run", "prepare", 251, 300),  # of the second inference
    span("run", "synchronize", 300, 310),
]
KERNELS = {"compiled": 2, "bundle_hits": 0, "disk_hits": 0}


class StartupTest(unittest.TestCase):
    def test_parts_add_up(self):
        times = startup.measure(SPANS, 100 * 1000)
        self.assertEqual(times["first_inference_ms"], 150)
        parts = {"open_device_ms": 18, "create_network_ms": 20, "plan_compile_ms": 39, "load_ms": 30,
                 "create_execution_ms": 4, "first_run_ms": 20, "other_ms": 19}
        self.assertEqual({part: times[part] for part in parts}, parts)
        self.assertEqual(sum(parts.values()), times["first_inference_ms"])
        details = {"compile_ms": 33, "load_kernels_ms": 19, "load_gemms_ms": 19, "load_parameters_ms": 27,
                   "open_cache_and_bundles_ms": 1, "find_on_disk_ms": 0}
        self.assertEqual({detail: times[detail] for detail in details}, details)

    def test_the_process_in_the_middle_is_shown_whole(self):
        runs = [{"first_inference_ms": whole, "load_ms": load, "kernels": KERNELS, "device": "d"}
                for whole, load in ((30, 1), (10, 9), (20, 7))]
        self.assertEqual(startup.summary(runs), {"first_inference_ms": 20, "load_ms": 7, "kernels": KERNELS,
                                                 "least_ms": 10, "greatest_ms": 30, "processes": 3})

    def test_a_row_adds_up(self):
        times = startup.measure(SPANS, 100 * 1000)
        row = tables.start_row("cold", startup.summary([{**times, "kernels": KERNELS, "device": "d"}]))
        shown = row[3:4 + len(tables.PARTS)]
        self.assertEqual(shown, ("18.00", "20.00", "39.00", "30.00", "4.00", "20.00", "19.00"))
        self.assertEqual(sum(map(float, shown)), float(row[1]))
        self.assertEqual(row[-2:], ("19.00 / 19.00 / 27.00", "2 / 0 / 0"))

    def test_a_result_without_some_parts_adds_up_too(self):
        old = {"first_inference_ms": 100.0, "least_ms": 90.0, "greatest_ms": 110.0, "open_device_ms": 20.0,
               "plan_compile_ms": 30.0, "compile_ms": 5.0, "load_ms": 10.0, "kernels": KERNELS}
        row = tables.start_row("cold", old)
        self.assertEqual(row[3:4 + len(tables.PARTS)], ("20.00", "-", "30.00", "10.00", "-", "-", "40.00"))


if __name__ == "__main__":
    unittest.main()
