// Layers stage by stage: how each is split (colour and letter), how much of the stage's time it takes (the bar above), and
// on which hosts and devices stages lie.
function drawStrip(box, strip) {
  const labels = [...new Set(strip.splits.map((s) => s.label))];
  const styleOf = (split) => `split${labels.indexOf(strip.splits[split].label) % 6}`;
  const letterOf = (split) => String.fromCharCode(65 + (labels.indexOf(strip.splits[split].label) % 26));
  const nameOf = (cell) => (cell.to ? `${cell.name} to ${cell.to}` : cell.name);
  const saidOf = (label) => (label === "whole" ? "not split" : label === "several" ? "split in several ways" : `split over ${label}`);
  const hasTimes = strip.stages.some((s) => s.cells.some((c) => c.seconds > 0));
  const most = Math.max(...strip.stages.flatMap((s) => s.cells.map((c) => c.seconds / c.count)));
  const part = strip.stages.some((s) => s.stage !== s.group) ? "chunk" : "stage";
  const picked = element("div", { class: "picked", "aria-live": "polite" });

  const pick = (stage, cell) => {
    const split = strip.splits[cell.split];
    const total = stage.cells.reduce((sum, c) => sum + c.seconds, 0);
    const facts = [stage.name, saidOf(split.label)];
    if (cell.count > 1) facts.push(`${cell.count} ${split.operators.length > 0 ? "alike" : "together"}`);
    if (cell.seconds > 0) facts.push(`${secondsText(cell.seconds)}, ${percent(cell.seconds, total)} of what the ${part}’s operators take`);
    if (cell.bytes > 0) facts.push(`${bytesText(cell.bytes)} of weights and kept results`);
    const list = element("ul");
    for (const [name, kind, strategy] of split.operators)
      list.append(element("li", {}, element("code", {}, `${name} ${strategy}`), name.endsWith(kind) ? "" : ` ${kind}`));
    picked.replaceChildren(element("strong", {}, nameOf(cell)), `: ${facts.join("; ")}`, list);
  };

  const row = element("div", { class: "stages" });
  box.append(row);
  const drawn = strip.stages.map((stage) => {
    const cells = element("div", { class: "cells", role: "listbox", "aria-label": `Layers of ${stage.name}`, tabindex: "0" });
    const shown = stage.cells.map((cell, index) => {
      const split = strip.splits[cell.split];
      const out = element("div", { class: "cell", role: "option", "aria-selected": "false", id: `cell-${stage.stage}-${index}`,
        "aria-label": `${nameOf(cell)}, ${split.label}`, title: `${nameOf(cell)}: ${split.label}` });
      if (hasTimes) {
        const time = element("div", { class: "time" });
        time.style.height = `${Math.max(1, (26 * cell.seconds) / cell.count / most).toFixed(1)}px`;
        out.append(time);
      }
      if (cell.count > 1) out.style.width = `${Math.min(120, 8 + 4 * cell.count)}px`;
      out.append(element("div", { class: `split ${styleOf(cell.split)}` }, letterOf(cell.split)));
      return out;
    });
    let current = 0;
    const select = (index) => {
      for (const other of box.querySelectorAll("[aria-selected=true]")) other.setAttribute("aria-selected", "false");
      current = Math.min(Math.max(0, index), shown.length - 1);
      shown[current].setAttribute("aria-selected", "true");
      cells.setAttribute("aria-activedescendant", shown[current].id);
      pick(stage, stage.cells[current]);
    };
    cells.addEventListener("click", (event) => {
      const index = shown.indexOf(event.target.closest(".cell"));
      if (index >= 0) select(index);
    });
    cells.addEventListener("keydown", (event) => {
      const to = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: shown.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      select(to);
    });
    cells.append(...shown);
    const where = ` ${stage.count > 1 ? "devices" : "device"} ${stage.devices}, ${stage.count > strip.per_host ? "hosts" : "host"} ${stage.hosts}`;
    if (stage === strip.stages[0]) box.firstPick = () => select(Math.min(1, shown.length - 1));
    return element("div", { class: "stage" }, element("h3", {}, stage.name, element("span", {}, where)), cells);
  });
  // Of those that are split alike the first.
  const kinds = strip.stages.map((stage) => stage.cells.map((c) => c.split).join());
  const firsts = drawn.filter((_, s) => kinds.indexOf(kinds[s]) === s);
  foldOnNarrow(row, drawn, firsts, (count) => `${count} more that are split like these`);

  const splits = element("ul", { class: "splits" });
  for (const [index, label] of labels.entries()) {
    const names = strip.stages.flatMap((s) => s.cells.filter((c) => strip.splits[c.split].label === label).map(nameOf));
    splits.append(element("li", {},
      element("span", { class: `split split${index % 6}` }, String.fromCharCode(65 + (index % 26))),
      element("span", {}, `${saidOf(label)}: ${foldedNames(names)}`)));
  }
  box.append(splits);
  if (hasTimes) box.append(element("p", { class: "fine hint" }, "The bar above a layer is its share of time. Click a layer, or use the arrow keys, to see its operators."));
  box.append(picked);
  box.firstPick?.();
  if (strip.stages.some((s) => s.group > 0)) box.append(hostsMap(strip));
}

/// `layers.0–79, norm, output`
function foldedNames(names) {
  const out = [];
  for (const name of names) {
    const [, stem, number] = name.match(/^(.*?)(\d+)$/) ?? [];
    const last = out.at(-1);
    if (stem !== undefined && last?.stem === stem && last.to + 1 === Number(number)) last.to += 1;
    else out.push({ stem, from: Number(number), to: Number(number), name });
  }
  const told = out.map((r) => (r.stem !== undefined && r.to > r.from ? `${r.stem}${r.from}–${r.to}` : r.name));
  const most = 12;
  return told.length > most ? `${told.slice(0, most).join(", ")} and ${told.length - most} more` : told.join(", ");
}

/// Hosts with their devices, each with the number of its stage.
function hostsMap(strip) {
  const groups = strip.stages.filter((s) => s.stage === s.group);
  const groupOf = (device) => groups.find((g) => device >= g.first && device < g.first + g.count)?.group ?? 0;
  const most = 512;
  if (strip.devices > most) {
    const list = element("ul", { class: "splits" });
    for (const g of groups) list.append(element("li", {}, `stage ${g.group}: hosts ${g.hosts}, devices ${g.devices} (${g.count})`));
    return list;
  }
  const map = element("div", { class: "hosts", role: "img",
    "aria-label": groups.map((g) => `stage ${g.group} on devices ${g.devices}, hosts ${g.hosts}`).join("; ") });
  for (let first = 0; first < strip.devices; first += strip.per_host) {
    const count = Math.min(strip.per_host, strip.devices - first);
    const row = element("div");
    for (let d = first; d < first + count; ++d)
      row.append(element("i", { class: groupOf(d) % 2 ? "odd" : "", title: `device ${d}: stage ${groupOf(d)}` }, groupOf(d)));
    map.append(element("div", { class: "host" }, `host ${first / strip.per_host}`, row));
  }
  const out = element("div");
  out.append(element("p", { class: "fine" },
    `Devices by host; the number in each is its stage.`), map);
  return out;
}
