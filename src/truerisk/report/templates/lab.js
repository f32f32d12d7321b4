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
const cell = (column, value) => typeof value === "number" ? number(value, column.percent) : String(value ?? "–");
// A bound comes with its text, because it must not be rounded down.
const shown = (column, datum) => datum[column.text] ?? cell(column, datum[column.key]);

function tooltip(figure) {
  const row = (datum, safe) => figure.columns
    .filter((column) => datum[column.key] !== undefined && datum[column.key] !== null)
    .map((c) => `<tr><th>${safe(c.title)}</th><td>${safe(shown(c, datum))}</td></tr>`).join("");
  return { disableDefaultStyle: true, formatTooltip: (datum, safe) => `<table>${row(datum, safe)}</table>` };
}

function chosen(view) {  // the series clicked in the legend, as the next view of the same figure needs them
  try {
    return view ? view.data("chosen_store").map((tuple) => ({ s: tuple.values[0] })) : [];
  } catch {
    return [];  // a figure without a legend to click
  }
}

function embed(element, figure, spec, series) {
  spec = structuredClone(spec);
  spec.datasets = { rows: figure.rows };
  for (const layer of (spec.spec ?? spec).layer) {
    for (const param of layer.params ?? []) if (series.length) param.value = series;
  }
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
  async png(figure, series) {
    const made = await embed(document.createElement("div"), figure, figure.file, series);
    const canvas = await made.view.toCanvas(2);
    made.finalize();
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  },
  async svg(figure, series) {
    const made = await embed(document.createElement("div"), figure, figure.file, series);
    const text = await made.view.toSVG();
    made.finalize();
    return new Blob([text], { type: "image/svg+xml" });
  },
  async csv(figure) {
    const quoted = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;
    const lines = [figure.columns.map((column) => quoted(column.field))];
    for (const row of figure.rows) lines.push(figure.columns.map((column) => quoted(row[column.key])));
    return new Blob([lines.map((line) => line.join(",") + "\r\n").join("")], { type: "text/csv" });
  },
};

async function live(figure) {
  const place = document.getElementById(`figure-${figure.name}`);
  const plot = place.querySelector(".plot");
  let made = null, drawn = null;
  async function draw() {
    const fits = figure.layouts.filter((layout) => layout.width <= plot.clientWidth).pop() ?? figure.layouts[0];
    if (fits === drawn) return;
    drawn = fits;
    const fresh = document.createElement("div");
    const next = await embed(fresh, figure, fits.spec, chosen(made?.view));
    if (drawn !== fits) return next.finalize();  // the window changed its size meanwhile
    made?.finalize();
    made = next;
    plot.replaceChildren(fresh);
  }
  await draw();
  new ResizeObserver(() => draw()).observe(plot);
  for (const button of place.querySelectorAll("button")) {
    const kind = button.dataset.file;
    button.addEventListener("click", async () => {
      save(`${figure.file_name}.${kind}`, await files[kind](figure, chosen(made.view)));
    });
    button.hidden = false;
  }
}

for (const figure of figures) await live(figure);
for (const hint of document.querySelectorAll(".scripted")) hint.hidden = false;
document.documentElement.dataset.ready = "yes";
