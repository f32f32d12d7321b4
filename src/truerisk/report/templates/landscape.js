"use strict";
const surfaces = JSON.parse(document.getElementById("surfaces").textContent);
const canvases = [...document.querySelectorAll("canvas[data-surface]")];
const view = { azimuth: surfaces.azimuth, tilt: surfaces.tilt };
const ramp = surfaces.ramp.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
const shades = Array.from({ length: 65 }, (_, k) => {
  const at = (k / 64) * (ramp.length - 1), low = Math.min(Math.floor(at), ramp.length - 2), part = at - low;
  return "rgb(" + ramp[low].map((value, c) => Math.round(value + part * (ramp[low + 1][c] - value))).join(",") + ")";
});

function draw(canvas) {
  const grid = surfaces.grids[canvas.dataset.surface], rows = grid.length, columns = grid[0].length;
  const ratio = window.devicePixelRatio || 1, wide = canvas.clientWidth, high = canvas.clientHeight;
  if (!wide) return;
  canvas.width = wide * ratio;
  canvas.height = high * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const cos = Math.cos(view.azimuth), sin = Math.sin(view.azimuth), up = Math.cos(view.tilt), lean = Math.sin(view.tilt);
  const x = new Float64Array(rows * columns), y = new Float64Array(rows * columns), depth = new Float64Array(rows * columns);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      const a = (2 * j) / (columns - 1) - 1, b = (2 * i) / (rows - 1) - 1, k = i * columns + j;
      depth[k] = a * sin + b * cos;
      x[k] = wide / 2 + ((a * cos - b * sin) * wide) / 2.95;
      y[k] = high * 0.78 - ((2 * surfaces.height * grid[i][j] * up + depth[k] * lean) * high) / 3.1;
    }
  }
  const quads = [];
  for (let i = 0; i + 1 < rows; i++) {
    for (let j = 0; j + 1 < columns; j++) {
      const k = i * columns + j;
      quads.push([k, depth[k] + depth[k + 1] + depth[k + columns] + depth[k + columns + 1],
        (grid[i][j] + grid[i][j + 1] + grid[i + 1][j] + grid[i + 1][j + 1]) / 4]);
    }
  }
  quads.sort((one, two) => two[1] - one[1]);
  pen.lineWidth = 0.5;
  pen.lineJoin = "round";
  for (const [k, , height] of quads) {
    pen.beginPath();
    pen.moveTo(x[k], y[k]);
    pen.lineTo(x[k + 1], y[k + 1]);
    pen.lineTo(x[k + columns + 1], y[k + columns + 1]);
    pen.lineTo(x[k + columns], y[k + columns]);
    pen.closePath();
    pen.fillStyle = shades[Math.round(64 * height)];
    pen.fill();
    pen.strokeStyle = "rgba(255,255,255,.35)";
    pen.stroke();
  }
}

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; canvases.forEach(draw); });
}

function turn(azimuth, tilt) {
  view.azimuth = ((azimuth % (2 * Math.PI)) + 2 * Math.PI) % (2 * Math.PI);
  view.tilt = Math.min(Math.max(tilt, 0.05), 1.5);
  for (const slider of document.querySelectorAll("input[data-turn]")) {
    slider.value = Math.round((view[slider.dataset.turn] * 180) / Math.PI);
    slider.nextElementSibling.textContent = slider.value + "°";
  }
  redraw();
}

for (const canvas of canvases) {
  canvas.hidden = false;
  canvas.previousElementSibling.hidden = true;
  let from = null;
  canvas.addEventListener("pointerdown", (event) => {
    from = [event.clientX, event.clientY, view.azimuth, view.tilt];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (from) turn(from[2] + (event.clientX - from[0]) / 120, from[3] + (event.clientY - from[1]) / 160);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { from = null; });
}
for (const box of document.querySelectorAll(".turn")) box.hidden = false;
for (const slider of document.querySelectorAll("input[data-turn]")) {
  slider.addEventListener("input", () => {
    const angle = (slider.valueAsNumber * Math.PI) / 180;
    turn(slider.dataset.turn === "azimuth" ? angle : view.azimuth, slider.dataset.turn === "tilt" ? angle : view.tilt);
  });
}
const asked = new URLSearchParams(location.hash.slice(1));
turn(asked.has("azimuth") ? (Number(asked.get("azimuth")) * Math.PI) / 180 : view.azimuth,
  asked.has("tilt") ? (Number(asked.get("tilt")) * Math.PI) / 180 : view.tilt);
addEventListener("resize", redraw);
