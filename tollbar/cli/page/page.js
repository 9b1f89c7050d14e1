"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);

  // Filter: rows of Pods by text and state, and with them their bars and their rows of the matrix, by the row's id.
  const text = one("#text"), state = one("#state"), matches = one("#matches");
  const rows = all("#pods tbody tr"), others = all("#timeline [data-row], #matrix [data-row]");
  const words = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const filter = () => {
    const wanted = text.value.trim().toLowerCase(), shown = new Set();
    for (const row of rows) {
      row.hidden = !words.get(row).includes(wanted) || Boolean(state.value && row.dataset.state !== state.value);
      if (!row.hidden) shown.add(row.dataset.row);
    }
    for (const each of others) each.hidden = !shown.has(each.dataset.row);
    matches.textContent = wanted || state.value ? `${shown.size} of ${rows.length} rows` : "";
    all("[data-roving]").forEach(rove);
  };
  text.addEventListener("input", filter);
  state.addEventListener("change", filter);
  text.form.addEventListener("submit", (event) => event.preventDefault());

  // Sort.
  const order = new Intl.Collator(undefined, { numeric: true });
  all(".sort").forEach((button, place) => button.addEventListener("click", () => {
    const head = button.parentElement, body = one("#pods tbody");
    const up = head.getAttribute("aria-sort") !== "ascending";
    all("th[aria-sort]").forEach((each) => each.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => row.children[place].textContent.trim();
    rows.sort((a, b) => order.compare(key(a), key(b)) * (up ? 1 : -1)).forEach((row) => body.append(row));
  }));

  // What a cell or a tile says, in one place.
  const detail = one("#detail");
  const say = (found) => {
    detail.hidden = !found;
    detail.textContent = found || "";
  };
  const said = (each) => {
    if (each.matches(".tile")) return `${each.dataset.name}: ${textsOf(each)[view()]}`;
    const row = each.parentElement, column = row.closest("table").rows[0].cells[each.cellIndex];
    return `${row.querySelector("th bdi").textContent}, ${column.title}: ${each.dataset.detail}`;
  };

  // Tiles: how they are, or how a request sees them.
  const choice = one("#view");
  const view = () => (choice ? Number(choice.value) : 0);
  const textsOf = (tile) => tile.dataset.texts.split("\n");
  const tones = new Map(all("#devices .legend .tile").map((each) => [each.textContent, each.classList[1]]));
  const paint = () => {
    for (const tile of all("button.tile")) {
      const letter = tile.dataset.letters[view()];
      tile.className = `tile ${tones.get(letter)}`;
      tile.textContent = letter;
      tile.setAttribute("aria-label", `${tile.dataset.name}: ${textsOf(tile)[view()]}`);
    }
  };
  if (choice) choice.addEventListener("change", paint);
  paint();

  // One stop of the Tab key for a matrix or the tiles of a pool; arrow keys go on from there.
  const items = (box) => all(".cell, .tile", box).filter((each) => !each.closest("[hidden]"));
  const rove = (box) => {
    const found = items(box);
    found.forEach((each, place) => { each.tabIndex = place ? -1 : 0; });
  };
  const steps = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
  const next = (box, from, [across, down]) => {
    const found = items(box);
    if (across) return found[found.indexOf(from) + across];
    const at = from.getBoundingClientRect();
    const beyond = found.map((each) => [each, each.getBoundingClientRect()])
      .filter(([, rect]) => (down > 0 ? rect.top > at.top + 2 : rect.top < at.top - 2))
      .sort(([, a], [, b]) => down * (a.top - b.top) || Math.abs(a.left - at.left) - Math.abs(b.left - at.left));
    return beyond.length ? beyond[0][0] : undefined;
  };
  for (const box of all(".matrix, .tiles")) {
    box.dataset.roving = "";
    rove(box);
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") say("");
      if (!(event.key in steps)) return;
      const from = event.target.closest(".cell, .tile"), to = from && next(box, from, steps[event.key]);
      if (!to) return;
      event.preventDefault();
      from.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    });
    for (const kind of ["focusin", "pointerover", "click"]) {
      box.addEventListener(kind, (event) => {
        const item = event.target.closest(".cell, .tile");
        if (item) say(said(item));
      });
    }
    for (const kind of ["focusout", "pointerleave"]) box.addEventListener(kind, () => say(""));
  }

  // A link to an explanation moves the focus there, too; paper shows everything.
  const arrive = () => {
    const target = location.hash.startsWith("#why-") && document.getElementById(location.hash.slice(1));
    if (target) target.focus({ preventScroll: true });
  };
  addEventListener("hashchange", arrive);
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    closed.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }));
})();
