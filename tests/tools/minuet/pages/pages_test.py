#!/usr/bin/env python3
"""Pages of the tool in a headless browser: they load with no complaint, draw, and answer to mouse and keys.

usage: pages_test.py MINUET [unittest's arguments]
"""

import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser as browsers  # noqa: E402

SIZE = (800, 600)
CANVAS = [370, 0, 430, 600]  # what no panel covers
VOXEL = 0.25


def minuet(*arguments):
    return run(TOOL, *arguments)


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout


def write_cloud(folder, name):
    """A floor and a pole on it, float32 x y z intensity; and int32 labels, one a point."""
    draw = random.Random(1)
    points = [(draw.uniform(-6, 6), draw.uniform(-6, 6), draw.uniform(0, 0.1), draw.random()) for _ in range(4000)]
    points += [(draw.uniform(0, 0.4), draw.uniform(0, 0.4), draw.uniform(0, 5), 2.0) for _ in range(1000)]
    (folder / name).write_bytes(b"".join(struct.pack("<4f", *point) for point in points))
    labels = [0 if row < 4000 else 7 for row in range(len(points))]
    header = "{'descr': '<i4', 'fortran_order': False, 'shape': (%d,), }" % len(labels)
    header = header.ljust(117) + "\n"
    (folder / "labels.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                                        struct.pack(f"<{len(labels)}i", *labels))


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.browser = browsers.Browser(PROGRAM, *SIZE)
        cls.addClassCleanup(cls.browser.close)

    def expect_quiet(self, page):
        self.assertEqual(self.browser.complaints, [])
        self.assertEqual(self.browser.requests[0].split("#")[0], page.as_uri())
        self.assertEqual(self.browser.requests[1:], [], "a page loads nothing else")


class ViewTest(PageTest):
    NAME = "a <b>&\"'{{title}}.bin"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_cloud(cls.folder, cls.NAME)
        cls.page = cls.folder / "cloud.html"
        cls.told = minuet("view", cls.folder / cls.NAME, "--labels", cls.folder / "labels.npy", "--voxel-size", VOXEL,
                          "--device", "cpu", "--output", cls.page)

    def open(self, fragment=""):
        self.browser.prefer("light")
        self.browser.open("about:blank")
        self.browser.open(self.page, fragment)
        self.rest()
        self.assertEqual(self.browser.text("#about h1"), self.NAME)

    def rest(self):
        self.browser.wait_until("!scene.pending")

    def seen(self):
        """The scene itself, drawn as it is at rest."""
        return self.browser.picture("scene.isRough = false; scene.draw()", "scene.canvas", CANVAS)

    def choose(self, select, value):
        self.browser.evaluate(f"""(() => {{
            byId("{select}").value = {value!r};
            byId("{select}").dispatchEvent(new Event("change"));
        }})()""")

    def test_draws_and_says_what_it_draws(self):
        self.open()
        picture = self.seen()
        self.assertGreater(picture["drawn"], 0.02)
        self.assertGreater(picture["colours"], 20)
        self.assertEqual(picture["back"], [238, 240, 243])
        self.assertIn("5,000 points, voxels of 0.25 m; kernel maps of 3×3×3", self.browser.text("#facts"))
        legend = self.browser.text("#legend")
        self.assertIn("height in m", legend)
        self.assertRegex(legend, r"to 4\.\d+, mean 0\.\d+ m")
        self.expect_quiet(self.page)

    def test_what_is_shown_on_the_screen_is_the_scene(self):
        self.open()
        screen = self.browser.screen(CANVAS)
        self.assertEqual(screen["back"], [238, 240, 243])
        self.assertAlmostEqual(screen["drawn"], self.seen()["drawn"], delta=0.01)

    def test_levels_are_those_that_the_tool_printed(self):
        self.open()
        rows = [line.replace(",", "").split() for line in self.browser.text("#levels").splitlines()[1:]]
        printed = re.findall(r"^ +(\d+) +(\d+) +(\d+) +([\d.]+)$", self.told, re.MULTILINE)
        self.assertEqual([(row[0], *row[2:]) for row in rows], printed)
        self.assertEqual([row[0] for row in printed], ["1", "2", "4", "8", "16"])

    def test_mouse_turns_moves_and_zooms(self):
        self.open()
        middle, before = [560, 300], self.seen()
        state = "[scene.camera.yaw, scene.camera.pitch, scene.camera.distance, ...scene.camera.target]"
        start = self.browser.evaluate(state)
        self.browser.drag(middle, [[590, 310], [620, 320]])
        turned = self.browser.evaluate(state)
        self.assertNotEqual(turned[:2], start[:2])
        self.assertEqual(turned[2:], start[2:])
        self.assertNotEqual(self.seen()["digest"], before["digest"])
        self.browser.drag(middle, [[600, 300]], button="right")
        moved = self.browser.evaluate(state)
        self.assertEqual(moved[:3], turned[:3])
        self.assertNotEqual(moved[3:], turned[3:])
        self.browser.wheel(middle, -300)
        self.browser.wait_until(f"scene.camera.distance < {moved[2]} * 0.8")
        self.browser.click("#fit")
        self.browser.wait_until(f"Math.abs(scene.camera.distance - {start[2]}) < 1e-6")
        self.expect_quiet(self.page)

    def test_keys_turn_move_and_zoom(self):
        self.open()
        for key, shift, what in (("ArrowLeft", False, "yaw"), ("ArrowUp", False, "pitch"),
                                 ("ArrowRight", True, "target.join()"), ("+", False, "distance"),
                                 ("1", False, "pitch")):
            expression, picture = f"scene.camera.{what}", self.seen()
            value = self.browser.evaluate(expression)
            self.browser.key(key, shift)
            self.assertNotEqual(self.browser.evaluate(expression), value, key)
            self.assertNotEqual(self.seen()["digest"], picture["digest"], key)
        self.browser.key("h")
        self.assertTrue(self.browser.evaluate("byId('help').open"))
        self.assertIn("Home", self.browser.text("#help"))
        self.browser.key("h")
        self.assertFalse(self.browser.evaluate("byId('help').open"))
        self.browser.key("r")
        self.browser.wait_until("scene.frames > 3")
        yaw = self.browser.evaluate("scene.camera.yaw")
        self.browser.wait_until(f"scene.camera.yaw !== {yaw}")
        self.browser.key("r")
        self.rest()
        self.expect_quiet(self.page)

    def test_every_level_draws(self):
        self.open()
        shown, digests = [], set()
        for _ in range(7):
            shown.append(self.browser.evaluate("byId('shown').value"))
            picture = self.seen()
            self.assertGreater(picture["drawn"], 0.02, shown)
            digests.add(picture["digest"])
            self.browser.key("v")
        self.assertEqual(shown, ["points", *(f"voxels, stride {stride}" for stride in (1, 2, 4, 8, 16)), "all levels"])
        self.assertEqual(len(digests), 7)
        self.assertEqual(self.browser.evaluate("byId('shown').value"), "points")

    def test_voxels_of_another_size_on_each_axis(self):
        page = self.folder / "flat.html"
        sizes = (0.25, 0.5, 0.125)
        minuet("view", self.folder / self.NAME, "--voxel-size", ",".join(map(str, sizes)), "--device", "cpu", "--output", page)
        self.browser.open("about:blank")
        self.browser.open(page, "#show=voxels, stride 1")
        self.rest()
        self.assertIn("voxels of 0.25 × 0.5 × 0.125 m", self.browser.text("#facts"))
        self.assertGreater(self.seen()["drawn"], 0.02)
        self.assertTrue(self.browser.evaluate(f"""(() => {{
            const [points] = sets, rows = valuesOf(points, "voxel"), low = finest.places, sizes = {list(sizes)};
            return points.places[0].every((_, i) => [0, 1, 2].every((axis) =>
                Math.abs(points.places[axis][i] / sizes[axis] - low[axis][rows[i]] - 0.5) < 0.51));
        }})()"""))
        self.assertEqual(self.browser.evaluate("finest.body.edge"), list(sizes))
        self.assertEqual(self.browser.evaluate("sets[2].body.edge"), [2 * size for size in sizes])
        self.assertEqual(self.browser.evaluate("sets[0].body.edge"), [0, 0, 0])
        self.expect_quiet(page)

    def test_every_colouring_has_its_legend(self):
        legends = {"height": "height in m", "intensity": "intensity", "label": "label 7", "voxel": "voxel",
                   "neighbours": "of 3×3×3, itself counted", "points": "points"}
        for kind, names in (("points", ["height", "intensity", "label", "voxel", "neighbours"]),
                            ("voxels, stride 2", ["height", "neighbours", "points", "intensity", "label", "voxel"])):
            self.open()
            self.choose("shown", kind)
            digests = set()
            for name in names:
                self.assertEqual(self.browser.evaluate("byId('colouring').value"), name)
                self.assertIn(legends[name], self.browser.text("#legend"))
                digests.add(self.seen()["digest"])
                self.browser.key("c")
            self.assertEqual(len(digests), len(names))
        self.open("#show=points&colour=label")
        self.assertRegex(self.browser.text("#legend"), r"label 0\s+4,000\s+label 7\s+1,000")
        self.expect_quiet(self.page)

    def test_neighbours_of_the_legend_are_those_of_the_map(self):
        self.open("#show=voxels, stride 1&colour=neighbours")
        pairs, voxels = self.browser.evaluate("[data.levels[0].pairs, data.levels[0].voxels]")
        self.assertEqual(self.browser.evaluate("valuesOf(finest, 'neighbours').reduce((a, b) => a + b)"), pairs)
        self.assertIn(f"mean {float('%.4g' % (pairs / voxels)):g} of", self.browser.text("#legend"))
        # Each point has the neighbours of the voxel that it lies in.
        self.assertTrue(self.browser.evaluate(f"""(() => {{
            const [points] = sets, rows = valuesOf(points, "voxel"), low = finest.places;
            return points.places[0].every((_, i) => [0, 1, 2].every((axis) =>
                Math.abs(points.places[axis][i] / {VOXEL} - low[axis][rows[i]] - 0.5) < 0.51));
        }})()"""))

    def test_light_and_dark(self):
        self.open()
        self.assertEqual(self.seen()["back"], [238, 240, 243])
        self.browser.prefer("dark")
        self.assertEqual(self.seen()["back"], [18, 21, 26])
        self.browser.click("#theme")
        self.assertEqual(self.seen()["back"], [238, 240, 243])
        self.browser.prefer("light")
        self.browser.key("t")
        self.assertEqual(self.seen()["back"], [18, 21, 26])

    def test_a_browser_without_webgl_says_so(self):
        hidden = self.browser.call("Page.addScriptToEvaluateOnNewDocument",
                                   source="HTMLCanvasElement.prototype.getContext = () => null")
        try:
            self.browser.open(self.page)
            self.assertIn("no WebGL 2", self.browser.text("#problem"))
        finally:
            self.browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=hidden["identifier"])


RESULTS = {
    "bench.json": {"network": "minkunet42", "dtype": "fp16", "device": "NVIDIA H200", "clouds": [
        {"cloud": f"cloud {n}", "wall_ms": {"median": n + 2.5, "p10": n + 2, "p90": n + 3},
         "stages_ms": {"sort": 0.5, "map": 1, "gemm": n + 1},
         "levels": [{"tensor_stride": [2**k] * 3, "voxels": 10000 * (n + 1) >> k} for k in range(5)]}
        for n in range(3)]},
    "quantized.json": {
        "network": "net", "dtype": "fp16", "device": "cpu", "clouds": ["a.bin"], "calibration": "max",
        "layers": [{"name": f"layer {n}", "precision": "int8" if n else "float", "range": n + 0.5,
                    "relative_error": 0.01 * n, "cosine": 1 - 0.0001 * n, **({} if n else {"reason": "it reads the input"})}
                   for n in range(4)],
        "outputs": [{"name": "output", "relative_error": 0.03, "cosine": 0.9997}]},
    "study.json": {
        "study": "density", "title": "A <study> & more", "device": "cpu", "commit": "abc",
        "notes": ["As the paper has it."], "claims": [],
        "tables": [{"title": "Numbers", "columns": ["name", "value"], "rows": [["a<b>", 12345], ["none", None]]}],
        "plots": [{"title": "Density", "kind": "line", "x": {"label": "points", "log": True},
                   "y": {"label": "time, ms", "log": True},
                   "series": [{"name": name, "values": [{"x": 10**k, "y": factor * 2**k, "low": factor * 2**k * 0.9,
                                                         "high": factor * 2**k * 1.1} for k in range(4, 7)]}
                              for name, factor in (("ours", 1), ("theirs", 3))]}]},
}


# Pairs of texts of one plot that lie on one another.
OVERLAPS = """[...document.querySelectorAll("svg")].flatMap((svg) => {
            const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent);
            const boxes = texts.map((text) => text.getBoundingClientRect());
            const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 &&
                                   b.top < a.bottom - 3;
            return texts.flatMap((text, i) => texts.slice(i + 1).filter((_, j) => meet(boxes[i], boxes[i + 1 + j]))
                .map((other) => [text.textContent, other.textContent]));
        })"""


class ReportTest(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        results = cls.folder / "results"
        results.mkdir()
        for name, content in RESULTS.items():
            (results / name).write_text(json.dumps(content))
        cls.page = cls.folder / "report.html"
        try:
            told = minuet("report", results, "--title", "Results & <more>", "--output", cls.page)
        except RuntimeError as error:
            if "install libjs-d3" not in str(error):
                raise
            print("left out: pages_test: this minuet was built without libjs-d3")  # tools/lint/skips.py reads this
            raise unittest.SkipTest("no libjs-d3")
        assert "3 result files" in told, told

    def open(self):
        self.browser.prefer("light")
        self.browser.open("about:blank")
        self.browser.open(self.page)

    def count(self, selector):
        return self.browser.evaluate(f"document.querySelectorAll({selector!r}).length")

    def test_every_file_has_its_chapter(self):
        self.open()
        self.assertEqual(self.browser.text("h1"), "Results & <more>")
        self.assertEqual(self.count("section"), 3)
        self.assertEqual(self.browser.text("#chapters").split("\n"),
                         ["minkunet42, fp16", "net in 8 bits", "A <study> & more"])
        self.assertIn("device NVIDIA H200", self.browser.text("#chapter0"))
        self.assertIn("As the paper has it.", self.browser.text("#chapter2"))
        self.assertRegex(self.browser.text("#chapter2 table"), r"a<b>\s+12,345")
        self.assertIn("Michael Bostock", self.browser.evaluate("document.querySelector('footer pre').textContent"))
        self.expect_quiet(self.page)

    def test_plots_show_the_numbers(self):
        self.open()
        self.assertEqual(self.count("#chapter0 svg"), 3)
        self.assertEqual(self.count("#chapter0 svg:nth-of-type(1) .bar"), 3)
        widths = self.browser.evaluate("""[...document.querySelector("#chapter0 svg").querySelectorAll(".bar")]
            .map((bar) => Number(bar.getAttribute("width")))""")
        for width, time in zip(widths, (2.5, 3.5, 4.5)):
            self.assertAlmostEqual(width / widths[0], time / 2.5, places=5)
        self.assertEqual(self.count("#chapter0 svg:nth-of-type(2) .bar"), 9)
        self.assertIn("median, with p10 and p90, ms", self.browser.text("#chapter0"))
        self.assertEqual(self.count("#chapter2 svg .line"), 2)
        self.assertEqual(self.count("#chapter2 svg circle"), 6)
        self.assertEqual(self.count("#chapter2 svg .whisker"), 6)
        # On logarithmic axes what grows by a factor lies on a straight line.
        places = self.browser.evaluate("""[...document.querySelectorAll("#chapter2 circle")].slice(0, 3)
            .map((circle) => [Number(circle.getAttribute("cx")), Number(circle.getAttribute("cy"))])""")
        for axis in (0, 1):
            first, second = (places[i + 1][axis] - places[i][axis] for i in (0, 1))
            self.assertAlmostEqual(first, second, places=5)
            self.assertGreater(abs(first), 20)

    def test_errors_of_a_quantized_network_have_plots(self):
        self.open()
        self.assertEqual(self.count("#chapter1 svg"), 2)
        self.assertEqual(self.count("#chapter1 svg:nth-of-type(1) .bar"), 4)
        self.assertEqual(self.count("#chapter1 svg:nth-of-type(2) .bar"), 3)  # A layer without an error has none.
        self.assertIn("3 convolutions of 4 compute in 8 bits.", self.browser.text("#chapter1"))
        self.assertRegex(self.browser.text("#chapter1 table"), r"layer 0\s+float\s+0.5\s+0\s+1\s+it reads the input")

    def test_texts_of_plots_do_not_overlap(self):
        self.open()
        self.assertEqual(self.browser.evaluate(OVERLAPS), [])

    def test_light_and_dark(self):
        self.open()
        back = "getComputedStyle(document.body).backgroundColor"
        text = "getComputedStyle(document.querySelector('svg text')).fill"
        light = self.browser.evaluate(f"[{back}, {text}]")
        self.browser.prefer("dark")
        self.assertEqual(self.browser.evaluate(f"[{back}, {text}]"), ["rgb(18, 21, 26)", "rgb(231, 234, 238)"])
        self.browser.click("#theme")
        self.assertEqual(self.browser.evaluate(f"[{back}, {text}]"), light)
        self.assertGreater(self.browser.screen([240, 60, 600, 500])["colours"], 30)


class StudiesTest(PageTest):
    """Every study as the report shows it."""

    def test_what_the_paper_says_is_beside_the_plots(self):
        results, page = self.folder / "studies", self.folder / "studies.html"
        run(STUDY, "all", "--size", "tiny", "--device", "cpu", "--output", results)
        try:
            minuet("report", results, "--output", page)
        except RuntimeError as error:
            if "install libjs-d3" not in str(error):
                raise
            raise unittest.SkipTest("no libjs-d3")
        self.browser.prefer("light")
        self.browser.open("about:blank")
        self.browser.open(page)
        chapters = self.browser.text("#chapters").split("\n")
        self.assertEqual(len(chapters), len(list(results.iterdir())))
        for title in ("End to end", "The Map step", "The paper's four ideas", "Padding and number of GEMMs"):
            chapter = f"#chapter{chapters.index(title)}"
            self.assertGreaterEqual(self.browser.evaluate(f"document.querySelectorAll('{chapter} svg').length"), 1)
            table = self.browser.text(f"{chapter} table")
            self.assertRegex(table, r"the paper\s+here\s+its shape")
            self.assertRegex(table, "holds|does not hold")
        self.assertIn("15.8 x on average", self.browser.text(f"#chapter{chapters.index('The Map step')} table"))
        self.assertEqual(self.browser.evaluate(OVERLAPS), [])
        self.expect_quiet(page)


def main():
    global TOOL, STUDY, PROGRAM
    TOOL, STUDY, PROGRAM = sys.argv.pop(1), sys.argv.pop(1), browsers.find()
    if not PROGRAM:
        print("left out: pages_test: no Chromium is installed")  # tools/lint/skips.py reads this
        return 1 if "browser" in os.environ.get("MINUET_EXPECT", "").split(",") else 0
    return unittest.main()


if __name__ == "__main__":
    sys.exit(main())
