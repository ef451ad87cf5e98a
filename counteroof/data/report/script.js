"use strict";
(() => {
  const table = document.getElementById("kernels");
  const body = table.tBodies[0];
  const rows = [];
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
      takeAll();
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
    takeAll();
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
  const light = (one) => {
    one.addEventListener("mouseenter", () => lit(one.dataset.k, true));
    one.addEventListener("mouseleave", () => lit(one.dataset.k, false));
  };
  dots.forEach(light);

  // Of many rows, too, those after the first are kept as text: to lay out a table takes longer than all the rest.
  const more = document.getElementById("more");
  const all = document.getElementById("all");
  const packed = more ? [...more.querySelectorAll("script")] : [];
  const take = () => {
    for (const row of [...body.rows].slice(rows.length)) {
      light(row);
      rows.push(row);
    }
  };
  const takeSome = () => {
    const some = packed.shift();
    body.insertAdjacentHTML("beforeend", some.textContent);
    some.remove();
    take();
    if (!packed.length) all.hidden = true;
  };
  const takeAll = () => {
    while (packed.length) takeSome();
  };
  take();
  if (more) {
    all.addEventListener("click", takeAll);
    addEventListener("beforeprint", takeAll);
    // Asked again after each part, for the end of the table may still be near. Only below the screen: what comes
    // above it would move what is being read.
    const watch = new IntersectionObserver(
      (ends) => {
        if (!packed.length || !ends.some((end) => end.isIntersecting)) return;
        takeSome();
        watch.unobserve(more);
        watch.observe(more);
      },
      { rootMargin: "0px 0px 800px 0px" },
    );
    watch.observe(more);
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
