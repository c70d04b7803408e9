// What the page's parts share: its data, elements, quantities as the program writes them, and the stretch of time in view.
const data = JSON.parse(document.getElementById("data").textContent);

function element(name, attributes = {}, ...content) {
  const out = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, value);
  out.append(...content);
  return out;
}

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => escapes[c]);

/// Significant digits as "{:.3g}" gives them, without an exponent.
function digits(number, count) {
  return String(Number(number.toPrecision(count)));
}
function secondsText(seconds) {
  if (seconds === 0) return "0";
  if (seconds < 1e-6) return digits(seconds * 1e9, 3) + " ns";
  if (seconds < 1e-3) return digits(seconds * 1e6, 3) + " us";
  if (seconds < 1) return digits(seconds * 1e3, 3) + " ms";
  return digits(seconds, 4) + " s";
}
function bytesText(bytes) {
  if (bytes < 1e3) return `${bytes} B`;
  if (bytes < 1e6) return (bytes / 1e3).toFixed(1) + " KB";
  if (bytes < 1e9) return (bytes / 1e6).toFixed(1) + " MB";
  return (bytes / 1e9).toFixed(2) + " GB";
}
const percent = (part, whole) => (whole > 0 ? ((100 * part) / whole).toFixed(1) + "%" : "-");
const range = (first, count) => (count === 1 ? `${first}` : `${first}–${first + count - 1}`);

/// What a group of devices runs: `stage 0`, of several chunks `stage 0 (chunks 0, 4)`.
const groupName = (parts) => `stage ${parts[0]}${parts.length > 1 ? ` (chunks ${parts.join(", ")})` : ""}`;

/// Round numbers in [from, to], about `count` of them.
function rounds(from, to, count) {
  const raw = (to - from) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw);
  const out = [];
  for (let n = Math.ceil(from / step); n * step <= to * (1 + 1e-9); ++n) out.push(n * step);
  return out;
}

/// All charts are drawn together, once, when the next frame is.
const charts = {
  watchers: [],
  draw() {
    if (this.is_due) return;
    this.is_due = true;
    requestAnimationFrame(() => {
      this.is_due = false;
      for (const watcher of this.watchers) watcher();
    });
  },
};

/// The stretch of the step that is in view, in [0, 1].
function makeView() {
  return {
    from: 0,
    to: 1,
    least: 1e-6,
    isMoved: false,
    others: [],
    set(from, to) {
      const width = Math.min(1, Math.max(this.least, to - from));
      const begin = Math.min(Math.max(0, from), 1 - width);
      for (const v of [this, ...this.others]) [v.from, v.to, v.isMoved] = [begin, begin + width, true];
      charts.draw();
    },
    zoom(factor, at = (this.from + this.to) / 2) {
      this.set(at - (at - this.from) * factor, at + (this.to - at) * factor);
    },
    pan(share) {
      const by = share * (this.to - this.from);
      this.set(this.from + by, this.to + by);
    },
    whole() {
      this.set(0, 1);
    },
  };
}
/// Timeline and memory show the same, but that the timeline opens where its tasks can be read.
const view = makeView(), memoryView = makeView();
view.others.push(memoryView);
memoryView.others.push(view);

/// Times below a chart from `left` to `right`, at `y`.
function timeAxis(view, left, right, y, top) {
  const seconds = (share) => share * data.step_seconds;
  let out = `<path class="axis" d="M${left} ${y}H${right}"/>`;
  for (const t of rounds(seconds(view.from), seconds(view.to), (right - left) / 110)) {
    const x = left + ((t / data.step_seconds - view.from) / (view.to - view.from)) * (right - left);
    const anchor = x < left + 20 ? "start" : x > right - 30 ? "end" : "middle";
    out += `<path class="axis" d="M${x.toFixed(1)} ${top}V${y + 4}"/>`;
    out += `<text class="muted" x="${x.toFixed(1)}" y="${y + 16}" text-anchor="${anchor}">${axisText(view, t)}</text>`;
  }
  return out;
}
/// All in the unit that suits what is in view.
function axisText(view, seconds) {
  const width = (view.to - view.from) * data.step_seconds;
  const [scale, unit] = width < 2e-6 ? [1e9, "ns"] : width < 2e-3 ? [1e6, "us"] : width < 2 ? [1e3, "ms"] : [1, "s"];
  return `${digits(seconds * scale, 6)} ${unit}`;
}

/// Keys, wheel, fingers and mouse on a chart whose times begin at `left()` pixels.
function makeZoomable(view, box, left, keys = {}) {
  const share = (event) => {
    const place = box.getBoundingClientRect();
    const x = (event.clientX - place.left - left()) / (place.width - left());
    return view.from + Math.min(1, Math.max(0, x)) * (view.to - view.from);
  };
  const named = {
    "+": () => view.zoom(0.5), "=": () => view.zoom(0.5), "-": () => view.zoom(2), "0": () => view.whole(),
    Home: () => view.whole(), ArrowLeft: () => view.pan(-0.2), ArrowRight: () => view.pan(0.2), ...keys,
  };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !named[event.key]) return;
    event.preventDefault();
    named[event.key]();
  });
  // A wheel scrolls the page, unless it is asked to zoom: with Ctrl, as pinching does, or once the chart has been clicked.
  box.addEventListener("wheel", (event) => {
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      if (view.to - view.from < 1) event.preventDefault();
      view.pan(event.deltaX / 600);
    } else if (event.ctrlKey || event.metaKey || document.activeElement === box) {
      event.preventDefault();
      view.zoom(Math.exp(event.deltaY * (event.ctrlKey ? 0.01 : 0.0025)), share(event));
    }
  }, { passive: false });
  const fingers = new Map();
  box.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, event);
  });
  box.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const width = box.clientWidth - left();
    if (fingers.size === 2) {
      const other = [...fingers.values()].find((f) => f.pointerId !== event.pointerId);
      const was = Math.abs(before.clientX - other.clientX), is = Math.abs(event.clientX - other.clientX);
      if (was > 5 && is > 5) view.zoom(was / is, (share(event) + share(other)) / 2);
    } else {
      view.pan((before.clientX - event.clientX) / width);
    }
    fingers.set(event.pointerId, event);
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"])
    box.addEventListener(end, (event) => fingers.delete(event.pointerId));
  box.addEventListener("dblclick", (event) => view.zoom(0.33, share(event)));
  return share;
}

const narrow = matchMedia("screen and (max-width: 640px)");

/// How a chart is read: folded on a telephone.
function howToRead(text, keys = "") {
  const out = element("details", { class: "fine" }, element("summary", {}, "How to read it"), element("p", {}, text), element("p", { class: "hint" }, keys));
  const arrange = () => (out.open = !narrow.matches);
  narrow.addEventListener("change", arrange);
  arrange();
  return out;
}

/// On a telephone those of `items` beside the `shown` stand folded below these.
function foldOnNarrow(box, items, shown, title) {
  const rest = items.filter((item) => !shown.includes(item));
  if (rest.length < 2) return void box.append(...items);
  const content = element("div", { class: box.className });
  const details = element("details", { class: "more" }, element("summary", {}, title(rest.length)), content);
  details.addEventListener("toggle", () => charts.draw());
  const arrange = () => {
    if (narrow.matches) content.append(...rest);
    box.replaceChildren(...(narrow.matches ? [...shown, details] : items));
  };
  narrow.addEventListener("change", arrange);
  arrange();
}

function zoomButtons() {
  const button = (text, name, action) => {
    const out = element("button", { type: "button", "aria-label": name, title: name }, text);
    out.addEventListener("click", action);
    return out;
  };
  return element("div", { class: "group", role: "group", "aria-label": "Zoom" },
    button("+", "Zoom in", () => view.zoom(0.5)), button("−", "Zoom out", () => view.zoom(2)),
    button("←", "Earlier", () => view.pan(-0.3)), button("→", "Later", () => view.pan(0.3)),
    button("Whole step", "Show the whole step", () => view.whole()));
}

function legend(entries) {
  return element("ul", { class: "legend" },
    ...entries.map(([style, text]) => element("li", {}, element("i", { class: `key ${style}` }), text)));
}
