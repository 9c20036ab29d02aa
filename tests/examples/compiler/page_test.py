"""Runs commands of the page for compiler authors (runtime/abi/COMPILERS.md) as they stand, in an empty folder with the
example's sources, and compares the page's table of fields with those that the library tells.

usage: page_test.py ROOT LIBRARY_FOLDER COMMAND_BLOCK...     the numbers of the blocks to run, from 1

Exits with 77 where a block needs a GPU or NVRTC, and neither is there nor named by MINUET_EXPECT.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root, library = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
sys.path.insert(0, str(root / "tools/lint"))
from skips import has_gpu  # noqa: E402


def leave_out(what: str, reason: str) -> None:
    """Ends the test, as skipped unless `what` has to be here."""
    if what in os.environ.get("MINUET_EXPECT", "").split(","):
        sys.exit(reason)
    print(f"left out: commands of COMPILERS.md: {reason}")
    sys.exit(77)


page = (root / "runtime/abi/COMPILERS.md").read_text()
blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)

fields = (root / "codegen/source/params_fields.h").read_text()


def listed(struct: str) -> list[str]:
    begin = fields.index(f"MINUET_BEGIN_FIELDS({struct})")
    return re.findall(r"MINUET_FIELD\((\w+)\)", fields[begin : fields.index("MINUET_END_FIELDS", begin)])


names = listed("FusedParams")
for member, struct in (("shortcut", "FusedShortcut"), ("second", "SecondOutput")):
    names.remove(member)
    names += [f"{member}.{name}" for name in listed(struct)]
table = page[page.index("| field | what it holds |") :]
told = re.findall(r"`([\w.]+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)))
if sorted(told) != sorted(names):
    sys.exit(f"COMPILERS.md and FusedParams differ in these fields: {sorted(set(told) ^ set(names))}")

commands_of = [blocks[int(number) - 1] for number in sys.argv[3:]]
if any("cuda:" in commands for commands in commands_of) and not has_gpu():
    leave_out("gpu", "there is no CUDA driver here")
environment = dict(os.environ)
for name, folder in (("CPATH", root / "include"), ("LIBRARY_PATH", library), ("LD_LIBRARY_PATH", library)):
    environment[name] = os.pathsep.join([str(folder), *filter(None, [environment.get(name)])])
with tempfile.TemporaryDirectory() as folder:
    for name in ("artifact.h", "backend.cc", "runtime.c"):
        shutil.copy(root / "tests/examples/compiler" / name, folder)
    for commands in commands_of:
        done = subprocess.run(["sh", "-ec", commands], cwd=folder, env=environment, capture_output=True, text=True)
        print(commands + done.stdout + done.stderr, flush=True)
        if done.returncode != 0 and "no suitable libnvrtc" in done.stderr:
            leave_out("nvrtc", "NVRTC is not installed")
        if done.returncode != 0:
            sys.exit("these commands of COMPILERS.md fail")
