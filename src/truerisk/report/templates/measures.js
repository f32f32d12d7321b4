"use strict";
const box = document.getElementById("filter"), count = document.getElementById("matches");
const families = [...document.querySelectorAll("section[aria-labelledby=measures] details.family")];
function filter() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const family of families) {
    let here = 0;
    for (const row of family.querySelectorAll("tbody tr")) {
      row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      here += !row.hidden;
    }
    family.hidden = !here;
    family.open = words.length > 0 && here > 0;
    shown += here;
  }
  count.textContent = words.length ? `${shown} shown` : "";
}
if (box) {
  box.closest("label").hidden = false;
  box.addEventListener("input", filter);
  addEventListener("beforeprint", () => families.forEach((family) => { family.open = true; }));
}
