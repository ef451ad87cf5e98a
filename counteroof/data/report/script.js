"use strict";
(() => {
  const table = document.getElementById("kernels");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const shown = document.getElementById("shown");
  const numeric = heads.map((head) => head.classList.contains("n"));

  // A missing value comes last, whichever way the rest is sorted.
  const key = (row, column) => {
    const value = row.cells[column].dataset.v;
    if (value === undefined) return null;
    return numeric[column] ? Number(value) : value;
  };
  const order = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b));
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending" || (numeric[column] && !head.hasAttribute("aria-sort"));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keyed = rows.map((row, number) => [key(row, column), number, row]);
      keyed.sort(([a, i], [b, j]) => {
        if (a === null || b === null) return (a === null) - (b === null) || i - j;
        return (down ? order(b, a) : order(a, b)) || i - j;
      });
      body.append(...keyed.map(([, , row]) => row));
    });
  });

  const details = new Map([...document.querySelectorAll("details[id]")].map((one) => [one.id.slice(1), one]));
  // Of many kernels the details are kept as text, already escaped, until they are opened.
  const unpack = (one) => {
    const packed = one.querySelector(":scope > script");
    if (packed) packed.outerHTML = packed.textContent;
  };
  for (const one of details.values()) {
    one.addEventListener("toggle", () => one.open && unpack(one));
    if (one.open) unpack(one);
  }
  const dots = new Map([...document.querySelectorAll("a[data-k]")].map((one) => [one.dataset.k, one]));
  const filter = document.getElementById("filter");
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    let count = 0;
    for (const row of rows) {
      const hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
      row.hidden = hidden;
      details.get(row.dataset.k).hidden = hidden;
      const dot = dots.get(row.dataset.k);
      if (dot) dot.style.display = hidden ? "none" : "";
      count += !hidden;
    }
    shown.textContent = wanted ? `${count} of ${rows.length}` : "";
  });

  const lit = (number, on) => {
    dots.get(number)?.classList.toggle("lit", on);
    rows.find((row) => row.dataset.k === number)?.classList.toggle("lit", on);
  };
  for (const one of [...rows, ...dots.values()]) {
    one.addEventListener("mouseenter", () => lit(one.dataset.k, true));
    one.addEventListener("mouseleave", () => lit(one.dataset.k, false));
  }

  const open = () => {
    const one = details.get(location.hash.slice(2));
    if (location.hash.startsWith("#k") && one) {
      unpack(one);
      one.open = true;
      one.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();
})();
