// The losses of a training run, step by step.
function drawLosses(box, run) {
  const points = run.losses.map((loss, i) => [run.steps[i], loss]).filter(([, loss]) => Number.isFinite(loss));
  if (points.length < 2) return;
  const height = 160, left = 58, top = 22;
  const losses = points.map(([, loss]) => loss);
  const low = Math.min(...losses), high = Math.max(...losses), first = points[0][0], last = points.at(-1)[0];
  const draw = () => {
    const right = (box.clientWidth || 900) - 8;
    const x = (step) => left + ((step - first) / (last - first)) * (right - left);
    const y = (loss) => top + height * (1 - (loss - low) / (high - low || 1));
    const bottom = top + height + 38;
    let out = `<text class="muted" x="${left}" y="14">loss</text><text class="muted" x="${(left + right) / 2}" y="${bottom - 6}" text-anchor="middle">step</text>`;
    out += `<rect class="ground" x="${left}" y="${top}" width="${right - left}" height="${height}"/>`;
    for (const loss of rounds(low, high, 4))
      out += `<path class="axis" d="M${left - 4} ${y(loss).toFixed(1)}H${right}"/><text class="muted" x="${left - 7}" y="${(y(loss) + 4).toFixed(1)}" text-anchor="end">${digits(loss, 4)}</text>`;
    for (const step of rounds(first, last, Math.min(last - first, (right - left) / 90)).filter(Number.isInteger))
      out += `<text class="muted" x="${x(step).toFixed(1)}" y="${top + height + 16}" text-anchor="middle">${step}</text>`;
    out += `<path class="loss" d="${points.map(([step, loss], i) => `${i ? "L" : "M"}${x(step).toFixed(1)} ${y(loss).toFixed(1)}`).join("")}"/>`;
    box.innerHTML = `<svg role="img" aria-label="Loss by step, from ${digits(losses[0], 5)} to ${digits(losses.at(-1), 5)}" viewBox="0 0 ${right + 8} ${bottom}" height="${bottom}">${out}</svg>`;
  };
  charts.watchers.push(draw);
  draw();
}
