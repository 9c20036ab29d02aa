#!/usr/bin/env python3
"""Prints why tests skipped themselves in the last ctest run: each reason once, with how many tests gave it.

usage: skips.py BUILD_FOLDER
"""

import collections
import pathlib
import re
import sys

# GoogleTest: 'file.cc:12: Skipped', the reason on the lines after it, then '[  SKIPPED ] Suite.Test (0 ms)'.
SKIPPED = re.compile(r"^\S+:\d+: Skipped\n(.*?)\n*^\[  SKIPPED \] (\S+) \(", re.MULTILINE | re.DOTALL)


def main():
    log = pathlib.Path(sys.argv[1]) / "Testing/Temporary/LastTest.log"
    if not log.exists():
        return
    reasons = collections.defaultdict(list)
    for reason, test in SKIPPED.findall(log.read_text(errors="replace")):
        reasons[" ".join(reason.split()) or "no reason given"].append(test)
    for reason, tests in sorted(reasons.items()):
        more = f" and {len(tests) - 1} more tests" if len(tests) > 1 else ""
        print(f"{tests[0]}{more}: {reason}")


if __name__ == "__main__":
    main()
