// What joins the parts: the values in the page, then one event for each look.

const data = JSON.parse(document.getElementById("data").textContent);
const at = name => document.getElementById(name);
const state = {
  // What is shown. While the page is paused, what comes is kept in `newest`.
  view: data.view,
  history: new History(data.history),
  now: data.at_unix_ms,
  isPaused: false,
  newest: null,
  cameAt: performance.now(),
  link: data.is_live ? "live" : "file",
  failure: data.failure,
  doctor: data.doctor,
  opened: new Set(),
  closed: new Set(),
  rows: new Map(),
};
/// Without a look for this time, in milliseconds, what is shown is not of now.
const LATE = Math.max(3 * data.interval_ms, 3000);
/// Time until a stream that the server refused is asked for again: each time twice as long.
const AGAIN = { first: 3000, last: 60000 };
/// A few channels are shown with their participants from the start.
const OPEN_MAX = 3;
const FINDINGS_MAX = 5;
const map = new ChannelMap(at("map"));
const observer = new IntersectionObserver(
  entries => {
    for (const entry of entries) {
      const rows = entry.target.owner;
      rows.isVisible = entry.isIntersecting;
      if (rows.isVisible) rows.write();
      rows.draw(state.history, state.now);
    }
  },
  { rootMargin: "200px" },
);

const plural = (number, thing) => `${number} ${thing}${number === 1 ? "" : "s"}`;

function headline() {
  const { findings, channels } = state.view;
  if (findings.length > 0) return findings[0].text;
  if (state.failure !== null && channels.length === 0) return "The channels cannot be read.";
  return channels.length === 0
    ? "There are no channels here."
    : "No subscriber holds a publisher back.";
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
      item.replaceChildren(
        item.text,
        element("code", "", escaped(one.remedy)),
        copyButton(one.remedy),
      );
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
  return (
    has(channel.name) ||
    channel.participants.some(
      one => has(one.name) || has(one.command) || `${one.process_id}` === words,
    )
  );
}

function isOpen(channel, blamed) {
  if (state.closed.has(channel.name)) return false;
  return (
    state.opened.has(channel.name) ||
    blamed.has(channel.name) ||
    state.view.channels.length <= OPEN_MAX
  );
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
  const urgent = [...channels].sort(
    (a, b) => rankOf(a, blamed) - rankOf(b, blamed) || (b.bytes_per_s ?? 0) - (a.bytes_per_s ?? 0),
  );
  const shown = urgent.slice(0, most);
  shown.sort((a, b) => rankOf(a, blamed) - rankOf(b, blamed) || (a.name < b.name ? -1 : 1));
  at("map-section").hidden = shown.length === 0;
  if (shown.length > 0) map.draw(shown, blamed);
  const rest = channels.length - shown.length;
  setText(
    at("map-note"),
    rest > 0
      ? `${plural(shown.length, "channel")} of ${channels.length}: what is wrong, ` +
          "then the highest rates. The table has all of them."
      : "",
  );
}

const clock = unix => `${new Date(unix).toISOString().replace("T", " ").slice(0, 19)} UTC`;

function drawStatus() {
  const shown = clock(state.now);
  const texts = {
    live: state.isPaused
      ? `paused, as it was at ${shown}`
      : `live, a look every ${seconds(data.interval_ms * 1e6)}`,
    late: `no new look: as it was at ${shown}`,
    lost: `no connection, trying again: as it was at ${shown}`,
    full: `the server has no room for this page, trying again: as it was at ${shown}`,
    file: `as it was at ${shown}`,
  };
  setText(at("status"), state.failure === null ? texts[state.link] : escaped(state.failure));
  const isLost = ["late", "lost", "full"].includes(state.link) || state.failure !== null;
  setClass(at("status"), isLost ? "lost" : state.link === "live" && !state.isPaused ? "live" : "");
  const { channels } = state.view;
  const participants = channels.reduce((sum, one) => sum + one.participants.length, 0);
  setText(
    at("where"),
    `${escaped(data.host)}, ${escaped(data.folder)}: ${plural(channels.length, "channel")}, ` +
      plural(participants, "participant"),
  );
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
  setText(
    at("doctor-sum"),
    `${report.ok ? "No problem found on this machine" : "A problem stops Olivine here"}: ` +
      `${plural(report.problem_count, "problem")}, ${plural(report.warning_count, "warning")}, ` +
      `${plural(report.note_count, "note")}, ${report.good_count} good.`,
  );
  at("doctor").replaceChildren(
    ...bad.map(one => {
      const check = element("div", "check");
      const line = check.appendChild(element("p"));
      line.append(
        element("span", `status ${one.status}`, one.status),
        ` ${one.id}: ${escaped(one.value)}`,
      );
      check.appendChild(
        element("p", "note", one.effect ? `${one.why}: ${one.effect.text}` : one.why),
      );
      if (one.mend) {
        const mend = check.appendChild(element("div", "mend"));
        mend.append(element("code", "", escaped(one.mend)), copyButton(one.mend));
      }
      return check;
    }),
  );
  at("doctor-rest").firstChild.textContent = `${plural(rest.length, "more check")}`;
  at("doctor-rest").lastChild.replaceChildren(
    ...rest.map(one => {
      return element("li", "", `${one.status} ${one.id}: ${escaped(one.value)}`);
    }),
  );
}

/// A look came.
function take(view) {
  const now = performance.now();
  const ahead = now - view.at_unix_ms;
  // The least delay of all looks is that of the way here. A clock that is set back begins anew.
  state.ahead = view.at_unix_ms < state.lastAt ? ahead : Math.min(state.ahead, ahead);
  state.lastAt = view.at_unix_ms;
  state.cameAt = now;
  const to = state.newest ?? state;
  to.view = view;
  to.now = view.at_unix_ms;
  to.history.push(to.now, view);
  const isOld = ahead - state.ahead > LATE;
  state.link = isOld ? "late" : "live";
}

// The server's clock, from this page's steady clock.
state.ahead = performance.now() - data.written_unix_ms;
state.lastAt = data.at_unix_ms;

/// Keeps what is shown, or shows the newest.
function pause() {
  if (state.newest === null) {
    const { view, history, now } = state;
    state.newest = { view, history, now };
    state.history = history.copy();
  } else {
    Object.assign(state, state.newest);
    state.newest = null;
  }
  state.isPaused = state.newest !== null;
  setText(at("pause"), state.isPaused ? "Go on" : "Pause");
  setText(at("save"), state.isPaused ? "Save the newest as a file" : "Save as a file");
  draw();
}

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
  let wait = AGAIN.first;
  const open = () => {
    const events = new EventSource("api/v1/events");
    events.addEventListener("view", event => {
      state.failure = null;
      wait = AGAIN.first;
      take(JSON.parse(event.data));
      if (state.isPaused) drawStatus();
      plan();
    });
    events.addEventListener("failure", event => {
      state.failure = JSON.parse(event.data).error;
      state.cameAt = performance.now();
      state.link = "live";
      drawStatus();
      plan();
    });
    events.addEventListener("error", () => {
      const isRefused = events.readyState === EventSource.CLOSED;
      if (!isRefused || state.link !== "full") state.link = "lost";
      drawStatus();
      if (!isRefused) return;
      // The server refused the stream: it wants the token again, or has no room.
      fetch("api/v1/events", { method: "HEAD" })
        .then(
          answer => {
            // The page itself asks for the token.
            if (answer.status === 401) location.reload();
            else state.link = "full";
          },
          () => {},
        )
        .finally(drawStatus);
      setTimeout(open, wait);
      wait = Math.min(2 * wait, AGAIN.last);
    });
  };
  open();
  setInterval(() => {
    if (state.link !== "live" || performance.now() - state.cameAt <= LATE) return;
    state.link = "late";
    drawStatus();
  }, 1000);
  const checks = () =>
    fetch("api/v1/doctor")
      .then(answer => (answer.ok ? answer.json() : null))
      .then(
        report => {
          if (report) {
            state.doctor = report;
            drawDoctor();
          }
        },
        () => {},
      );
  checks();
  setInterval(checks, 60000);
  at("pause").hidden = at("save").hidden = false;
  at("pause").addEventListener("click", pause);
}

at("about").textContent =
  `olivine ${data.version}. It only reads: no participant waits for this page.`;
at("filter").addEventListener("input", draw);
at("order").addEventListener("change", draw);
addEventListener("resize", draw);
// Paper has all rows.
addEventListener("beforeprint", () => {
  for (const rows of state.rows.values()) rows.write();
});
// What is wrong is painted before the tables, which take longer where there are many channels.
drawFirst();
drawStatus();
requestAnimationFrame(() =>
  setTimeout(() => {
    draw();
    drawDoctor();
  }),
);
if (data.is_live) follow();
