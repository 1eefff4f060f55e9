// The page of a worker: its own lanes live, those of others every few seconds, and a key's rows.
//
// Everything that is shown becomes a text node. Times are 64 bits wide, more than a number here can
// hold, so they are BigInt from the answer to the picture.

import { Timeline } from "./timeline.js";

const OWN_EVERY_MS = 1000;
const JOB_EVERY_MS = 5000;
const KEY_EVERY_MS = 2000;
const RATE_OVER_MS = 10000;
const STILL_AFTER_MS = 15000;
const LANES_SHOWN = 200;
const LAG_HIGH = 10000;
const MARKERS = 10; // offsets that transactions may take behind the last record of a partition

const $ = (id) => document.getElementById(id);
let job = null;
let own = null;
let token = sessionStorage.getItem("token") ?? "";
let shown = null; // what the picture shows
let pressed = false; // as long as it is, nothing moves: a click must end where it began
const history = new Map(); // lane -> [{ at, left, right, matches }], the oldest first
const timeline = new Timeline({
  picture: $("picture"),
  chosen: explain,
  time: (ticks) => moment(ticks, shown?.unit ?? "none"),
  words: stateOf,
});

// --- asking ---------------------------------------------------------------------------------

class Refused extends Error {}

async function ask(path) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, cache: "no-store" });
  const text = await answer.text();
  if (answer.status === 401) {
    throw new Refused("this worker wants a token");
  }
  if (!answer.ok) {
    throw new Error(text.trim() || `the worker answers ${answer.status}`);
  }
  return parse(text);
}

// Whole numbers of more than 15 digits stay what they are: as texts.
function parse(text) {
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
  const exact = (token) => (/^-?\d{16,}$/.test(token) ? `"${token}"` : token);
  return JSON.parse(text.replace(tokens, exact));
}

// --- saying ---------------------------------------------------------------------------------

function element(name, text = "", classes = "") {
  const made = document.createElement(name);
  if (text !== "") made.textContent = text;
  if (classes) made.className = classes;
  return made;
}

// Rows of a table as they are to be now. Only cells that say something else become new ones: a link
// or a button keeps the focus.
function update(body, made) {
  const present = new Map([...body.rows].map((row) => [row.dataset.name, row]));
  made.forEach((fresh, at) => {
    const row = present.get(fresh.dataset.name) ?? fresh;
    present.delete(fresh.dataset.name);
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] ?? null);
    if (row === fresh) return;
    row.className = fresh.className;
    [...fresh.cells].forEach((cell, column) => {
      if (!cell.isEqualNode(row.cells[column])) row.cells[column].replaceWith(cell);
    });
  });
  for (const row of present.values()) row.remove();
}

const TICKS_PER_MS = { ms: 1n, us: 1000n, ns: 1000000n };

function moment(ticks, unit) {
  if (ticks === null || ticks === undefined) return "–";
  const perMs = TICKS_PER_MS[unit];
  if (perMs === undefined) return String(ticks);
  const value = BigInt(ticks);
  const perSecond = 1000n * perMs;
  const rest = ((value % perSecond) + perSecond) % perSecond;
  const date = new Date(Number((value - rest) / perMs));
  if (Number.isNaN(date.getTime())) return String(ticks);
  const said = date.toISOString().replace(/\.000Z$/, "").replace("T", " ");
  const digits = String(perSecond).length - 1;
  return rest ? `${said}.${String(rest).padStart(digits, "0")}` : said;
}

function duration(ticks, unit) {
  const perMs = TICKS_PER_MS[unit];
  if (perMs === undefined) return String(ticks);
  let rest = BigInt(ticks);
  const sign = rest < 0n ? "-" : "";
  rest = rest < 0n ? -rest : rest;
  const parts = [];
  for (const [name, ms] of [["d", 86400000n], ["h", 3600000n], ["min", 60000n], ["s", 1000n]]) {
    const count = rest / (ms * perMs);
    rest %= ms * perMs;
    if (count) parts.push(`${count} ${name}`);
  }
  if (rest || !parts.length) parts.push(`${rest} ${unit}`);
  return sign + parts.slice(0, 2).join(" ");
}

const number = (value) => (value === null || value === undefined ? "–" : Number(value).toLocaleString("en"));
const rateText = (value) =>
  value === null ? "–" : value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });

// --- lanes ----------------------------------------------------------------------------------

// Every lane of the job, this worker's own as it sees them itself.
function lanesNow() {
  const lanes = new Map((job?.lanes ?? []).map((lane) => [lane.lane, { ...lane }]));
  for (const lane of own?.lanes ?? []) {
    lanes.set(lane.lane, { ...lane, own: true, address: "" });
  }
  return [...lanes.values()].sort((a, b) => a.lane - b.lane);
}

function remember(lane, at) {
  const sample = {
    at,
    left: Number(lane.totals?.left ?? lane.left.position ?? 0),
    right: Number(lane.totals?.right ?? lane.right.position ?? 0),
    matches: lane.totals ? Number(lane.totals.matches) : null,
    kind: `${lane.owner} ${Boolean(lane.totals)}`,
  };
  const samples = history.get(lane.lane) ?? [];
  // Another owner counts from its own beginning.
  if (samples.length && samples.at(-1).kind !== sample.kind) samples.length = 0;
  samples.push(sample);
  while (samples.length > 2 && at - samples[1].at >= STILL_AFTER_MS) samples.shift();
  history.set(lane.lane, samples);
}

function rate(lane, name) {
  const samples = history.get(lane.lane) ?? [];
  const last = samples.at(-1);
  const first = samples.find((sample) => last.at - sample.at <= RATE_OVER_MS);
  if (!first || first === last || last[name] === null) return null;
  return Math.max(last[name] - first[name], 0) / ((last.at - first.at) / 1000);
}

// What somebody should look at: [how bad, in words], the worst first.
function trouble(lane) {
  const found = [];
  if (!lane.owner) found.push(["bad", "nobody has it"]);
  else if (lane.phase !== "running") found.push(["warn", lane.phase ?? "not running"]);
  const samples = history.get(lane.lane) ?? [];
  const watched = samples.length > 1 && samples.at(-1).at - samples[0].at >= RATE_OVER_MS;
  const stillBoth = watched && ["left", "right"].every((side) => samples.at(-1)[side] === samples[0][side]);
  for (const side of ["left", "right"]) {
    const lag = Number(lane[side].lag ?? 0);
    // Of its own lanes a worker knows whether anything is left to be read.
    if (lag > (lane.own ? 0 : MARKERS) && stillBoth) found.push(["bad", `${side} stands still`]);
    else if (lag > LAG_HIGH) found.push(["warn", `${side} is behind`]);
  }
  const silent = ["left", "right"].filter((side) => lane[side].watermark === null);
  const spoken = Number(lane.left.position ?? 0) + Number(lane.right.position ?? 0) > 0;
  if (silent.length === 1 && spoken) found.push(["warn", `${silent[0]} has not spoken yet`]);
  return found.sort(([a], [b]) => (a === b ? 0 : a === "bad" ? -1 : 1));
}

function showLanes() {
  const lanes = lanesNow();
  const judged = lanes.map((lane) => ({ lane, troubles: trouble(lane) }));
  const weight = ({ troubles }) => (troubles.length ? (troubles[0][0] === "bad" ? 0 : 1) : 2);
  const wanted = $("only-trouble").checked ? judged.filter((one) => one.troubles.length) : judged;
  const shown = wanted.length > LANES_SHOWN ? [...wanted].sort((a, b) => weight(a) - weight(b)) : wanted;
  update($("lanes").tBodies[0], shown.slice(0, LANES_SHOWN).map(laneRow));
  const more = wanted.length - LANES_SHOWN;
  const notes = [];
  if (more > 0) notes.push(`${more} more lanes are not shown, none of them in a worse state.`);
  if (!wanted.length) notes.push(lanes.length ? "No lane is in trouble." : "No lanes yet.");
  if (job?.trouble) notes.push(`Lanes of other workers: ${job.trouble}`);
  $("lanes-note").textContent = notes.join(" ");
  showSums(judged);
}

function showSums(judged) {
  const lanes = judged.map((one) => one.lane);
  const running = lanes.filter((lane) => lane.phase === "running").length;
  const sum = (of) => lanes.reduce((total, lane) => total + Number(of(lane) ?? 0), 0);
  const troubled = judged.filter((one) => one.troubles.length).length;
  const workers = new Set(lanes.map((lane) => lane.owner).filter(Boolean)).size;
  $("sums").textContent = [
    `${running} of ${lanes.length} run`,
    `${workers} ${workers === 1 ? "worker" : "workers"}`,
    troubled ? `${troubled} in trouble` : "none in trouble",
    `lag ${number(sum((lane) => lane.left.lag))} left, ${number(sum((lane) => lane.right.lag))} right`,
    `${rateText(sum((lane) => rate(lane, "left")) + sum((lane) => rate(lane, "right")))} records/s`,
    `${number(sum((lane) => lane.rows))} rows`,
  ].join(" · ");
}

function laneRow({ lane, troubles }) {
  const row = document.createElement("tr");
  row.dataset.name = lane.lane;
  if (troubles.length) row.className = `${troubles[0][0]}-row`;
  const head = element("th", String(lane.lane));
  head.scope = "row";
  const state = element("td");
  state.append(element("span", lane.phase ?? "–", `state ${troubles[0]?.[0] ?? "good"}`));
  for (const [level, said] of troubles) {
    if (said !== lane.phase) state.append(element("small", said, level));
  }
  row.append(head, state, ownerCell(lane), element("td", String(lane.epoch), "number"));
  row.append(timeCell(lane.watermark));
  for (const side of ["left", "right"]) {
    row.append(
      timeCell(lane[side].watermark),
      element("td", number(lane[side].lag), "number"),
      element("td", rateText(rate(lane, side)), "number"),
    );
  }
  row.append(
    element("td", rateText(rate(lane, "matches")), "number"),
    element("td", number(lane.totals?.rejects), "number"),
    element("td", number(lane.rows), "number"),
  );
  return row;
}

// Where the page of another worker is, as far as that is known; "" if not.
function pageOf(lane) {
  const known = !lane.own && /^[\w.:[\]-]+:\d+$/.test(lane.address ?? "");
  return known ? `${location.protocol}//${lane.address}/` : "";
}

function ownerCell(lane) {
  const cell = element("td");
  const name = lane.owner ?? "–";
  // A worker is called job-host-number: the job is known.
  const short = job && name.startsWith(`${job.name}-`) ? name.slice(job.name.length + 1) : name;
  const there = pageOf(lane);
  if (there) {
    const link = element("a", short);
    link.href = there;
    cell.append(link);
  } else {
    cell.textContent = lane.own ? `${short} (here)` : short;
  }
  cell.title = name;
  return cell;
}

function timeCell(ticks) {
  // Before the job is known, so is not what a number means.
  const unit = job?.unit ?? "none";
  const cell = element("td", job === null ? "–" : moment(ticks, unit));
  if (job?.now !== null && job?.now !== undefined && ticks !== null) {
    const behind = BigInt(job.now) - BigInt(ticks);
    cell.append(element("small", behind < 0n ? `${duration(-behind, unit)} ahead` : `${duration(behind, unit)} ago`));
  }
  return cell;
}

// --- a key ----------------------------------------------------------------------------------

let asked = null; // { key: percent-encoded, text, hex, lane }
let pair = { left: null, right: null };

function encoded(text, hex) {
  if (!hex) return encodeURIComponent(text);
  const digits = text.replace(/\s/g, "");
  if (!/^([0-9a-fA-F]{2})*$/.test(digits)) throw new Error("hexadecimal digits come in pairs");
  return digits.replace(/../g, "%$&");
}

function showKey(text, hex, lane, keep = { left: null, right: null }) {
  try {
    asked = { key: encoded(text, hex), text, hex, lane };
  } catch (error) {
    $("key-note").textContent = error.message;
    return;
  }
  pair = keep;
  shown = null;
  // Nothing of the key before stands beside what is said of this one.
  $("timeline").hidden = true;
  $("why").hidden = true;
  writePlace();
  timeline.begin();
  refreshKey();
}

// What is looked at stands in the address, so that it can be given to somebody else.
function writePlace() {
  const place = new URLSearchParams({ [asked.hex ? "hex" : "key"]: asked.text });
  if (asked.lane) place.set("lane", asked.lane);
  for (const side of ["left", "right"]) if (pair[side] !== null) place.set(side, pair[side]);
  window.history.replaceState(null, "", `#${place}`);
}

const target = () => `timeline?key=${asked.key}${asked.lane ? `&lane=${asked.lane}` : ""}`;

async function refreshKey() {
  if (!asked) return;
  const mine = asked;
  try {
    const found = await ask(target());
    if (mine !== asked || pressed) return;
    // What has not changed is left alone: somebody may be reading it.
    const changed = JSON.stringify(found) !== JSON.stringify(shown);
    if (changed) {
      shown = found;
      timeline.show(found, pair);
      showRows();
    }
    $("timeline").hidden = false;
    const counted = ["left", "right"].map((side) => {
      const left = Number(found.rows_left_out[side]);
      const rows = found.rows[side].length;
      return left ? `the newest ${rows} of ${number(rows + left)} ${side} rows` : `${rows} ${side} ${rows === 1 ? "row" : "rows"}`;
    });
    const matches = found.matches.length + Number(found.matches_left_out);
    $("key-sums").textContent = `${counted.join(", ")}, ${number(matches)} ${matches === 1 ? "match" : "matches"} among them`;
    const empty = !found.rows.left.length && !found.rows.right.length;
    $("key-note").textContent = `Lane ${found.lane}, epoch ${found.epoch}, watermark ${moment(found.watermark, found.unit)}. ${
      empty ? "The state holds no live row of this key. Producers that place keys otherwise than Java's need a lane." : ""
    }`;
    if ((changed || $("why").hidden) && pair.left !== null && pair.right !== null) explain(pair);
  } catch (error) {
    if (mine !== asked || pressed) return;
    const note = $("key-note").cloneNode();
    note.append(...elsewhere(error.message));
    // The link in it may have the focus.
    if (!note.isEqualNode($("key-note"))) $("key-note").replaceChildren(...note.childNodes);
    if (error instanceof Refused) wantToken();
  }
}

// The lane is another worker's: lead there.
function elsewhere(message) {
  const found = /^lane (\d+) is not running on this worker$/.exec(message);
  const lane = found && lanesNow().find((one) => String(one.lane) === found[1]);
  const there = lane && pageOf(lane);
  if (!there) return [message];
  const link = element("a", lane.owner);
  link.href = there + location.hash;
  return [`Lane ${lane.lane} is on `, link, "."];
}

async function explain(chosen) {
  pair = chosen;
  writePlace();
  if (pair.left === null || pair.right === null) {
    $("why").hidden = true;
    return;
  }
  const names = `&left=${encodeURIComponent(pair.left)}&right=${encodeURIComponent(pair.right)}`;
  try {
    const found = await ask(target() + names);
    $("why").querySelector("ol").replaceChildren(...found.explanation.map((line) => element("li", line)));
    const key = asked.hex ? `--key-hex --key ${quoted(asked.text)}` : `--key ${quoted(asked.text)}`;
    const lane = asked.lane ? ` --lane ${asked.lane}` : "";
    // An id such as -7 would be taken for an option.
    const ids = [pair.left, pair.right].some((id) => id.startsWith("-")) ? "-- " : "";
    $("command").textContent =
      `spanjoin explain -c job.toml ${key}${lane} ${ids}${quoted(pair.left)} ${quoted(pair.right)}`;
    $("why").hidden = false;
  } catch (error) {
    $("key-note").textContent = error.message;
  }
}

// As a shell takes it.
const quoted = (text) => (/^[\w.:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const STATES = {
  live: "live",
  retracted: "retracted",
  retracted_first: "retracted before it came",
  remembered: "only its retraction has come",
};

function stateOf(row) {
  const said = [STATES[row.state]];
  if (row.unmatched) said.push("written as unmatched");
  if (row.expired) said.push("expired");
  return said.join(", ");
}

function showRows() {
  const found = shown;
  if (!$("as-table").open || !found) return;
  const matches = new Map();
  for (const { left, right } of found.matches) {
    for (const [name, other] of [[`left ${left}`, right], [`right ${right}`, left]]) {
      matches.set(name, [...(matches.get(name) ?? []), other]);
    }
  }
  const made = ["left", "right"].flatMap((side) =>
    found.rows[side].map((row) => {
      const line = document.createElement("tr");
      line.dataset.name = JSON.stringify([side, row.id, row.start, row.end]);
      const choose = element("button", row.id || "(empty)");
      choose.type = "button";
      choose.addEventListener("click", () => timeline.choose(side, row.id));
      const cell = element("td");
      cell.append(choose);
      const mine = matches.get(`${side} ${row.id}`) ?? [];
      line.append(
        element("td", side, side),
        cell,
        element("td", moment(row.start, found.unit)),
        element("td", moment(row.end, found.unit)),
        element("td", stateOf(row)),
        element("td", mine.slice(0, 10).join(", ") + (mine.length > 10 ? ` and ${mine.length - 10} more` : "") || "none", "wide"),
        element("td", row.data ?? "", "wide"),
      );
      return line;
    }),
  );
  update($("rows").tBodies[0], made);
}

// --- going on -------------------------------------------------------------------------------

function wantToken() {
  $("login").hidden = false;
  $("refused").textContent = token ? "That is not it." : "";
}

function sayState(level, text) {
  $("state").replaceChildren(element("span", text, `state ${level}`));
}

async function refreshJob() {
  job = await ask("job");
  document.title = `${job.name} · spanjoin`;
  $("name").textContent = job.name;
  $("joins").textContent =
    `${job.left} × ${job.right} → ${job.output} · ${job.join_type} join · allowed lateness ` +
    `${duration(job.lateness, job.unit)}, max interval ${duration(job.max_interval, job.unit)}`;
  const at = performance.now();
  const mine = new Set((own?.lanes ?? []).map((lane) => lane.lane));
  for (const lane of job.lanes) if (!mine.has(lane.lane)) remember(lane, at);
}

async function refreshOwn() {
  own = await ask("status");
  $("login").hidden = true;
  const at = performance.now();
  for (const lane of own.lanes) remember(lane, at);
  const ready = await fetch("readyz", { cache: "no-store" });
  const said = (await ready.text()).trim();
  if (ready.ok) sayState("good", "this worker is ready");
  else sayState("warn", `this worker is not ready: ${said}`);
}

// One request of a kind at a time; the next one some time after its answer.
async function every(ms, refresh) {
  for (;;) {
    if ($("live").checked || job === null) {
      try {
        await refresh();
      } catch (error) {
        if (error instanceof Refused) wantToken();
        else sayState("bad", `no answer: ${error.message}`);
      }
      if (!pressed) showLanes();
    }
    await new Promise((go) => setTimeout(go, ms));
  }
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  sessionStorage.setItem("token", token);
  refreshOwn().then(refreshJob).then(showLanes, wantToken);
});
$("only-trouble").addEventListener("change", showLanes);
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  showKey($("key").value, $("hex").checked, $("lane").value);
});
$("as-table").addEventListener("toggle", showRows);
window.addEventListener("pointerdown", () => (pressed = true));
for (const name of ["pointerup", "pointercancel", "blur"]) window.addEventListener(name, () => (pressed = false));
for (const name of ["earlier", "later", "closer", "wider", "all"]) {
  $(name).addEventListener("click", () => timeline.move(name));
}

function fromPlace() {
  const place = new URLSearchParams(location.hash.slice(1));
  const hex = place.has("hex");
  if (!hex && !place.has("key")) return;
  $("key").value = place.get("hex") ?? place.get("key");
  $("hex").checked = hex;
  $("lane").value = place.get("lane") ?? "";
  $("as-table").open = place.has("table");
  const keep = { left: place.get("left"), right: place.get("right") };
  showKey($("key").value, hex, $("lane").value, keep);
}

window.addEventListener("hashchange", fromPlace);
every(OWN_EVERY_MS, refreshOwn);
every(JOB_EVERY_MS, refreshJob);
every(KEY_EVERY_MS, refreshKey);
fromPlace();
