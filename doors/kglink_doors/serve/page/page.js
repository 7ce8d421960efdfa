"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const status = $("status");

  // ------------------------------------------------------------------------ making nodes
  // Only textContent and checked addresses reach the page: no data is ever parsed as HTML.
  const make = (tag, options = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
      if (name === "class") node.className = value;
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };
  const button = (text, act, options = {}) =>
    make("button", { type: "button", ...options, onclick: () => run(act) }, text);
  const colour = (kb) => {
    const at = Math.max(0, kbNames.indexOf(kb));
    return `c${at % 7} u${at % 4}`;
  };
  const whole = (value) => value.toLocaleString("en");
  const counted = (count, one, several = `${one}s`) => `${whole(count)} ${count === 1 ? one : several}`;
  const percent = (value) => (value === null ? "" : `${Math.round(value * 100)}%`);

  // --------------------------------------------------------------------------- the server
  let token = new URLSearchParams(location.hash.slice(1)).get("token") || sessionStorage.getItem("token") || "";
  const askToken = () =>
    new Promise((resolve) => {
      const dialog = $("token-dialog");
      dialog.addEventListener("close", () => resolve($("token").value), { once: true });
      dialog.showModal();
    });
  const LOST = "The server does not answer.";
  const ask = async (method, path, body, type = "application/json") => {
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const isFile = body instanceof Blob;
    if (body !== undefined) headers["Content-Type"] = isFile ? "application/octet-stream" : type;
    let answer;
    try {
      answer = await fetch(path, { method, headers, body: body === undefined || isFile ? body : JSON.stringify(body) });
    } catch {
      throw new Error(LOST);
    }
    if (answer.status === 401) {
      token = await askToken();
      sessionStorage.setItem("token", token);
      return ask(method, path, body, type);
    }
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.fix ? `${told.error}. ${told.fix}` : told.error);
    return told;
  };
  const tell = (text, wrong = false) => {
    status.textContent = text;
    status.className = wrong ? "wrong" : "";
  };
  const run = async (act) => {
    try {
      await act();
    } catch (error) {
      tell(error.message, true);
    }
  };
  const onSubmit = (id, act) =>
    $(id).addEventListener("submit", (event) => {
      event.preventDefault();
      run(act);
    });
  const entityPath = (kb, key) => `/entities/${encodeURIComponent(kb)}/${key.split("/").map(encodeURIComponent).join("/")}`;

  // --------------------------------------------------------------------------------- link
  let kbNames = [];
  let points = []; // of the text that was linked: offsets count code points
  let links = [];
  let chosen = -1;
  let lastCorrection = null;

  const link = async () => {
    const text = $("text").value;
    if (!text.trim()) {
      tell("There is no text to link yet.");
      return;
    }
    const boxes = [...$("link-kbs").querySelectorAll("input")];
    const kbs = boxes.filter((one) => one.checked).map((one) => one.value);
    tell("Linking ...");
    const asked = { text, explain: true, kbs: kbs.length === boxes.length ? [] : kbs };
    if ($("threshold").dataset.set) asked.threshold = Number($("threshold").value);
    const found = await ask("POST", "/link", asked);
    points = Array.from(found.text);
    links = found.entities;
    showText();
    const linked = links.filter((one) => !one.nil).length;
    const corrected = found.meta.corrected ? `, ${found.meta.corrected} as you corrected` : "";
    tell(`${counted(links.length, "mention")}: ${linked} linked, ${links.length - linked} in no KB${corrected}.`);
  };
  const words = (start, end) => points.slice(start, end).join("");
  const piece = (start, end) => make("span", { "data-start": start }, words(start, end));
  const showText = () => {
    const parts = [];
    let at = 0;
    links.forEach((one, place) => {
      if (one.start < at) return; // inside of a mention that is shown
      if (at < one.start) parts.push(piece(at, one.start));
      const label = one.nil ? "no entity" : `${one.title}, ${one.kb}`;
      const mark = make(
        "span",
        {
          class: one.nil ? "m nil" : `m ${colour(one.kb)}`, role: "button", tabindex: 0, "data-start": one.start,
          "data-place": place, "aria-label": `${one.text}: ${label}, ${percent(one.confidence)} sure`, title: label,
        },
        words(one.start, one.end),
      );
      parts.push(mark);
      at = one.end;
    });
    parts.push(piece(at, points.length));
    $("linked").replaceChildren(...parts);
    $("result").hidden = false;
    $("mention").hidden = true;
    const kbs = [...new Set(links.filter((one) => one.kb).map((one) => one.kb))];
    $("summary").replaceChildren(...kbs.flatMap((kb) => [make("span", { class: `m ${colour(kb)}` }, kb), "  "]));
  };
  const markOf = (node) => (node instanceof Element ? node.closest("#linked .m") : null);
  const open = (place) => {
    chosen = place;
    for (const mark of $("linked").querySelectorAll(".m"))
      mark.setAttribute("aria-expanded", Number(mark.dataset.place) === place);
    showMention(links[place]);
    $("mention").focus({ preventScroll: true });
    $("linked").querySelector(`[data-place="${place}"]`).scrollIntoView({ block: "nearest" });
  };
  const close = () => {
    $("mention").hidden = true;
    const mark = $("linked").querySelector(`[data-place="${chosen}"]`);
    if (mark) {
      mark.setAttribute("aria-expanded", "false");
      mark.focus();
    }
  };
  $("linked").addEventListener("click", (event) => {
    const mark = markOf(event.target);
    if (mark && getSelection().isCollapsed) open(Number(mark.dataset.place));
  });
  $("linked").addEventListener("keydown", (event) => {
    const mark = markOf(event.target);
    if (!mark) return;
    const marks = [...$("linked").querySelectorAll(".m")];
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Enter" || event.key === " ") open(Number(mark.dataset.place));
    else if (by) marks[Math.max(0, Math.min(marks.length - 1, marks.indexOf(mark) + by))].focus();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !$("mention").hidden) close();
  });

  // --------------------------------------------------------- a mention, and correcting it
  const correct = async (one, entity, mention = true) => {
    const said = { text: points.join(""), start: one.start, end: one.end, entity, mention };
    tell("Learning ...");
    lastCorrection = await ask("POST", "/corrections", said);
    await link();
    const what = !mention ? "is no mention" : entity === null ? "means nothing in any KB" : `means ${entity}`;
    const how = lastCorrection.learnt ? "Learnt" : "Being learnt for other texts";
    status.append(` ${how}: “${lastCorrection.surface}” ${what}. `, button("Undo", undo, { id: "undo" }));
    $("undo").focus();
  };
  const undo = async () => {
    const { id, surface, text, replaced } = lastCorrection;
    if (!replaced.length) await ask("DELETE", `/corrections/${id}`);
    for (const { start, end, entity, mention } of replaced) // the first of them takes its place
      await ask("POST", "/corrections", { text, start, end, entity, mention });
    await link();
    status.append(` Taken back: “${surface}”.`);
  };
  const moved = (one, side, by) => {
    const next = { ...one, [side]: one[side] + by };
    const isWord = (at) => /[\p{L}\p{N}]/u.test(points[at] || "");
    const edge = (at) => isWord(at - 1) !== isWord(at);
    while (next[side] > 0 && next[side] < points.length && !edge(next[side])) next[side] += by;
    next[side] = Math.max(0, Math.min(points.length, next[side]));
    if (next.start >= next.end) return;
    showMention({ ...next, text: words(next.start, next.end), moved: true });
  };
  const evidence = (candidate) => {
    const kinds = Object.entries(candidate.parts || {}).filter(([, adds]) => Math.abs(adds) >= 0.005);
    kinds.sort((left, right) => Math.abs(right[1]) - Math.abs(left[1]));
    const said = kinds.slice(0, 6).map(([kind, adds]) => `${kind.replaceAll("_", " ")} ${adds > 0 ? "+" : "−"}${Math.abs(adds).toFixed(2)}`);
    return said.length ? make("small", {}, said.join(", ")) : null;
  };
  const candidateItem = (one, candidate) => {
    const id = `${candidate.kb}:${candidate.key}`;
    const isChosen = !one.nil && !one.moved && one.kb === candidate.kb && one.key === candidate.key;
    const fill = make("div");
    fill.style.width = `${Math.max(0, Math.min(100, (candidate.score || 0) * 100)).toFixed(1)}%`;
    return make(
      "li",
      { class: `${colour(candidate.kb)}${isChosen ? " chosen" : ""}` },
      make("div", { class: "head" }, make("span", {}, candidate.title), make("span", { class: "score" }, (candidate.score || 0).toFixed(2))),
      candidate.score === undefined ? null : make("div", { class: "bar", "aria-hidden": "true" }, fill),
      make(
        "div", { class: "line" }, make("span", { class: "id" }, make("a", { href: `#search=${encodeURIComponent(id)}` }, id)),
        isChosen ? null : button("It means this", () => correct(one, id), { "aria-label": `It means ${candidate.title}, ${id}` }),
      ),
      candidate.description ? make("p", { class: "soft" }, candidate.description.slice(0, 200)) : null,
      evidence(candidate),
    );
  };
  const showMention = (one) => {
    const others = make("ol", { class: "found", "aria-label": "Found entities" });
    const query = make("input", { "aria-label": "Another entity: its name", autocomplete: "off" });
    query.value = one.text;
    const find = async () => {
      const found = await ask("GET", `/search?q=${encodeURIComponent(query.value)}&k=5`);
      others.replaceChildren(...found.map(({ kb, key, title, description }) => candidateItem({ ...one, nil: true }, { kb, key, title, description })));
    };
    query.addEventListener("keydown", (event) => {
      if (event.key === "Enter") run(find);
    });
    const answer = one.moved
      ? "Which entity?"
      : one.nil ? `No entity, ${percent(one.confidence)} sure` : `${one.kb}:${one.key}, ${percent(one.confidence)} sure`;
    const also = (one.also || []).map(({ kb, key }) => `${kb}:${key}`).join(", ");
    $("mention").replaceChildren(
      make("div", { class: "head" }, make("h3", { id: "mention-title" }, one.text), button("Close", close, { "aria-label": "Close this mention" })),
      make("p", { class: "soft" }, answer, also && !one.moved ? `; also ${also}` : ""),
      make(
        "p", { class: "row" },
        ...[["start", -1, "◂ start"], ["start", 1, "start ▸"], ["end", -1, "◂ end"], ["end", 1, "end ▸"]].map(
          ([side, by, text]) => button(text, () => moved(one, side, by), { "aria-label": `Move the ${side} ${by < 0 ? "left" : "right"}` }),
        ),
        button("Nothing in any KB", () => correct(one, null)),
        one.isNew ? null : button("No mention", () => correct(one, null, false)),
      ),
      make("ol", { class: "found", "aria-label": "Candidates" }, ...(one.moved ? [] : one.candidates).map((candidate) => candidateItem(one, candidate))),
      make("p", { class: "row" }, query, button("Find", find)),
      others,
      newEntity(one),
    );
    $("mention").hidden = false;
    if (one.moved) run(find);
  };
  const newEntity = (one) => {
    const kb = make("select", { "aria-label": "KB" }, ...kbNames.map((name) => make("option", {}, name)));
    const about = make("input", { "aria-label": "Description", placeholder: "what it is, in a sentence", autocomplete: "off" });
    const add = async () => {
      const name = one.text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "_");
      const key = `${name}-${Date.now().toString(36)}`; // no key that an entity has
      await ask("POST", `/entities/${kb.value}`, { key, title: one.text, description: about.value });
      await correct(one, `${kb.value}:${key}`);
    };
    return make("details", {}, make("summary", {}, "It is something new"), make("p", { class: "row" }, kb, about, button("Add it", add)));
  };
  const markPlace = (start, end) => {
    const one = { start, end, text: words(start, end), nil: true, confidence: null, candidates: [], moved: true, isNew: true };
    chosen = -1;
    showMention(one);
    $("mention").focus();
  };
  const offsetAt = (node, offset) => {
    const parent = node.parentElement && node.parentElement.closest("[data-start]");
    return parent && $("linked").contains(parent) ? Number(parent.dataset.start) + Array.from(node.textContent.slice(0, offset)).length : null;
  };
  $("linked").addEventListener("mouseup", () => {
    const selected = getSelection();
    if (selected.isCollapsed || !selected.rangeCount) return;
    const range = selected.getRangeAt(0);
    const [start, end] = [offsetAt(range.startContainer, range.startOffset), offsetAt(range.endContainer, range.endOffset)];
    if (start === null || end === null || start >= end) return;
    const word = words(start, end);
    const count = (text) => Array.from(text).length;
    if (word.trim()) markPlace(end - count(word.trimStart()), start + count(word.trimEnd())); // no blanks beside it
  });
  onSubmit("missed-form", () => {
    const wanted = Array.from($("missed").value.trim());
    const at = points.findIndex((_, place) => wanted.length && wanted.every((one, next) => points[place + next] === one));
    if (at < 0) tell("These words do not stand in the text.", true);
    else markPlace(at, at + wanted.length);
  });
  onSubmit("link-form", link);
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(link);
  });
  $("text").addEventListener("dragover", (event) => {
    event.preventDefault();
    $("text").classList.add("over");
  });
  $("text").addEventListener("dragleave", () => $("text").classList.remove("over"));
  $("text").addEventListener("drop", (event) => {
    event.preventDefault();
    $("text").classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (file)
      run(async () => {
        $("text").value = await file.text();
        await link();
      });
  });
  $("threshold").addEventListener("input", () => {
    $("threshold").dataset.set = "yes";
    $("threshold-shown").textContent = percent(Number($("threshold").value));
  });

  // ----------------------------------------------------------------------------- entities
  const search = async () => {
    const found = await ask("GET", `/search?q=${encodeURIComponent($("query").value)}&k=20`);
    $("entity").replaceChildren();
    $("found").replaceChildren(
      ...found.map((one) =>
        make(
          "li", { class: colour(one.kb) },
          make("div", { class: "head" }, make("a", { href: `#search=${encodeURIComponent(`${one.kb}:${one.key}`)}` }, one.title), make("span", { class: "score" }, one.score.toFixed(2))),
          make("span", { class: "id" }, `${one.kb}:${one.key}`),
          make("p", { class: "soft" }, one.description.slice(0, 300)),
        ),
      ),
    );
    tell(`${counted(found.length, "entity", "entities")}.`);
  };
  const entityLink = ({ kb, key, title }) => make("li", {}, make("a", { href: `#search=${encodeURIComponent(`${kb}:${key}`)}` }, title || `${kb}:${key}`), make("small", {}, ` ${kb}:${key}`));
  const list = (title, items) => (items.length ? [make("h3", {}, title), make("ul", {}, ...items)] : []);
  const showEntity = async (id) => {
    const at = id.indexOf(":");
    const one = await ask("GET", entityPath(id.slice(0, at), id.slice(at + 1)));
    const names = one.aliases.map((alias) => alias.surface).join(", ");
    const same = one.counterparts.map((other) => {
      const [kb, ...key] = typeof other.id === "string" ? other.id.split(":") : [other.kb, other.key];
      return entityLink({ kb, key: key.flat().join(":"), title: other.title });
    });
    const seen = one.mentions.examples.map((example) => make("li", {}, `… ${example.left}`, make("strong", {}, example.surface), `${example.right} …`));
    const address = /^https?:\/\//i.test(one.url || "") ? make("p", {}, make("a", { href: one.url, rel: "noopener noreferrer", target: "_blank" }, one.url)) : null;
    $("found").replaceChildren();
    const parts = [
      make("h3", {}, one.title), make("span", { class: "id" }, `${id}${one.type ? `  ${one.type}` : ""}`),
      make("p", {}, one.description), address,
      names ? make("p", { class: "soft" }, `Names: ${names}`) : null,
      ...list("Broader", one.parents.map(entityLink)), ...list("Narrower", one.children.map(entityLink)),
      ...list("In other KBs", same), ...list(`Mentions (${one.mentions.count})`, seen),
    ];
    $("entity").replaceChildren(...parts.filter((part) => part !== null));
    $("entity").focus();
  };
  onSubmit("search-form", async () => {
    if (location.hash !== "#search") history.replaceState(null, "", "#search");
    await search();
  });

  // ------------------------------------------------------------------------------- review
  let pairs = [];
  const judged = [];
  const showPair = async () => {
    if (!pairs.length) pairs = await ask("GET", "/overlaps?verdict=stale&limit=20"); // asked once more
    if (!pairs.length) pairs = await ask("GET", "/overlaps?limit=20");
    const one = pairs[0];
    if (!one) {
      $("pair").replaceChildren(make("p", {}, "No pair waits for an answer."));
      return;
    }
    const side = ({ id, title, description }) => make("div", {}, make("strong", {}, title), make("span", { class: "id" }, id), make("p", {}, description));
    const say = (key, text) => button(text, verdicts[key]);
    $("pair").replaceChildren(
      make("div", { class: "sides" }, side(one.left), side(one.right)),
      make("p", { class: "soft" }, `${percent(one.probability)} probable`, one.verdict ? `; ${one.verdict} when they were described otherwise` : ""),
      make("p", { class: "row" }, say("y", "Same (y)"), say("n", "Different (n)"), say("u", "Unclear (u)"), say("z", "Take back (z)")),
    );
  };
  let asking = false; // one answer at a time: a key that is held answers no pair unseen
  const alone = (act) => async () => {
    if (asking) return;
    asking = true;
    try {
      await act();
    } finally {
      asking = false;
    }
  };
  const judge = async (verdict) => {
    const [one] = pairs;
    if (!one) return;
    await ask("POST", "/overlaps", { left: one.left.id, right: one.right.id, verdict });
    judged.push(pairs.shift());
    tell(`${one.left.title} and ${one.right.title}: ${verdict}. ${judged.length} answered.`);
    await showPair();
    $("pair").focus();
  };
  const takeBack = async () => {
    const one = judged.pop();
    if (!one) {
      tell("Nothing was answered here yet.");
      return;
    }
    // A verdict of before was on another description: the pair waits again.
    await ask("POST", "/overlaps", { left: one.left.id, right: one.right.id, verdict: null });
    pairs.unshift({ ...one, verdict: null });
    tell("Taken back.");
    await showPair();
  };
  const verdicts = {
    y: alone(() => judge("correct")), n: alone(() => judge("wrong")), u: alone(() => judge("unclear")), z: alone(takeBack),
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement;
    if (typing || $("view-review").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    if (verdicts[event.key]) run(verdicts[event.key]);
  });
  const showDiscoveries = async () => {
    const found = await ask("GET", "/discoveries");
    const say = (id, answer) => async () => {
      await ask("POST", `/discoveries/${encodeURIComponent(id)}`, { answer });
      await showDiscoveries();
    };
    const waiting = found.filter((one) => !one.answer);
    const judged = found.filter((one) => one.answer);
    const shown = [...waiting.slice(0, 50), ...judged];
    const answers = (one) => (one.answer ? [["Take back", null]] : [["Accept", "accept"], ["Reject", "reject"]]);
    $("discoveries").replaceChildren(
      ...shown.map((one) =>
        make(
          "li", {}, make("strong", {}, one.title), make("small", {}, ` ${counted(one.mentions, "mention")}${one.answer ? `, ${one.answer}` : ""}`),
          make("p", { class: "soft" }, one.examples[0]?.sentence ?? ""),
          make("p", { class: "row" }, ...answers(one).map(([text, answer]) => button(text, say(one.id, answer), { "aria-label": `${text}: ${one.title}` }))),
        ),
      ),
      waiting.length > 50 ? make("li", {}, `50 of ${whole(waiting.length)}: the others follow when these are answered.`) : "",
    );
  };

  // -------------------------------------------------------------------------- corrections
  const showCorrections = async () => {
    const said = await ask("GET", "/corrections");
    const item = (one) => {
      const own = Array.from(one.text);
      const means = !one.mention ? "no mention" : one.entity || "nothing in any KB";
      const back = async () => {
        await ask("DELETE", `/corrections/${one.id}`);
        await showCorrections();
        tell("Taken back.");
      };
      return make(
        "li", {},
        make("p", {}, own.slice(Math.max(0, one.start - 60), one.start).join(""), make("strong", {}, one.surface), own.slice(one.end, one.end + 60).join("")),
        make("p", { class: "row" }, make("span", { class: "soft" }, `means ${means}`), button("Take back", back, { "aria-label": `Take back: ${one.surface}` })),
      );
    };
    $("corrected").replaceChildren(...said.map(item));
    tell(said.length ? `${said.length} corrections.` : "Nothing was corrected yet.");
  };

  // ------------------------------------------------------------------------- KBs and jobs
  const showKbs = async () => {
    const kbs = await ask("GET", "/kbs");
    kbNames = kbs.filter((one) => one.entities).map((one) => one.name);
    const number = (value) => make("td", {}, whole(value));
    const learn = (one) => (one.documents ? button("Learn", () => start({ kind: "learn", kb: one.name }), { "aria-label": `Learn from ${one.name}` }) : null);
    $("kb-table").replaceChildren(
      make("thead", {}, make("tr", {}, ...["KB", "entities", "documents", "revision", ""].map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...kbs.map((one) => make("tr", {}, make("th", { scope: "row" }, one.name), number(one.entities), number(one.documents), number(one.revision), make("td", {}, learn(one))))),
    );
    const boxes = new Map([...$("link-kbs").querySelectorAll("input")].map((one) => [one.value, one.checked]));
    $("link-kbs").replaceChildren(
      make("legend", {}, "KBs"),
      ...kbNames.map((name) => {
        const box = make("input", { type: "checkbox", value: name });
        box.checked = boxes.get(name) ?? true;
        return make("label", {}, box, " ", make("span", { class: `m ${colour(name)}` }, name));
      }),
    );
  };
  const showRuns = async () => {
    const [spaces, runs] = [await ask("GET", "/spaces"), await ask("GET", "/runs")];
    $("spaces").replaceChildren(
      ...spaces.map((one) => make("li", {}, make("strong", {}, one.name), make("small", {}, ` ${counted(one.entities, "entity", "entities")} of ${counted(one.kbs.length, "KB")}${one.used ? ", in use" : ""}`))),
    );
    const item = (one) => {
      const address = `/reports/${encodeURIComponent(one.name)}`;
      const save = async () => {
        const answer = await fetch(address, { headers: { Authorization: `Bearer ${token}` } });
        const file = URL.createObjectURL(await answer.blob());
        make("a", { href: file, download: `${one.name}.html` }).click();
        URL.revokeObjectURL(file);
      };
      const shown = token ? button("Save its report", save) : make("a", { href: address, target: "_blank" }, "Report");
      const again = one.report ? "Make it anew" : "Make its report"; // spaces and KBs may have changed since
      const made = button(again, () => start({ kind: "report", run: one.name }), { "aria-label": `${again}: ${one.name}` });
      return make("li", {}, make("p", { class: "row" }, make("strong", {}, one.name), make("small", {}, `${one.recipe}, ${one.sources}, ${one.state}`), one.report ? shown : null, made));
    };
    $("runs").replaceChildren(...runs.map(item));
  };
  const outcome = ({ kind, answer }) => {
    if (kind === "learn") return counted(answer.surfaces, "surface");
    if (kind === "build") return `${counted(answer.encoded_rows, "vector")} encoded`;
    if (kind === "overlaps") return answer.map(({ left, right, kept }) => `${left}-${right}: ${counted(kept, "pair")}`).join(", ");
    if (kind === "report") return "";
    const { added, changed, removed, unchanged, documents, mentions, golds, gold_unresolved: unknown } = answer;
    const noted = Object.entries({ ...answer.notes, ...answer.left_out, ...answer.mended }).map((pair) => pair.join(": "));
    return [
      `+${whole(added)} ~${whole(changed)} -${whole(removed)} =${whole(unchanged)} entities`,
      documents ? `${counted(documents, "document")}, ${counted(mentions, "mention")}` : "",
      unknown ? `${whole(unknown)} of ${whole(golds)} golds are in no KB` : "",
      ...noted,
    ].filter(Boolean).join("; ");
  };
  let watching = 0;
  const showJobs = async () => {
    clearTimeout(watching);
    let jobs;
    try {
      jobs = await ask("GET", "/jobs");
    } catch (error) { // it may be starting anew, and then goes on with its jobs
      if (error.message === LOST && !$("view-kbs").hidden) watching = setTimeout(() => run(showJobs), 2000);
      throw error;
    }
    if (status.textContent === LOST) tell("");
    const item = (one) => {
      const live = one.state === "running" || one.state === "waiting";
      const said = one.state === "failed" ? `${one.answer.error}. ${one.answer.fix}` : one.state === "done" ? outcome(one) : "";
      const bar = live ? make("progress", { "aria-label": one.step || one.kind, ...(one.total ? { max: one.total, value: one.done } : {}) }) : null;
      return make(
        "li", {}, make("p", {}, `${one.kind} ${one.kb || one.run || ""}`.trim(), `: ${one.state} ${live ? one.step : ""}`), bar,
        said ? make("p", { class: "soft" }, said) : null,
        live ? button("Cancel", async () => { await ask("DELETE", `/jobs/${one.id}`); await showJobs(); }) : null,
      );
    };
    $("jobs").replaceChildren(...jobs.map(item));
    if (jobs.some((one) => one.state === "running" || one.state === "waiting")) watching = setTimeout(() => run(showJobs), 500);
    else if (jobs.length) {
      await showKbs();
      await showRuns();
    }
  };
  const start = async (job) => {
    await ask("POST", "/jobs", job);
    await showJobs();
  };
  onSubmit("upload-form", async () => {
    const [file] = $("kb-file").files;
    const query = new URLSearchParams({ file: file.name });
    for (const kb of $("kb-links").value.split(/[\s,]+/).filter(Boolean)) query.append("links_to", kb);
    for (const [name, value] of new URLSearchParams($("kb-more").value)) query.append(name, value);
    tell("Uploading ...");
    await ask("PUT", `/kbs/${encodeURIComponent($("kb-name").value)}?${query}`, file);
    $("kb-more").value = ""; // it is of this file
    tell("Uploaded; it is read now.");
    await showJobs();
  });
  $("run-overlaps").addEventListener("click", () => run(() => start({ kind: "overlaps" })));
  $("run-build").addEventListener("click", () => run(() => start({ kind: "build" })));

  // -------------------------------------------------------------------------------- views
  const begin = {
    link: () => {},
    search: (id) => (id ? showEntity(id) : undefined),
    review: async () => {
      pairs = [];
      await showPair();
      await showDiscoveries();
    },
    corrections: showCorrections,
    kbs: async () => {
      await showKbs();
      await showRuns();
      await showJobs();
    },
  };
  const show = () => {
    const [name, value = ""] = location.hash.slice(1).split("=", 2);
    const view = begin[name] ? name : "link";
    for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== `view-${view}`;
    for (const item of document.querySelectorAll("nav a")) {
      if (item.hash === `#${view}`) item.setAttribute("aria-current", "page");
      else item.removeAttribute("aria-current");
    }
    clearTimeout(watching);
    tell("");
    run(async () => {
      if (!kbNames.length) await showKbs();
      await begin[view](decodeURIComponent(value));
    });
  };
  addEventListener("hashchange", show);
  if (token && location.hash.includes("token=")) {
    sessionStorage.setItem("token", token);
    history.replaceState(null, "", location.pathname);
  }
  show();
})();
