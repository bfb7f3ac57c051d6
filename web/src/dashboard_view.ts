// The parts of the service's page, each brought up to date in place.
import { type LiveChart, type Sample, WINDOW_MS, legend, liveChart } from "./dashboard_chart";
import type {
  Cache,
  EndedSession,
  Hardware,
  Measurement,
  Order,
  Session,
  Status,
  Summary,
  Worker,
} from "./dashboard_types";
import { h, name, s } from "./dom";
import { folded } from "./figures";
import { type Column, type LiveTable, liveTable } from "./table";
import { bytes, clockTime, dollars, duration, integer, lasted, moment, percent, shorten } from "./format";

export interface Part {
  element: HTMLElement;
  update: (status: Status) => void;
}

function part(id: string, title: string, ...children: Node[]): HTMLElement {
  return h("section", { id }, h("h2", {}, title), ...children);
}

const difference = (a: number | null, b: number | null): number | null => (a === null || b === null ? null : a - b);
const held = (hardware: Hardware): number | null => difference(hardware.hosts, hardware.free);
const sum = (values: (number | null)[]): number => values.reduce((a: number, b) => a + (b ?? 0), 0);
const plural = (n: number, one: string, many = `${one}s`): string => `${integer(n)} ${n === 1 ? one : many}`;

// Texts that change in place.
export function say(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = text === "";
}

function text<Row>(title: string, field: string, value: (row: Row) => string | null, help?: string): Column<Row> {
  return { title, field, value: (row) => value(row) ?? "", help, number: false };
}

function time<Row>(title: string, field: string, value: (row: Row) => number | null, help?: string): Column<Row> {
  return { title, field, value, show: (row) => lasted(value(row)), help, number: true };
}

function number<Row>(
  title: string,
  field: string,
  value: (row: Row) => number | null,
  show = integer,
  help?: string,
): Column<Row> {
  return { title, field, value, show: (row) => show(value(row)), help, number: true };
}

// In UTC for programs, and on the reader's clock for the reader.
function moments<Row>(title: string, field: string, value: (row: Row) => number | null, show = moment): Column<Row> {
  const utc = (ms: number | null): string => (ms === null ? "" : new Date(ms).toISOString());
  return { title, field, value: (row) => utc(value(row)), show: (row) => show(value(row)), number: false };
}

// ---- The way to each part, with what matters most ----

export interface Overview extends Part {
  past: (measurements: string) => void;
}

export function overview(): Overview {
  const tile = (to: string, what: string): { link: HTMLElement; figure: HTMLElement; what: HTMLElement } => {
    const figure = h("span", { class: "figure" });
    const said = h("span", {}, what);
    return { link: h("a", { href: `#${to}` }, figure, " ", said), figure, what: said };
  };
  const hosts = tile("hardware", "hosts held");
  const queue = tile("queue", "waiting");
  const sessions = tile("sessions", "sessions");
  const workers = tile("workers", "workers");
  const cache = tile("cache", "cached");
  const measurements = tile("measurements", "measurements");
  say(measurements.figure, "…");
  return {
    element: h(
      "nav",
      { class: "tiles", "aria-label": "Parts of this page" },
      ...[hosts, queue, sessions, workers, cache, measurements].map((t) => t.link),
    ),
    update(status) {
      say(
        hosts.figure,
        `${integer(sum(status.hardware.map(held)))} / ${integer(sum(status.hardware.map((x) => x.hosts)))}`,
      );
      const hidden = (status.sessions_left_out ?? 0) + (status.sessions_others ?? 0);
      // A session may wait for several kinds of hardware; where all are seen they are counted themselves.
      say(
        queue.figure,
        integer(
          hidden === 0
            ? status.sessions.filter((x) => x.state === "waiting").length
            : sum(status.hardware.map((x) => x.waiting)),
        ),
      );
      const all = status.sessions.length + hidden;
      say(sessions.figure, integer(all));
      say(sessions.what, all === 1 ? "session" : "sessions");
      const joined = status.workers.length + (status.workers_left_out ?? 0);
      say(workers.figure, integer(joined));
      say(workers.what, joined === 1 ? "worker" : "workers");
      cache.link.hidden = status.cache === null;
      say(cache.figure, bytes(status.cache?.bytes));
    },
    past(measured) {
      say(measurements.figure, measured);
      say(measurements.what, measured === "1" ? "measurement" : "measurements");
    },
  };
}

// ---- Hardware ----

interface Card {
  element: HTMLElement;
  chart: LiveChart;
  update: (hardware: Hardware) => void;
}

function card(): Card {
  const title = h("bdi", { class: "name" });
  const kind = h("p", { class: "kind" });
  const use = h("p", { class: "use" });
  const note = h("p", { class: "note" });
  const chart = liveChart();
  return {
    element: h("li", { class: "card" }, h("h3", {}, title), kind, use, chart.element, note),
    chart,
    update(hardware) {
      say(title, hardware.name);
      title.title = shorten(hardware.name, 1000);
      say(
        kind,
        [hardware.processor, hardware.usd_per_hour === null ? null : `${dollars(hardware.usd_per_hour)}/h`]
          .filter(Boolean)
          .join(", "),
      );
      kind.title = kind.textContent ?? "";
      const busy = held(hardware);
      say(
        use,
        [
          hardware.hosts === 0
            ? "no hosts now"
            : busy === null
              ? null
              : `${integer(busy)} of ${plural(hardware.hosts ?? 0, "host")} held`,
          hardware.waiting === null ? null : `${integer(hardware.waiting)} waiting`,
        ]
          .filter(Boolean)
          .join(", "),
      );
      say(note, hardware.note ?? "");
    },
  };
}

interface Seen extends Sample {
  hardware: string;
}

const CARDS = 12;
const SAMPLES_MAX = WINDOW_MS / 1000;

export interface HardwarePart extends Part {
  silent: () => void; // nothing was heard
}

const SEEN = "prony-seen";

// What this window saw before it was reloaded, if it was the same user's.
function seenBefore(user: string): Map<string, Seen[]> {
  try {
    const kept = JSON.parse(sessionStorage.getItem(SEEN) ?? "null") as {
      user: string;
      seen: [string, Seen[]][];
    } | null;
    const recent = (all: Seen[]): Seen[] => all.filter((x) => x.time >= Date.now() - WINDOW_MS && x.time <= Date.now());
    if (kept?.user === user) return new Map(kept.seen.map(([hardware, all]) => [hardware, recent(all)]));
  } catch {
    // nothing was kept
  }
  return new Map();
}

export function forgetSeen(): void {
  try {
    sessionStorage.removeItem(SEEN);
  } catch {
    // nothing was kept
  }
}

// A button that orders something; what is wrong is the page's to say.
function orderButton(label: string, about: string, order: Order, give: (order: Order) => void): HTMLElement {
  const button = h("button", { type: "button", "aria-label": about }, label);
  button.addEventListener("click", () => give(order));
  return button;
}

// `give` is null unless the user is an administrator; likewise below.
export function hardwarePart(user: string, give: ((order: Order) => void) | null): HardwarePart {
  const cards = new Map<string, Card>();
  const seen = seenBefore(user);
  const list = h("ul", { class: "cards" });
  const all = h("button", { type: "button", hidden: true });
  let everything = false;
  let last: Status | null = null;
  const columns: Column<Hardware>[] = [
    text("Hardware", "hardware", (x) => x.name),
    text("Processor", "processor", (x) => x.processor),
    number(
      "Price",
      "usd_per_hour",
      (x) => x.usd_per_hour,
      (v) => (v === null ? "n/a" : `${dollars(v)}/h`),
      "of one host",
    ),
    number("Hosts", "hosts", (x) => x.hosts),
    number("Held", "held", held),
    number("Free", "free", (x) => x.free),
    number("Waiting", "waiting", (x) => x.waiting, integer, "sessions that wait for it"),
    text("Note", "note", (x) => x.note),
  ];
  if (give)
    columns.push({
      title: "Action",
      plain: true,
      value: (x) => (x.paused ? "resume" : "pause"),
      show(x) {
        const [label, action] = x.paused ? (["Resume", "resume"] as const) : (["Pause", "pause"] as const);
        return orderButton(label, `${label} ${x.name}`, { action, target: x.name }, give);
      },
    });
  const table = liveTable<Hardware>(
    { label: "Hardware", columns, rows: [], empty: "This service offers no hardware." },
    (x) => x.name,
  );
  let numbers: LiveTable<Seen> | null = null;
  const rows = (): Seen[] => [...seen.values()].flat().sort((a, b) => b.time - a.time);
  const fold = folded(
    "Numbers",
    () => {
      numbers = liveTable<Seen>(
        {
          label: "Hardware over time",
          file: "hardware-over-time",
          rows: rows(),
          empty: "Nothing has been seen yet.",
          columns: [
            moments("Time", "time", (x) => x.time, clockTime),
            text("Hardware", "hardware", (x) => x.hardware),
            number("Hosts", "hosts", (x) => x.hosts),
            number("Held", "held", (x) => x.held),
            number("Waiting", "waiting", (x) => x.waiting),
          ],
        },
        (x) => `${x.time} ${x.hardware}`,
      );
      return numbers.element;
    },
    "hardware",
  ) as HTMLDetailsElement;

  function keep(hardware: string, sample: Sample): void {
    const old = (seen.get(hardware) ?? []).filter((x) => x.time >= sample.time - WINDOW_MS).slice(1 - SAMPLES_MAX);
    seen.set(hardware, [...old, { ...sample, hardware }]);
  }
  function draw(): void {
    const shown = (last?.hardware ?? []).slice(0, everything ? undefined : CARDS);
    const names = new Set(shown.map((x) => x.name));
    for (const [key, old] of cards)
      if (!names.has(key)) {
        old.element.remove();
        cards.delete(key);
      }
    shown.forEach((x, i) => {
      const one = cards.get(x.name) ?? card();
      cards.set(x.name, one);
      if (list.children[i] !== one.element) list.insertBefore(one.element, list.children[i] ?? null);
      one.update(x);
      one.chart.update(seen.get(x.name) ?? [], x.name);
    });
    try {
      sessionStorage.setItem(SEEN, JSON.stringify({ user, seen: [...seen] }));
    } catch {
      // then it lasts until the page is reloaded
    }
    all.hidden = (last?.hardware.length ?? 0) <= shown.length;
    say(all, all.hidden ? "" : `Show all ${last?.hardware.length} kinds`);
    if (fold.open) numbers?.update(rows());
  }
  all.addEventListener("click", () => {
    everything = true;
    draw();
  });
  fold.addEventListener("toggle", draw);
  return {
    element: part("hardware", "Hardware", legend(), list, all, table.element, fold),
    update(status) {
      last = status;
      const now = Date.now();
      const names = new Set(status.hardware.map((x) => x.name));
      for (const old of seen.keys()) if (!names.has(old)) seen.delete(old);
      for (const x of status.hardware) keep(x.name, { time: now, hosts: x.hosts, held: held(x), waiting: x.waiting });
      table.update(status.hardware);
      draw();
    },
    silent() {
      for (const x of last?.hardware ?? []) keep(x.name, { time: Date.now(), hosts: null, held: null, waiting: null });
      draw();
    },
  };
}

// ---- Queue and sessions ----

export function queuePart(): Part {
  const columns: Column<Session>[] = [
    number("Place", "place", (x) => x.place, integer, "among those who wait for the same hardware"),
    text("Session", "session", (x) => x.id),
    text("User", "user", (x) => x.user),
    time("Waited", "waited_ms", (x) => x.waited_ms),
    text("Needs", "needs", (x) => x.backends.join(", ")),
    text("Note", "note", (x) => x.note),
  ];
  const table = liveTable<Session>({ label: "Queue", columns, rows: [], empty: "Nobody waits." }, (x) => x.id);
  const others = h("p", { class: "more" });
  return {
    element: part("queue", "Queue", table.element, others),
    update(status) {
      const waiting = status.sessions
        .filter((x) => x.state === "waiting")
        .sort((a, b) => (a.place ?? Infinity) - (b.place ?? Infinity));
      const unseen = Math.max(0, ...status.hardware.map((x) => x.waiting ?? 0)) > waiting.length;
      table.update(waiting);
      table.element.hidden = waiting.length === 0 && unseen;
      say(
        others,
        unseen
          ? `${waiting.length > 0 ? "Not all that wait are listed. " : ""}In all: ${status.hardware
              .filter((x) => x.waiting)
              .map((x) => `${integer(x.waiting)} for ${shorten(x.name, 60)}`)
              .join(", ")}.`
          : "",
      );
    },
  };
}

export function sessionsPart(close: (session: Session) => void, admin: boolean): Part {
  const columns: Column<Session>[] = [
    text("Session", "session", (x) => x.id),
    text("User", "user", (x) => x.user),
    text("State", "state", (x) => x.state),
    {
      title: "Action",
      plain: true,
      value: (x) => (x.yours || admin ? x.id : ""),
      show(x) {
        if (!x.yours && !admin) return "";
        const button = h("button", { type: "button", "aria-label": `Close session ${x.id}` }, "Close");
        button.addEventListener("click", () => close(x));
        return button;
      },
    },
    time("Age", "age_ms", (x) => x.age_ms),
    time("Idle", "idle_ms", (x) => x.idle_ms, "since its client last gave a sign of life"),
    number("Models", "models", (x) => x.models),
    number("Runs", "runs", (x) => x.runs, integer, "runs and measurements that were asked for, each once"),
    text("Backends", "backends", (x) => x.backends.join(", ")),
    text("Note", "note", (x) => x.note),
  ];
  const table = liveTable<Session>({ label: "Sessions", columns, rows: [], empty: "No sessions." }, (x) => x.id);
  const others = h("p", { class: "more" });
  return {
    element: part("sessions", "Sessions", table.element, others),
    update(status) {
      const [unseen, leftOut] = [status.sessions_others ?? 0, status.sessions_left_out ?? 0];
      table.update(status.sessions);
      table.element.hidden = status.sessions.length === 0 && unseen > 0;
      say(
        others,
        [
          leftOut > 0 ? `Not listed here: ${plural(leftOut, "session")}.` : "",
          unseen > 0 ? `${plural(unseen, "session")} of other users.` : "",
        ]
          .join(" ")
          .trim(),
      );
    },
  };
}

// ---- Workers ----

export function workersPart(give: ((order: Order) => void) | null): Part {
  const columns: Column<Worker>[] = [
    text("Id", "id", (x) => x.id, "what prony admin calls it"),
    text("Worker", "worker", (x) => x.name),
    text("Hardware", "hardware", (x) => x.hardware),
    text("State", "state", (x) => x.state),
    text("Session", "session", (x) => x.session, "which it serves"),
    text("User", "user", (x) => x.user, "who holds it"),
    time("Held for", "held_ms", (x) => x.held_ms),
    time("Connected", "connected_ms", (x) => x.connected_ms),
    text("Software", "software", (x) => x.software.join(", ")),
    text("Sandbox", "sandbox", (x) => x.sandbox, "what its kernel grants to keep models apart"),
    text("Note", "note", (x) => x.note),
  ];
  if (give)
    columns.splice(4, 0, {
      title: "Action",
      plain: true,
      value: (x) => x.state + (x.note ?? ""),
      show(x) {
        if (x.id === null || x.state === "draining") return "";
        const off = x.state === "disabled" || x.note === "disabled";
        const [label, action] = off ? (["Enable", "enable"] as const) : (["Disable", "disable"] as const);
        return orderButton(label, `${label} worker ${x.id}`, { action, target: x.id }, give);
      },
    });
  const table = liveTable<Worker & { key: string }>(
    { label: "Workers", columns, rows: [], empty: "No workers are connected." },
    (x) => x.key,
  );
  const others = h("p", { class: "more" });
  return {
    element: part("workers", "Workers", table.element, others),
    update(status) {
      say(others, status.workers_left_out ? `Not listed here: ${plural(status.workers_left_out, "worker")}.` : "");
      // Several can have the same name.
      const before = new Map<string, number>();
      table.update(
        status.workers.map((x) => {
          const same = `${x.name}\n${x.hardware}`;
          const nth = before.get(same) ?? 0;
          before.set(same, nth + 1);
          return { ...x, key: `${same}\n${nth}` };
        }),
      );
    },
  };
}

// ---- Cache ----

interface Bar {
  element: HTMLElement;
  update: (fraction: number | null, text: string) => void;
}

function bar(kind: string): Bar {
  const filled = s("rect", { class: `part ${kind}`, x: 0, y: 0, height: 10 });
  const said = h("figcaption");
  return {
    element: h(
      "figure",
      { class: "bar" },
      said,
      s(
        "svg",
        { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
        s("rect", { class: "whole", width: 100, height: 10 }),
        filled,
      ),
    ),
    update(fraction, text) {
      say(said, text);
      filled.setAttribute("width", String(100 * Math.min(1, Math.max(0, fraction ?? 0))));
    },
  };
}

export function cachePart(): Part {
  const size = bar("size");
  const found = bar("found");
  const columns: Column<Cache>[] = [
    number("Files", "files", (x) => x.blobs),
    number("Size", "bytes", (x) => x.bytes, bytes),
    number("Limit", "limit_bytes", (x) => x.limit_bytes, bytes),
    number("Were there", "hits", (x) => x.hits, integer, "files that clients offered and that needn't be sent"),
    number("Were not", "misses", (x) => x.misses),
  ];
  const table = liveTable<Cache>({ label: "Cache", columns, rows: [] }, () => "cache");
  const fold = folded("Numbers", () => table.element, "cache");
  const none = h("p", { class: "more" });
  const shown = h("div", {}, size.element, found.element, fold);
  return {
    element: part("cache", "Cache", shown, none),
    update(status) {
      const cache = status.cache;
      shown.hidden = cache === null;
      say(none, cache === null ? "This service has no cache." : "");
      if (cache === null) return;
      const limit = cache.limit_bytes === null ? "" : ` of ${bytes(cache.limit_bytes)}`;
      size.update(
        cache.limit_bytes ? (cache.bytes ?? 0) / cache.limit_bytes : null,
        `${plural(cache.blobs ?? 0, "file")}, ${bytes(cache.bytes)}${limit}`,
      );
      const offered = (cache.hits ?? 0) + (cache.misses ?? 0);
      const were = (n: number | null): string => `${integer(n)} ${n === 1 ? "was" : "were"}`;
      const hits = `${were(cache.hits)} there (${percent((cache.hits ?? 0) / offered)})`;
      found.update(
        offered > 0 ? (cache.hits ?? 0) / offered : null,
        offered === 0
          ? "No file has been offered since the service began."
          : `Of ${plural(offered, "file")} offered, ${hits} and ${were(cache.misses)} not.`,
      );
      table.update([cache]);
    },
  };
}

// ---- What has been ----

// The row of a measurement with the shortest median.
function shortest(x: Measurement): Summary["results"][number] | null {
  const rows = (x.summary?.results ?? []).filter((r) => r.median_ns !== null);
  return rows.sort((a, b) => (a.median_ns ?? 0) - (b.median_ns ?? 0))[0] ?? null;
}

export const measurementColumns: Column<Measurement>[] = [
  moments("Began", "began", (x) => x.created_ms),
  text("User", "user", (x) => x.user),
  text("Model", "model", (x) => x.model),
  text("Backends", "backends", (x) => x.backends),
  number("Median", "median_ns", (x) => shortest(x)?.median_ns ?? null, duration, "the shortest of its rows"),
  text("Verdict", "verdict", (x) => x.summary?.verdict ?? ""),
  time("Took", "duration_ms", (x) => x.duration_ms),
  {
    title: "Report",
    plain: true,
    value: (x) => x.id,
    show(x) {
      if (!x.report_bytes) return "";
      const of = `of ${shorten(x.model ?? "", 60)}, ${moment(x.created_ms)}`;
      return h(
        "span",
        { class: "links" },
        h(
          "a",
          {
            href: `/report?id=${x.id}`,
            target: "_blank",
            rel: "noopener noreferrer",
            "aria-label": `Report ${of}, in a new tab`,
          },
          "Report",
        ),
        h(
          "a",
          { href: `/api/report?id=${x.id}`, download: `measurement-${x.id}.json`, "aria-label": `JSON ${of}` },
          "JSON",
        ),
      );
    },
  },
  number("Size", "report_bytes", (x) => x.report_bytes, bytes, "of the report's JSON"),
];

export const endedColumns: Column<EndedSession>[] = [
  moments("Ended", "ended", (x) => x.ended_ms),
  text("User", "user", (x) => x.user),
  text("Backends", "backends", (x) => x.backends),
  time("Waited", "waited_ms", (x) => difference(x.ready_ms ?? x.ended_ms, x.created_ms)),
  time("Held", "held_ms", (x) => difference(x.ended_ms, x.ready_ms), "how long it had its hosts"),
  number("Models", "models", (x) => x.models),
  number("Runs", "runs", (x) => x.runs, integer, "runs and measurements that were asked for, each once"),
  text("Outcome", "outcome", (x) => x.outcome),
];

export const heading = (host: string): HTMLElement => h("h1", { tabindex: -1 }, "The service at ", name(host));
export const pastPart = (id: string, title: string, history: Node, fault: Node): HTMLElement =>
  part(id, title, history, fault);
