"""The examples of the pages for PyTorch run as they stand."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")

from conftest import PACKAGE, run_python

PAGES = ["README.md", "spconv/README.md"]
BLOCKS = [
    (page, number, block)
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", (PACKAGE / "minuet/torch" / page).read_text(), re.DOTALL)
    )
]


@pytest.mark.parametrize("block", [block for _, _, block in BLOCKS], ids=[f"{page}-{n}" for page, n, _ in BLOCKS])
def test_example(block):
    done = run_python(block)
    assert done.returncode == 0, done.stderr


def test_pages_have_examples():
    assert {page for page, _, _ in BLOCKS} == set(PAGES)
