// What joins the parts: the values in the page, then one event for each look.

const data = JSON.parse(document.getElementById("data").textContent);
const at = name => document.getElementById(name);
const state = {
  view: data.view, history: new History(data.history), now: data.at_unix_ms, isPaused: false,
  link: data.is_live ? "live" : "file", failure: null, doctor: data.doctor,
  opened: new Set(), closed: new Set(), rows: new Map(),
};
/// A few channels are shown with their participants from the start.
const OPEN_MAX = 3;
const FINDINGS_MAX = 5;
const map = new ChannelMap(at("map"));
const observer = new IntersectionObserver(entries => {
  for (const entry of entries) {
    const rows = entry.target.owner;
    rows.isVisible = entry.isIntersecting;
    rows.draw(state.history, state.now);
  }
}, { rootMargin: "200px" });

const plural = (number, thing) => `${number} ${thing}${number === 1 ? "" : "s"}`;

function headline() {
  const { findings, channels } = state.view;
  if (findings.length > 0) return findings[0].text;
  return channels.length === 0 ? "There are no channels here." : "No subscriber holds a publisher back.";
}

function drawFirst() {
  const { findings } = state.view;
  setClass(at("first"), findings.length > 0 ? severityClass(findings[0].severity) : "");
  setText(at("headline"), headline());
  document.title = findings.length > 0 ? `${findings[0].text} - Olivine` : "Olivine";
  const list = at("findings");
  const shown = findings.slice(0, FINDINGS_MAX);
  while (list.children.length > shown.length) list.lastChild.remove();
  shown.forEach((one, index) => {
    let item = list.children[index];
    if (!item) {
      item = list.appendChild(element("li", index === 0 ? "first" : ""));
      item.text = item.appendChild(element("span"));
    }
    setText(item.text, one.text);
    if (item.command !== one.remedy) {
      item.command = one.remedy;
      item.replaceChildren(item.text, element("code", "", escaped(one.remedy)), copyButton(one.remedy));
    }
  });
}

function rankOf(channel, blamed) {
  const rank = RANK[blamed.get(channel.name)];
  return rank ?? (channel.error === null ? 3 : 2.5);
}

const ORDERS = {
  trouble: blamed => (a, b) => rankOf(a, blamed) - rankOf(b, blamed),
  rate: () => (a, b) => (b.bytes_per_s ?? 0) - (a.bytes_per_s ?? 0),
  behind: () => (a, b) => b.behind_bytes - a.behind_bytes,
  name: () => () => 0,
};

/// Whether a channel, or a participant of it, has the words of the filter.
function matches(channel, words) {
  const has = text => text !== null && text.toLowerCase().includes(words);
  return has(channel.name)
    || channel.participants.some(one => has(one.name) || has(one.command) || `${one.process_id}` === words);
}

function isOpen(channel, blamed) {
  if (state.closed.has(channel.name)) return false;
  return state.opened.has(channel.name) || blamed.has(channel.name) || state.view.channels.length <= OPEN_MAX;
}

function toggle(name) {
  const isShown = state.rows.get(name).open;
  (isShown ? state.closed : state.opened).add(name);
  (isShown ? state.opened : state.closed).delete(name);
  draw();
}

function drawTable(channels, blamed) {
  const table = at("channels");
  const used = new Set();
  // Rows are moved only where their order differs.
  let next = table.tHead.nextSibling;
  for (const channel of channels) {
    used.add(channel.name);
    let rows = state.rows.get(channel.name);
    if (!rows) {
      rows = new ChannelRows(table, channel.name, toggle);
      rows.body.owner = rows;
      state.rows.set(channel.name, rows);
      observer.observe(rows.body);
    }
    rows.show(channel, blamed, isOpen(channel, blamed));
    rows.draw(state.history, state.now);
    if (rows.body === next) next = next.nextSibling;
    else table.insertBefore(rows.body, next);
  }
  for (const [name, rows] of state.rows) {
    if (!used.has(name)) {
      observer.unobserve(rows.body);
      rows.body.remove();
      state.rows.delete(name);
    }
  }
}

function drawMap(channels, blamed) {
  const isNarrow = innerWidth <= 900;
  const most = isNarrow ? MAP.narrow : MAP.wide;
  const urgent = [...channels].sort((a, b) => rankOf(a, blamed) - rankOf(b, blamed)
    || (b.bytes_per_s ?? 0) - (a.bytes_per_s ?? 0));
  const shown = urgent.slice(0, most);
  shown.sort((a, b) => rankOf(a, blamed) - rankOf(b, blamed) || (a.name < b.name ? -1 : 1));
  at("map-section").hidden = shown.length === 0;
  if (shown.length > 0) map.draw(shown, blamed);
  const rest = channels.length - shown.length;
  setText(at("map-note"), rest > 0 ? `${plural(shown.length, "channel")} of ${channels.length}: what is wrong, `
    + "then the highest rates. The table has all of them." : "");
}

function drawStatus() {
  const texts = {
    live: state.isPaused ? "paused" : `live, a look every ${seconds(data.interval_ms * 1e6)}`,
    lost: "no connection, trying again",
    file: `as it was at ${new Date(data.at_unix_ms).toISOString().replace("T", " ").slice(0, 19)} UTC`,
  };
  setText(at("status"), state.failure === null ? texts[state.link] : escaped(state.failure));
  const isLost = state.link === "lost" || state.failure !== null;
  setClass(at("status"), isLost ? "lost" : state.link === "live" && !state.isPaused ? "live" : "");
  const { channels } = state.view;
  const everyone = channels.reduce((sum, one) => sum + one.participants.length, 0);
  setText(at("where"), `${escaped(data.host)}, ${escaped(data.folder)}: ${plural(channels.length, "channel")}, `
    + plural(everyone, "participant"));
}

function draw() {
  const blamed = blames(state.view);
  const words = at("filter").value.trim().toLowerCase();
  const channels = state.view.channels.filter(one => words === "" || matches(one, words));
  channels.sort(ORDERS[at("order").value](blamed));
  drawFirst();
  drawStatus();
  drawMap(channels, blamed);
  at("channels-section").hidden = state.view.channels.length === 0;
  drawTable(channels, blamed);
}

function drawDoctor() {
  const report = state.doctor;
  at("doctor-section").hidden = !report;
  if (!report) return;
  const bad = report.checks.filter(one => one.status === "problem" || one.status === "warning");
  bad.sort((a, b) => (a.status < b.status ? -1 : 1));
  const rest = report.checks.filter(one => !bad.includes(one));
  setText(at("doctor-sum"), `${report.ok ? "Nothing stops Olivine here" : "A problem stops Olivine here"}: `
    + `${plural(report.problem_count, "problem")}, ${plural(report.warning_count, "warning")}, `
    + `${plural(report.note_count, "note")}, ${report.good_count} good.`);
  at("doctor").replaceChildren(...bad.map(one => {
    const check = element("div", "check");
    const line = check.appendChild(element("p"));
    line.append(element("span", `status ${one.status}`, one.status), ` ${one.id}: ${escaped(one.value)}`);
    check.appendChild(element("p", "note", one.effect ? `${one.why}: ${one.effect.text}` : one.why));
    if (one.mend) {
      const mend = check.appendChild(element("div", "mend"));
      mend.append(element("code", "", escaped(one.mend)), copyButton(one.mend));
    }
    return check;
  }));
  at("doctor-rest").firstChild.textContent = `${plural(rest.length, "more check")}`;
  at("doctor-rest").lastChild.replaceChildren(...rest.map(one => {
    return element("li", "", `${one.status} ${one.id}: ${escaped(one.value)}`);
  }));
}

/// A look came.
function take(view) {
  state.view = view;
  state.now = Date.now() - state.ahead;
  state.history.push(state.now, view);
}

// Times of the history are those of the server's clock.
state.ahead = Date.now() - data.at_unix_ms;

function follow() {
  let isPlanned = false;
  const plan = () => {
    if (isPlanned || state.isPaused) return;
    isPlanned = true;
    requestAnimationFrame(() => {
      isPlanned = false;
      draw();
    });
  };
  const events = new EventSource("api/v1/events");
  events.addEventListener("view", event => {
    state.link = "live";
    state.failure = null;
    take(JSON.parse(event.data));
    plan();
  });
  events.addEventListener("failure", event => {
    state.failure = JSON.parse(event.data).error;
    drawStatus();
  });
  events.addEventListener("error", () => {
    state.link = "lost";
    drawStatus();
    // A server that was started again wants the token again: the page itself asks for it.
    if (events.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 3000);
  });
  const checks = () => fetch("api/v1/doctor").then(answer => (answer.ok ? answer.json() : null)).then(report => {
    if (report) {
      state.doctor = report;
      drawDoctor();
    }
  }, () => {});
  checks();
  setInterval(checks, 60000);
  at("pause").hidden = at("save").hidden = false;
  at("pause").addEventListener("click", () => {
    state.isPaused = !state.isPaused;
    setText(at("pause"), state.isPaused ? "Go on" : "Pause");
    draw();
  });
}

at("about").textContent = `olivine ${data.version}. It only reads: no participant waits for this page.`;
at("filter").addEventListener("input", draw);
at("order").addEventListener("change", draw);
addEventListener("resize", draw);
draw();
drawDoctor();
if (data.is_live) follow();
