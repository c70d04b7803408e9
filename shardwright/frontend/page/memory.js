// Bytes in use over the step, by kind, for one rank of each stage, below the arena that it reserves and the cap.
function drawMemory(box, memory) {
  if (!memory) {
    box.append(element("p", {}, "Not drawn, as the step is not."));
    return;
  }
  const styleOf = (k) => `kind-${memory.kinds[k][0].replaceAll("_", "-")}`;
  // What stays stands at the bottom.
  const used = memory.kinds.map((_, k) => k).filter((k) => memory.stages.some((s) => s.values[k].some((v) => v > 0)));
  const hasIdle = !memory.framework;
  const readout = element("p", { class: "readout", "aria-live": "polite" });
  const row = element("div", { class: `curves${memory.stages.length === 1 ? " single" : ""}` });
  box.append(element("div", { class: "tools" }, legend([...used.map((k) => [styleOf(k), memory.kinds[k][1]]), ...(hasIdle ? [["idle", "reserved, not in use then"]] : [])])), row, readout,
    howToRead(memoryText(memory)));
  const nameOf = (s) => groupName(data.timeline.ranks[s].stages);
  const fullest = memory.stages.reduce((best, s, i) => (s.arena > memory.stages[best].arena ? i : best), 0);
  const usedOf = (s) => s.peak?.bytes ?? 0;
  const mostUsed = memory.stages.reduce((best, s, i) => (usedOf(s) > usedOf(memory.stages[best]) ? i : best), 0);
  const rankText = (s) => {
    if (memory.stages.length === 1) return "";
    const most = [...(s === fullest ? ["reserves"] : []), ...(s === mostUsed && memory.stages[s].peak ? ["uses"] : [])];
    return most.length > 0 ? `${most.join(" and ")} most · ` : "";
  };
  const drawn = memory.stages.map((stage, s) => {
    const title = element("h3", {}, memory.stages.length > 1 ? nameOf(s) : `rank ${stage.rank}`,
      element("span", {}, ` · ${rankText(s)}${peakText(stage)}`));
    const chart = element("div", { class: "view", tabindex: "0", role: "group",
      "aria-label": `Memory of ${nameOf(s)} over the step. Plus and minus zoom, arrows move, 0 shows the whole step.` });
    return { box: element("div", {}, title, chart), chart };
  });
  foldOnNarrow(row, drawn.map((d) => d.box), [drawn[fullest].box], (count) => `Memory of ${count} other stages`);
  memory.stages.forEach((stage, s) => drawCurve(drawn[s].chart, stage, s));

  function drawCurve(chart, stage, s) {
    const height = 150, top = 16, left = 58;
    const value = (k, c) => stage.values[k][stage.values[k].length === 1 ? 0 : c] * memory.unit;
    const most = Math.max(stage.arena, stage.peak?.bytes ?? 0);
    const isCapFar = memory.cap > 4 * most;
    const ceiling = isCapFar ? 1.25 * most : 1.04 * Math.max(memory.cap, most);
    let column = -1;

    function draw() {
      const right = (chart.clientWidth || 420) - 2;
      const y = (bytes) => top + height * (1 - bytes / ceiling);
      const x = (c) => left + ((c / memory.columns - memoryView.from) / (memoryView.to - memoryView.from)) * (right - left);
      const first = Math.max(0, Math.floor(memoryView.from * memory.columns)), last = Math.min(memory.columns, Math.ceil(memoryView.to * memory.columns));
      const clamp = (n) => Math.min(right, Math.max(left, n)).toFixed(1);
      const below = new Array(last - first).fill(0);
      let out = `<rect class="ground" x="${left}" y="${top}" width="${right - left}" height="${height}"/>`;
      if (hasIdle) {
        const place = `x="${left}" y="${y(stage.arena).toFixed(1)}" width="${right - left}" height="${(top + height - y(stage.arena)).toFixed(1)}"`;
        out += `<rect class="ground" ${place}/><rect fill="url(#idle-hatch-${s})" ${place}/>`;
      }
      for (const k of used) {
        let up = "", down = "";
        for (let c = first; c < last; ++c) {
          const base = below[c - first], now = base + value(k, c);
          up += `${up ? "L" : "M"}${clamp(x(c))} ${y(now).toFixed(1)}L${clamp(x(c + 1))} ${y(now).toFixed(1)}`;
          down = `L${clamp(x(c + 1))} ${y(base).toFixed(1)}L${clamp(x(c))} ${y(base).toFixed(1)}` + down;
          below[c - first] = now;
        }
        if (up) out += `<path class="${styleOf(k)}" d="${up}${down}Z"/>`;
      }
      for (const bytes of rounds(0, ceiling, 4))
        out += `<path class="axis" d="M${left - 4} ${y(bytes).toFixed(1)}h4"/><text class="muted" x="${left - 7}" y="${(y(bytes) + 4).toFixed(1)}" text-anchor="end">${axisBytes(bytes, ceiling)}</text>`;
      out += `<path class="arena" d="M${left} ${y(stage.arena).toFixed(1)}H${right}"/>`;
      if (!isCapFar) out += `<path class="cap" d="M${left} ${y(memory.cap).toFixed(1)}H${right}"/>`;
      const capY = isCapFar ? top - 4 : y(memory.cap) - 4;
      out += `<text class="cap-text" x="${right}" y="${capY.toFixed(1)}" text-anchor="end">cap ${bytesText(memory.cap)}${isCapFar ? ", far above" : ""}</text>`;
      // Above both lines: below them is what is drawn, and the dot of the peak.
      const arenaY = y(stage.arena), isClose = Math.abs(arenaY - capY - 4) < 15;
      out += `<text x="${left + 4}" y="${((isClose ? Math.min(arenaY, capY + 4) : arenaY) - 5).toFixed(1)}">reserved ${bytesText(stage.arena)}</text>`;
      if (stage.peak) {
        const at = stage.peak.seconds / data.step_seconds;
        if (at >= memoryView.from && at <= memoryView.to)
          out += `<circle class="peak" cx="${(left + ((at - memoryView.from) / (memoryView.to - memoryView.from)) * (right - left)).toFixed(1)}" cy="${y(stage.peak.bytes).toFixed(1)}" r="3"/>`;
      }
      if (column >= first && column < last) out += `<path class="cursor" d="M${clamp(x(column + 0.5))} ${top}v${height}"/>`;
      out += timeAxis(memoryView, left, right, top + height, top + height);
      chart.innerHTML = `<svg role="img" aria-label="${escaped(`${nameOf(s)}: ${peakText(stage)}`)}" viewBox="0 0 ${right + 2} ${top + height + 20}" height="${top + height + 20}"><defs><pattern id="idle-hatch-${s}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="idle-hatch" d="M0 0V6"/></pattern></defs>${out}</svg>`;
    }

    const share = makeZoomable(memoryView, chart, () => left);
    chart.addEventListener("pointermove", (event) => {
      column = Math.min(memory.columns - 1, Math.floor(share(event) * memory.columns));
      const parts = used.filter((k) => value(k, column) > 0).map((k) => `${memory.kinds[k][1]} ${bytesText(value(k, column))}`);
      const sum = used.reduce((total, k) => total + value(k, column), 0);
      readout.textContent = `${nameOf(s)}, rank ${stage.rank}, at ${secondsText((column / memory.columns) * data.step_seconds)}: ${bytesText(sum)} in use: ${parts.join(", ")}`;
      charts.draw();
    });
    charts.watchers.push(draw);
    draw();
  }
}

function peakText(stage) {
  if (!stage.peak) return `reserves ${bytesText(stage.arena)}`;
  return `${bytesText(stage.peak.bytes)} in use at most, at ${secondsText(stage.peak.seconds)}`;
}

function memoryText(memory) {
  const out = ["Of each moment that is drawn, the fullest instant in it."];
  const differs = memory.stages.some((s) => s.peak && s.peak.bytes !== s.arena);
  out.push(differs
    ? "A device reserves its memory before the step begins. What is hatched is reserved and not in use then: gaps between tensors that cannot be packed more tightly, and places of micro-batches that are not there at that moment."
    : "At its fullest, all that is reserved is in use.");
  if (memory.framework) out.push(`The curves are of our own program; what is reserved is as ${memory.framework} would take it.`);
  return out.join(" ");
}

function axisBytes(bytes, most) {
  const [scale, unit] = most >= 1e9 ? [1e9, "GB"] : most >= 1e6 ? [1e6, "MB"] : most >= 1e3 ? [1e3, "KB"] : [1, "B"];
  return `${digits(bytes / scale, 4)} ${unit}`;
}
