// Draws what the page has room for.
for (const table of document.querySelectorAll("table")) {
  labelCells(table);
  makeSortable(table);
  shorten(table);
}
if (narrow.matches) for (const details of document.querySelectorAll("#operators details")) details.open = false;
for (const box of document.querySelectorAll(".scroll")) hintAtScrolling(box);
drawStrip(document.getElementById("strip"), data.strip);
drawTimeline(document.getElementById("timeline"), data.timeline);
drawMemory(document.getElementById("curves"), data.memory);
if (data.run) drawLosses(document.getElementById("losses"), data.run);
new ResizeObserver(() => charts.draw()).observe(document.body);
addEventListener("resize", () => charts.draw());
// On paper all is open, and charts have the width of the sheet.
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not(.file)")) details.open = true;
});
// In a notebook the page stands in a frame without an address of its own: links within it would lead the frame elsewhere.
if (location.protocol === "about:")
  addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    const place = link && document.getElementById(link.getAttribute("href").slice(1));
    if (!place) return;
    event.preventDefault();
    place.tabIndex = -1;
    place.focus({ preventScroll: true });
    place.scrollIntoView();
  });
// The frame is as high as the page.
try {
  if (window.frameElement) window.frameElement.style.height = `${document.documentElement.scrollHeight + 8}px`;
} catch {
  // The frame is of another origin, and stays as it is.
}
