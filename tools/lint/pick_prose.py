#!/usr/bin/env python3
"""Picks comments and messages at random for a review of the prose. Each comment is printed with the code below it.

usage: pick_prose.py [--seed N] [--comments 100] [--messages 50] [ROOT]

Prints Markdown, including the seed, which repeats the choice on the same tree.
"""

import argparse
import pathlib
import random
import re

import check_messages
import sources

FOLDERS = ("codegen/", "runtime/", "kernels_templates/", "tools/")
SCRIPTS = {".py", ".sh", ".cmake"}
LINES_BELOW = 3


def comments(root):
    """Yields (path, line, text, code). Consecutive comment lines are joined and come with the code that follows; a
    comment behind code comes with that code."""
    for path in sources.all_files(root):
        name = path.as_posix()
        is_script = path.suffix in SCRIPTS or path.name == "CMakeLists.txt"
        if not name.startswith(FOLDERS) or not (is_script or path.suffix in sources.CODE):
            continue
        mark = "#" if is_script else "//"
        whole = re.compile(rf"\s*{mark}(?!!)[/!<]* ?(.*)")
        behind = re.compile(rf"(.*\S)\s+{mark}[/<]*\s(.*)")
        lines = (root / path).read_text(encoding="utf-8").split("\n")
        at = 0
        while at < len(lines):
            first, text = at, []
            while at < len(lines) and (found := whole.fullmatch(lines[at])):
                text.append(found[1])
                at += 1
            if text:
                yield name, first + 1, " ".join(text), "\n".join(lines[at:at + LINES_BELOW])
                continue
            if (found := behind.fullmatch(lines[at])) and not found[2].startswith("namespace"):
                yield name, at + 1, found[2], found[1].strip()
            at += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--comments", type=int, default=100)
    parser.add_argument("--messages", type=int, default=50)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    arguments = parser.parse_args()
    chosen = random.Random(arguments.seed)
    every_comment, every_message = list(comments(arguments.root)), list(check_messages.messages(arguments.root))
    print(f"Seed {arguments.seed}: {arguments.comments} of {len(every_comment)} comments, {arguments.messages} of "
          f"{len(every_message)} messages.\n\n## Comments\n")
    for path, line, text, code in chosen.sample(every_comment, arguments.comments):
        print(f"- `{path}:{line}`: {text}\n  ```\n" + "\n".join("  " + row for row in code.split("\n")) + "\n  ```")
    print("\n## Messages\n")
    for path, line, text in chosen.sample(every_message, arguments.messages):
        print(f"- `{path}:{line}`: {text}")


if __name__ == "__main__":
    main()
