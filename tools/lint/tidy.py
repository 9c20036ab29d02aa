#!/usr/bin/env python3
"""Runs clang-tidy over the C++ sources of a build and prints each warning once. Sources without warnings are not read
again until one of them or a file that they include changes.

Most of clang-tidy's time goes into the headers of LLVM and of the standard library, so the sources of several rooms are
read as one file ("batch") if their compile commands agree. The batches are written into BUILD_FOLDER/batches. If the
sources of a batch do not compile together, because two rooms have equal names, each room is read by itself.

usage: tidy.py BUILD_FOLDER
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import kept
import sources

COMMAND = ["clang-tidy-14", "--quiet", "--extra-arg=-Wno-unknown-warning-option",
           "--extra-arg=-Wno-ignored-optimization-argument"]
MOST_SHOWN = 60
# A batch has at most this many sources, because with larger ones some cores would have no work at the end.
MOST_TOGETHER = 50


class Unit:
    """Sources that CMake compiles as one file, with the words of their compile command."""

    def __init__(self, entry, root, build):
        self.file = pathlib.Path(entry["file"])
        self.includes, self.defines, self.flags = [], [], []
        words = iter(shlex.split(entry["command"])[1:])
        for word in words:
            if word in ("-o", "-c"):
                next(words)
            elif word == "-isystem":
                self.includes.append((word, next(words)))
            elif word.startswith("-I"):
                self.includes.append(("-I", word[2:]))
            elif word.startswith("-DMINUET_") or word.endswith("_EXPORTS"):
                # Sources of other units do not read this macro, so units with different ones may share a
                # batch.
                self.defines.append(word)
            else:
                self.flags.append("-fPIC" if word == "-fPIE" else word)
        self.is_program = "-fPIE" in entry["command"]
        self.sources = [str(self.file)]
        if "Unity" in self.file.parts:
            self.sources = [line.split('"')[1] for line in self.file.read_text().splitlines()
                            if line.startswith("#include")]
        parts = self.file.relative_to(build if self.file.is_relative_to(build) else root).parts
        # All units of a batch are below one folder, because such units include mostly the same headers and
        # rarely define the same name twice. Bindings use the public classes, whose names the runtime has, too.
        self.folder = parts[:2] if parts[0] == "tools" or parts[:2] == ("runtime", "bindings") else parts[:1]


class Batch:
    def __init__(self, units):
        self.units = units
        self.sources = [source for unit in units for source in unit.sources]
        includes = dict.fromkeys(include for unit in units for include in unit.includes)
        defines = dict.fromkeys(define for unit in units for define in unit.defines)
        self.command = [word for include in includes for word in include] + [*defines, *units[0].flags]

    def text(self):
        return "".join(f'#include "{source}"\n' for source in self.sources)

    def parts(self):
        return [Batch([unit]) for unit in self.units] if len(self.units) > 1 else []


def batches(build, root):
    """Returns the batches of a build, the largest first, so that all cores end at about the same time. Fails if a
    source of the repository is in none of them."""
    units = [Unit(entry, root, build) for entry in json.loads((build / "compile_commands.json").read_text())
             if not entry["file"].endswith(".c")]
    reached = {source for unit in units for source in unit.sources}
    left_out = [path for path in sources.code_files(root) if path.parts[0] in {"codegen", "runtime", "tools"} and
                path.suffix == ".cc" and str(root / path) not in reached]
    for path in left_out:
        # The custom calls for XLA are built where jaxlib's header is.
        if path.parts[:3] == ("runtime", "bindings", "xla"):
            print(f"clang-tidy does not read {path}, because there is no jaxlib here")
        else:
            sys.exit(f"{path}: in no compile command of {build}, so clang-tidy would not read it")
    groups = {}
    for unit in units:
        groups.setdefault((unit.folder, *sorted(unit.flags)), []).append(unit)
    found = []
    for group in groups.values():
        together = []
        for unit in group:
            both = [*together, unit]
            # A batch has at most one function main().
            if together and (sum(len(one.sources) for one in both) > MOST_TOGETHER or
                             sum(one.is_program for one in both) > 1):
                found.append(Batch(together))
                together = []
            together.append(unit)
        found.append(Batch(together))
    return sorted(found, key=lambda batch: -len(batch.sources))


def main():
    build, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(__file__).resolve().parents[2]
    results = kept.Results(build.parent / "kept-tidy")
    settings = (root / ".clang-tidy").read_text()
    folder = build / "batches"
    folder.mkdir(exist_ok=True)

    def run(batch):
        # The name is a hash of the contents, so that threads write different files, and so that the key of
        # the result, which includes the path, is the same in the next run if nothing changes.
        name = hashlib.sha256("\0".join([batch.text(), *batch.command]).encode()).hexdigest()[:16]
        path = folder / f"{name}.cc"
        path.write_text(batch.text())
        key = results.key(root, path, kept.version(COMMAND[0]), settings, *batch.command)
        if key in results:
            results.keep(key)
            return 0, ""
        ended = subprocess.run([*COMMAND, f"--config-file={root / '.clang-tidy'}", str(path), "--", *batch.command],
                               capture_output=True, text=True)
        found = [line for line in ended.stdout.splitlines() if re.search("warning:|error:", line)]
        if any("[clang-diagnostic-error]" in line for line in found) and batch.parts():
            print("these files do not compile together, so that clang-tidy takes longer; rename what clashes:",
                  *(line for line in found if "[clang-diagnostic-error]" in line), sep="\n")
            parts = [run(part) for part in batch.parts()]
            return max(status for status, _ in parts), "\n".join(text for _, text in parts if text)
        if ended.returncode == 0 and not found:
            results.keep(key)
        elif not found:
            found = [f"{path}: clang-tidy ended with {ended.returncode}: {ended.stderr[-300:]}"]
        return ended.returncode, "\n".join(found)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        ended = list(pool.map(run, batches(build, root)))
    results.save()
    lines = sorted({line for _, text in ended for line in text.splitlines()})
    print(*lines[:MOST_SHOWN], sep="\n", end="\n" if lines else "")
    return 1 if any(status for status, _ in ended) else 0


if __name__ == "__main__":
    sys.exit(main())
