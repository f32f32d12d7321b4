"use strict";
// Draws the figures of the page. Each comes with its rows once and with one specification for each width of paper.
const figures = JSON.parse(document.getElementById("figures").textContent);
const number = (value, percent) => {
  const text = (v) => {
    const size = Math.abs(v);
    if (Number.isInteger(v) || (size >= 1e4 && size < 1e9)) return Math.round(v).toLocaleString("en");
    return size < 1e-4 || size >= 1e9 ? v.toExponential(3) : String(Number(v.toPrecision(4)));
  };
  return percent ? `${text(100 * value)}%` : text(value);
};
const cell = (column, value) => {
  if (typeof value !== "number") return String(value ?? "–");
  return column.points ? `${number(100 * value)} points` : number(value, column.percent);
};
// A bound comes with its text, because it must not be rounded down.
const shown = (column, datum) => datum[column.text] ?? cell(column, datum[column.key]);

// Linked figures have the columns of each panel; a row says which panel it is of.
const columns = (figure, datum) => figure.panels ? figure.panels[datum.n].columns : figure.columns;
// A state counts the values of the slider, once for each setting of the switches; below 0 there is no such value.
const there = (column, datum) => datum[column.key] !== undefined && datum[column.key] !== null && !(column.key === "v" && datum.v < 0);
const slide = (figure, datum) => figure.slides[datum.v % Math.max(1, figure.slides.length)];

function tooltip(figure) {
  const row = (datum, safe) => columns(figure, datum)
    .filter((column) => there(column, datum))
    .map((c) => [c.title, c.key === "v" ? slide(figure, datum) : shown(c, datum)])
    .map(([title, text]) => `<tr><th>${safe(title)}</th><td>${safe(text)}</td></tr>`).join("");
  return { disableDefaultStyle: true, formatTooltip: (datum, safe) => `<table>${row(datum, safe)}</table>` };
}

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = {
  circle: "M0,-4.5a4.5,4.5 0 1 0 .01,0z", square: "M-4,-4h8v8h-8z", "triangle-up": "M0,-5L5,4H-5z",
  diamond: "M0,-5.5L4.5,0L0,5.5L-4.5,0z", "triangle-down": "M0,5L5,-4H-5z", cross: "M-1.6,-5h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4z",
};

function glyph(entry) {  // as the series is drawn
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "-16 -8 32 16");
  svg.setAttribute("aria-hidden", "true");
  const add = (kind, values) => {
    const part = document.createElementNS(SVG, kind);
    for (const [name, value] of Object.entries(values)) part.setAttribute(name, value);
    svg.append(part);
  };
  if (entry.glyph === "line") {
    const dash = entry.dash[1] ? { "stroke-dasharray": entry.dash.join(" ") } : {};
    add("path", { d: "M-15,0H15", fill: "none", stroke: entry.color, "stroke-width": 2.75, ...dash });
  }
  if (entry.glyph === "square") add("path", { d: "M-7,-7h14v14h-14z", fill: entry.color });
  else add("path", { d: SHAPES[entry.shape], fill: entry.color });
  return svg;
}

function embed(element, figure, spec, state) {
  spec = structuredClone(spec);
  spec.datasets = { rows: figure.rows };
  for (const param of spec.params ?? []) param.value = state[param.name];
  return vegaEmbed(element, spec, {
    mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, tooltip: tooltip(figure),
  });
}

function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

const files = {
  async png(figure, state) {
    const made = await embed(document.createElement("div"), figure, figure.file, state);
    const canvas = await made.view.toCanvas(2);
    made.finalize();
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  },
  async svg(figure, state) {
    const made = await embed(document.createElement("div"), figure, figure.file, state);
    const text = await made.view.toSVG();
    made.finalize();
    return new Blob([text], { type: "image/svg+xml" });
  },
  async csv(figure) {
    const quoted = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;
    const every = figure.panels ? figure.panels.flatMap((panel) => panel.columns) : figure.columns;
    const fields = [...new Set(every.map((column) => column.field))];
    const first = figure.panels ? ["panel"] : [];
    const switches = (figure.switches ?? []).map((each) => each.field);
    const lines = [[...first, ...switches, ...fields].map(quoted)];
    const steps = Math.max(1, figure.slides.length);
    for (const row of figure.rows.filter((each) => each.k === "m")) {
      const own = new Map(columns(figure, row).filter((c) => there(c, row)).map((c) => [c.field, c.key === "v" ? slide(figure, row) : row[c.key]]));
      const setting = row.v < 0 ? -1 - row.v : Math.floor(row.v / steps);
      const flips = switches.map((_, k) => row.v === undefined ? "" : Boolean((setting >> k) & 1));
      lines.push([...(figure.panels ? [figure.panels[row.n].title] : []), ...flips, ...fields.map((field) => own.get(field))].map(quoted));
    }
    return new Blob([lines.map((line) => line.join(",") + "\r\n").join("")], { type: "text/csv" });
  },
};

function legend(figure, place, state, change) {
  const box = place.querySelector(".legend");
  if (figure.legend_title && figure.legend.length) {
    const title = document.createElement("span");
    title.append(`${figure.legend_title}:`);
    box.append(title);
  }
  for (const entry of figure.legend) {
    const clickable = figure.clickable && entry.glyph !== "dot";
    const button = document.createElement(clickable ? "button" : "span");
    button.dataset.glyph = entry.glyph;
    button.append(glyph(entry), entry.name);
    box.append(button);
    if (!clickable) continue;
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", (event) => {
      const had = state.chosen.includes(entry.name);
      const others = event.shiftKey ? state.chosen.filter((name) => name !== entry.name) : [];
      state.chosen = had ? others : [...others, entry.name];
      for (const each of box.querySelectorAll("button")) {
        each.setAttribute("aria-pressed", String(state.chosen.includes(each.textContent)));
      }
      change("chosen");
    });
  }
  return box;
}

function slider(figure, place, state, change) {
  const box = place.querySelector(".slide");
  if (!box) return;
  const [input, output, play] = ["input[type=range]", "output", ".play"].map((part) => box.querySelector(part));
  const switches = [...box.querySelectorAll("input[type=checkbox]")];
  const show = () => {
    const setting = switches.reduce((sum, each, k) => sum + (each.checked ? 2 ** k : 0), 0);
    state.slide = setting * Math.max(1, figure.slides.length) + Number(input?.value ?? 0);
    if (input) {
      output.textContent = figure.slides[Number(input.value)];
      input.setAttribute("aria-valuetext", output.textContent);
    }
    change("slide");
  };
  switches.forEach((each, k) => {
    each.checked = figure.switches[k].on;
    each.addEventListener("change", show);
  });
  if (input) input.value = figure.at;
  show();
  box.hidden = false;
  if (!input) return;
  let timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = "\u25b6"; };
  input.addEventListener("input", () => { stop(); show(); });
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(input.value) === figure.slides.length - 1) input.value = 0;
    show();
    play.textContent = "\u23f8";
    timer = setInterval(() => {
      input.value = Number(input.value) + 1;
      show();
      if (Number(input.value) === figure.slides.length - 1) stop();
    }, figure.slides.length > 8 ? 450 : 900);
  });
}

async function live(figure) {
  const place = document.getElementById(`figure-${figure.name}`);
  const plot = place.querySelector(".plot");
  const state = { chosen: [], slide: 0 };
  let made = null, drawn = null;
  const change = (name) => made?.view.signal(name, state[name]).runAsync();
  const names = legend(figure, place, state, change);
  slider(figure, place, state, change);
  async function draw() {
    const fits = figure.layouts.filter((layout) => layout.width <= plot.clientWidth).pop() ?? figure.layouts[0];
    if (fits === drawn) return;
    drawn = fits;
    const fresh = document.createElement("div");
    const next = await embed(fresh, figure, fits.spec, state);
    if (drawn !== fits) return next.finalize();  // the window changed its size meanwhile
    made?.finalize();
    made = next;
    for (const param of fits.spec.params ?? []) change(param.name);  // the reader may have moved on meanwhile
    // lines that carry their names need a legend for dots only
    for (const entry of names.children) entry.hidden = fits.named && entry.dataset.glyph !== "dot" && !state.chosen.length;
    names.hidden = [...names.children].every((entry) => entry.hidden);
    plot.replaceChildren(fresh);
  }
  await draw();
  new ResizeObserver(() => draw()).observe(plot);
  for (const button of place.querySelectorAll("button[data-file]")) {
    const kind = button.dataset.file;
    button.addEventListener("click", async () => save(`${figure.file_name}.${kind}`, await files[kind](figure, state)));
    button.hidden = false;
  }
}

for (const figure of figures) await live(figure);
for (const hint of document.querySelectorAll(".scripted")) hint.hidden = false;
document.documentElement.dataset.ready = "yes";
