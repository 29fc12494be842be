"""What benches measured: each reports its rows with `figure`, and the pages are generated from what `bench/all.py`
kept.

usage: python bench/figures.py      (generates docs/figures.md and the README's sentence again from docs/figures.json)

A ratio is the peer's figure divided by kgm's: above 1, kgm takes less. So a figure is always a cost if there is a
peer."""

import json
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS, PAGE, README = ROOT / "docs/figures.json", ROOT / "docs/figures.md", ROOT / "README.md"
#: The variable that names a file for the rows, as lines of JSON; set by `bench/all.py`.
ROWS = "KGM_FIGURES"
#: Where the figures are in the README.
SENTENCE = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)

HEAD = """# Figures

One run of `python bench/all.py`, which measures kgm and each peer side by side and writes this page: no figure here is
written by hand. Machines are shared and busy: trust the ratios, and CPU time more than wall time. A ratio is the
peer's figure divided by kgm's: above 1, kgm takes less. Results of `--quick` are for small sizes, and marked as such.
`python bench/NAME.py --help` has the other sizes (`pip install -e '.[dev,bench]'`).
"""


def figure(name, unit, ours, peers=None):
    """Report a row: what was measured, its unit, kgm's figure, {peer: its figure}. A figure is a number, or text such
    as "> 60" if there is no number."""
    row = {"name": name, "unit": unit, "kgm": ours, "peers": peers or {}}
    print("| " + " | ".join(cells(row, list(row["peers"]))) + " |", flush=True)
    if ROWS in os.environ:
        with open(os.environ[ROWS], "a") as file:
            file.write(json.dumps(row) + "\n")


def cells(row, peers):
    """The cells of a row, for a table with these peers."""
    found = [row["name"], row["unit"], shown(row["kgm"])]
    for peer in peers:
        value = row["peers"].get(peer)
        found += [shown(value), ratio(value, row["kgm"])]
    return found


def ratio(theirs, ours):
    both_numbers = isinstance(theirs, int | float) and isinstance(ours, int | float)
    return shown(theirs / ours) if both_numbers and ours else ""


def shown(value):
    """The value with three significant digits."""
    if value is None or isinstance(value, str):
        return value or ""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3}f}"


def page(results):
    """The text of docs/figures.md. results: by bench, see `bench/all.py`."""
    return HEAD + "".join(map(section, results.values()))


def section(result):
    if result["began"] is None:
        return f"\n## {result['title']}\n\n{result['about']}\n\nNot measured yet: `{result['command']}`.\n"
    machine = result["machine"]
    before, after = result["load"]
    when = (
        f"`{result['command']}`, {result['began']}: {machine['cores']} cores of {machine['cpu']}, Python"
        f" {machine['python']}, Kafka {machine['kafka']}; load average {before:.1f} before, {after:.1f} after"
        f"{'; small sizes' if result['quick'] else ''}."
    )
    lines = ["", f"## {result['title']}", "", result["about"], "", when]
    if result["error"]:
        lines += ["", f"**It failed**, so figures are missing: {result['error']}"]
    peers = list(dict.fromkeys(peer for row in result["rows"] for peer in row["peers"]))
    if result["rows"]:
        heads = ["what", "unit", "kgm", *(head for peer in peers for head in (peer, f"{peer} / kgm"))]
        lines += ["", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        lines += [f"| {' | '.join(cells(row, peers))} |" for row in result["rows"]]
    return "\n".join(lines) + "\n"


def sentence(results):
    """The README's sentence about which tool starts faster."""
    rows = {row["name"]: row for row in results["startup"]["rows"]}
    one, many = rows["describe one"], rows["describe all"]
    return (
        "[kcl](https://github.com/twmb/kcl) does, too, and starts faster: it takes"
        f" {shown(one['peers']['kcl'])} ms of CPU where kgm takes {shown(one['kgm'])} for one group,\n"
        f"and {shown(many['peers']['kcl'])} where kgm takes {shown(many['kgm'])} for a thousand"
        " ([figures](docs/figures.md#start-up)).\n"
    )


def write(results):
    """Write everything that is generated from the results."""
    benches = ",\n".join(f"{json.dumps(name)}: {json.dumps(result)}" for name, result in results.items())
    RESULTS.write_text(f"{{\n{benches}\n}}\n")
    PAGE.write_text(page(results))
    started = results.get("startup")
    if started and not started["quick"] and not started["error"]:
        README.write_text(SENTENCE.sub(lambda _: sentence(results), README.read_text()))


if __name__ == "__main__":
    write(json.loads(RESULTS.read_text()))
