#!/usr/bin/env python3
"""Runs a test in a host's locale whose decimal point is a comma, as a program is that calls setlocale(LC_ALL, "").

usage: comma_locale.py NAME COMMAND...
       comma_locale.py --available    exits with 0 if the locale can be built here, else prints why and exits with 77

The locale is built by localedef in a temporary folder. Where that is not possible, the test NAME is left out with the
reason, and the exit code is 77. tests/support/host_locale.cc sets the locale in the test's process, and, as a library
that MINUET_TEST_PRELOAD names, in the processes that the test starts.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCES = pathlib.Path("/usr/share/i18n")
LOCALE, CHARACTERS = "de_DE", "ISO-8859-1"
LEFT_OUT = 77


def why_not():
    if shutil.which("localedef") is None:
        return "localedef is not installed"
    if not (SOURCES / "locales" / LOCALE).is_file():
        return f"localedef has no source of {LOCALE}, which the package locales brings"
    return ""


def main():
    name, command = sys.argv[1], sys.argv[2:]
    reason = why_not()
    if name == "--available":
        print(reason or "available")
        return LEFT_OUT if reason else 0
    if reason:
        print(f"left out: {name}: {reason}")  # tools/lint/skips.py reads this
        return LEFT_OUT
    with tempfile.TemporaryDirectory() as folder:
        locale = f"{LOCALE}.{CHARACTERS}"
        subprocess.run(["localedef", "-i", LOCALE, "-f", CHARACTERS, f"{folder}/{locale}"], check=True)
        environment = {**os.environ, "LOCPATH": folder, "MINUET_TEST_LOCALE": locale}
        if "MINUET_TEST_PRELOAD" in environment:
            environment["LD_PRELOAD"] = environment["MINUET_TEST_PRELOAD"]
        return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
