"use strict";
// Figures and names as `olivine top` shows them.

const NOTHING = "-";

const three = value => value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);

function scaled(value, step, units) {
  let at = 0;
  while (value >= step * 0.9995 && at + 1 < units.length) {
    value /= step;
    at += 1;
  }
  return `${at === 0 ? Math.round(value) : three(value)} ${units[at]}`;
}

const bytes = value => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const known = (value, shown) => (value === null || value === undefined ? NOTHING : shown(value));
const rate = value =>
  known(value, some => scaled(some, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]));
const count = value => scaled(value, 1000, ["", "K", "M", "G", "T"]).trim();
const about = value => known(value, some => `~${count(some)}`);
const aboutRate = value => known(value, some => `~${count(some)}/s`);
const percent = value => known(value, part => `${(part * 100).toFixed(0)} %`);

/// A time that people wait, as `seconds` of `watch/format.rs` shows it.
function seconds(ns) {
  const s = ns / 1e9;
  const whole = (value, unit) => `${Math.round(value)} ${unit}`;
  if (s < 0.0000005) return "0 ns";
  if (s < 0.0009995) return whole(s * 1e6, "us");
  if (s < 0.9995) return whole(s * 1e3, "ms");
  if (s < 9.95) return `${(Math.round(s * 10) / 10).toFixed(1)} s`;
  if (s < 99.5) return whole(s, "s");
  if (s < 5400) return whole(s / 60, "min");
  if (s < 172800) return whole(s / 3600, "h");
  return whole(s / 86400, "d");
}

/// Text of another program: control characters and marks that turn text around are shown.
function escaped(text) {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    one => {
      const code = one.codePointAt(0).toString(16);
      return code.length > 2 ? `\\u{${code}}` : `\\x${code.padStart(2, "0")}`;
    },
  );
}

const STATE_WORDS = { stopped: "STOPPED", not_reading: "stuck", unknown: "-" };
const stateWord = state => STATE_WORDS[state] ?? state;

/// The name of a participant: its durable name, else its command.
function who(one) {
  if (one.name !== null) return escaped(one.name);
  if (one.command) return escaped(one.command);
  return one.role === "publisher" ? "a publisher" : "a subscriber";
}

/// An element with a class and a text.
function element(name, kind, text) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
}

function svg(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  return made;
}

// Most values of a view are those of the view before: only differences change the document.
function setText(node, text) {
  if (node.shown !== text) node.textContent = node.shown = text;
}

function setClass(node, text) {
  if (node.kind !== text) {
    node.kind = text;
    node.setAttribute("class", text);
  }
}

function setAttribute(node, name, value) {
  const all = node.drawn ?? (node.drawn = {});
  if (all[name] !== value) node.setAttribute(name, (all[name] = value));
}

/// A button that copies a command.
function copyButton(text) {
  const button = element("button", "", "Copy");
  button.type = "button";
  button.addEventListener("click", event => {
    event.stopPropagation();
    // Without the right to copy, the text is beside it.
    navigator.clipboard?.writeText(text).then(
      () => {
        button.textContent = "Copied";
      },
      () => {},
    );
  });
  return button;
}
