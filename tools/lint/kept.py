"""Remembers which checks succeeded, so that a check runs again only after a change.

The key of a result is a hash of a file, of all files of the repository that it includes, and of further words such as
flags and the program's version. Installed headers are assumed to change only together with those words.
"""

import functools
import hashlib
import pathlib
import re
import subprocess

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


@functools.lru_cache(maxsize=None)
def included(root, path):
    file = root / path
    if not file.is_file():
        return frozenset()
    names = (pathlib.Path(name) for name in INCLUDE.findall(file.read_text(errors="replace")))
    # Sources include files by the path from the root, and public headers by the path from include/, as users do.
    return frozenset(found for name in names for found in (name, "include" / name) if (root / found).is_file())


@functools.lru_cache(maxsize=None)
def closure(root, path):
    """Returns the paths of the file and of all files of the repository that it includes, directly or indirectly."""
    found, open_paths = set(), [pathlib.Path(path)]
    while open_paths:
        path = open_paths.pop()
        if path not in found:
            found.add(path)
            open_paths += included(root, path)
    return frozenset(found)


@functools.lru_cache(maxsize=None)
def version(program):
    return subprocess.run([*program.split(), "--version"], capture_output=True, text=True).stdout


class Results:
    def __init__(self, file):
        self.file = pathlib.Path(file)
        self.before = set(self.file.read_text().split()) if self.file.exists() else set()
        self.now = set()

    def key(self, root, path, *words):
        digest = hashlib.sha256("\0".join([str(path), *words]).encode())
        for name in sorted(closure(root, pathlib.Path(path))):
            digest.update(str(name).encode() + b"\0" + hashlib.sha256((root / name).read_bytes()).digest())
        return digest.hexdigest()

    def __contains__(self, key):
        return key in self.before

    def keep(self, key):
        self.now.add(key)

    def save(self):
        """Writes only the keys that this run used, so that the file does not grow."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text("\n".join(sorted(self.now)))
