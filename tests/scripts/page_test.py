#!/usr/bin/env python3
"""Pages of plans in Chromium: page_test.py SHARDWRIGHT

No complaint, nothing loaded, numbers that are those of --json, tables that sort, charts that zoom by keyboard, no page that is
wider than a telephone, text that can be read in light and dark.
"""

import html
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402

program = os.path.abspath(sys.argv[1])
most_bytes = 400_000


def made(folder, name, *words, json_flag="--json"):
    """The document and the page of a command."""
    page = os.path.join(folder, name + ".html")
    out = subprocess.run([program, *words, "--html", page, json_flag], capture_output=True, text=True, cwd=folder)
    assert out.returncode == 0, (words, out.stderr)
    return json.loads(out.stdout.splitlines()[0]), page


def at(document, pointer):
    for part in pointer.split("/")[1:]:
        document = document[int(part) if isinstance(document, list) else part]
    return document


def number_of(text):
    """What a text with a unit says, and by how much it may be rounded."""
    match = re.fullmatch(r"([-+]?[\d.]+(?:e[-+]?\d+)?)\s*(\S*)", text)
    assert match, text
    scale = {"": 1, "%": 1e-2, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}[match[2]]
    return float(match[1]) * scale, 0.006 * abs(float(match[1]) * scale) + 0.06 * scale * (match[2] in ("KB", "MB", "%"))


probe = """(() => ({
  figures: [...document.querySelectorAll("[data-json]")].map(e => [e.dataset.json, e.dataset.value, e.textContent]),
  wide: document.documentElement.scrollWidth - innerWidth,
  small: [...document.querySelectorAll("body *")].filter(e => e.getClientRects().length && [...e.childNodes].some(
    n => n.nodeType === 3 && n.data.trim()) && parseFloat(getComputedStyle(e).fontSize) < 12).map(e => e.outerHTML.slice(0, 80)),
  charts: [...document.querySelectorAll(".chart")].map(e => [e.id, e.querySelectorAll("svg rect, svg path, .cell").length]),
  ids: [...document.querySelectorAll("[id]")].map(e => e.id),
}))()"""

# Text whose contrast to what is behind it is below 4.5; what lies on a chart's colours is looked at by eye.
pale = """(() => {
  const channels = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = channels(c).map(n => (n /= 255) <= 0.03928 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if ((channels(c)[3] ?? 1) > 0) return c; } return "rgb(255, 255, 255)"; };
  const out = [];
  for (const e of document.querySelectorAll("body *")) {
    if (e.closest("svg") || !e.getClientRects().length || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) out.push(e.outerHTML.slice(0, 100));
  }
  return out; })()"""

# By rank what it does, as the drawing has it, beside what the document says.
sums = """(() => { const t = readTimeline(data.timeline); return t.ranks.map((r, i) => {
  const parts = [0, 0, 0, 0];
  for (const b of r.blocks) b.pattern.parts.forEach((p, d) => parts[d] += p * t.tick_seconds);
  return [[parts[0] + parts[1], data.by_stage[i][0]], [parts[2], data.by_stage[i][1]], [parts[3], data.by_stage[i][2]]]; }); })()"""

# Of each stage the fullest column, the peak, the arena.
fullest = """data.memory.stages.map(s => { let most = 0;
  for (let c = 0; c < data.memory.columns; ++c)
    most = Math.max(most, s.values.reduce((sum, v) => sum + v[v.length === 1 ? 0 : c], 0) * data.memory.unit);
  return [most, s.peak.bytes, s.arena, data.memory.unit]; })"""


# What advice asks for; the rows of what lost; its counts; what is in use at most, on the card.
advice = """(() => { const all = (s, f) => [...document.querySelectorAll(s)].map(f); return {
  asked: all(".advice code:has(.flag)", e => e.textContent), setting: document.querySelector(".chosen").textContent,
  rows: all("#lost tbody tr", r => Number(r.querySelector("[data-json$=memory_bytes]").closest("tr").querySelector("[data-json]").dataset.json.split("/")[2])),
  counts: all("#lost .counts b", e => Number(e.textContent)), looked: (document.querySelector("#lost")?.textContent.match(/Looked at: (\\d+)/) ?? [])[1],
  says_marked: document.querySelector("#lost caption")?.textContent.includes("underlined") ?? false, is_marked: document.querySelector("#lost td mark") !== null,
  gain: document.querySelector(".card:last-child .big").textContent, best: document.querySelector(".card:last-child .beside + p").textContent,
  used: document.querySelector("[data-peak]")?.dataset.peak, peaks: data.memory.stages.map(s => [s.arena, s.peak.bytes, s.peak.kinds]),
  kinds: all("[data-peak-kind]", e => [Number(e.dataset.peakKind), Number(e.dataset.value), e.textContent]) }; })()"""

# Of each stage what its fullest column has by kind.
columns = """data.memory.stages.map(s => { const at = (v, c) => v[v.length === 1 ? 0 : c] * data.memory.unit; let most = -1, column = 0;
  for (let c = 0; c < data.memory.columns; ++c) { const sum = s.values.reduce((t, v) => t + at(v, c), 0); if (sum > most) [most, column] = [sum, c]; }
  return s.values.map(v => at(v, column)); })"""

# Tables that scroll without saying so, and cells of cards that do not say what they are.
tables = """[...document.querySelectorAll(".scroll")].filter(e => !e.closest("details:not([open])") && e.scrollWidth > e.clientWidth + 1)
  .map(e => e.classList.contains("scrolls"))"""
unnamed = """[...document.querySelectorAll("td")].filter(e => !e.closest("details:not([open])") && e.textContent
  && getComputedStyle(e, "::before").content.length < 4).length"""


def best_first(document):
    """Numbers of alternatives: what fits before what does not, what was simulated before forecasts, the fastest first.

    Without what is the plan by other words: it takes the same.
    """
    lost = document.get("alternatives", [])
    own = document["step_seconds"], document["memory_bytes"]["arena"], "program"
    others = [i for i, a in enumerate(lost) if (a["step_seconds"], a["memory_bytes"], a["known_by"]) != own]
    cap = document.get("request", {}).get("memory_cap", 0)
    return sorted(others, key=lambda i: (lost[i]["reason"] == "does not fit" or lost[i]["memory_bytes"] > cap,
                                                    lost[i]["known_by"] != "program", lost[i]["step_seconds"]))


def check_advice(browser, document):
    found = browser.evaluate(advice)
    assert all(f"{word}=" in found["setting"] for word in ("dp", "tp", "pp", "micro_batches", "zero")), found["setting"]
    known = {f"{a['flag']} {a['plan']}" for a in [*document.get("alternatives", []), document.get("binding_by") or {}] if a.get("flag")}
    assert set(found["asked"]) <= known, (found["asked"], known)
    assert found["rows"] == best_first(document)[:60], found["rows"]
    assert sum(found["counts"]) == int(found.get("looked", 0)), found
    assert found["says_marked"] == found["is_marked"], found
    check_best_change(document, found)
    check_busiest(browser, document)
    check_held(browser, document, found)
    return found


def check_best_change(document, found):
    """What the card says first is the best of what the document has."""
    step, cap = document["step_seconds"], document.get("request", {}).get("memory_cap", 0)
    faster = lambda seconds: f"{100 * (1 - seconds / step):.1f}% faster"
    unfixed = document.get("unfixed")
    promises = [a for a in document.get("alternatives", []) if a["reason"] != "does not fit" and a["memory_bytes"] <= cap
                and a["step_seconds"] < 0.995 * step]
    if not document["fits"]:
        assert "fit" in found["gain"], found
    elif unfixed and unfixed["fits"] and unfixed["step_seconds"] < min([0.995 * step] + [a["step_seconds"] for a in promises if a["known_by"] == "program"]):
        assert found["gain"] == faster(unfixed["step_seconds"]), (found["gain"], unfixed)
        assert found["best"].startswith(f"Leave out {unfixed['fixed']}: shardwright ") and unfixed["plan"] in found["best"], found
        assert not re.search(r"--(fix|set|stages|schedule)\b", found["best"]), found
    elif promises:
        best = min(promises, key=lambda a: (a["known_by"] != "program", a["step_seconds"]))
        assert found["gain"] == ("" if best["known_by"] == "program" else "Perhaps ") + faster(best["step_seconds"]), (found["gain"], best)
        assert f"{best['flag']} {best['plan']}" in found["best"].replace("\u200b", ""), (found["best"], best)
    else:
        assert found["gain"].startswith(("Nothing", "Not known")), found


def check_held(browser, document, found):
    """Kinds on the card are those of the chart at its fullest moment, and add up to it."""
    if not found.get("used"):
        return
    _, peak, kinds = max(found["peaks"], key=lambda p: p[0])
    assert int(found["used"]) == peak == sum(kinds), (found["used"], peak, kinds)
    assert {k: b for k, b, _ in found["kinds"]} == {k: b for k, b in enumerate(kinds) if b > 0}, (found["kinds"], kinds)
    for _, value, text in found["kinds"]:
        said, slack = number_of(text)
        assert abs(said - value) <= slack, (text, value)
    drawn = browser.evaluate(columns)[found["peaks"].index([_0 for _0 in found["peaks"] if _0[2] == kinds][0])]
    unit = browser.evaluate("data.memory.unit")
    assert abs(sum(drawn) - peak) <= 6 * unit, (drawn, kinds)
    if len(document["by_stage"]) == 1 and document["micro_batches"] == 1:  # else several moments are as full
        assert all(abs(d - k) <= 2 * unit for d, k in zip(drawn, kinds)), (drawn, kinds)


def check_busiest(browser, document):
    """The stage that card, list and table have as the busiest is the same, by the same figures."""
    if len(document["by_stage"]) == 1 or "run" in document:
        return
    rows = browser.evaluate("""[...document.querySelector('.card .stagebars').querySelectorAll('li:not(.head)')]
      .map(e => [e.classList.contains('most'), e.querySelector('b').textContent])""")
    busy = [(s["compute_seconds"] + s["exposed_communication_seconds"]) / document["step_seconds"] for s in document["by_stage"]]
    assert [is_most for is_most, _ in rows].index(True) == busy.index(max(busy)), (rows, busy)
    assert all(abs(float(text[:-1]) / 100 - share) < 6e-4 for (_, text), share in zip(rows, busy)), (rows, busy)
    said = f"on stage {busy.index(max(busy))}, the busiest stage"
    assert said in browser.evaluate("document.querySelector('.card').textContent"), said


def check_numbers(browser, document):
    found = browser.evaluate(probe)
    pointers = set()
    for pointer, value, text in found["figures"]:
        pointers.add(pointer)
        assert json.loads(value) == at(document, pointer), (pointer, value, at(document, pointer))
        said, slack = number_of(text)
        assert abs(said - at(document, pointer)) <= slack, (pointer, text, at(document, pointer))
    wanted = {"/step_seconds", "/memory_bytes/arena"}
    wanted |= {"/run/median_step_seconds", "/run/compare_plan/step/measured_seconds"} if "run" in document else {"/mfu"}
    for s in range(len(document["by_stage"])):
        wanted |= {f"/by_stage/{s}/{k}_seconds" for k in ("compute", "exposed_communication", "bubble")}
        if len(document["by_stage"]) > 1:
            wanted.add(f"/memory_bytes/stages/{s}/arena")
    for i in best_first(document)[:60]:
        wanted |= {f"/alternatives/{i}/step_seconds", f"/alternatives/{i}/memory_bytes"}
    wanted |= {f"/collectives_per_step/{k}" for k in document["collectives_per_step"]}
    assert wanted <= pointers, wanted - pointers
    assert len(set(found["ids"])) == len(found["ids"]), "an id is there twice"
    assert all(count > (id != "strip") for id, count in found["charts"]), found["charts"]


def check_pictures(browser):
    for rank in browser.evaluate(sums):
        for drawn, told in rank:
            assert abs(drawn - told) <= 0.002 * told + 1e-6, rank
    for most, peak, arena, unit in browser.evaluate(fullest):
        assert abs(most - peak) <= 6 * unit, (most, peak)
        assert peak <= arena, (peak, arena)


def check_sorting(browser):
    order = """(() => { const table = [...document.querySelectorAll("table")].find(t => t.tBodies[0].rows.length > 1 && t.querySelector("th.number"));
      const column = [...table.tHead.rows[0].cells].findIndex(c => c.classList.contains("number"));
      table.tHead.rows[0].cells[column].querySelector("button").click();
      return [...table.tBodies[0].rows].map(r => Number(r.cells[column].dataset.sort)); })()"""
    falling, rising = browser.evaluate(order), browser.evaluate(order)
    assert falling == sorted(falling, reverse=True) and rising == sorted(rising), (falling, rising)


def check_zoom(browser):
    # Pressing Tab comes to the link to the plan first, and on to the chart, which heeds keys.
    browser.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.className") == "skip"
    browser.evaluate("document.querySelector('#timeline .view').focus()")
    browser.press("0")
    before = browser.evaluate("document.querySelector('#timeline svg').outerHTML")
    for _ in range(3):
        browser.press("+")
    assert abs(browser.evaluate("view.to - view.from") - 0.125) < 1e-9
    assert browser.evaluate("[memoryView.from, memoryView.to]") == browser.evaluate("[view.from, view.to]")
    assert browser.evaluate("document.querySelector('#timeline svg').outerHTML") != before
    browser.press("ArrowRight")
    browser.press("n")
    assert "for" in browser.evaluate("document.querySelector('#timeline .readout').textContent")
    browser.press("0")
    assert browser.evaluate("[view.from, view.to]") == [0, 1]


def check_look(browser, page):
    for scheme in ("light", "dark"):
        browser.media(scheme)
        browser.settle()
        assert browser.evaluate(pale) == [], (scheme, browser.evaluate(pale))
    browser.media("light")
    for width in (1280, 768, 390):
        browser.size(width)
        browser.settle()
        found = browser.evaluate(probe)
        assert found["wide"] <= 0, (page, width, found["wide"])
        assert found["small"] == [], (width, found["small"])
        assert browser.evaluate(tables) == [True] * len(browser.evaluate(tables)), (page, width)
        if width < 1280:
            assert browser.evaluate(tables) == [], (page, width)
        if width == 390:
            assert browser.evaluate(unnamed) == 0, page
    browser.size(1280)
    browser.settle()


def check(browser, document, page):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    assert len(text.encode()) <= most_bytes, (page, len(text.encode()))
    browser.size(1280)
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(page)
    check_numbers(browser, document)
    check_advice(browser, document)
    check_pictures(browser)
    check_sorting(browser)
    check_zoom(browser)
    check_look(browser, page)
    assert browser.complaints == [], browser.complaints
    assert all(r.startswith(("file://" + page, "data:")) for r in browser.requests), browser.requests


def check_opening(browser, page, label):
    """Of many micro-batches the timeline opens where tasks can be read, and says so; memory shows the whole step."""
    for width in (1280, 390):
        browser.size(width)
        browser.open(page)
        assert browser.evaluate("view.from === 0 && view.to < 0.5 && memoryView.to === 1"), browser.evaluate("[view.from, view.to, memoryView.to]")
        labels = browser.evaluate("[...document.querySelectorAll('#timeline svg text[text-anchor=middle]')].map(e => e.textContent)")
        assert sum(re.fullmatch(label, text) is not None for text in labels) >= (16 if width == 1280 else 6), (width, labels)
        assert browser.evaluate("document.querySelector('.shown').textContent").startswith("Shown: 0 to "), page
        browser.evaluate("[...document.querySelectorAll('#timeline button')].find(b => b.textContent === 'Whole step').click()")
        browser.settle()
        assert browser.evaluate("[view.from, view.to, document.querySelector('.shown').textContent]") == [0, 1, "Shown: the whole step."]
    browser.size(1280)


def check_turned(browser, page):
    """What is open when its width changes looks as if it had been opened so, until somebody zooms."""
    widths = "[...document.querySelectorAll('.chart svg')].filter(e => e.getClientRects().length).map(e => [e.viewBox.baseVal.width, e.parentElement.clientWidth])"
    opened = {}
    for width in (390, 1280):
        browser.size(width)
        browser.open(page)
        opened[width] = browser.evaluate("view.to")
    assert opened[390] < opened[1280], opened
    for width in (390, 1280, 844):
        browser.size(width)
        browser.settle()
        assert all(abs(drawn - box) <= 8 for drawn, box in browser.evaluate(widths)), (width, browser.evaluate(widths))
        assert browser.evaluate("view.to") == opened.get(width, browser.evaluate("view.to")), (width, opened)
    browser.evaluate("view.set(0.25, 0.5)")
    browser.size(390)
    browser.settle()
    assert browser.evaluate("[view.from, view.to]") == [0.25, 0.5]
    browser.size(1280)
    browser.settle()


def check_folded(browser):
    """At medium width a long table has ten rows until all are asked for, on a narrow screen three."""
    shown = "[...document.querySelectorAll('#lost tbody tr')].filter(e => e.getClientRects().length).length"
    count = browser.evaluate("document.querySelectorAll('#lost tbody tr').length")
    for width, rows in ((1280, count), (768, min(count, 10)), (390, 3 if count > 5 else count)):
        browser.size(width)
        browser.settle()
        assert browser.evaluate(shown) == rows, (width, browser.evaluate(shown), count)
    browser.size(768)
    browser.evaluate("document.querySelector('#lost button.all').click()")
    browser.settle()
    assert browser.evaluate(shown) == count
    browser.size(1280)
    browser.settle()
    return count


def check_wire(browser):
    """What is on the wire has a colour of its own, which the legend has."""
    colours = browser.evaluate("""(() => { const fill = s => getComputedStyle(document.querySelector(`#timeline svg .${s}`)).fill;
      return ["wire", "communication", "waiting", "compute"].filter(s => document.querySelector(`#timeline svg .${s}`)).map(fill); })()""")
    assert len(set(colours)) == len(colours) and len(colours) >= 3, colours
    assert "on the wire" in browser.evaluate("document.querySelector('#timeline .legend').textContent")


def check_trained(browser, folder):
    """What was measured stands first, beside the forecast, with the part that differs most."""
    page = os.path.join(folder, "trained.html")
    words = ["gpt:layers=2,hidden=64,heads=2,vocab=64,seq=32", "--devices", "4", "--stages", "2", "--steps", "6"]
    out = subprocess.run([program, "train", *words, "--json", "--html", page], check=True, capture_output=True, text=True)
    summary = json.loads(out.stdout.splitlines()[-1])["summary"]
    browser.open(page)
    found = browser.evaluate(probe)["figures"]
    run = {pointer: (json.loads(value), text) for pointer, value, text in found if pointer.startswith("/run/")}
    assert run["/run/median_step_seconds"][0] == summary["median_step_seconds"], run
    assert run["/run/compare_plan/step/measured_seconds"][0] == summary["compare_plan"]["step"]["measured_seconds"], run
    for pointer, (value, text) in run.items():
        assert value == at({"run": summary}, pointer), pointer
        said, slack = number_of(text)
        assert abs(said - value) <= slack, (pointer, text, value)
    first = browser.evaluate("document.querySelector('.card').textContent")
    assert first.index("a step, measured") < first.index("by forecast") and "most of it" in first, first
    more = lambda part: part["measured_seconds"] - part["predicted_seconds"]
    terms, step = summary["compare_plan"]["terms"], summary["compare_plan"]["step"]
    most = (max if more(step) > 0 else min)(terms, key=more)["name"]
    said = {"communication": "waiting for communication", "bubble": "waiting for other stages", "recompute": "computed again",
            "other": "between operators"}.get(most, most)
    forecast = summary["compare_plan"]["step"]["predicted_seconds"]
    times = summary["median_step_seconds"] / forecast
    if more(step) > 0 and times > 1:
        assert f"most of it {said}, " in first, (most, first)
    # The excess and the factor are of the same two numbers, and the card's first line has both.
    excess, factor = re.search(r"A step takes (\S+ \S+) (?:more|less) than by forecast, (\S+) times it", first).groups()
    assert abs(float(factor) - times) <= 0.006 * times, (factor, times)
    said, slack = number_of(excess)
    assert abs(said - abs(summary["median_step_seconds"] - forecast)) <= slack, (excess, summary["median_step_seconds"], forecast)
    told = browser.evaluate("[...document.querySelectorAll('#summary dd')].filter(e => e.textContent.startsWith('by forecast ')).length")
    assert told == 2, told  # step and throughput
    assert browser.evaluate("document.querySelectorAll('#losses path.loss').length") == 1
    advice = browser.evaluate("document.querySelector('.card:last-child').textContent")
    assert "samples is assumed" in advice, advice
    cores = len(os.sched_getaffinity(0))
    assert ("of its 4 devices" in advice) == (cores < 4), advice
    if times > 1.55:  # what was measured comes before what forecasts promise
        assert browser.evaluate("document.querySelector('.card:last-child .big').textContent") == \
            ("Run it alone" if "Alone on this host" in advice and advice.index("Alone on this host") < advice.index("take turns")
             else "A core for each device" if cores < 4 else "Measure this host"), advice
        assert f"a step takes {factor} times as long as by forecast" in advice, advice
        assert (f"--devices {cores}" if cores < 4 else "") in browser.evaluate(
            "document.querySelector('.card:last-child .beside + p').textContent"), advice
        if ", by forecast (of a step of" in advice:
            assert advice.index(f"{factor} times as long as by forecast") < advice.index(", by forecast (of a step of"), advice
    # Without --json the table of --compare-plan is for who asks for it.
    text = subprocess.run([program, "train", *words, "--html", page], check=True, capture_output=True, text=True)
    assert "predicted / measured" not in text.stdout + text.stderr


def check_words(browser, document, page):
    browser.open(page)
    check_numbers(browser, document)
    return check_advice(browser, document)


def check_hostile(browser, folder):
    """Names of users are text."""
    name = "x<img src=x onerror=alert(1)>&\"'.graph"
    source = "%x = input f32[16, 32]\n%w = param f32[32, 8] (init=normal, scale=0.1)\n%y = matmul %x, %w\n" \
             "%label = input f32[16, 8]\n%loss = mean_squared_error %y, %label\noutput %loss\n"
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(source)
    document, page = made(folder, "hostile", "plan", name, "--devices", "2")
    browser.open(page)
    check_numbers(browser, document)
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert name in browser.evaluate("document.querySelector('.command').textContent").replace("'\\''", "'")


def check_frame(browser, folder, page):
    """In a notebook, whose cell has the page as text: links within it stay in it."""
    with open(page, encoding="utf-8") as file:
        text = html.escape(file.read())
    notebook = os.path.join(folder, "notebook.html")
    with open(notebook, "w", encoding="utf-8") as file:
        file.write(f'<p id="made">cell</p><iframe style="width:100%;height:500px" srcdoc="{text}"></iframe>')
    browser.open(notebook)
    frame = "document.querySelector('iframe').contentWindow"
    for place in ("made", "lost", "verdict"):
        browser.evaluate(f"{frame}.document.querySelector('a[href=\"#{place}\"]').click()")
        browser.settle()
        where = browser.evaluate(f"[{frame}.location.href, {frame}.document.activeElement.id, location.hash]")
        assert where == ["about:srcdoc", place, ""], where
    browser.evaluate(f"{frame}.document.querySelector('a[href=\"#made\"]').click()")
    top = f"{frame}.document.getElementById('made').getBoundingClientRect().top + document.querySelector('iframe').getBoundingClientRect().top"
    end = time.monotonic() + 30  # it scrolls smoothly
    while not browser.evaluate(f"{top} < innerHeight"):
        assert time.monotonic() < end, browser.evaluate(top)
        time.sleep(0.1)


def check_many_operators(browser, folder):
    """Thousands that are of no layer: neighbours stand together, and their figures add up."""
    count, lines, last = 3000, ["%x = input f32[16, 32]"], "x"
    for i in range(count):
        if i % 3 == 0:
            lines.append(f"%w{i} = param f32[32, 32] (init=normal, scale=0.1)\n%conv_{i} = matmul %{last}, %w{i}")
        else:
            lines.append(f"%act_{i} = relu %{last}")
        last = f"conv_{i}" if i % 3 == 0 else f"act_{i}"
    lines.append(f"%label = input f32[16, 32]\n%loss = mean_squared_error %{last}, %label\noutput %loss\n")
    with open(os.path.join(folder, "many.graph"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    # On one axis all are split alike; on two, and in one stage of them whole, some are not.
    for name, set_ in (("many", "dp=4"), ("various", "dp=2,tp=2,act_1={i1: tp},act_800={},act_1600={i1: tp}")):
        document, page = made(folder, name, "plan", "many.graph", "--set", set_)
        assert os.path.getsize(page) <= most_bytes, os.path.getsize(page)
        browser.open(page)
        check_numbers(browser, document)
        cells = browser.evaluate("data.strip.stages.flatMap(s => s.cells)")
        assert 1 <= len(cells) <= 400 and sum(c["count"] for c in cells) == count + 1, len(cells)
        assert browser.evaluate("document.querySelectorAll('#strip .cell').length") == len(cells)
        if name == "various":
            assert len(cells) > 1, cells
        assert 0 < sum(c["seconds"] for c in cells) <= document["step_seconds"], cells
        browser.size(390)
        browser.settle()
        assert browser.evaluate(probe)["wide"] <= 0
        browser.size(1280)


def check_height_on_a_telephone(browser, page):
    browser.size(390)
    browser.open(page)
    browser.settle()
    height = browser.evaluate("document.documentElement.scrollHeight")
    assert height < 9000, height
    folded = "[...document.querySelectorAll('details.more')].map(e => [e.open, e.querySelectorAll('.stage, .curves > div').length])"
    stages = browser.evaluate("[data.strip.stages.length, data.memory.stages.length]")
    assert sum(count for _, count in browser.evaluate(folded)) > sum(stages) / 2 and not any(o for o, _ in browser.evaluate(folded)), browser.evaluate(folded)
    # All of it is there for who asks.
    browser.evaluate("for (const e of document.querySelectorAll('details.more, button.all')) e.open = true, e.click?.()")
    browser.settle()
    assert browser.evaluate("[...document.querySelectorAll('tbody tr')].every(e => e.closest('details:not([open])') || e.getClientRects().length)")
    assert browser.evaluate(probe)["wide"] <= 0
    browser.size(1280)
    browser.settle()
    assert browser.evaluate("document.querySelectorAll('details.more').length") == 0
    drawn = browser.evaluate("[document.querySelectorAll('.stage').length, document.querySelectorAll('.curves > div').length]")
    assert drawn == stages, (drawn, stages)


def check_without_script(browser, page):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.load(page)  # nothing is drawn that could be waited for
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    said = browser.call("DOM.getDocument", depth=-1)
    assert "a step" in json.dumps(said) and "This is drawn by the page" in json.dumps(said)


def main():
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        gpt = "gpt:layers=8,hidden=1024,heads=8,vocab=512,seq=64,batch=32"
        large, page = made(folder, "large", "plan", "llama2-70b", "--cluster", "a100-80g:64", "--global-batch", "256",
                           "--precision", "bf16", "--optimizer", "adamw", "--set",
                           "dp=2,tp=8,pp=4,micro_batches=32,schedule=1f1b,recompute=selected")
        check(browser, large, page)
        check_wire(browser)
        text = browser.evaluate("document.querySelector('.card:last-child').textContent")
        assert "It would fit" in text and "schedule=interleaved:2 (" in text and "recompute costs" in text, text
        assert "by the schedule’s shape) or" in text and "Whether that fits, and what it takes in all, shardwright explain" in text, text
        document, page = made(folder, "set", "plan", "ffn", "--devices", "8", "--set", "dp=8")
        fixed = document["unfixed"]["fixed"]
        assert fixed.startswith("dp=8,tp=1,"), document["unfixed"]
        check_words(browser, document, page)
        assert f"fixed: {fixed};" in browser.evaluate("document.querySelector('.words').textContent")
        lines = subprocess.run([program, "plan", "ffn", "--devices", "8", "--set", "dp=8", "--html", page], check=True,
                               capture_output=True, text=True).stdout
        assert f"unfixed: without {fixed} the search finds {document['unfixed']['plan']}: " in lines, lines
        check(browser, *made(folder, "searched", "plan", gpt, "--cluster", "v100-32g:4x1", "-o", "plan.json"))
        found = check_words(browser, *made(folder, "capped", "plan", gpt, "--cluster", "a100-80g:8", "--memory-cap", "500MB"))
        assert found["asked"] and found["counts"], found
        assert check_folded(browser) > 10
        check(browser, *made(folder, "explained", "explain", "plan.json"))
        check(browser, *made(folder, "simulated", "simulate", "plan.json"))
        check(browser, *made(folder, "operators", "plan", "ffn", "--devices", "8"))
        check_trained(browser, folder)
        interleaved, page = made(folder, "interleaved", "plan", "llama2-70b", "--cluster", "a100-80g:64", "--global-batch", "1024",
                                 "--precision", "bf16", "--optimizer", "adamw", "--set",
                                 "dp=4,tp=2,pp=8,micro_batches=256,zero=1,schedule=interleaved:2,recompute=selected")
        check_height_on_a_telephone(browser, page)
        check_words(browser, interleaved, page)
        check_opening(browser, page, r"[FB]\d+ c\d+")
        check_turned(browser, page)
        check_frame(browser, folder, os.path.join(folder, "searched.html"))
        check_many_operators(browser, folder)
        check_words(browser, *made(folder, "one", "plan", "ffn", "--devices", "1"))
        assert browser.evaluate("document.querySelector('#lost').textContent").strip().endswith("No other plan was looked at.")
        check_hostile(browser, folder)
        check_without_script(browser, os.path.join(folder, "operators.html"))
        assert browser.complaints == [], browser.complaints


main()
