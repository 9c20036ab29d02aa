#!/usr/bin/env python3
"""Checks that the library and the tool do not depend on the locale. The host may have set a locale with a decimal
comma, so sources may not call functions that read the locale. With --build, the object files are checked too, because
templates and macros can hide such calls.

usage: check_locale.py [--build BUILD_FOLDER] [ROOT]
"""

import pathlib
import re
import subprocess
import sys

import sources

FOLDERS = ("codegen/", "runtime/", "tools/minuet/", "tools/bench/study/")
# The sources of this program are not checked, because it runs only during the build.
BUILD_PROGRAM = "codegen/source/embed/"
# Only this file may call llvm::json to parse and print, because it sets the C locale.
JSON_TEXT = "json_text.cc"

# Each row has a pattern that sources may not contain, the alternative, and the file that is exempt or None.
BANNED = [
    (r"#include <(?:fstream|sstream|iostream|iomanip|locale|clocale|regex)>",
     "iostreams go by the locale: codegen/base/system_file.h, llvm::MemoryBuffer or raw_ostream",
     "tools/minuet/flags/arguments.cc"),
    (r"\bv?f?printf\([^;]*?\"[^\"]*%[-+#0]*[\d*]*(?:\.[\d*]+)?[lL]?[aefgAEFG]\b",
     "printf of a real number goes by the locale: codegen/base/number_text.h", None),
    (r"\b(?:sn?printf|vsn?printf|f?scanf|sscanf|strto(?:d|f|ld)|atof|sto(?:d|f|ld))\(",
     "it goes by the locale: codegen/base/number_text.h, std::from_chars, StringRef::getAsInteger", None),
    (r"\bllvm::format\(", "it is snprintf: llvm::formatv, with codegen/base/number_text.h for real numbers", None),
    (r"\{\d+(?:,-?\d+)?:[eEFpP]\d*\}", "only f and g of codegen/base/number_text.h are styles of a real number", None),
    (r"\b(?:llvm::)?json::(?:parse\(|OStream\b)", "llvm::json goes by the locale: codegen/base/json_text.h",
     "codegen/base/" + JSON_TEXT),
    (r"\bstd::(?:is(?:alpha|alnum|digit|space|print|punct|upper|lower|xdigit)|to(?:upper|lower))\(",
     "it goes by the locale: llvm/ADT/StringExtras.h", None),
    (r"\bstrerror(?:_r)?\(|\bgetError\(\)\.message\(\)", "the text is the locale's: errno_text, system_text", None),
    (r"\b(?:setlocale|localeconv|std::locale)\b", "the locale is the host's", None),
]
COMMENT = re.compile(r"//.*")

# Object files may not refer to symbols that these patterns match. The pattern LLVM applies to the library and the tool.
# The pattern C applies to the library only, because the tool's CLI11 parses with the C library, for which
# flags/program.cc sets the C locale.
LLVM = re.compile(r"\bllvm::(write_double\(|raw_ostream::operator<<\(double\)|format_provider<llvm::json::Value"
                  r"|json::OStream::value|json::parse\()")
C = re.compile(r" (?:__)?(?:isoc(?:99|23)_)?(?:v?sn?printf|v?f?s?scanf|strto(?:d|f|ld)|atof|strerror|strerror_r|"
               r"xpg_strerror_r|localeconv|setlocale)(?:_chk)?$| std::(?:__cxx11::)?basic_[io]?f?s?s?tream<| std::locale::")


def check_text(root, path):
    text = (root / path).read_text(errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        line = COMMENT.sub("", line)
        for pattern, instead, allowed in BANNED:
            if str(path) != allowed and re.search(pattern, line):
                yield f"{path}:{number}: {instead}"


def ours(path):
    name = str(path)
    return path.suffix in {".cc", ".h"} and name.startswith(FOLDERS) and not name.startswith(BUILD_PROGRAM)


def check(root):
    return [problem for path in sources.all_files(root) if ours(path) for problem in check_text(root, path)]


def check_objects(build):
    objects = [path for folder in FOLDERS for path in sorted((build / folder).rglob("*.o"))
               if "minuet_embed_headers.dir" not in path.parts]
    if not any(path.name == JSON_TEXT + ".o" for path in objects):
        return [f"{build}: no object of {JSON_TEXT}, so this check sees nothing"]
    problems = []
    for path in objects:
        if path.name == JSON_TEXT + ".o":
            continue
        undefined = subprocess.run(["nm", "-u", "-C", str(path)], capture_output=True, text=True, check=True).stdout
        for line in undefined.splitlines():
            in_tool = (build / "tools") in path.parents
            found = LLVM.search(line) or (None if in_tool else C.search(line))
            if found:
                problems.append(f"{path.relative_to(build)}: refers to {line.split(None, 1)[1][:80]}, which goes by "
                                "the locale")
    return problems


def main():
    arguments = sys.argv[1:]
    problems = []
    if arguments[:1] == ["--build"]:
        problems += check_objects(pathlib.Path(arguments[1]).resolve())
        arguments = arguments[2:]
    root = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parents[2]
    return sources.report("locale", check(root) + problems)


if __name__ == "__main__":
    sys.exit(main())
