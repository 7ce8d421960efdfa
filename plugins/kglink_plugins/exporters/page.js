"use strict";
(() => {
  const { kbs, entities } = JSON.parse(document.getElementById("data").textContent);
  const card = document.getElementById("card");
  const answers = new Map(); // one parsed data block per article, read when first needed
  let open = null; // the mention whose card is shown
  let pinned = false; // opened by a click or a key: stays until closed
  let timer = 0;

  // ------------------------------------------------------------------ building the card
  // Only textContent and checked addresses reach the page: no data is ever parsed as HTML.
  const make = (tag, className, ...children) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    node.append(...children.filter((child) => child !== null));
    return node;
  };
  const kbClass = (kb) => `m kb${kb} c${kb % 7} u${kb % 4}`;
  const link = (url, text) => {
    if (!url || !/^https?:\/\//i.test(url)) return make("span", "", text);
    const node = make("a", "", text);
    node.href = url;
    node.target = "_blank";
    node.rel = "noopener noreferrer";
    return node;
  };
  const percent = (value) => (value === null ? "unknown" : `${Math.round(value * 100)}%`);
  const decimal = (value) => (value === null ? "–" : value.toFixed(2));
  const byId = new Map(entities.map((entity) => [entity.id, entity]));

  // Scores from 0 to 1 fill their share of the bar; others are shown relative to each other.
  const shares = (scores) => {
    const known = scores.filter((score) => score !== null);
    const low = Math.min(0, ...known);
    const high = Math.max(1, ...known);
    return scores.map((score) => (score === null ? 0 : (100 * (score - low)) / (high - low)));
  };
  const bar = (share) => {
    const fill = make("div");
    fill.style.width = `${share.toFixed(1)}%`;
    const node = make("div", "bar", fill);
    node.setAttribute("aria-hidden", "true");
    return node;
  };
  const alsoLine = (also) => {
    if (!also) return null;
    const line = make("p", "also", "also ");
    also.forEach(([kb, id], place) => {
      const known = byId.get(id);
      const name = link(known && known.url, id);
      name.classList.add("m", `c${kb % 7}`, `u${kb % 4}`);
      line.append(place ? ", " : "", name);
    });
    return line;
  };
  // A value, and what it adds to the score: the value times its weight.
  const evidenceList = (evidence, parts) => {
    if (!evidence || !Object.keys(evidence).length) return null;
    const list = make("dl");
    for (const [kind, value] of Object.entries(evidence)) {
      const adds = parts[kind];
      const shown = make("dd", "", decimal(value));
      if (adds) shown.append(make("small", "", ` ${adds > 0 ? "+" : "−"}${decimal(Math.abs(adds))}`));
      list.append(make("dt", "", kind.replaceAll("_", " ")), shown);
    }
    return list;
  };
  const identity = (entity) => {
    const name = kbs[entity.kb];
    const rest = entity.id.slice(name.length) + (entity.type ? `  ${entity.type}` : "");
    return make("span", "id", make("span", kbClass(entity.kb), name), rest);
  };
  const candidateItem = (candidate, share, chosen) => {
    const entity = entities[candidate.entity];
    const item = make(
      "li",
      `c${entity.kb % 7}${candidate.entity === chosen ? " chosen" : ""}`,
      make("div", "head", link(entity.url, entity.title), make("span", "score", decimal(candidate.score))),
      bar(share),
      identity(entity),
      entity.description ? make("p", "description", entity.description) : null,
      alsoLine(candidate.also),
      evidenceList(candidate.evidence, candidate.parts),
    );
    item.tabIndex = -1;
    return item;
  };
  const answerOf = (mention) => {
    const article = mention.closest("article");
    if (!answers.has(article)) {
      const block = article.querySelector('script[type="application/json"]');
      answers.set(article, JSON.parse(block.textContent));
    }
    return answers.get(article)[Number(mention.dataset.i)];
  };
  const fill = (mention) => {
    const { sure, chosen, cluster, per_kb, candidates } = answerOf(mention);
    const title = make("h3", "", mention.dataset.text || mention.textContent);
    title.id = "card-title";
    const none = cluster ? `No entity (NIL, ${cluster})` : "No entity (NIL)";
    const verdict = chosen === null ? none : entities[chosen].id;
    const widths = shares(candidates.map((candidate) => candidate.score));
    card.replaceChildren(
      title,
      make("p", "", `${verdict}, ${percent(sure)} sure`),
      ...per_kb.map(([kb, entity, own]) => {
        const answer = entity === null ? "no entity" : entities[entity].id;
        return make("p", "also", `in ${kbs[kb]}: ${answer}, ${percent(own)} sure`);
      }),
      candidates.length
        ? make("ol", "", ...candidates.map((item, place) => candidateItem(item, widths[place], chosen)))
        : make("p", "", "No candidates."),
    );
  };

  // ------------------------------------------------------------------ showing and hiding
  const place = (mention) => {
    card.style.left = card.style.top = card.style.maxHeight = "";
    if (matchMedia("(max-width: 34rem)").matches) return;
    const lines = mention.getClientRects();
    const [first, last] = [lines[0], lines[lines.length - 1]];
    const below = innerHeight - last.bottom - 16;
    const above = first.top - 16;
    const under = below >= Math.min(card.offsetHeight, 320) || below >= above;
    card.style.maxHeight = `${Math.max(160, Math.min(under ? below : above, 0.7 * innerHeight))}px`;
    const line = under ? last : first;
    const left = Math.max(8, Math.min(line.left, document.documentElement.clientWidth - card.offsetWidth - 8));
    const top = under ? line.bottom + 6 : line.top - card.offsetHeight - 6;
    card.style.left = `${left + scrollX}px`;
    card.style.top = `${top + scrollY}px`;
  };
  const close = () => {
    clearTimeout(timer);
    if (!open) return;
    const mention = open;
    open = null;
    pinned = false;
    mention.setAttribute("aria-expanded", "false");
    mention.removeAttribute("aria-controls");
    const inside = card.contains(document.activeElement);
    card.hidden = true;
    if (inside) mention.focus();
  };
  const show = (mention, pin) => {
    clearTimeout(timer);
    if (open !== mention) {
      close();
      open = mention;
      fill(mention);
      card.hidden = false;
      card.scrollTop = 0;
      mention.setAttribute("aria-expanded", "true");
      mention.setAttribute("aria-controls", "card");
      place(mention);
    }
    pinned = pin || pinned;
  };
  const mentionAt = (node) => {
    const mention = node instanceof Element ? node.closest(".text .m") : null;
    return mention && !mention.classList.contains("off") ? mention : null;
  };

  // ------------------------------------------------------------------------- the pointer
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch" || pinned) return;
    clearTimeout(timer);
    const mention = mentionAt(event.target);
    if (mention) timer = setTimeout(() => show(mention, false), open ? 60 : 120);
    else if (open && !card.contains(event.target)) timer = setTimeout(close, 250);
  });
  document.addEventListener("click", (event) => {
    const mention = mentionAt(event.target);
    if (mention && open === mention && pinned) close();
    else if (mention) show(mention, true);
    else if (!card.contains(event.target)) close();
  });
  addEventListener("resize", () => open && place(open));

  // ---------------------------------------------------------------------------- the keys
  const step = (nodes, current, by) =>
    nodes[Math.max(0, Math.min(nodes.length - 1, nodes.indexOf(current) + by))];
  const walk = (from, by) => {
    const mentions = [...document.querySelectorAll(".text .m:not(.off)")];
    const next = step(mentions, from, by);
    const wasOpen = open !== null && pinned;
    close();
    next.focus();
    if (wasOpen) show(next, true);
  };
  const walkCandidates = (by) => {
    const items = [...card.querySelectorAll("li")];
    const current = document.activeElement.closest("li");
    const next = step(items, current, by);
    if (by < 0 && (!current || next === current)) open.focus();
    else if (next) next.focus();
  };
  const onMention = {
    Enter: (mention) => (open === mention && pinned ? close() : show(mention, true)),
    ArrowRight: (mention) => walk(mention, 1),
    ArrowLeft: (mention) => walk(mention, -1),
    Home: (mention) => walk(mention, -Infinity),
    End: (mention) => walk(mention, Infinity),
    ArrowDown: (mention) => {
      show(mention, true);
      walkCandidates(1);
    },
    Tab: () => close(),
  };
  onMention[" "] = onMention.Enter;
  const inCard = {
    ArrowDown: () => walkCandidates(1),
    ArrowUp: () => walkCandidates(-1),
    ArrowRight: () => walk(open, 1),
    ArrowLeft: () => walk(open, -1),
  };
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") {
      close();
      return;
    }
    const mention = mentionAt(event.target);
    const act = mention ? onMention[event.key] : card.contains(event.target) && inCard[event.key];
    if (!act) return;
    act(mention);
    if (event.key !== "Tab") event.preventDefault();
  });
  // The card stands at the end of the page: leaving it by Tab goes on from its mention.
  card.addEventListener("keydown", (event) => {
    if (event.key !== "Tab") return;
    const links = [...card.querySelectorAll("a")];
    const last = event.shiftKey ? links[0] : links[links.length - 1];
    const ahead = event.shiftKey ? Node.DOCUMENT_POSITION_PRECEDING : Node.DOCUMENT_POSITION_FOLLOWING;
    if (!last || !(event.target.compareDocumentPosition(last) & ahead)) close();
  });

  // --------------------------------------------------------------------- filter and print
  document.querySelector(".legend").addEventListener("change", ({ target }) => {
    if (target.id === "labels") {
      document.body.classList.toggle("show-labels", target.checked);
      return;
    }
    close();
    const mark = target.dataset.shows;
    for (const mention of document.querySelectorAll(`.text .m.${mark}`)) {
      mention.classList.toggle("off", !target.checked);
      mention.tabIndex = target.checked ? 0 : -1;
    }
    for (const row of document.querySelectorAll(`tr.${mark}`)) row.hidden = !target.checked;
  });
  addEventListener("beforeprint", () => {
    for (const list of document.querySelectorAll("details.list")) list.open = true;
    document.body.classList.add("show-labels");
  });
  addEventListener("afterprint", () => {
    document.body.classList.toggle("show-labels", document.getElementById("labels").checked);
  });
})();
