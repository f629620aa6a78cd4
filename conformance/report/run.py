#!/usr/bin/env python3
"""A report of the lab in Chromium, without a network: light and dark, wide and narrow, with scripts and without.

The report is that of a synthetic run which has every kind of figure and of evidence (`crates/lab-report/examples/synthetic_run`). Every chart must draw
every one of its series, begin its bars at zero and keep its labels apart; nothing may be logged or fetched; with scripts off every figure has its
table.

Then a synthetic run of every scenario that Linerate has is opened and looked at in the same way.

    run.py                 the synthetic runs
    run.py FOLDER          another run that has a report
    run.py --pictures DIR  leave pictures of the figures there
"""
import argparse
import json
import subprocess
import sys
import urllib.parse
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent)]
from browser import Browser  # noqa: E402
from harness import Account, temporary_folder  # noqa: E402

# The synthetic run is small, but its writer must be built first.
BUILD_SECONDS = 1500
# Pixels by which boxes of two labels may run into each other: the boxes have more air than the letters.
AIR = 2

# What a page looks like from inside: every chart with its series, axes and labels.
CHARTS = """(() => {
  const hex = (colour) => {
    const parts = /^rgba?\\((\\d+), ?(\\d+), ?(\\d+)/.exec(colour ?? "");
    return parts ? "#" + parts.slice(1).map((part) => Number(part).toString(16).padStart(2, "0")).join("") : (colour ?? "").slice(0, 7);
  };
  const box = (element) => { const at = element.getBoundingClientRect(); return [at.left, at.top, at.right, at.bottom]; };
  return JSON.parse(document.getElementById("data").textContent).map((chart) => {
    const holder = document.getElementById("chart-" + chart.id);
    const svg = holder.querySelector("svg");
    const instance = reportCharts.get(chart.id);
    const paths = [...(svg?.querySelectorAll("path") ?? [])];
    const colours = new Set(paths.flatMap((path) => [hex(path.getAttribute("fill")), hex(path.getAttribute("stroke"))]));
    const texts = [...(svg?.querySelectorAll("text") ?? [])].filter((text) => text.textContent !== chart.watermark);
    return {
      id: chart.id, shape: chart.shape, watermark: chart.watermark,
      drawn: svg !== null, paths: paths.length, holder: box(holder),
      watermarked: [...(svg?.querySelectorAll("text") ?? [])].some((text) => text.textContent === chart.watermark),
      missing: chart.series.filter((series) => series.points.length > 0 && !colours.has(hex(getComputedStyle(document.documentElement)
        .getPropertyValue("--s" + series.colour % 8).trim()))).map((series) => series.name),
      legend: [...document.querySelectorAll(`.legend[data-for="${chart.id}"] li[data-name]`)].map((item) => item.dataset.name),
      series: chart.series.map((series) => series.name),
      zero: chart.y.map((axis) => axis.zero),
      extents: chart.y.map((_, place) => instance.getModel().getComponent("yAxis", place).axis.scale.getExtent()),
      texts: texts.map((text) => ({ words: text.textContent, box: box(text), turned: /rotate|matrix\\((?!1,0,0,1)/.test(text.getAttribute("transform") ?? "") })),
    };
  });
})()"""

TABLES = """[...document.querySelectorAll("figure")].map((figure) => {
  const link = figure.querySelector("a[download]");
  const rows = [...figure.querySelectorAll("details.data tbody tr")];
  return { id: figure.id, heads: [...figure.querySelectorAll("details.data thead th")].map((head) => head.textContent), rows: rows.length,
    visible: rows.filter((row) => row.getBoundingClientRect().height > 0).length, total: figure.querySelector("details.data summary")?.textContent,
    file: link?.getAttribute("download"), url: link?.getAttribute("href") };
})"""


def synthetic_run(folder, *words):
    """Writes a synthetic run with its report, or with `--all` one of every scenario."""
    command = ["cargo", "run", "--quiet", "--package", "lab-report", "--example", "synthetic_run", "--", str(folder), *words]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BUILD_SECONDS)
    if run.returncode != 0:
        sys.exit(f"the synthetic run cannot be written:\n{run.stderr}")
    return folder


def demand(complaints, words):
    """Fails if there is a complaint."""
    if complaints:
        raise RuntimeError(f"{words}: {len(complaints)}\n" + "\n".join(str(one) for one in complaints[:20]))


def silent(browser):
    """Nothing was logged, and nothing asked for but the file itself."""
    demand(browser.complaints(), "logged")
    demand([url for url in browser.requests() if not url.startswith(("file:", "data:"))], "asked for")


def complete(charts):
    """Every chart has every series, in the drawing and in the legend, and its label of evidence."""
    demand([one["id"] for one in charts if not one["drawn"] or not one["paths"]], "charts without a drawing")
    demand([(one["id"], one["missing"]) for one in charts if one["missing"]], "charts without one of their series")
    demand([one["id"] for one in charts if one["legend"] != one["series"]], "charts with another legend than series")
    demand([one["id"] for one in charts if not one["watermark"] or not one["watermarked"]], "charts without a watermark")
    if not charts:
        raise RuntimeError("the report has no chart at all")


def from_zero(charts):
    """Axes hold zero, and begin there unless something lies below."""
    demand([(one["id"], one["extents"]) for one in charts for (low, high), zero in zip(one["extents"], one["zero"])
            if not low <= 0 <= high or (zero and low != 0)], "axes that do not begin at zero")


def overlap(one, other):
    """Whether two boxes share more than air."""
    return one[0] + AIR < other[2] and other[0] + AIR < one[2] and one[1] + AIR < other[3] and other[1] + AIR < one[3]


def legible(charts):
    """No label runs into another or out of its chart. Boxes of turned labels say nothing of their letters."""
    found = []
    for chart in charts:
        texts = chart["texts"]
        left, top, right, bottom = chart["holder"]
        for place, text in enumerate(texts):
            box = text["box"]
            if box[0] < left - AIR or box[1] < top - AIR or box[2] > right + AIR or box[3] > bottom + AIR:
                found.append(f"{chart['id']}: {text['words']!r} is cut off")
            found += [f"{chart['id']}: {text['words']!r} on {other['words']!r}" for other in texts[place + 1:]
                      if not text["turned"] and not other["turned"] and overlap(box, other["box"])]
    demand(found, "labels")


def fits(browser):
    """The page is no wider than its window."""
    width, window = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    if width > window:
        raise RuntimeError(f"the page is {width} pixels wide in a window of {window}")


def tables(browser):
    """Every figure has a table that can be seen, and a file with as many rows."""
    found = browser.evaluate(TABLES)
    wrong = []
    for figure in found:
        lines = urllib.parse.unquote((figure["url"] or "").partition(",")[2]).strip().split("\r\n")
        total = int(figure["total"].split()[1].replace(",", "")) if figure["total"] else -1
        if not figure["rows"] or figure["visible"] != figure["rows"] or len(lines) != total + 1 or not figure["file"]:
            wrong.append({key: figure[key] for key in ("id", "rows", "visible", "total", "file")} | {"lines": len(lines)})
    demand(wrong, "figures without their table or file")
    if not found:
        raise RuntimeError("the report has no figure at all")


def toggled(browser):
    """The button changes the colours of the page and of the drawings, and changes them back."""
    look = "[getComputedStyle(document.body).backgroundColor, document.querySelector('.chart svg text').getAttribute('fill'), document.querySelectorAll('.chart svg').length]"
    first = browser.evaluate(look)
    seen = []
    for _ in range(2):
        browser.evaluate("document.getElementById('theme').click()")
        seen.append(browser.evaluate(look))
    if seen[0][0] == first[0] or seen[0][1] == first[1] or seen[1] != first:
        raise RuntimeError(f"before, after one click and after two: {first} {seen}")


def scripted(browser, account, report, pictures):
    """The report with scripts, in every look."""
    for words, options in (("light", {}), ("dark", {"dark": True}), ("narrow", {"width": 480})):
        with account.test(f"{words}: opens in silence"):
            browser.open(report, **options)
            silent(browser)
        charts = browser.evaluate(CHARTS)
        for name, check in (("every series is drawn", complete), ("axes begin at zero", from_zero), ("labels are legible", legible)):
            with account.test(f"{words}: {name}"):
                check(charts)
        with account.test(f"{words}: no wider than the window"):
            fits(browser)
        if pictures:
            take(browser, pictures, words)
        with account.test(f"{words}: the button changes the colours"):
            toggled(browser)
            silent(browser)


def plain(browser, account, report, pictures):
    """The report without scripts."""
    with account.test("no scripts: opens in silence"):
        browser.open(report, scripts=False)
        silent(browser)
    with account.test("no scripts: every figure has its table and file"):
        tables(browser)
    with account.test("no scripts: says so, and leaves no empty chart"):
        said, charts = browser.evaluate("[document.querySelector('.noscript')?.getBoundingClientRect().height ?? 0, "
                                        "[...document.querySelectorAll('.chart')].filter((chart) => chart.getBoundingClientRect().height > 0).length]")
        if not said or charts:
            raise RuntimeError(f"the line is {said} pixels high, and {charts} charts take room")
    if pictures:
        take(browser, pictures, "plain")


def scenarios(browser, account, folder):
    """A report of every scenario. Those without arms have no chart."""
    for report in sorted(folder.glob("*/report.html")):
        with account.test(f"scenario: {report.parent.name}"):
            browser.open(report)
            silent(browser)
            fits(browser)
            charts = browser.evaluate(CHARTS)
            if charts:
                complete(charts)
                from_zero(charts)
                legible(charts)


def take(browser, pictures, words):
    """Pictures of the page and of each figure."""
    browser.screenshot(pictures / f"{words}.png")
    for figure in browser.evaluate("[...document.querySelectorAll('figure, #summary, #setup')].map((one) => one.id)"):
        browser.screenshot(pictures / f"{words}-{figure}.png", f"[id={json.dumps(figure)}]")


def main():
    """Parses the command line and runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--pictures", type=Path)
    arguments = parser.parse_args()
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    account = Account("report")
    with temporary_folder() as name:
        folder = Path(name)
        report = (arguments.folder or synthetic_run(folder / "run")) / "report.html"
        with Browser(folder) as browser:
            scripted(browser, account, report, arguments.pictures)
            plain(browser, account, report, arguments.pictures)
            if arguments.folder is None:
                scenarios(browser, account, synthetic_run(folder / "scenarios", "--all"))
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
