"use strict";
(() => {
  // Only textContent reaches the page: no data is ever parsed as HTML.
  const data = JSON.parse(document.getElementById("data").textContent);
  const make = (tag, className, ...children) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    node.append(...children.filter((child) => child !== null && child !== ""));
    return node;
  };
  const bytes = (text) => {
    const binary = atob(text);
    const found = new Uint8Array(binary.length);
    for (let at = 0; at < binary.length; at++) found[at] = binary.charCodeAt(at);
    return found;
  };
  const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  const palette = () => (dark.matches && !printing ? data.colours.dark : data.colours.light);

  // ------------------------------------------------------------------------------ the map
  const SHAPES = ["round", "square", "up", "diamond", "down"];
  const tip = document.getElementById("tip");

  const drawShape = (context, shape, x, y, r) => {
    if (shape === "square") context.rect(x - r * 0.9, y - r * 0.9, r * 1.8, r * 1.8);
    else if (shape === "round") {
      context.moveTo(x + r, y);
      context.arc(x, y, r, 0, 7);
    } else {
      const points = { up: [0, -1.2, 1.1, 0.9, -1.1, 0.9], down: [0, 1.2, 1.1, -0.9, -1.1, -0.9], diamond: [0, -1.3, 1.3, 0, 0, 1.3, -1.3, 0] }[shape];
      context.moveTo(x + points[0] * r, y + points[1] * r);
      for (let at = 2; at < points.length; at += 2) context.lineTo(x + points[at] * r, y + points[at + 1] * r);
      context.closePath();
    }
  };

  // Entities within cells of a grid, so that the one under the pointer is found at once.
  const CELLS = 256;
  const gridOf = (points) => {
    const count = points.length / 2;
    const cell = (value) => clamp(Math.floor(((value + 32768) / 65536) * CELLS), 0, CELLS - 1);
    const starts = new Uint32Array(CELLS * CELLS + 1);
    const cellOf = new Uint32Array(count);
    for (let at = 0; at < count; at++) {
      cellOf[at] = cell(points[2 * at + 1]) * CELLS + cell(points[2 * at]);
      starts[cellOf[at] + 1]++;
    }
    for (let at = 0; at < CELLS * CELLS; at++) starts[at + 1] += starts[at];
    const next = starts.slice();
    const order = new Uint32Array(count);
    for (let at = 0; at < count; at++) order[next[cellOf[at]]++] = at;
    return { cell, starts, order };
  };

  const showMap = (root, map) => {
    const canvas = root.querySelector("canvas");
    const context = canvas.getContext("2d");
    const sides = {};
    for (const name of ["before", "after"]) {
      if (map[name]) sides[name] = new Int16Array(bytes(map[name].points).buffer);
    }
    const pairs = new Uint32Array(bytes(map.pairs).buffer);
    const total = map.titles.length;
    const kbOf = new Uint8Array(total);
    map.counts.reduce((start, count, kb) => (kbOf.fill(kb, start, start + count), start + count), 0);
    // A fixed shuffle: any first part of it is a fair sample of the map.
    const shuffled = Uint32Array.from({ length: total }, (_, at) => at);
    for (let at = total - 1, seed = 1; at > 0; at--) {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
      const other = seed % (at + 1);
      [shuffled[at], shuffled[other]] = [shuffled[other], shuffled[at]];
    }
    const partners = new Map();
    for (let at = 0; at < pairs.length; at += 2) {
      for (const [one, other] of [[pairs[at], pairs[at + 1]], [pairs[at + 1], pairs[at]]]) {
        if (!partners.has(one)) partners.set(one, []);
        partners.get(one).push(other);
      }
    }
    const grids = new Map();
    const hidden = new Set();
    let [side, zoom, centreX, centreY, chosen, moving, waiting, idle] = ["after", 1, 0, 0, -1, false, false, 0];
    let withLines = true;
    const shown = () => sides[side];
    const size = () => [canvas.clientWidth, canvas.clientHeight];
    const unit = () => (Math.min(...size()) * 0.47 * zoom) / 32767;

    const draw = () => {
      waiting = false;
      const [width, height] = size();
      const ratio = devicePixelRatio || 1;
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
      }
      const colours = palette();
      const points = shown();
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      const scale = unit();
      const most = moving ? 12000 : total;
      const inside = [];
      const seen = new Uint8Array(total);
      const xOf = (at) => width / 2 + (points[2 * at] - centreX) * scale;
      const yOf = (at) => height / 2 - (points[2 * at + 1] - centreY) * scale;
      for (let place = 0; place < most && place < total; place++) {
        const at = shuffled[place];
        if (hidden.has(kbOf[at])) continue;
        const [x, y] = [xOf(at), yOf(at)];
        if (x > -9 && y > -9 && x < width + 9 && y < height + 9) {
          inside.push(at);
          seen[at] = 1;
        }
      }
      if (withLines) {
        context.beginPath();
        for (let at = 0; at < pairs.length; at += 2) {
          const [one, other] = [pairs[at], pairs[at + 1]];
          if (!(seen[one] || seen[other]) || hidden.has(kbOf[one]) || hidden.has(kbOf[other])) continue;
          context.moveTo(xOf(one), yOf(one));
          context.lineTo(xOf(other), yOf(other));
        }
        context.globalAlpha = clamp(400 / (pairs.length + 1), 0.12, 0.55);
        context.strokeStyle = colours.ink;
        context.lineWidth = 1;
        context.stroke();
      }
      const radius = clamp(6 - Math.log10(inside.length + 1) * 1.15, 0.8, 4.5);
      context.globalAlpha = inside.length > 5000 ? 0.55 : 0.85;
      for (let kb = 0; kb < map.kbs.length; kb++) {
        context.fillStyle = colours[`c${kb % 7}`];
        context.beginPath();
        for (const at of inside) {
          if (kbOf[at] !== kb) continue;
          const [x, y] = [xOf(at), yOf(at)];
          // Far out thousands of entities are one dot each; near by they have the shape of their KB.
          if (radius < 1.8) context.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
          else drawShape(context, SHAPES[kb % SHAPES.length], x, y, radius);
        }
        context.fill();
      }
      context.globalAlpha = 1;
      context.font = "12px system-ui, sans-serif";
      context.fillStyle = colours.ink;
      if (!moving && inside.length <= 60) {
        for (const at of inside) {
          const [x, y] = [xOf(at), yOf(at)];
          const title = map.titles[at];
          context.fillText(title.length > 40 ? `${title.slice(0, 39)}…` : title, x + 8, y + 4);
        }
      }
      if (chosen >= 0) {
        const [x, y] = [xOf(chosen), yOf(chosen)];
        context.strokeStyle = colours.ink;
        context.lineWidth = 2;
        context.beginPath();
        context.arc(x, y, radius + 5, 0, 7);
        for (const other of partners.get(chosen) || []) {
          context.moveTo(x, y);
          context.lineTo(xOf(other), yOf(other));
        }
        context.stroke();
      }
    };
    const redraw = (isMoving = false) => {
      moving = isMoving && total > 12000;
      clearTimeout(idle);
      if (moving) idle = setTimeout(() => redraw(), 140);
      if (!waiting) requestAnimationFrame(draw);
      waiting = true;
    };
    const words = (at) => [
      make("b", "", map.titles[at]),
      make("small", "", `${map.kbs[kbOf[at]]}:${map.keys[at]}`),
      ...(partners.get(at) || []).slice(0, 5).map((one) => make("small", "", `same as ${map.kbs[kbOf[one]]}: ${map.titles[one]}`)),
    ];
    const showTip = (at, x, y) => {
      tip.hidden = at < 0;
      if (at < 0) return;
      tip.replaceChildren(...words(at));
      tip.style.left = `${clamp(x + 14, 4, innerWidth - tip.offsetWidth - 4)}px`;
      tip.style.top = `${clamp(y + 14, 4, innerHeight - tip.offsetHeight - 4)}px`;
    };
    const nearest = (x, y) => {
      if (!grids.has(side)) grids.set(side, gridOf(shown()));
      const { cell, starts, order } = grids.get(side);
      const [width, height] = size();
      const points = shown();
      const [px, py, reach] = [centreX + (x - width / 2) / unit(), centreY - (y - height / 2) / unit(), 10 / unit()];
      let [best, least] = [-1, reach * reach];
      for (let row = cell(py - reach); row <= cell(py + reach); row++) {
        for (let column = cell(px - reach); column <= cell(px + reach); column++) {
          for (let at = starts[row * CELLS + column]; at < starts[row * CELLS + column + 1]; at++) {
            const one = order[at];
            const away = (points[2 * one] - px) ** 2 + (points[2 * one + 1] - py) ** 2;
            if (away < least && !hidden.has(kbOf[one])) [best, least] = [one, away];
          }
        }
      }
      return best;
    };
    const zoomBy = (factor, x = size()[0] / 2, y = size()[1] / 2) => {
      const [width, height] = size();
      const before = unit();
      zoom = clamp(zoom * factor, 0.5, 4000);
      centreX += (x - width / 2) * (1 / before - 1 / unit());
      centreY -= (y - height / 2) * (1 / before - 1 / unit());
      redraw(true);
    };
    const pan = (x, y) => {
      centreX -= x / unit();
      centreY += y / unit();
      redraw(true);
    };
    const whole = () => {
      [zoom, centreX, centreY, chosen] = [1, 0, 0, -1];
      tip.hidden = true;
      redraw();
    };
    const goTo = (at) => {
      chosen = at;
      const points = shown();
      [centreX, centreY] = [points[2 * at], points[2 * at + 1]];
      zoom = Math.max(zoom, clamp(Math.sqrt(total) / 4, 2, 60));
      redraw();
      const box = canvas.getBoundingClientRect();
      showTip(at, box.left + box.width / 2, box.top + box.height / 2);
    };

    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      drag = [event.clientX, event.clientY];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (drag) {
        pan(event.clientX - drag[0], event.clientY - drag[1]);
        drag = [event.clientX, event.clientY];
        return;
      }
      const box = canvas.getBoundingClientRect();
      const at = nearest(event.clientX - box.left, event.clientY - box.top);
      showTip(at, event.clientX, event.clientY);
      if (at !== chosen) {
        chosen = at;
        redraw();
      }
    });
    canvas.addEventListener("pointerup", () => (drag = null));
    canvas.addEventListener("pointerleave", () => (tip.hidden = true));
    canvas.addEventListener("wheel", (event) => {
      const box = canvas.getBoundingClientRect();
      event.preventDefault();
      zoomBy(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    const keys = {
      ArrowLeft: () => pan(40, 0), ArrowRight: () => pan(-40, 0), ArrowUp: () => pan(0, 40), ArrowDown: () => pan(0, -40),
      "+": () => zoomBy(1.4), "=": () => zoomBy(1.4), "-": () => zoomBy(1 / 1.4), 0: whole, Escape: whole,
    };
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      keys[event.key]();
      event.preventDefault();
    });

    const on = (selector, event, act) => root.querySelectorAll(selector).forEach((node) => node.addEventListener(event, () => act(node)));
    on("[data-side]", "change", (node) => {
      side = node.dataset.side;
      root.querySelectorAll("[data-of-side]").forEach((one) => (one.hidden = one.dataset.ofSide !== side));
      redraw();
    });
    on("[data-kb]", "change", (node) => {
      const kb = Number(node.dataset.kb);
      if (node.checked) hidden.delete(kb);
      else hidden.add(kb);
      redraw();
    });
    on("[data-lines]", "change", (node) => {
      withLines = node.checked;
      redraw();
    });
    on("[data-zoom]", "click", (node) => (node.dataset.zoom === "0" ? whole() : zoomBy(Number(node.dataset.zoom))));
    on("input[type=search]", "input", (node) => {
      const asked = node.value.trim().toLowerCase();
      const hits = [];
      for (let at = 0; asked && at < total && hits.length < 8; at++) if (map.titles[at].toLowerCase().includes(asked)) hits.push(at);
      root.querySelector(".hits").replaceChildren(...hits.map((at) => {
        const button = make("button", "", `${map.titles[at]} (${map.kbs[kbOf[at]]})`);
        button.type = "button";
        button.addEventListener("click", () => goTo(at));
        return make("li", "", button);
      }));
    });
    dark.addEventListener("change", () => redraw());
    new ResizeObserver(() => redraw()).observe(canvas);
    addEventListener("beforeprint", draw);
    redraw();
    root.dataset.ready = "yes";
  };
  addEventListener("beforeprint", () => (printing = true), true);
  addEventListener("afterprint", () => (printing = false));
  document.querySelectorAll("[data-map]").forEach((root) => showMap(root, data.runs[Number(root.dataset.map)].map));

  // --------------------------------------------------------------------- the errors' browser
  const PAGE = 20;
  const percent = (value) => (value === null ? "unknown" : `${Math.round(value * 100)}%`);
  const named = (one) => (one.title ? `${one.title}  (${one.id}${one.type ? `, ${one.type}` : ""})` : one.id);
  const caseItem = (one) => {
    const golds = one.gold.map((gold) => `${named(gold)}${gold.rank ? `, candidate ${gold.rank}` : ""}`);
    const right = new Set(one.gold.map((gold) => gold.id));
    const answer = one.answer ? named(one.answer) : one.found ? "no entity (NIL)" : "nothing was found here";
    const whole = one.context_left + one.mention + one.context_right;
    const first = one.start - one.context_left.length;
    const otherEnds = one.found && (one.found[0] !== one.start || one.found[1] !== one.end);
    const words = otherEnds ? `, for “${whole.slice(Math.max(0, one.found[0] - first), Math.max(0, one.found[1] - first))}”` : "";
    const facts = make("dl", "", make("dt", "", "right"), make("dd", "", golds.join("; ") || "no entity (NIL)"), make("dt", "", "answered"),
      make("dd", "", answer + words + (one.confidence === null ? "" : `, ${percent(one.confidence)} sure`)));
    const about = [`${one.docs}, ${one.document}`, `${one.bearers} ${one.bearers === 1 ? "entity bears" : "entities bear"} this name`];
    if (one.seen !== null) about.push(one.seen ? "surface seen in training" : "surface not seen in training");
    if (one.times_learnt !== null && one.gold.length) about.push(`gold learnt ${one.times_learnt} ${one.times_learnt === 1 ? "time" : "times"}`);
    const list = one.candidates.map((candidate) => make("li", right.has(candidate.id) ? "gold" : "", `${named(candidate)}  ${candidate.score.toFixed(3)}`));
    return make("li", "",
      make("p", "text", `${one.context_left.length < 160 ? "" : "…"}${one.context_left}`, make("mark", "", one.mention), `${one.context_right}${one.context_right.length < 160 ? "" : "…"}`),
      make("span", "tag", one.reason), facts, make("small", "", about.join(" · ")),
      list.length ? make("details", "", make("summary", "", `First ${list.length} candidates`), make("ol", "", ...list)) : null);
  };
  const showErrors = (root) => {
    const pick = (name) => root.querySelector(`[data-pick=${name}]`);
    const list = root.querySelector(".cases");
    let first = 0;
    const wanted = () => {
      const [reason, kb, words] = [pick("reason").value, pick("kb").value, pick("words").value.trim().toLowerCase()];
      return data.runs[Number(pick("run").value)].cases.filter((one) =>
        (!reason || one.reason === reason) &&
        (!kb || (kb === "[NIL]" ? !one.gold.length : one.gold.some((gold) => gold.id.startsWith(`${kb}:`)))) &&
        (!words || `${one.mention} ${one.gold.map((gold) => gold.title).join(" ")}`.toLowerCase().includes(words)));
    };
    const show = (from) => {
      const found = wanted();
      first = clamp(from, 0, Math.max(0, found.length - 1));
      const items = found.slice(first, first + PAGE).map(caseItem);
      list.replaceChildren(...items);
      const last = first + items.length;
      root.querySelector("[role=status]").textContent = found.length ? `${first + 1} to ${last} of ${found.length}` : "No mention fits: choose another reason, KB or word.";
      root.querySelector("[data-step='-1']").disabled = first === 0;
      root.querySelector("[data-step='1']").disabled = last >= found.length;
    };
    root.querySelectorAll("[data-pick]").forEach((node) => node.addEventListener("input", () => show(0)));
    root.querySelectorAll("[data-step]").forEach((node) => node.addEventListener("click", () => {
      show(first + PAGE * Number(node.dataset.step));
      root.querySelector("[role=status]").scrollIntoView({ block: "nearest" });
    }));
    show(0);
  };
  document.querySelectorAll("[data-errors]").forEach(showErrors);
})();
