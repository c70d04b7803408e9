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

function compareCells(a, b) {
  const [x, y] = [a.dataset.sort, b.dataset.sort];
  if (x !== undefined && y !== undefined) return Number(x) - Number(y);
  return a.textContent.localeCompare(b.textContent, "en", { numeric: true });
}
