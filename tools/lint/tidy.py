#!/usr/bin/env python3
"""Runs clang-tidy over the C++ sources of a build, through the unity files that CMake wrote, and prints each warning
once. A file without warnings is not read again until it or a file that it includes changes.

usage: tidy.py BUILD_FOLDER
"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

import kept
import sources

COMMAND = ["clang-tidy-14", "--quiet", "--extra-arg=-Wno-unknown-warning-option",
           "--extra-arg=-Wno-ignored-optimization-argument"]
MOST_SHOWN = 60


def tidy_files(build, root):
    """Returns the files of compile_commands.json. Fails if a source of the repository is in none of them."""
    compiled = [pathlib.Path(entry["file"]) for entry in json.loads((build / "compile_commands.json").read_text())]
    compiled = sorted({path for path in compiled if path.suffix != ".c"})
    reached = {str(path) for path in compiled}
    for path in compiled:
        if "Unity" in path.parts:
            reached |= {line.split('"')[1] for line in path.read_text().splitlines() if line.startswith("#include")}
    ours = [path for path in sources.code_files(root) if path.parts[0] in {"codegen", "runtime", "tools"}]
    for path in ours:
        if path.suffix == ".cc" and str(root / path) not in reached:
            sys.exit(f"{path}: in no unity file of {build}, so clang-tidy would not read it")
    # The largest files come first, so that all cores finish at about the same time.
    return sorted(compiled, key=lambda path: -path.stat().st_size)


def main():
    build, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(__file__).resolve().parents[2]
    results = kept.Results(build.parent / "kept-tidy")
    settings = (root / ".clang-tidy").read_text() + (build / "compile_commands.json").read_text()

    def run(path):
        key = results.key(root, path, kept.version(COMMAND[0]), settings)
        if key in results:
            results.keep(key)
            return 0, ""
        ended = subprocess.run([*COMMAND, "-p", str(build), str(path)], capture_output=True, text=True)
        found = [line for line in ended.stdout.splitlines() if re.search("warning:|error:", line)]
        if ended.returncode == 0 and not found:
            results.keep(key)
        elif not found:
            found = [f"{path}: clang-tidy ended with {ended.returncode}: {ended.stderr[-300:]}"]
        return ended.returncode, "\n".join(found)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        ended = list(pool.map(run, tidy_files(build, root)))
    results.save()
    lines = sorted({line for _, text in ended for line in text.splitlines()})
    print(*lines[:MOST_SHOWN], sep="\n", end="\n" if lines else "")
    return 1 if any(status for status, _ in ended) else 0


if __name__ == "__main__":
    sys.exit(main())
