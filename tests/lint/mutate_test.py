#!/usr/bin/env python3
"""tools/mutate on a toy repository: a mutant that is killed, one that survives, and lists that do not fit. The
mutants of this repository must apply to its files."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

MUTATE = pathlib.Path(__file__).resolve().parents[2] / "tools/mutate"

CMAKE = """cmake_minimum_required(VERSION 3.20)
project(toy LANGUAGES C)
enable_testing()
add_executable(toy_test toy.c)
add_test(NAME toy_test COMMAND toy_test)
add_executable(skipping_test toy.c)
add_test(NAME skipping_test COMMAND skipping_test)
set_tests_properties(skipping_test PROPERTIES SKIP_RETURN_CODE 0)
add_test(NAME red_test COMMAND toy_test)
set_tests_properties(red_test PROPERTIES WILL_FAIL ON)
"""
PRESETS = {"version": 3, "configurePresets": [
    {"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/${presetName}"}]}
TOY = """int twice(int value) {
  int sum = value;
  sum += value;
  return sum;
}
int unused(int value) { return value; }
int main(void) {
  if (twice(2) != 4) return 1;
  return 0;
}
"""


def mutant(name, find, replace, tests="toy_test"):
    lines = [f"- {line}" for line in find] + [f"+ {line}" for line in replace]
    return "\n".join([f"mutant {name}", "file toy.c", f"tests {tests}", "why It is a toy.", *lines, "", ""])


@unittest.skipUnless(all(map(shutil.which, ("git", "cmake", "ctest", "ninja"))), "git, CMake or Ninja is not here")
class Mutate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name).resolve() / "toy"
        (cls.root / "tools/mutants").mkdir(parents=True)
        for name, text in {"CMakeLists.txt": CMAKE, "CMakePresets.json": json.dumps(PRESETS), "toy.c": TOY,
                           ".gitignore": "/build/\n"}.items():
            (cls.root / name).write_text(text)
        git = ["git", "-C", str(cls.root), "-c", "user.name=toy", "-c", "user.email=toy@localhost"]
        # Variables that a hook of the surrounding repository may have set name that repository.
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        for command in (["init", "--quiet"], ["add", "-A"], ["commit", "--quiet", "-m", "toy"]):
            subprocess.run([*git, *command], check=True, capture_output=True, env=cls.environment)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def mutate(self, text, *arguments):
        (self.root / "tools/mutants/toy.txt").write_text(text)
        done = subprocess.run([sys.executable, "-B", str(MUTATE), "--root", str(self.root), *arguments],
                              capture_output=True, text=True, env=self.environment)
        self.assertEqual((self.root / "toy.c").read_text(), TOY, "the user's tree is not touched")
        return done.returncode, done.stdout + done.stderr

    def expect(self, status, fragment, text, *arguments):
        result, output = self.mutate(text, *arguments)
        self.assertEqual(result, status, output)
        self.assertIn(fragment, output)

    def test_a_mutant_is_killed(self):
        self.expect(0, "killed  less  toy_test", mutant("less", ["sum += value;"], ["sum -= value;"]))

    def test_several_lines_are_one_place(self):
        self.expect(0, "killed  lines", mutant("lines", ["int sum = value;", "sum += value;"], ["int sum = value;"]))

    def test_a_survivor_fails_the_run(self):
        self.expect(1, "survived  same", mutant("same", ["int unused(int value) { return value; }"],
                                                ["int unused(int value) { return -value; }"]))

    def test_one_that_does_not_end_is_killed_as_such(self):
        self.expect(0, "timed out  loop  toy_test", mutant("loop", ["sum += value;"], ["for (;;) sum += value;"]),
                    "--patience", "1")

    def test_one_that_does_not_apply_fails_the_run(self):
        self.expect(1, "occurs 0 times", mutant("gone", ["sum *= value;"], ["sum -= value;"]))

    def test_what_occurs_twice_is_no_mutant(self):
        self.expect(1, "occurs 2 times", mutant("twice", ["(int value) {"], ["(int other) {"]))

    def test_entries_must_pass_without_a_mutant(self):
        self.expect(1, "red_test fails without", mutant("less", ["sum += value;"], ["sum -= value;"], "red_test"))

    def test_one_that_does_not_compile_fails_the_run(self):
        broken = ["sum += value;"], ["sum += nothing;"]
        self.expect(1, "does not compile  broken", mutant("broken", *broken))
        self.expect(0, "killed  broken  compiler", mutant("broken", *broken, tests="compiler toy_test"))

    def test_an_entry_that_is_not_there_fails_the_run(self):
        self.expect(1, "has no entry other_test", mutant("less", ["sum += value;"], ["sum -= value;"], "other_test"))

    def test_an_entry_that_skips_itself_notices_nothing(self):
        self.expect(1, "skips itself", mutant("less", ["sum += value;"], ["sum -= value;"], "skipping_test"))

    def test_lists_say_where_they_are_broken(self):
        self.expect(1, "toy.txt:1: 'no list'", "no list\n")
        self.expect(1, "lacks why", mutant("less", ["sum"], ["s"]).replace("why It is a toy.\n", ""))
        self.expect(1, "2 mutants are called less", 2 * mutant("less", ["sum += value;"], ["sum -= value;"]))

    def test_only_and_list(self):
        both = mutant("less", ["sum += value;"], ["sum -= value;"]) + mutant("gone", ["sum *= value;"], ["sum;"])
        self.expect(0, "1 mutants", both, "--only", "le*")
        self.expect(1, "no mutant", both, "--only", "more")
        self.expect(1, "gone  DOES NOT APPLY", both, "--list")

    def test_the_record_keeps_what_did_not_run_while_a_list_has_it(self):
        record = self.root / "build/record.md"
        less = mutant("less", ["sum += value;"], ["sum -= value;"])
        same = mutant("same", ["int unused(int value) {"], ["int unused(int value) { value = -value;"])
        self.mutate(less + same, "--only", "same", "--record", str(record))
        self.mutate(less + same, "--only", "less", "--record", str(record))
        text = record.read_text()
        self.assertIn("1 killed, 1 survived", text)
        self.assertIn("| less | toy.c | killed | toy_test |", text)
        self.assertIn("| same | toy.c | survived | - |", text)
        own = self.root / "build/own.txt"
        own.write_text(mutant("own", ["return sum;"], ["return 0;"]))
        self.mutate(less + same, str(own), "--record", str(record))
        self.assertIn("2 killed, 1 survived", record.read_text())
        self.mutate(less, "--record", str(record))
        self.assertIn("1 killed.", record.read_text(), "no list has the others any more")


class Lists(unittest.TestCase):
    def test_every_mutant_applies(self):
        """A fault whose code has changed would otherwise be noticed only by a run of hours."""
        done = subprocess.run([sys.executable, "-B", MUTATE, "--list"], capture_output=True, text=True)
        self.assertEqual([line for line in done.stdout.splitlines() if "DOES NOT APPLY" in line], [])
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
