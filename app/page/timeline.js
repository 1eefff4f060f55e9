// Two timelines above each other: the rows of left and right, and their matches between them.
//
// Rows of a side that overlap each other are put on tracks. What they mean stands in the table, too;
// here a keyboard goes from row to row with the arrow keys.

const SVG = "http://www.w3.org/2000/svg";
const TRACK = 18;
const BAR = 14;
const BAR_LEAST = 3;
const AXIS = 22;
const LINES = 14; // height of a line of text at the top, where the borders are named
const BETWEEN = 46;
const MARGIN = 14;
const LABEL_PIXELS = 7;
const TICKS = 8;
const TICKS_PER_MS = { ms: 1n, us: 1000n, ns: 1000000n };

function svg(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text !== "") made.textContent = text;
  return made;
}

const least = (values) => values.reduce((a, b) => (b < a ? b : a));
const most = (values) => values.reduce((a, b) => (b > a ? b : a));

// The least step of round numbers, or round parts of a day, that is not less.
function roundStep(least, unit) {
  const perMs = TICKS_PER_MS[unit] ?? 0n;
  const seconds = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  const day = 86400000n * perMs;
  const found = perMs && least >= 500n * perMs && seconds.map((count) => BigInt(count) * 1000n * perMs).find((step) => step >= least);
  if (found) return found;
  for (let ten = perMs && least > day ? day : 1n; ; ten *= 10n) {
    for (const digit of [1n, 2n, 5n]) if (digit * ten >= least) return digit * ten;
  }
}

// The first track on which each row meets none before it.
function tracks(rows) {
  const ends = [];
  const placed = new Map();
  const inOrder = [...rows].sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0));
  for (const row of inOrder) {
    let track = ends.findIndex((end) => end < row.start);
    if (track < 0) track = ends.length;
    ends[track] = row.end;
    placed.set(row, track);
  }
  return { placed, count: Math.max(ends.length, 1) };
}

export class Timeline {
  constructor({ picture, chosen, time, words }) {
    this.picture = picture;
    this.told = chosen;
    this.time = time;
    this.words = words;
    this.begin();
    new ResizeObserver(() => this.draw()).observe(picture);
  }

  // Another key: nothing is known of it yet.
  begin() {
    this.found = null;
    this.view = null;
    this.pair = { left: null, right: null };
    this.focused = null;
    this.fresh = true;
    this.width = 0;
  }

  show(found, pair) {
    this.found = { ...found, rows: {} };
    for (const side of ["left", "right"]) {
      this.found.rows[side] = found.rows[side].map((row) => ({
        ...row, side, start: BigInt(row.start), end: BigInt(row.end),
      }));
    }
    this.pair = pair;
    this.width = 0;
    this.draw();
  }

  get rows() {
    return [...this.found.rows.left, ...this.found.rows.right];
  }

  // All of time that has a row in it, with a little room.
  whole() {
    if (!this.rows.length) {
      const at = BigInt(this.found.watermark ?? 0);
      return { from: at - 10n, to: at + 10n };
    }
    const from = least(this.rows.map((row) => row.start));
    const to = most(this.rows.map((row) => row.end));
    const room = (to - from) / 30n + 1n;
    return { from: from - room, to: to + room };
  }

  move(where) {
    const { from, to } = this.view ?? this.whole();
    const length = to - from;
    const step = length / 4n + 1n;
    this.view = {
      earlier: { from: from - step, to: to - step },
      later: { from: from + step, to: to + step },
      closer: length > 8n ? { from: from + step, to: to - step } : { from, to },
      wider: { from: from - 2n * step, to: to + 2n * step },
      all: null,
    }[where];
    this.width = 0;
    this.draw();
  }

  choose(side, id) {
    this.pair = { ...this.pair, [side]: this.pair[side] === id ? null : id };
    this.width = 0;
    this.draw();
    this.told(this.pair);
  }

  draw() {
    const width = Math.floor(this.picture.clientWidth);
    if (!this.found || width < 50 || width === this.width) return;
    this.width = width;
    const { from, to } = this.view ?? this.whole();
    const pixels = width - 2 * MARGIN;
    // Beyond the edges by a little at most: a browser cannot draw what is 10^15 pixels away.
    const x = (at) => {
      const exact = (Number(at - from) / Number(to - from)) * pixels;
      return MARGIN + Math.max(Math.min(exact, pixels + 20), -20);
    };
    const left = tracks(this.found.rows.left);
    const right = tracks(this.found.rows.right);
    const middle = 3 * LINES + 8 + left.count * TRACK;
    const height = middle + BETWEEN + right.count * TRACK + AXIS;
    const places = new Map();
    for (const [row, track] of left.placed) places.set(row, middle - (track + 1) * TRACK);
    for (const [row, track] of right.placed) places.set(row, middle + BETWEEN + track * TRACK + 4);
    const root = svg("svg", {
      viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": "Rows in time",
    });
    root.append(...this.axis(from, to, x, height), ...this.borders(x, width, height));
    root.append(...this.links(places, x));
    root.append(svg("text", { x: MARGIN, y: middle + 16, class: "quiet" }, "▲ left"));
    root.append(svg("text", { x: MARGIN, y: middle + BETWEEN - 6, class: "quiet" }, "▼ right"));
    this.shapes = [];
    for (const side of ["left", "right"]) {
      for (const row of this.found.rows[side]) {
        if (row.end < from || row.start > to) continue;
        const shape = this.shape(row, places.get(row), x);
        this.shapes.push({ row, shape });
        root.append(shape);
      }
    }
    // A picture that is drawn anew must not take the focus away.
    const held = this.picture.contains(document.activeElement);
    const entry = this.shapes.find(({ row }) => this.isFocused(row)) ?? this.shapes[0];
    // One row can be reached by Tab; from there the arrow keys go on.
    entry?.shape.setAttribute("tabindex", "0");
    this.picture.replaceChildren(root);
    if (held) entry?.shape.focus();
    if (this.fresh) {
      // Where there are very many tracks the middle is what is to be seen first.
      this.picture.scrollTop = middle + BETWEEN / 2 - this.picture.clientHeight / 2;
      this.fresh = false;
    }
  }

  // What decides at the moment: which ts is late, and which end has expired.
  borders(x, width, height) {
    const { watermark, lateness, max_interval } = this.found;
    if (watermark === null) return [];
    const mark = BigInt(watermark);
    const late = mark - BigInt(lateness);
    const horizon = late - BigInt(max_interval);
    const parts = [];
    const gone = Math.min(x(horizon), width);
    if (gone > 0) parts.push(svg("rect", { x: 0, y: 0, width: gone, height, class: "gone" }));
    const lines = [
      [mark, "watermark", ""],
      [late, "watermark − L: an insert before it is late", "far"],
      [horizon, "watermark − L − D: what ended before it has expired", "far"],
    ];
    lines.forEach(([at, said, kind], line) => {
      const place = x(at);
      if (place < 0 || place > width) return;
      const y = (line + 1) * LINES;
      parts.push(
        svg("line", { x1: place, x2: place, y1: y - 9, y2: height - AXIS, class: `mark-line ${kind}` }),
        svg("text", {
          x: place + (place < width / 2 ? 4 : -4),
          y,
          "text-anchor": place < width / 2 ? "start" : "end",
          class: "quiet",
        }, said),
      );
    });
    return parts;
  }

  axis(from, to, x, height) {
    const parts = [];
    const step = roundStep((to - from) / BigInt(TICKS), this.found.unit);
    const first = from - (((from % step) + step) % step) + step;
    let day = "";
    for (let at = first; at < to; at += step) {
      const place = x(at);
      parts.push(svg("line", { x1: place, x2: place, y1: 3 * LINES + 4, y2: height - 16, class: "grid" }));
      // Of "2025-03-03 06:00:00" the date only where it is another one than before.
      const text = this.time(at);
      const [date, time] = text.split(" ");
      const said = time === undefined ? text : date === day ? time.replace(/:00$/, "") : text.replace(/:00$/, "");
      day = date;
      // A date at the edge would be cut off.
      const half = (said.length * LABEL_PIXELS) / 2;
      const kept = Math.max(Math.min(place, this.width - half), half);
      parts.push(svg("text", { x: kept, y: height - 4, "text-anchor": "middle", class: "quiet" }, said));
    }
    return parts;
  }

  links(places, x) {
    const named = (side) => new Map(this.found.rows[side].filter((row) => row.state === "live").map((row) => [row.id, row]));
    const left = named("left");
    const right = named("right");
    return this.found.matches.map((match) => {
      const one = left.get(match.left);
      const two = right.get(match.right);
      if (!one || !two) return svg("g");
      const a = x(BigInt(match.start));
      const b = Math.max(x(BigInt(match.end)), a + 2);
      const chosen = this.pair.left === one.id && this.pair.right === two.id;
      const y = places.get(one) + BAR;
      const link = svg("rect", {
        x: a, y, width: b - a, height: places.get(two) - y, class: `link${chosen ? " chosen" : ""}`,
      });
      link.append(svg("title", {}, match.id));
      return link;
    });
  }

  shape(row, y, x) {
    const start = x(row.start);
    const width = Math.max(x(row.end) - start, BAR_LEAST);
    const chosen = this.pair[row.side] === row.id;
    const classes = ["row", `of-${row.side}`, row.state];
    if (row.expired) classes.push("expired");
    if (row.unmatched) classes.push("unmatched");
    if (chosen) classes.push("chosen");
    const label = `${row.side} ${row.id}, ${this.time(row.start)} to ${this.time(row.end)}, ${this.words(row)}`;
    const shape = svg("g", {
      class: classes.join(" "), role: "button", tabindex: -1, "aria-pressed": chosen, "aria-label": label,
    });
    shape.append(svg("title", {}, row.data ? `${label}\n${row.data}` : label));
    shape.append(svg("rect", { class: "body", x: start, y, width, height: BAR, rx: 2 }));
    if (row.state.startsWith("retracted")) {
      const at = y + BAR / 2;
      shape.append(svg("line", { class: "strike", x1: start, x2: start + width, y1: at, y2: at }));
    }
    const room = Math.floor((width - 6) / LABEL_PIXELS);
    const letters = [...(row.unmatched ? `∅ ${row.id}` : row.id)];
    if (room >= Math.min(letters.length, 3)) {
      const text = letters.length > room ? `${letters.slice(0, room - 1).join("")}…` : letters.join("");
      shape.append(svg("text", { x: Math.max(start, MARGIN) + 4, y: y + BAR - 3 }, text));
    }
    shape.addEventListener("click", () => this.pick(row));
    shape.addEventListener("keydown", (event) => this.key(event, row));
    return shape;
  }

  pick(row) {
    this.focused = { side: row.side, id: row.id };
    this.choose(row.side, row.id);
  }

  isFocused(row) {
    return this.focused?.side === row.side && this.focused?.id === row.id;
  }

  key(event, row) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.pick(row);
      return;
    }
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: 0, ArrowDown: 0 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const other = event.key === "ArrowUp" ? "left" : event.key === "ArrowDown" ? "right" : row.side;
    const there = this.shapes.filter((one) => one.row.side === other);
    if (!there.length) return;
    const at = there.findIndex((one) => one.row === row);
    const along = Math.max(Math.min(at + steps[event.key], there.length - 1), 0);
    const next = other === row.side ? there[along] : this.nearest(there, row);
    this.focused = { side: next.row.side, id: next.row.id };
    for (const { shape } of this.shapes) shape.setAttribute("tabindex", "-1");
    next.shape.setAttribute("tabindex", "0");
    next.shape.focus();
  }

  nearest(there, row) {
    const distance = (one) => {
      const far = one.row.start + one.row.end - row.start - row.end;
      return far < 0n ? -far : far;
    };
    return there.reduce((a, b) => (distance(b) < distance(a) ? b : a));
  }
}
