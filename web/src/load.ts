// Backends under load: latency over the rate, and the rates that hold a limit.
import { type Curve, curves } from "./charts";
import { h } from "./dom";
import { chooser, figure, folded, section } from "./figures";
import { dollars, duration, integer, interval, percent, rate, significant } from "./format";
import { type Row, flagged, noRate } from "./rows";
import { table } from "./table";
import { coloursOf } from "./theme";
import type { LoadRow, Result, Trial } from "./types";

const PERCENTILES = ["p50_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns"] as const;
const percentile = (key: string): string => key.replace("_ns", "").replace("p999", "p99.9");

const TRIAL_VERDICTS: Record<string, string> = { holds: "holds the limit", fails: "fails", unsure: "not known" };
const tried = (t: Trial): string =>
  (TRIAL_VERDICTS[t.verdict] ?? t.verdict) + (t.confirms ? ", in a fresh process" : "");
const over = (t: Trial): string => interval(percent, t.share_over?.estimate, t.share_over?.low, t.share_over?.high);

function loadOf(row: Row, flags: Record<string, string>): HTMLElement {
  const load = row.result.load as NonNullable<Result["load"]>;
  const slo = load.slo;
  const at = (l: LoadRow): number => l.asked_per_s ?? l.achieved_per_s ?? 0;
  const lines: Curve[] = PERCENTILES.map((key) => ({
    name: percentile(key),
    line: true,
    points: load.rows
      .filter((l) => l[key]?.estimate != null && at(l) > 0)
      .map((l) => ({
        x: at(l),
        y: l[key]?.estimate as number,
        low: l[key]?.low,
        high: l[key]?.high,
        hollow: l.asked_per_s === null,
        tip: [
          `${rate(at(l))}${l.asked_per_s === null ? ", closed loop" : ""}, ${l.workers} at a time`,
          `${percentile(key)}: ${interval(duration, l[key]?.estimate, l[key]?.low, l[key]?.high)}`,
        ],
      })),
  }));
  for (const [verdict, meaning] of Object.entries(TRIAL_VERDICTS))
    lines.push({
      name: `p${100 * (slo?.percentile ?? 0)}, ${meaning}`,
      line: false,
      points: (slo?.trials ?? [])
        .filter((t) => t.percentile_ns !== null && t.verdict === verdict)
        .map((t) => ({
          x: t.rate_per_s,
          y: t.percentile_ns as number,
          hollow: verdict !== "holds",
          tip: [
            `${rate(t.rate_per_s)}: ${tried(t)}`,
            `p${100 * (slo?.percentile ?? 0)}: ${duration(t.percentile_ns)}`,
            `over the limit: ${over(t)}`,
          ],
        })),
    });
  const some = lines.filter((c) => c.points.length > 0);
  const ys = some.flatMap((c) => c.points.map((p) => p.y));
  return h(
    "div",
    {},
    figure(
      "Load against latency",
      (slo ? `The limit is p${100 * slo.percentile} ≤ ${duration(slo.limit_ns)}. ` : "") +
        "Hollow marks outside the lines are of a closed loop, in which each client waits for its answer.",
      curves({
        title: "Load against latency",
        xTitle: "requests per second",
        yTitle: "latency",
        curves: some,
        showX: significant,
        showY: duration,
        logY: ys.length > 0 && Math.max(...ys) / Math.min(...ys) > 20,
        beside: true,
        lines: slo ? [{ y: slo.limit_ns, name: `limit ${duration(slo.limit_ns)}` }] : [],
      }),
    ),
    table<LoadRow>({
      label: "Load",
      file: "load",
      columns: [
        {
          title: "Asked",
          field: "asked_per_s",
          help: "requests per second",
          value: (l) => l.asked_per_s,
          show: (l) => (l.asked_per_s === null ? "closed loop" : rate(l.asked_per_s)),
        },
        {
          title: "At a time",
          field: "workers",
          help: "requests that may run at the same time",
          value: (l) => l.workers,
        },
        {
          title: "Achieved",
          field: "achieved_per_s",
          value: (l) => l.achieved_per_s,
          show: (l) => rate(l.achieved_per_s),
        },
        { title: "Requests", field: "requests", value: (l) => l.requests, show: (l) => integer(l.requests) },
        ...PERCENTILES.map((key) => ({
          title: percentile(key),
          field: key,
          value: (l: LoadRow) => l[key]?.estimate,
          show: (l: LoadRow) => interval(duration, l[key]?.estimate, l[key]?.low, l[key]?.high),
        })),
        { title: "Busy", field: "utilisation", value: (l) => l.utilisation, show: (l) => percent(l.utilisation) },
        { title: "Flags", field: "flags", value: (l) => l.flags.join(" "), show: (l) => flagged(l.flags, flags) },
      ],
      rows: load.rows,
    }),
    slo &&
      folded("Rates that were tried", () =>
        table<Trial>({
          label: "Trials",
          file: "trials",
          columns: [
            { title: "Rate", field: "rate_per_s", value: (t) => t.rate_per_s, show: (t) => rate(t.rate_per_s) },
            { title: "Requests", field: "requests", value: (t) => t.requests, show: (t) => integer(t.requests) },
            {
              title: `p${100 * slo.percentile}`,
              field: "percentile_ns",
              value: (t) => t.percentile_ns,
              show: (t) => duration(t.percentile_ns),
            },
            { title: "Over the limit", field: "share_over", value: (t) => t.share_over?.estimate, show: over },
            { title: "Verdict", field: "verdict", value: (t) => t.verdict, show: tried },
          ],
          rows: slo.trials,
        }),
      ),
  );
}

// ---- All backends ----

const keyOf = (percentile: number): string => `p${String(100 * percentile).replace(".", "")}_ns`;

// One curve for each backend, with the limit and the highest rate that each holds.
function compared(rows: Row[], key: (typeof PERCENTILES)[number]): HTMLElement {
  const slo = rows.find((r) => r.result.load?.slo && keyOf(r.result.load.slo.percentile) === key)?.result.load?.slo;
  const colours = coloursOf(
    "backend",
    rows.map((r) => r.view.backend),
  );
  const points = (row: Row): Curve["points"] => [
    ...(row.result.load?.rows ?? [])
      .filter((l) => l[key]?.estimate != null && (l.asked_per_s ?? l.achieved_per_s))
      .map((l) => ({
        x: l.asked_per_s ?? l.achieved_per_s ?? 0,
        y: l[key]?.estimate as number,
        low: l[key]?.low,
        high: l[key]?.high,
        hollow: l.asked_per_s === null,
        tip: [
          row.view.name,
          `${rate(l.asked_per_s ?? l.achieved_per_s)}${l.asked_per_s === null ? ", closed loop" : ""}`,
          `${percentile(key)}: ${interval(duration, l[key]?.estimate, l[key]?.low, l[key]?.high)}`,
        ],
      })),
    ...(slo ? (row.result.load?.slo?.trials ?? []) : [])
      .filter((t) => t.percentile_ns !== null)
      .map((t) => ({
        x: t.rate_per_s,
        y: t.percentile_ns as number,
        hollow: t.verdict !== "holds",
        tip: [row.view.name, `${rate(t.rate_per_s)}: ${tried(t)}`, `${percentile(key)}: ${duration(t.percentile_ns)}`],
      })),
  ];
  const lines = rows.map((row, i) => ({
    name: row.view.name,
    colour: colours[i],
    line: true,
    points: points(row),
  }));
  const ys = lines.flatMap((c) => c.points.map((p) => p.y));
  return figure(
    "All backends under load",
    `${percentile(key)} of the latency over the rate of requests. ` +
      (slo
        ? `The limit is ${percentile(key)} ≤ ${duration(slo.limit_ns)}; dotted: the highest rate that holds it. `
        : "") +
      "Hollow: a closed loop, or a rate that isn't known to hold.",
    curves({
      title: "All backends under load",
      xTitle: "requests per second",
      yTitle: percentile(key),
      curves: lines.filter((c) => c.points.length > 0),
      showX: significant,
      showY: duration,
      logY: ys.length > 0 && Math.max(...ys) / Math.min(...ys) > 20,
      lines: slo ? [{ y: slo.limit_ns, name: `limit ${duration(slo.limit_ns)}` }] : [],
      marks: slo
        ? rows.flatMap((r, i) =>
            r.view.holds_per_s ? [{ x: r.view.holds_per_s, name: rate(r.view.holds_per_s), colour: colours[i] }] : [],
          )
        : [],
    }),
    {
      label: "All backends under load",
      file: "load-of-all",
      columns: [
        { title: "Backend", field: "backend", value: (p) => p.name },
        { title: "Rate", field: "rate_per_s", value: (p) => p.x, show: (p) => rate(p.x) },
        { title: percentile(key), field: key, value: (p) => p.y, show: (p) => duration(p.y) },
      ],
      rows: lines.flatMap((c) => c.points.map((p) => ({ name: c.name, x: p.x, y: p.y }))),
    },
  );
}

function limits(rows: Row[]): HTMLElement | null {
  const limited = rows.filter((r) => r.result.load?.slo);
  if (limited.length === 0) return null;
  return table<Row>({
    label: "Highest rates",
    file: "highest-rates",
    columns: [
      { title: "Backend", field: "backend", value: (r) => r.view.name },
      {
        title: "Limit",
        field: "limit_ns",
        value: (r) => r.result.load?.slo?.limit_ns,
        show: (r) => `p${100 * (r.result.load?.slo?.percentile ?? 0)} ≤ ${duration(r.result.load?.slo?.limit_ns)}`,
      },
      {
        title: "Holds up to",
        field: "holds_per_s",
        value: (r) => r.view.holds_per_s,
        show: (r) => (r.view.holds_per_s ? rate(r.view.holds_per_s) : noRate(r.result)),
      },
      {
        title: "$/million",
        field: "holds_usd_per_million",
        help: "at that rate",
        value: (r) => r.view.holds_usd_per_million,
        show: (r) => dollars(r.view.holds_usd_per_million),
      },
      {
        title: "Capacity",
        field: "capacity_per_s",
        help: "what a closed loop answers",
        value: (r) => r.result.load?.slo?.capacity_per_s,
        show: (r) => rate(r.result.load?.slo?.capacity_per_s),
      },
    ],
    rows: limited,
  });
}

export function underLoad(rows: Row[], flags: Record<string, string>): HTMLElement | null {
  const loaded = rows.filter((r) => r.result.load?.rows);
  if (loaded.length === 0) return null;
  const slo = loaded.find((r) => r.result.load?.slo)?.result.load?.slo;
  const known = PERCENTILES.filter((key) =>
    loaded.some(
      (r) => r.result.load?.rows.some((l) => l[key]?.estimate != null) || (slo && keyOf(slo.percentile) === key),
    ),
  );
  const first = slo ? keyOf(slo.percentile) : "p99_ns";
  const ordered = [...known.filter((key) => key === first), ...known.filter((key) => key !== first)];
  return section(
    "Under load",
    limits(loaded),
    loaded.length > 1 &&
      ordered.length > 0 &&
      chooser(
        "Percentile",
        ordered.map((key) => ({ label: percentile(key), value: key })),
        (key) => compared(loaded, key),
      ),
    chooser(
      "Backend",
      loaded.map((r) => ({ label: r.view.name, value: r })),
      (r) => loadOf(r, flags),
      "load",
    ),
  );
}
