// The simulated step of one rank of each stage, in three lanes: tasks of the schedule, what the device does, and what is on
// the wire. How the numbers are laid out is told in frontend/timeline_json.cpp.
const doing = [
  { style: "compute", text: "computes" },
  { style: "again", text: "computes again" },
  { style: "communication", text: "waits for communication" },
  { style: "waiting", text: "waits for other stages" },
];
const blockKinds = [
  { style: "forward", text: "forward", letter: "F" },
  { style: "backward", text: "backward", letter: "B" },
  { style: "update", text: "update", letter: "U" },
  { style: "waiting", text: "between tasks", letter: "" },
  { style: "several", text: "several tasks", letter: "" },
  { style: "weights", text: "gradients of weights", letter: "W" },
];
/// Of a micro-batch.
const isPass = (kind) => kind < 2 || kind === 5;

/// How much of its time something is on the wire; transfers of several groups may be at the same time.
const density = (w) => (w.end > w.begin ? w.busy / (w.end - w.begin) : 1);

/// From runs of integers to records.
function readTimeline(raw) {
  const nameOf = (name, number) => (number < 0 ? raw.names[name] : raw.names[name].replaceAll("#", number));
  const readWire = (list) => {
    const out = [];
    for (let i = 0, begin = 0; i < list.length; i += 6) {
      begin += list[i + 3];
      out.push({ name: nameOf(list[i], list[i + 1]), count: list[i + 2], begin, end: begin + list[i + 4], busy: list[i + 5] });
    }
    return out;
  };
  const readPieces = (list) => {
    const out = [];
    for (let i = 0, begin = 0; i < list.length;) {
      const piece = { name: nameOf(list[i], list[i + 1]), count: 1, begin, parts: [0, 0, 0, 0] };
      const code = list[i + 2];
      if (code <= 3) {
        piece.parts[code] = list[i + 3];
        i += 4;
      } else {
        piece.count = code - 3;
        piece.parts = list.slice(i + 3, i + 7);
        i += 7;
      }
      begin += piece.parts.reduce((a, b) => a + b, 0);
      piece.end = begin;
      out.push(piece);
    }
    return out;
  };
  const patterns = raw.patterns.map((p) => ({ pieces: readPieces(p.p), wire: readWire(p.w) }));
  for (const p of patterns) {
    p.parts = [0, 1, 2, 3].map((d) => p.pieces.reduce((sum, piece) => sum + piece.parts[d], 0));
    p.length = p.pieces.at(-1)?.end ?? 0;
  }
  const ranks = raw.ranks.map((rank) => {
    const blocks = [];
    let now = 0;
    for (let i = 0; i < rank.blocks.length; i += 6) {
      const [gap, length, kind, micro, stage, pattern] = rank.blocks.slice(i, i + 6);
      blocks.push({ begin: now + gap, end: now + gap + length, kind, micro, stage, pattern: patterns[pattern] });
      now += gap + length;
    }
    return { ...rank, blocks, wire: readWire(rank.wire) };
  });
  return { ...raw, ranks };
}

/// The first of `items`, which are in order, that ends behind `tick`.
function firstBehind(items, tick) {
  let low = 0, high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].end > tick) high = middle;
    else low = middle + 1;
  }
  return low;
}

function drawTimeline(box, raw) {
  if (!raw) {
    box.append(element("p", {}, `A step of ${data.events} events is not drawn. “shardwright simulate” has its sums.`));
    return;
  }
  const timeline = readTimeline(raw);
  const ticks = timeline.ticks;
  view.least = Math.min(1, 40 / ticks);
  const isStaged = timeline.ranks.length > 1;
  const hasKind = (i) => timeline.ranks.some((r) => r.blocks.some((b) => b.kind === i));
  const isCut = hasKind(5);
  const kindText = (i) => (i === 1 && isCut ? "gradients of inputs" : blockKinds[i].text);
  const isChunked = timeline.ranks.some((r) => r.stages.length > 1);
  const isMany = timeline.ranks.some((r) => r.blocks.length > 8);
  const readout = element("p", { class: "readout", "aria-live": "polite" });
  const shown = element("p", { class: "shown" });
  const svgBox = element("div", { class: "view", tabindex: "0", role: "group",
    "aria-label": "Timeline of the step. Plus and minus zoom, arrows left and right move, 0 shows the whole step, n and p step from piece to piece, arrows up and down change the rank." });
  box.append(element("div", { class: "tools" }, zoomButtons(),
    legend([...doing.map((d) => [d.style, d.text]).filter(([s]) => usesDoing(timeline, s)), ...(usesWire(timeline) ? [["wire", "on the wire"]] : [])]),
    legend([0, 1, 5, 2, 4].filter(hasKind).map((i) => [blockKinds[i].style,
      kindText(i) + (blockKinds[i].letter ? ` (${isCut && i === 1 ? "I" : blockKinds[i].letter})` : "")])), labelKey()), shown, svgBox, readout);
  box.append(howToRead(mergedText(timeline), "Zoom: + and −, wheel with Ctrl or after a click, two fingers; move: arrows or drag; n and p go from piece to piece; 0 shows all."));

  const laneTop = 18, laneHeight = { task: 15, doing: 20, wire: 7 }, rankHeight = laneTop + 15 + 20 + 7 + 16;
  const cursor = { rank: 0, tick: -1 };
  let openedAt = 0;
  const geometry = () => ({ left: 0, right: svgBox.clientWidth || 900 });

  function draw() {
    openReadable();
    const { left, right } = geometry();
    const scale = (right - left) / ((view.to - view.from) * ticks);
    const x = (tick) => left + (tick - view.from * ticks) * scale;
    const first = view.from * ticks, last = view.to * ticks;
    const bottom = timeline.ranks.length * rankHeight;
    let out = timeAxis(view, left, right, bottom - 2, 18);
    timeline.ranks.forEach((rank, r) => {
      const top = r * rankHeight;
      out += `<text x="${left}" y="${top + 12}">${escaped(rankText(rank))}</text>`;
      out += rankSums(rank, r, right, top + 12);
      out += `<rect class="ground" x="${left}" y="${top + laneTop}" width="${right - left}" height="${laneHeight.task + laneHeight.doing + laneHeight.wire + 2}"/>`;
      out += drawRank(rank, top + laneTop, { x, scale, first, last, left, right });
    });
    if (cursor.tick >= first && cursor.tick <= last) {
      const at = x(cursor.tick).toFixed(1), top = cursor.rank * rankHeight + laneTop - 2;
      out += `<path class="cursor" d="M${at} ${top}v${rankHeight - laneTop}"/>`;
    }
    svgBox.innerHTML = `<svg role="img" aria-label="${escaped(summary())}" viewBox="0 0 ${right} ${bottom + 20}" height="${bottom + 20}">` +
      `<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="hatch" d="M0 0V5"/></pattern></defs>${out}</svg>`;
    svgBox.classList.toggle("zoomed", view.to - view.from < 1);
    tellShown();
  }

  /// Where tasks are too narrow to be read the first of them are shown, as many as there is room for, until somebody zooms.
  function openReadable() {
    const width = box.clientWidth || 900;
    if (view.isMoved || width === openedAt) return;
    openedAt = width;
    const forwards = timeline.ranks.flatMap((r) => r.blocks.filter((b) => b.kind === 0).map((b) => b.end - b.begin)).sort((a, b) => a - b);
    const least = isChunked ? 42 : 26;
    const share = forwards.length > 0 ? (width * forwards[forwards.length >> 1]) / (least * ticks) : 1;
    view.to = share < 0.6 ? Math.max(view.least, share) : 1;
  }
  function tellShown() {
    const [from, to] = [view.from, view.to].map((share) => secondsText(share * data.step_seconds));
    shown.replaceChildren(view.to - view.from > 0.999 ? "Shown: the whole step." :
      `Shown: ${from} to ${to} of ${secondsText(data.step_seconds)}, so that tasks can be read; “Whole step” shows all.`);
  }
  function labelKey() {
    if (!isMany) return "";
    return element("span", { class: "fine" }, isChunked ? "F3 c5: forward of micro-batch 3 through chunk 5; fainter: a stage’s later chunks" : "F3: forward of micro-batch 3");
  }

  function drawRank(rank, top, frame) {
    const { x, scale, first, last, left, right } = frame;
    const taskTop = top, doingTop = top + laneHeight.task + 1, wireTop = doingTop + laneHeight.doing + 1;
    let tasks = "";
    const stack = stacked(doingTop, laneHeight.doing, left, right), wire = wires(wireTop, laneHeight.wire, left, right);
    for (let i = firstBehind(rank.blocks, first); i < rank.blocks.length && rank.blocks[i].begin < last; ++i) {
      const block = rank.blocks[i];
      const x0 = Math.max(left, x(block.begin)), x1 = Math.min(right, x(block.end));
      if (block.kind !== 3) {
        tasks += `<rect class="${blockKinds[block.kind].style}${isPass(block.kind) && rank.stages.indexOf(block.stage) > 0 ? " later" : ""}" x="${x0.toFixed(1)}" y="${taskTop}" width="${Math.max(0.4, x1 - x0 - (x1 - x0 > 3 ? 1 : 0)).toFixed(1)}" height="${laneHeight.task}"/>`;
        tasks += taskLabel(block, x0, x1, taskTop);
      }
      addPieces(stack, block, frame);
      for (const w of block.pattern.wire) wire.add(x(block.begin + w.begin), x(block.begin + w.end), density(w));
    }
    for (const w of rank.wire) wire.add(x(w.begin), x(w.end), density(w));
    return tasks + stack.end() + wire.end();
  }

  function taskLabel(block, x0, x1, top) {
    const kind = blockKinds[block.kind], width = x1 - x0;
    const letter = isCut && block.kind === 1 ? "I" : kind.letter;
    const isNumbered = isMany && isPass(block.kind);
    const long = `${kindText(block.kind)}${isNumbered ? ` ${block.micro}${isChunked ? `, chunk ${block.stage}` : ""}` : ""}`;
    const short = isNumbered ? `${letter}${block.micro}${isChunked ? ` c${block.stage}` : ""}` : letter;
    const text = width > long.length * 7 + 8 ? long : width > short.length * 7 + 3 ? short : "";
    return text ? `<text x="${((x0 + x1) / 2).toFixed(1)}" y="${top + 11.5}" text-anchor="middle">${text}</text>` : "";
  }

  /// What is too narrow to be seen alone is drawn with its neighbours, each by its share of the height.
  function addPieces(stack, block, { x, scale, first, last }) {
    const pattern = block.pattern;
    const stretch = pattern.length > 0 ? (block.end - block.begin) / pattern.length : 0;
    if ((block.end - block.begin) * scale < 3 || pattern.pieces.length < 2) {
      stack.add(x(block.begin), x(block.end), pattern.parts);
      return;
    }
    const from = stretch > 0 ? (first - block.begin) / stretch : 0;
    for (let i = firstBehind(pattern.pieces, from); i < pattern.pieces.length; ++i) {
      const piece = pattern.pieces[i];
      const begin = block.begin + piece.begin * stretch;
      if (begin > last) break;
      stack.add(x(begin), x(block.begin + piece.end * stretch), piece.parts);
    }
  }

  // ---- what is under the cursor ----

  function pieceAt(r, tick) {
    const rank = timeline.ranks[r];
    const block = rank?.blocks[firstBehind(rank.blocks, tick)];
    if (!block || block.begin > tick) return undefined;
    const pattern = block.pattern, stretch = pattern.length > 0 ? (block.end - block.begin) / pattern.length : 1;
    const index = Math.min(firstBehind(pattern.pieces, (tick - block.begin) / stretch), pattern.pieces.length - 1);
    const piece = pattern.pieces[index];
    const onWire = [...pattern.wire.map((w) => ({ ...w, begin: block.begin + w.begin, end: block.begin + w.end })), ...rank.wire]
      .find((w) => w.begin <= tick && tick < w.end);
    return { rank, block, piece, onWire, begin: block.begin + (piece ? piece.begin * stretch : 0),
      end: piece ? block.begin + piece.end * stretch : block.end };
  }

  function tell(found) {
    if (!found) return;
    const { rank, block, piece, begin, end, onWire } = found;
    const time = (t) => secondsText(Math.max(0, t * timeline.tick_seconds));
    const kind = blockKinds[block.kind];
    const task = block.kind === 3 ? kind.text : block.kind === 2 ? "update" : `${kindText(block.kind)} of micro-batch ${block.micro}`;
    const parts = piece ? piece.parts.map((p, d) => [p, d]).filter(([p]) => p > 0) : [];
    const what = parts.length === 1 ? doing[parts[0][1]].text : parts.map(([p, d]) => `${doing[d].text} ${time(p)}`).join(", ");
    const more = piece?.count > 1 && block.kind !== 4 ? ` and ${piece.count - 1} more` : "";
    const stage = rank.stages.length > 1 ? ` (chunk ${block.stage})` : "";
    readout.replaceChildren(element("strong", {}, `rank ${rank.rank}, ${task}${stage}: `), `${what}: ${piece?.name ?? ""}${more}; from ${time(begin)}, for ${time(end - begin)}`,
      onWire ? `; on the wire: ${onWire.name}${onWire.count > 1 ? ` and ${onWire.count - 1} more` : ""}, ${time(onWire.end - onWire.begin)}` : "");
  }

  function moveTo(r, tick) {
    cursor.rank = r;
    cursor.tick = tick;
    tell(pieceAt(r, tick));
    const share = tick / ticks;
    if (share < view.from || share > view.to) view.set(share - (view.to - view.from) / 2, share + (view.to - view.from) / 2);
    charts.draw();
  }
  function step(direction) {
    const now = pieceAt(cursor.rank, Math.max(cursor.tick, 0));
    if (cursor.tick < 0) return moveTo(cursor.rank, view.from * ticks);
    if (!now) return;
    const tick = direction > 0 ? now.end + 0.01 : now.begin - 0.01;
    if (tick >= 0 && tick < ticks) moveTo(cursor.rank, tick);
  }
  const turn = (by) => moveTo(Math.min(Math.max(0, cursor.rank + by), timeline.ranks.length - 1), Math.max(cursor.tick, view.from * ticks));
  const share = makeZoomable(view, svgBox, () => geometry().left,
    { n: () => step(1), p: () => step(-1), ArrowUp: () => turn(-1), ArrowDown: () => turn(1) });
  svgBox.addEventListener("pointermove", (event) => {
    const y = event.clientY - svgBox.getBoundingClientRect().top;
    const r = Math.min(timeline.ranks.length - 1, Math.max(0, Math.floor(y / rankHeight)));
    cursor.rank = r;
    cursor.tick = share(event) * ticks;
    tell(pieceAt(r, cursor.tick));
    charts.draw();
  });

  function rankText(rank) {
    const alike = rank.count > 1 ? ` and ${rank.count - 1} ${rank.count === 2 ? "other" : "others"} like it` : "";
    return isStaged || rank.stages.length > 1 ? `${groupName(rank.stages)} · rank ${rank.rank}${alike}` : `rank ${rank.rank}${alike}`;
  }
  function rankSums(rank, r, right, y) {
    if (right < 560) return "";
    const [compute, communication, waiting] = data.by_stage[r];
    const parts = [[compute, "compute"], [communication, "communication"], [waiting, "waiting"]]
      .filter(([s]) => s > 0).map(([s, text]) => `${percent(s, data.step_seconds)} ${text}`);
    return `<text class="muted" x="${right}" y="${y}" text-anchor="end">${parts.join(" · ")}</text>`;
  }
  function summary() {
    return data.by_stage.map(([compute, communication, waiting], r) =>
      `rank ${timeline.ranks[r].rank}: computes ${secondsText(compute)}, waits for communication ${secondsText(communication)}, for others ${secondsText(waiting)}`).join("; ");
  }

  readout.textContent = "Point at a piece, or press n in the chart, to see what it is.";
  charts.watchers.push(draw);
  draw();
}

function usesDoing(timeline, style) {
  const d = doing.findIndex((kind) => kind.style === style);
  return timeline.ranks.some((r) => r.blocks.some((b) => b.pattern.parts[d] > 0));
}

const usesWire = (timeline) => timeline.ranks.some((r) => r.wire.length > 0 || r.blocks.some((b) => b.pattern.wire.length > 0));

function mergedText(timeline) {
  const out = ["For each stage one rank (device) is drawn: the others of the stage do the same at the same times. Three lanes, from above: tasks; what the device does; what is on the wire, beside it."];
  out.push("A task’s block includes what it waits for, so one that waits long is not one that computes long: the lane below has both apart.");
  out.push("Tasks that run alike are drawn from one of them.");
  if (timeline.joins_blocks) out.push("The first and last tasks are there one by one, those between are joined.");
  if (timeline.joins_pieces) out.push("Kernels side by side are joined where there are too many for a page.");
  if (timeline.joins_blocks || timeline.joins_pieces) out.push("What is joined shows each kind by its share of the height, and sums stay exact.");
  return out.join(" ");
}

/// Pieces in one lane: those of less than three pixels share a rectangle.
function stacked(top, height, left, right) {
  let out = "", from = 0, to = 0, parts = null;
  const flush = () => {
    if (!parts) return;
    const whole = parts.reduce((a, b) => a + b, 0), x0 = Math.max(left, from), x1 = Math.min(right, to);
    let y = top + height;
    parts.forEach((part, d) => {
      if (part <= 0 || x1 <= x0) return;
      const h = (height * part) / whole;
      y -= h;
      const place = `x="${x0.toFixed(2)}" y="${y.toFixed(2)}" width="${(x1 - x0 + 0.05).toFixed(2)}" height="${h.toFixed(2)}"`;
      out += `<rect class="${doing[d].style}" ${place}/>`;
      if (d === 1 && x1 - x0 > 3) out += `<rect fill="url(#hatch)" ${place}/>`;
    });
    parts = null;
  };
  return {
    add(x0, x1, own) {
      if (x1 < left || x0 > right) return;
      if (parts && (x1 - x0 >= 3 || to - from >= 3)) flush();
      if (!parts) [from, parts] = [x0, [0, 0, 0, 0]];
      const length = own.reduce((a, b) => a + b, 0);
      own.forEach((part, d) => (parts[d] += length > 0 ? (part / length) * (x1 - x0) : 0));
      to = x1;
    },
    end() {
      flush();
      return out;
    },
  };
}

/// What is on the wire: pieces of less than three pixels share a rectangle, as high as they are dense.
function wires(top, height, left, right) {
  let out = "", from = 0, to = 0, busy = -1;
  const flush = () => {
    if (busy < 0) return;
    const x0 = Math.max(left, from), x1 = Math.min(right, to), width = Math.max(0.8, x1 - x0);
    const h = Math.max(0.8, height * Math.min(1, busy / Math.max(0.8, to - from)));
    out += `<rect class="wire" x="${x0.toFixed(1)}" y="${(top + height - h).toFixed(1)}" width="${width.toFixed(1)}" height="${h.toFixed(1)}"/>`;
    busy = -1;
  };
  return {
    add(x0, x1, share) {
      if (x1 < left || x0 > right) return;
      if (busy >= 0 && (x1 - from > 3 || x0 < from)) flush();
      if (busy < 0) [from, to, busy] = [x0, x0, 0];
      to = Math.max(to, x1);
      busy += share * (x1 - x0);
    },
    end() {
      flush();
      return out;
    },
  };
}
