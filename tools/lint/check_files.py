#!/usr/bin/env python3
"""Checks rules for all files: no marks of unfinished work, no file too long, nothing new at the top level, every
source in a build, a header for every kernel of a kernels.inc, unique class names, a README in every folder, and a line
of the page on environment variables for each that is read.

usage: check_files.py [ROOT]
"""

import pathlib
import re
import sys

import sources

MARK = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
LONGEST = 500
# Maps each file that may have more lines than LONGEST to its limit. The header minuet.h holds the whole C ABI
# and its manual by design.
LONGER = {"include/minuet/minuet.h": 1200}
# The main README is for a reader who has never heard of Minuet; reference material belongs into pages of one topic.
LONGEST_README = 150
TOP_LEVEL = {"CMakeLists.txt", "runtime", "codegen", "kernels_templates", "include", "tests", "tools", "README.md",
             "LICENSE", "CHANGELOG.md", "CMakePresets.json", ".ci", ".clang-format", ".clang-tidy", ".gitignore", ".gitattributes"}
KERNEL = re.compile(r'^MINUET_KERNEL_ROW\(\s*(\w+),\s*"([^"]+)"', re.MULTILINE)
NO_CODE = re.compile(r'//.*|^#include.*|"(?:\\.|[^"\\\n])*"', re.MULTILINE)
ALIAS = re.compile(r"^\s*using (?:\w*::)+(\w+);|^\s*namespace (\w+) = .*;", re.MULTILINE)
CLASS = re.compile(r"^(?:class|struct) (\w+)(?: final)?(?: :[^{;]*)? \{", re.MULTILINE)
VARIABLES_PAGE = "runtime/abi/ENVIRONMENT.md"
VARIABLE = re.compile(r'\b(?:environment|getenv|get|read_\w+)\("(MINUET_\w+)"')
# Files of code directly in these folders need no README.md that describes them.
NO_README = {".", ".ci", "include"}


def check_text(root, path):
    if path.suffix not in sources.CODE | {".py", ".cmake", ".txt", ".md", ".sh", ""} or path.name == "LICENSE":
        return
    text = (root / path).read_text(errors="replace")
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if MARK.search(line):
            yield f"{path}:{number}: a mark of unfinished work; do it, or file an issue"
        if line != line.rstrip() and path.suffix != ".md":
            yield f"{path}:{number}: white space at the end of the line"
    most = LONGER.get(str(path), LONGEST)
    if len(lines) > most and path.suffix in sources.CODE:
        yield f"{path}: {len(lines)} lines; {most} is the most"
    if str(path) == "README.md" and len(lines) > LONGEST_README:
        yield (f"README.md: {len(lines)} lines; {LONGEST_README} is the most: move a part to the page of its topic, which "
               f"\"Where to read on\" lists")
    if path.suffix in {".h", ".hpp"} and "#pragma once" not in text and "#ifndef" not in text:
        yield f"{path}: no #pragma once"


def check_aliases(root, path):
    """Finds unused using declarations and namespace aliases. clang-tidy misses them in unity files."""
    if path.suffix != ".cc":
        return
    text = NO_CODE.sub("", (root / path).read_text(errors="replace"))
    rest = ALIAS.sub("", text)
    for name in ("".join(names) for names in ALIAS.findall(text)):
        if not re.search(rf"(?<!::)\b{name}\b", rest):
            yield f"{path}: the short name {name} is not used: remove it"


def check_classes(root, paths):
    """Finds classes with equal names. The library is one namespace, so the linker would silently merge their inline
    functions, such as destructors."""
    first = {}
    for path in paths:
        if path.suffix != ".h" or path.parts[0] not in {"codegen", "runtime"}:
            continue
        for name in CLASS.findall((root / path).read_text()):
            if first.setdefault(name, path) != path:
                yield f"{path}: {first[name]} has a class {name} too"


def check_top_level(paths):
    for name in sorted({path.parts[0] for path in paths} - TOP_LEVEL):
        yield f"{name}: nothing new goes to the top level"


def check_built(root, paths):
    listed = "".join((root / path).read_text() for path in paths
                     if path.name == "CMakeLists.txt" or path.suffix == ".cmake")
    for path in paths:
        # A CMakeLists.txt may list tests without "_test.cc", which a loop appends.
        names = {path.name, path.name.removesuffix("_test.cc")}
        if path.suffix in {".cc", ".c"} and not any(re.search(rf"\b{re.escape(name)}\b", listed) for name in names):
            yield f"{path}: no CMakeLists.txt lists the file, so it is not built: add it to one"


def check_kernels(root, paths):
    """Checks the library's and the tests' kernels.inc: each kernel's header must exist and be named like the kernel."""
    for path in paths:
        if path.name != "kernels.inc":
            continue
        for name, header in KERNEL.findall((root / path).read_text()):
            if not (root / header).is_file():
                yield f"{path}: {name}: there is no {header}"
            elif pathlib.Path(header).stem != name:
                yield f"{path}: {name}: its file is called {header}"


def check_variables(root, paths):
    """Checks that the page of environment variables lists every variable that the library, the tool or a binding reads."""
    page = root / VARIABLES_PAGE
    listed = page.read_text() if page.is_file() else ""
    for path in paths:
        if path.suffix in {".cc", ".h", ".py"} and str(path).startswith(("codegen/", "runtime/", "tools/minuet/")):
            for name in sorted(set(VARIABLE.findall((root / path).read_text()))):
                if f"`{name}`" not in listed:
                    yield f"{path}: {VARIABLES_PAGE} does not list the variable {name}"


def check_readmes(root, paths):
    folders = {str(path.parent) for path in paths if path.suffix in sources.CODE | {".py"}}
    for folder in sorted(folders - NO_README):
        parent = pathlib.Path(folder)
        # A README also covers the folders below it.
        if not any((root / up / "README.md").is_file() for up in [parent, *parent.parents] if str(up) != "."):
            yield f"{folder}: no README.md, here or in a folder above"


def check(root):
    paths = [path for path in sources.all_files(root) if not sources.RELEASED.match(path.as_posix())]
    problems = [problem for path in paths for problem in check_text(root, path)]
    problems += [problem for path in paths for problem in check_aliases(root, path)]
    problems += check_classes(root, paths)
    problems += check_top_level(paths)
    problems += check_built(root, paths)
    problems += check_kernels(root, paths)
    problems += check_variables(root, paths)
    return problems + list(check_readmes(root, paths))


if __name__ == "__main__":
    default = pathlib.Path(__file__).resolve().parents[2]
    sys.exit(sources.report("files", check(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default)))
