// The table of channels, and their participants below each.

const SPARK = { width: 110, height: 22, milliseconds: 60000, step: 500 };

/// Lag and time held over the last minute, by channel and by subscriber.
class History {
  constructor(shown) {
    this.at = [...shown.at_unix_ms];
    this.series = new Map();
    for (const one of shown.series) {
      this.series.set(History.key(one.channel, one), {
        behind: one.behind_bytes,
        held: one.held_share,
      });
    }
  }

  /// The same points, which later views do not change.
  copy() {
    const made = new History({ at_unix_ms: this.at, series: [] });
    for (const [key, one] of this.series)
      made.series.set(key, { behind: [...one.behind], held: [...one.held] });
    return made;
  }

  static key(channel, one) {
    return one.slot === null ? channel : `${channel}\n${one.slot}\n${one.process_id}`;
  }

  static of(channel, one) {
    return `${channel}\n${one.index}\n${one.process_id}`;
  }

  /// Adds a view. Views that are close together share a point, which keeps the larger value.
  push(now, view) {
    let last = this.at[this.at.length - 1];
    if (last > now) {
      // The clock was set back.
      this.at = [];
      this.series.clear();
      last = undefined;
    }
    if (last === undefined || now - last >= SPARK.step) {
      this.at.push(now);
      for (const one of this.series.values()) {
        one.behind.push(null);
        one.held.push(null);
      }
    }
    const end = this.at.length - 1;
    const add = (key, behind, held) => {
      let one = this.series.get(key);
      if (!one) {
        // What is always 0 has no series.
        if (behind === 0 && !held) return;
        const empty = () => new Array(this.at.length).fill(null);
        this.series.set(key, (one = { behind: empty(), held: empty() }));
      }
      one.behind[end] = Math.max(one.behind[end] ?? 0, behind);
      one.held[end] = Math.max(one.held[end] ?? 0, held ?? 0);
    };
    for (const channel of view.channels) {
      add(channel.name, channel.behind_bytes, channel.held_share);
      for (const one of channel.participants) {
        if (one.role === "subscriber")
          add(History.of(channel.name, one), one.behind_bytes, one.held_share);
      }
    }
    while (this.at.length > 0 && now - this.at[0] > SPARK.milliseconds) {
      this.at.shift();
      for (const [key, one] of this.series) {
        one.behind.shift();
        one.held.shift();
        if (one.behind.every(value => value === null)) this.series.delete(key);
      }
    }
  }

  /// The area below a series, for a picture whose right end is now.
  area(now, key, name, most) {
    const values = this.series.get(key)?.[name];
    if (!values) return "";
    const top = most ?? Math.max(1, ...values);
    const { width, height } = SPARK;
    let path = "";
    let last = null;
    values.forEach((value, at) => {
      const x = (width * (1 - (now - this.at[at]) / SPARK.milliseconds)).toFixed(1);
      if (value === null) {
        if (last !== null) path += `L${last} ${height}Z`;
        last = null;
        return;
      }
      const y = (height - 1 - (height - 3) * Math.min(1, value / top)).toFixed(1);
      path += last === null ? `M${x} ${height}L${x} ${y}` : `L${x} ${y}`;
      last = x;
    });
    return last === null ? path : `${path}L${last} ${height}Z`;
  }
}

function spark(kind) {
  const root = svg("svg", {
    class: `spark ${kind}`,
    viewBox: `0 0 ${SPARK.width} ${SPARK.height}`,
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  root.path = root.appendChild(svg("path", {}));
  return root;
}

/// A part of a table. Its role is said, because its style makes a grid of the table.
function part(parent, name, kind, role) {
  const made = parent.appendChild(element(name, kind));
  made.setAttribute("role", role);
  return made;
}

/// A cell with a value and a picture.
function pairCell(row, kind) {
  const cell = part(row, "td", "", "cell");
  const pair = cell.appendChild(element("div", "pair"));
  const made = { cell, value: pair.appendChild(element("span", "value")), spark: spark(kind) };
  pair.appendChild(made.spark);
  made.note = pair.appendChild(element("span", "soft"));
  return made;
}

function cell(row, kind, head) {
  const made = part(row, "td", kind, "cell");
  if (head) made.dataset.head = head;
  return made;
}

/// A row of a channel or of a participant.
class Row {
  constructor(body, kind) {
    const row = (this.row = part(body, "tr", kind, "row"));
    this.name = cell(row, "name");
    this.rate = cell(row, "number", "rate");
    this.messages = cell(row, "number", "messages");
    this.ring = cell(row, "ring", kind === "channel" ? "ring" : "");
    this.held = pairCell(row, "held");
    this.held.cell.dataset.head = "held";
    this.behind = pairCell(row, "behind");
    this.behind.cell.dataset.head = "behind";
    this.who = cell(row, "who");
  }

  /// The pictures, of rows on the screen only.
  draw(history, now, key) {
    setAttribute(this.held.spark.path, "d", history.area(now, key, "held", 1));
    setAttribute(this.behind.spark.path, "d", history.area(now, key, "behind"));
  }
}

/// One channel: its row, and a row for each participant while it is open.
class ChannelRows {
  constructor(table, name, toggle) {
    this.name = name;
    this.body = part(table, "tbody", "", "rowgroup");
    this.isVisible = true;
    const row = (this.row = new Row(this.body, "channel"));
    this.button = row.name.appendChild(element("button"));
    this.button.type = "button";
    this.title = row.name.appendChild(element("span", "", escaped(name)));
    this.error = row.name.appendChild(element("span", "error"));
    const fill = row.ring.appendChild(element("div", "pair"));
    this.fill = fill.appendChild(element("span", "fill"));
    this.bar = this.fill.appendChild(element("i"));
    this.full = fill.appendChild(element("span"));
    this.row.row.addEventListener("click", () => toggle(name));
    this.ones = new Map();
  }

  /// What the row shows. A row that is not on the screen keeps it until it is.
  show(channel, blamed, isOpen) {
    this.open = isOpen;
    this.next = { channel, blamed, isOpen };
    if (this.isVisible) this.write();
  }

  write() {
    if (!this.next) return;
    const { channel, blamed, isOpen } = this.next;
    this.next = null;
    const { row } = this;
    const unreadable = channel.error === null ? "" : " unreadable";
    setClass(row.row, `channel ${severityClass(blamed.get(channel.name))}${unreadable}`);
    setText(this.button, isOpen ? "▾" : "▸");
    setAttribute(this.button, "aria-expanded", `${isOpen}`);
    setAttribute(this.button, "aria-label", `Participants of ${escaped(channel.name)}`);
    setText(this.error, channel.error === null ? "" : `unreadable: ${escaped(channel.error)}`);
    setText(row.rate, rate(channel.bytes_per_s));
    setText(row.messages, aboutRate(channel.messages_per_s_estimate));
    const fill = channel.ring_fill.toFixed(3);
    if (this.bar.fill !== fill) this.bar.style.transform = `scaleX(${(this.bar.fill = fill)})`;
    setClass(this.fill, channel.ring_fill >= 0.9 ? "fill high" : "fill");
    const isKnown = channel.error === null && channel.capacity_bytes > 0;
    this.fill.toggleAttribute("hidden", !isKnown);
    setText(
      this.full,
      isKnown
        ? `${percent(channel.ring_fill)} of ${bytes(channel.capacity_bytes)}`
        : channel.error === null
          ? "open"
          : NOTHING,
    );
    setText(row.held.value, percent(channel.held_share));
    setText(row.behind.value, channel.error === null ? bytes(channel.behind_bytes) : NOTHING);
    const gone = channel.gone_count > 0 ? `, ${channel.gone_count} gone` : "";
    const counts = `${channel.publishers_count} pub, ${channel.subscribers_count} sub${gone}`;
    setText(row.who, channel.error === null ? counts : NOTHING);
    const used = new Set();
    if (isOpen) channel.participants.forEach(one => this.participant(channel, one, blamed, used));
    for (const [key, shown] of this.ones) {
      if (!used.has(key)) {
        shown.row.remove();
        this.ones.delete(key);
      }
    }
  }

  participant(channel, one, blamed, used) {
    const key = `${one.role}\n${one.index}\n${one.process_id}`;
    used.add(key);
    let row = this.ones.get(key);
    if (!row) {
      row = new Row(this.body, "one");
      row.name.appendChild(element("span", "role", one.role === "publisher" ? "pub" : "sub"));
      row.title = row.name.appendChild(element("span"));
      row.name.appendChild(element("span", "soft", ` ${one.process_id}`));
      row.state = row.ring.appendChild(element("span", "state"));
      this.ones.set(key, row);
    }
    const kind = participantClass(channel, one, blamed);
    const isReader = one.role === "subscriber";
    row.key = isReader ? History.of(channel.name, one) : "";
    setClass(row.row, `one ${kind}`);
    setText(row.title, who(one));
    setText(row.rate, rate(one.bytes_per_s));
    setText(row.messages, "");
    row.messages.classList.add("empty");
    setClass(row.state, `state ${kind}`);
    setText(row.state, stateWord(one.state));
    setText(row.held.value, percent(one.held_share));
    row.held.spark.toggleAttribute("hidden", !isReader);
    row.behind.cell.classList.toggle("empty", !isReader);
    row.behind.spark.toggleAttribute("hidden", !isReader);
    setText(row.behind.value, isReader ? bytes(one.behind_bytes) : "");
    const age =
      one.behind_ns === null
        ? ""
        : `${one.behind_ns_is_minimum ? ">" : ""}${seconds(one.behind_ns)}`;
    const messages =
      one.behind_messages_estimate === null ? "" : about(one.behind_messages_estimate);
    setText(row.behind.note, [messages, age].filter(Boolean).join(", "));
    const cpu = one.cpu_share === null ? "" : `${percent(one.cpu_share)} CPU`;
    const lost = one.lost_bytes > 0 ? `lost ${bytes(one.lost_bytes)}` : "";
    const failed = one.failures_count > 0 ? plural(one.failures_count, "failure") : "";
    const absent = one.absent_ns > 0 ? `absent ${seconds(one.absent_ns)}` : "";
    setText(row.who, [cpu, lost, failed, absent].filter(Boolean).join(", "));
  }

  draw(history, now) {
    if (!this.isVisible) return;
    this.row.draw(history, now, this.name);
    for (const row of this.ones.values()) if (row.key) row.draw(history, now, row.key);
  }
}
