"""The installed pages: README.md leads to all of them, and their links lead to files and headings that are installed.

usage: pages_test.py SHARE_DOC_MINUET
"""

import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^() ]*)\)")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page):
    """Returns the anchors of a page's headings, as Markdown viewers make them."""
    titles = re.findall(r"^#+ (.*)$", CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


root = pathlib.Path(sys.argv[1]).resolve()
problems, reached, waiting = [], set(), [root / "README.md"]
while waiting:
    page = waiting.pop()
    if page in reached:
        continue
    reached.add(page)
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if link.startswith(("http:", "https:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.is_relative_to(root) or not target.is_file():
            problems.append(f"{page.relative_to(root)}: {link} is not installed")
        elif anchor and anchor not in anchors(target):
            problems.append(f"{page.relative_to(root)}: {link} names no heading")
        elif target.suffix == ".md":
            waiting.append(target)
problems += [f"{page.relative_to(root)}: no link of README.md leads here" for page in set(root.rglob("*.md")) - reached]
sys.exit("\n".join(sorted(problems)) or None)
