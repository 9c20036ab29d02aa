#!/usr/bin/env python3
"""tools/bench/tables.py: the table of peers, and the tables in the pages, which --check compares with the results."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "tools/bench/tables.py"
sys.path.insert(0, str(SCRIPT.parent))
import tables  # noqa: E402


def row(engine, mode, median, busy, network="unet", cloud="os1"):
    return {"network": network, "cloud": cloud, "voxels": 77480, "engine": engine, "mode": mode,
            "wall_ms": {"median": median, "p10": median / 2, "p90": median * 2}, "busy_ms": busy}


PEERS = {"device": "a GPU", "driver": "13.0", "toolkit": "13.0", "commit": "abc", "torch": "2.11", "dtype": "fp16", "rows": [
    row("Minuet", "exact", 2.0, 1.5), row("Minuet", "graph", 0.5, None), row("spconv 2.3.8", "module", 15.0, 5.25),
    row("Minuet", "exact", 1.0, None, cloud="office"), row("FlexGEMM 6dd94a8", "module", 2.5, None, cloud="office")]}


class Peers(unittest.TestCase):
    def test_a_row_for_each_workload_and_a_column_for_each_engine(self):
        lines = tables.render_peers([PEERS]).splitlines()
        self.assertEqual(lines[1], "a GPU, driver of CUDA 13.0, CUDA 13.0, PyTorch 2.11, fp16, commit abc; ms of wall "
                                   "time, and in brackets the ms in which the GPU is busy:")
        self.assertEqual(lines[3:], [
            "| network | cloud | voxels | Minuet, exact | Minuet, graph | spconv 2.3.8, module | times slower than Minuet, "
            "exact | FlexGEMM 6dd94a8, module | times slower than Minuet, exact |",
            "|---|---|---|---|---|---|---|---|---|",
            "| unet | os1 | 77,480 | 2.00 (1.50) | 0.500 | 15.00 (5.25) | 7.5 | - | - |",
            "| unet | office | 77,480 | 1.00 | - | - | - | 2.50 | 2.5 |"])

    def test_without_results_there_is_no_table(self):
        self.assertEqual(tables.render_peers([]), "\n")


TRAINING = {"device": "a GPU", "driver": "13.0", "toolkit": "13.0", "arch": "sm_90a", "dtype": "fp16", "commit": "abc",
            "network": "unet", "method": "host clock", "clouds": [
                {"cloud": "os1", "voxels": {"unthinned": 77480}, "wall_ms": {"median": 5.08, "p10": 5.0, "p90": 5.2},
                 "maps_ms": {"median": 0.4}, "forward_ms": {"median": 2.0}, "backward_ms": {"median": 3.2},
                 "kept_bytes": 597e6, "backward_workspace_bytes": 380e6}]}
STEPS = {"device": "a GPU", "driver": "13.0", "host_cpu": "a CPU", "network": "unet", "dtype": "fp16", "commit": "abc",
         "versions": {"torch": "2.11"}, "rows": [
             {**row("Minuet", "exact", 20.0, 9.5), "launches": 1624.0, "memory_mib": {"peak_of_tensors": 818.9}},
             {**row("Minuet", "jit", 2.0, None), "what": "inference", "in_series_ms": {"median": 1.5}},
             {"op": "sum", "mode": "exact", "cloud": "os1", "channels": 64, "forward_us": {"median": 15.6}, "backward_us": 95.4},
             {"cloud": "os1", "voxels": 77741, "maps_ms": {"median": 0.2109}, "convolutions_ms": {"median": 3.2509}, "both_ms": {"median": 3.4426}}]}


class Training(unittest.TestCase):
    def test_clouds_of_training_are_told_from_those_of_inference(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "training.json"
            path.write_text(json.dumps(TRAINING))
            results = tables.read([path])
        self.assertEqual((results["trainings"], results["clouds"]), ([TRAINING], []))

    def test_a_row_for_each_cloud(self):
        lines = tables.render_trainings([TRAINING]).splitlines()
        self.assertEqual(lines[1], "a GPU, driver of CUDA 13.0, NVRTC 13.0, fp16, commit abc; host clock:")
        self.assertEqual(lines[-1], "| unet | os1 | 77,480 | 5.08 | 5.00 - 5.20 | 0.400 | 2.00 | 3.20 | 597 | 380 |")

    def test_steps_ops_and_convolutions_have_tables_of_their_own(self):
        lines = tables.render_steps([STEPS]).splitlines()
        self.assertEqual(lines[1], "a GPU, driver of CUDA 13.0, a CPU, unet in fp16, commit abc; torch 2.11:")
        self.assertEqual(lines[5:7], [
            "| Minuet, exact | training step | os1 | 77,480 | 20.00 | 10.00 - 40.00 | - | 9.50 | 1,624 | 819 |",
            "| Minuet, jit | inference | os1 | 77,480 | 2.00 | 1.00 - 4.00 | 1.50 | - | - | - |"])
        self.assertIn("| sum | exact | os1 | 64 | 16 | 95 |", lines)
        self.assertEqual(lines[-1], "| os1 | 77,741 | 0.211 | 3.25 | 3.44 |")


def graph(commit, precision, median, cloud="os1"):
    return {"run": 1, "round": 2, "commit": commit, "network": "unet", "precision": precision, "cloud": cloud,
            "voxels": 77124, "graph_ms": {"median": median, "p10": median, "p90": median}}


PRECISIONS = {"device": "a GPU", "driver": "580", "toolkit": "NVRTC 13.0", "commit_before": "abc", "rows": [
    graph("abc", "fp16", 2.0), graph("def", "fp16", 1.6), graph("def", "int8", 1.2), graph("abc", "fp16", 1.0, "room"),
    graph("abc", "int8", 0.8, "room"), graph("def", "fp16", 0.9, "room"), graph("def", "int8", 0.5, "yard")]}


class Precisions(unittest.TestCase):
    def test_a_row_for_each_cloud_compares_commits_and_precisions(self):
        lines = tables.render_precisions([PRECISIONS]).splitlines()
        self.assertEqual(lines[1], "a GPU, driver 580, NVRTC 13.0; before: commit abc:")
        self.assertEqual(lines[5:], ["| unet | os1 | 77,124 | def | 1.2 | 2.00 | 1.60 | 0.800 | 1.20 | 0.750 |",
                                     "| unet | room | 77,124 | def | 1.2 | 1.00 | 0.900 | 0.900 | - | - |",
                                     "| unet | yard | 77,124 | def | 1.2 | - | - | - | 0.500 | - |"])


class Pages(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in set(tables.PAGES.values()):
            kinds = [kind for kind, page in tables.PAGES.items() if page == name]
            marks = [f"{tables.MARKER.format(kind, 'begin')}\nold\n{tables.MARKER.format(kind, 'end')}\n" for kind in kinds]
            self.write(name, "before\n" + "between\n".join(marks) + "after\n")
        self.write("tools/bench/results/gpu/peers.json", json.dumps(PEERS))

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPT, "--pages", "--root", self.root, *arguments],
                              capture_output=True, text=True)

    def test_pages_get_their_tables(self):
        self.assertIn("does not show the recorded results", self.run_script("--check").stderr)
        self.assertEqual(self.run_script().returncode, 0)
        readme = (self.root / "README.md").read_text()
        self.assertTrue(readme.startswith("before\n<!--") and readme.endswith("-->\nafter\n"), readme)
        self.assertIn("| unet | office |", readme)
        self.assertNotIn("old", readme)
        self.assertEqual(self.run_script("--check").returncode, 0)
        self.write("tools/bench/results/gpu/peers.json", json.dumps({**PEERS, "commit": "def"}))
        self.assertIn("README.md does not show", self.run_script("--check").stderr)

    def test_a_page_without_its_marker(self):
        self.write("README.md", "no table\n")
        self.assertIn("README.md must have the lines", self.run_script().stderr)

    def test_a_file_that_is_no_result(self):
        self.write("tools/bench/results/gpu/broken.json", "{")
        self.assertIn("broken.json is no result", self.run_script().stderr)


if __name__ == "__main__":
    unittest.main()
