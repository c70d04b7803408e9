// Tables sort by the column whose heading is pressed.
function makeSortable(table) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) return;
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const name = head.textContent;
    const button = element("button", { type: "button", title: `Sort by ${name}` }, name);
    button.addEventListener("click", () => {
      const isUp = head.getAttribute("aria-sort") === "ascending";
      const sign = isUp || (!head.hasAttribute("aria-sort") && head.classList.contains("number")) ? -1 : 1;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      body.append(...[...body.rows].sort((a, b) => sign * compareCells(a.cells[column], b.cells[column])));
    });
    head.replaceChildren(button);
  });
}

/// On a narrow screen a long table begins with a few rows, on one of medium width with more.
function shorten(table) {
  const few = 5, many = 10, count = table.tBodies[0].rows.length;
  if (count <= few) return;
  const button = element("button", { type: "button", class: count > many ? "all many" : "all" }, `Show all ${count} rows`);
  button.addEventListener("click", () => {
    table.classList.remove("short", "long");
    button.remove();
  });
  table.classList.add("short");
  if (count > many) table.classList.add("long");
  table.after(button);
}

/// Where its columns have no room a row is a card, whose lines say what they are.
function labelCells(table) {
  const names = [...table.tHead.rows[0].cells].map((head) => head.textContent);
  for (const row of table.tBodies[0].rows)
    [...row.cells].forEach((cell, column) => cell.setAttribute("data-label", names[column]));
  const many = 7, medium = matchMedia("screen and (max-width: 1000px)");
  const arrange = () => table.classList.toggle("labelled", narrow.matches || (medium.matches && names.length >= many));
  for (const width of [narrow, medium]) width.addEventListener("change", arrange);
  arrange();
}

/// What is wider than the page says so.
function hintAtScrolling(box) {
  new ResizeObserver(() => box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 1)).observe(box);
}

function compareCells(a, b) {
  const [x, y] = [a.dataset.sort, b.dataset.sort];
  if (x !== undefined && y !== undefined) return Number(x) - Number(y);
  return a.textContent.localeCompare(b.textContent, "en", { numeric: true });
}
