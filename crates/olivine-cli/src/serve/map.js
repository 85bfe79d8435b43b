// The map: publishers on the left, channels, subscribers on the right.

const MAP = { node: 36, gap: 10, wide: 14, narrow: 8, side: 8 };
const RANK = { held: 0, slowed: 1, risk: 2 };

/// The class of a severity: what is slowed is shown as what is held.
const severityClass = severity => ({ held: "held", slowed: "held", risk: "risk" })[severity] ?? "";

/// What is wrong, by channel and by slot of a channel.
function blames(view) {
  const found = new Map();
  for (const one of view.findings) {
    for (const key of [one.channel, `${one.channel}\n${one.slot}`]) {
      const old = found.get(key);
      if (old === undefined || RANK[one.severity] < RANK[old]) found.set(key, one.severity);
    }
  }
  return found;
}

/// The class of a participant.
function participantClass(channel, one, blamed) {
  const severity = one.role === "subscriber" && blamed.get(`${channel.name}\n${one.index}`);
  if (severity) return severityClass(severity);
  if (one.state === "held" || one.state === "stopped") return "held";
  return one.state === "gone" || one.state === "evicted" ? "gone" : "";
}

/// Nodes and edges of some channels.
function mapModel(channels, blamed) {
  const nodes = { publisher: new Map(), channel: [], subscriber: new Map() };
  const edges = [];
  channels.forEach((channel, at) => {
    const node = {
      key: `channel\n${channel.name}`,
      name: escaped(channel.name),
      title: escaped(channel.name),
      state: channel.error ? "unreadable" : rate(channel.bytes_per_s),
      kind: channel.error ? "gone" : severityClass(blamed.get(channel.name)),
    };
    node.brief = node.state;
    nodes.channel.push(node);
    for (const role of ["publisher", "subscriber"]) {
      const all = channel.participants.filter(one => one.role === role);
      const urgency = one => (participantClass(channel, one, blamed) === "held" ? 0 : 1);
      all.sort((a, b) => urgency(a) - urgency(b) || (b.bytes_per_s ?? 0) - (a.bytes_per_s ?? 0));
      all.slice(0, MAP.side).forEach(one => {
        const named = one.name ? `${one.name}\n${channel.name}` : "\n";
        const key = `${role}\n${one.process_id}\n${named}`;
        const kind = participantClass(channel, one, blamed);
        const process = nodes[role].get(key) ?? {
          key,
          name: who(one),
          places: [],
          kind: "",
          title: `${who(one)}, process ${one.process_id}`,
        };
        if (kind === "held" || process.kind === "") {
          process.kind = kind;
          process.brief = stateWord(one.state);
          process.state = `${process.brief} ${one.process_id}`;
        }
        process.places.push(at);
        nodes[role].set(key, process);
        edges.push({ role, from: process, to: node, kind, rate: one.bytes_per_s ?? 0 });
      });
      const more = all.length - MAP.side;
      if (more > 0) {
        const key = `${role}\nmore\n${channel.name}`;
        const rest = { key, name: `${more} more`, title: "", state: "", brief: "", kind: "" };
        rest.places = [at];
        nodes[role].set(key, rest);
        edges.push({ role, from: rest, to: node, kind: "", rate: 0 });
      }
    }
  });
  const order = map => [...map.values()].sort((a, b) => mean(a.places) - mean(b.places));
  return { columns: [order(nodes.publisher), nodes.channel, order(nodes.subscriber)], edges };
}

const mean = places => places.reduce((sum, at) => sum + at, 0) / places.length;

const thickness = perSecond => Math.min(11, 1.5 + 1.35 * Math.log10(1 + perSecond / 300));

/// Measures texts without a layout of the page.
const ruler = document.createElement("canvas").getContext("2d");
const cuts = new Map();

/// As much of the start of a text as fits.
function cut(text, width, font) {
  const key = `${width}\n${font}\n${text}`;
  let shown = cuts.get(key);
  if (shown === undefined) {
    if (cuts.size > 5000) cuts.clear();
    ruler.font = `${font} system-ui, sans-serif`;
    shown = text;
    for (
      let length = text.length - 1;
      length > 0 && ruler.measureText(shown).width > width;
      length -= 1
    ) {
      shown = `${text.slice(0, length)}…`;
    }
    cuts.set(key, shown);
  }
  return shown;
}

class ChannelMap {
  constructor(root) {
    this.root = root;
    this.edges = root.appendChild(svg("g", {}));
    // What is wrong is drawn over the rest.
    this.wrong = root.appendChild(svg("g", {}));
    this.nodes = root.appendChild(svg("g", {}));
    this.known = new Map();
    this.lines = new Map();
  }

  draw(channels, blamed) {
    const width = Math.max(300, Math.floor(this.root.getBoundingClientRect().width));
    const { columns, edges } = mapModel(channels, blamed);
    const node = Math.min(230, Math.floor(width * 0.27));
    const lefts = [1, Math.floor((width - node) / 2), width - node - 1];
    const step = MAP.node + MAP.gap;
    const height = Math.max(...columns.map(column => column.length)) * step;
    setAttribute(this.root, "viewBox", `0 0 ${width} ${height}`);
    setAttribute(this.root, "height", `${height}`);
    const used = new Set();
    columns.forEach((column, at) => {
      const top = (height - column.length * step) / 2 + MAP.gap / 2;
      column.forEach((one, index) => {
        one.x = lefts[at];
        one.y = Math.round(top + index * step);
        this.place(one, node, at === 1);
        used.add(one.key);
      });
    });
    const drawn = new Set();
    for (const edge of edges) {
      const key = `${edge.role}\n${edge.from.key}\n${edge.to.key}`;
      drawn.add(key);
      this.line(key, edge, node);
    }
    remove(this.known, used);
    remove(this.lines, drawn);
  }

  place(one, width, isChannel) {
    let shown = this.known.get(one.key);
    if (!shown) {
      const group = this.nodes.appendChild(svg("g", {}));
      shown = {
        group,
        title: group.appendChild(svg("title", {})),
        rect: group.appendChild(svg("rect", { rx: 6, height: MAP.node })),
        name: group.appendChild(svg("text", { class: "name", x: 9, y: 15 })),
        state: group.appendChild(svg("text", { class: "small state", x: 9, y: 29 })),
      };
      this.known.set(one.key, shown);
    }
    const room = width - 18;
    setText(shown.title, one.title);
    setText(shown.name, cut(one.name, room, isChannel ? "600 12px" : "12px"));
    const font = one.kind === "" ? "11px" : "600 11px";
    // A part of a number would be another number. The title has it.
    const isWhole = cut(one.state, room, font) === one.state;
    setText(shown.state, isWhole ? one.state : cut(one.brief, room, font));
    setClass(shown.group, `${isChannel ? "channel" : "process"} ${one.kind}`);
    setAttribute(shown.rect, "width", `${width}`);
    setAttribute(shown.group, "transform", `translate(${one.x} ${one.y})`);
  }

  line(key, edge, width) {
    let path = this.lines.get(key);
    if (!path) {
      path = svg("path", {});
      this.lines.set(key, path);
    }
    const group = edge.kind === "held" || edge.kind === "risk" ? this.wrong : this.edges;
    if (path.parentNode !== group) group.appendChild(path);
    const isLeft = edge.role === "publisher";
    const [a, b] = isLeft ? [edge.from, edge.to] : [edge.to, edge.from];
    const [x1, x2] = [a.x + width, b.x];
    const [y1, y2] = [a.y + MAP.node / 2, b.y + MAP.node / 2];
    const middle = (x1 + x2) / 2;
    setAttribute(path, "d", `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`);
    setAttribute(path, "stroke-width", thickness(edge.rate).toFixed(1));
    setClass(path, edge.kind);
  }
}

function remove(known, used) {
  for (const [key, shown] of known) {
    if (!used.has(key)) {
      (shown.group ?? shown).remove();
      known.delete(key);
    }
  }
}
