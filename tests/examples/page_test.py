"""Runs commands of a page as they stand: with an installed tree of the build, in a folder with the installed sources of
the page's example.

usage: page_test.py ROOT BUILD PAGE EXAMPLE BLOCK...

PAGE is a page's path below ROOT, EXAMPLE the name of a folder of tests/examples, and BLOCK... the numbers of the page's
shell blocks to run, from 1. Exits with 77 if a block needs a GPU, NVRTC or pkg-config, which is neither there nor named
by MINUET_EXPECT.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root, build, page = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
sys.path += [str(root / "tools/lint"), str(root / "runtime/bindings/python/backend")]
from minuet_build import install  # noqa: E402
from skips import has_gpu  # noqa: E402


def leave_out(what: str, reason: str) -> None:
    """Ends the test, as skipped unless `what` has to be here."""
    if what in os.environ.get("MINUET_EXPECT", "").split(","):
        sys.exit(reason)
    print(f"left out: commands of {page.name}: {reason}")
    sys.exit(77)


def environment_of(prefix: pathlib.Path) -> dict[str, str]:
    """Returns the variables with which a user of the installed tree builds and runs programs."""
    library = next(prefix.rglob("libminuet.so")).parent
    # An offline set-up keeps libraries that the system lacks in the build's own sysroot.
    sysroot = sorted(str(folder) for folder in (root / "build/sysroot/usr/lib").glob("*") if folder.is_dir())
    variables = dict(os.environ)
    for name, folders in (
        ("PATH", [str(prefix / "bin")]),
        ("CMAKE_PREFIX_PATH", [str(prefix)]),
        ("PKG_CONFIG_PATH", [str(library / "pkgconfig")]),
        ("LD_LIBRARY_PATH", [str(library), *sysroot]),
    ):
        variables[name] = os.pathsep.join([*folders, *filter(None, [os.environ.get(name)])])
    return variables


blocks = re.findall(r"```sh\n(.*?)```", (root / page).read_text(), re.DOTALL)
commands_of = [blocks[int(number) - 1] for number in sys.argv[5:]]
if any("cuda:" in commands for commands in commands_of) and not has_gpu():
    leave_out("gpu", "there is no CUDA driver here")
if any("pkg-config" in commands for commands in commands_of) and not shutil.which("pkg-config"):
    leave_out("pkg-config", "pkg-config is not installed")
with tempfile.TemporaryDirectory() as scratch:
    prefix, folder = pathlib.Path(scratch) / "prefix", pathlib.Path(scratch) / "example"
    install(build, prefix)
    shutil.copytree(prefix / "share/doc/minuet/examples" / sys.argv[4], folder)
    for commands in commands_of:
        done = subprocess.run(
            ["sh", "-ec", commands], cwd=folder, env=environment_of(prefix), capture_output=True, text=True
        )
        print(commands + done.stdout + done.stderr, flush=True)
        if done.returncode != 0 and "no suitable libnvrtc" in done.stderr:
            leave_out("nvrtc", "NVRTC is not installed")
        if done.returncode != 0:
            sys.exit(f"these commands of {page} fail")
