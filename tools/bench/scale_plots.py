#!/usr/bin/env python3
"""Draws what scale.py measured: how the time of a step is divided, and the efficiency, over the number of devices.

usage: scale_plots.py [FOLDER ...]      default: the folders in tools/bench/results

It reads every result of scale.py in a folder, writes scales.svg there, and needs matplotlib. A bar is the time of a
step: of computing on the slowest device, and what exchange adds to it.
"""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from tables import pace, read

WHATS = ("training step", "inference")
COLORS = {"computing": "#4878a8", "exchange": "#e0a040"}
TEXT = {"svg.hashsalt": "minuet", "svg.fonttype": "none", "font.size": 8}


def curves(results: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, list[dict[str, Any]]]]:
    """Returns the rows by (scaling, what), then by framework, mode, cloud and file, in the order of the devices. Only
    rows of one file compare."""
    found: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for result in results:
        for row in result["rows"]:
            if "wall_ms" in row:
                name = f"{row['framework']}: {row['mode']}, {row['cloud']}, {result['file']}"
                found.setdefault((row["scaling"], row["what"]), {}).setdefault(name, []).append(row)
    for rows_of in found.values():
        for rows in rows_of.values():
            rows.sort(key=lambda row: int(row["devices"]))
    return found


def draw_times(axes: Any, rows_of: dict[str, list[dict[str, Any]]]) -> None:
    """Draws a group of bars for each way, with its number, and a bar for each number of devices."""
    places, labels, place = [], [], 0.0
    for number, rows in enumerate(rows_of.values(), 1):
        axes.text(place - 0.4, 1.01, f"({number})", transform=axes.get_xaxis_transform(), fontsize=7)
        for row in rows:
            wall = row["wall_ms"]["median"]
            exchange = min(max(row["communication_ms"]["median"], 0), wall)
            axes.bar(place, wall - exchange, color=COLORS["computing"])
            axes.bar(place, exchange, bottom=wall - exchange, color=COLORS["exchange"])
            places.append(place)
            labels.append(str(row["devices"]))
            place += 1
        place += 0.7
    axes.set_xticks(places, labels)
    axes.set_xlabel("devices")
    axes.set_ylabel("ms of a step")


def draw_efficiency(axes: Any, rows_of: dict[str, list[dict[str, Any]]]) -> None:
    """Draws the voxels that a device gets done in a time, in terms of those with the fewest devices."""
    for number, (name, rows) in enumerate(rows_of.items(), 1):
        paces = [pace(row) / pace(rows[0]) for row in rows]
        axes.plot([row["devices"] for row in rows], paces, marker="o", label=f"({number}) {name}")
    axes.set_xticks(sorted({row["devices"] for rows in rows_of.values() for row in rows}))
    axes.set_ylim(0, 1.1)
    axes.set_xlabel("devices")
    axes.set_ylabel("efficiency")
    axes.legend(fontsize=6, loc="upper left", bbox_to_anchor=(1.01, 1))


def draw(results: list[dict[str, Any]], output: pathlib.Path) -> None:
    """Writes a picture with a row for each kind of scaling and work."""
    found = curves(results)
    figure, grid = plt.subplots(len(found), 2, figsize=(13, 3 * len(found)), squeeze=False)
    order = sorted(found, key=lambda key: (WHATS.index(key[1]), key[0]))
    for (left, right), key in zip(grid, order, strict=True):
        draw_times(left, found[key])
        draw_efficiency(right, found[key])
        right.set_title(f"{key[1]}; scaling: {key[0]}")
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in COLORS.values()]
    names = ["computing on the slowest device", "what exchange adds"]
    figure.legend(handles, names, loc="upper left", fontsize=7, ncol=2)
    figure.suptitle("MinkUNet42 over several GPUs")
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    figure.savefig(output, metadata={"Date": None, "Creator": None})


def main() -> None:
    """Draws the results of each folder that has some."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    given = parser.parse_args()
    results = pathlib.Path(__file__).parent / "results"
    matplotlib.use("svg")
    plt.rcParams.update(TEXT)
    drawn = 0
    for folder in given.folders or sorted(path for path in results.iterdir() if path.is_dir()):
        paths = sorted(folder.glob("*.json"))
        if found := [{**result, "file": path.name} for path in paths for result in read([path])["scales"]]:
            draw(found, folder / "scales.svg")
            drawn += 1
    if not drawn:
        parser.error("there is no result of scale.py")


if __name__ == "__main__":
    main()
