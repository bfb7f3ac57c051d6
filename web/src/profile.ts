// A model on backends: who is fastest, how sure that is, where the time goes, how it scales.
import { type Branch, type Curve, type Range, apart, curves, ranges, spreads, stacked, treemap } from "./charts";
import { type Column, chooser, explained, figure, folded, h, name, section, table } from "./dom";
import {
  bytes,
  count,
  dollars,
  duration,
  integer,
  interval,
  percent,
  rate,
  ratio,
  shorten,
  significant,
  type Show,
} from "./format";
import { recorded } from "./recorded";
import { type Line, ceiling, seriesPlot } from "./series";
import type {
  Ledger,
  LoadRow,
  Num,
  Ops,
  OpsRow,
  Profile,
  ProfileView,
  Report,
  Result,
  ResultView,
  Trial,
} from "./types";

export interface Row {
  result: Result;
  view: ResultView;
  index: number;
}

const SHOWN = 40; // rows of a picture

export function flagged(flags: string[], why: Record<string, string>): Node {
  return h("span", {}, ...flags.map((flag) => explained(flag, why[flag] ?? flag, { class: "flag" })));
}

const VERDICTS: Record<string, string> = {
  best: "the shortest time of those that were fed the same, and all others are slower",
  "best?": "the shortest median of those that were fed the same, but not all others are known to be slower",
  same: "the interval is inside the smallest difference that counts",
  slower: "the interval clears the smallest difference that counts",
  faster: "the interval clears the smallest difference that counts",
  unsure: "more launches would tell",
};

function summary(view: ProfileView, rows: Row[]): HTMLElement {
  const any = (f: (r: Row) => unknown): boolean => rows.some((r) => Boolean(f(r)));
  const failure = (r: Row): string => r.result.error?.message ?? "";
  const columns: Column<Row>[] = [
    { title: "Backend", field: "backend", value: (r) => r.view.name },
    {
      title: "Time",
      field: "median_ns",
      help: "median of all timed runs",
      value: (r) => r.result.stats?.median_ns,
      show: (r) => duration(r.result.stats?.median_ns),
    },
    {
      title: "±",
      field: "half_width",
      help: "half of the 95 % interval of the median, in % of it",
      value: (r) => r.view.half_width,
      show: (r) => ((r.view.half_width ?? 0) > 1 ? "unknown" : percent(r.view.half_width)),
    },
    {
      title: "Spread",
      field: "spread",
      help: "interquartile range, in % of the median",
      value: (r) => r.result.stats?.spread,
      show: (r) => percent(r.result.stats?.spread),
    },
  ];
  if (any((r) => r.result.verdict !== "none" && r.result.ratio))
    columns.push(
      {
        title: "vs best",
        field: "ratio",
        help: "ratio of times, paired",
        value: (r) => r.result.ratio?.estimate,
        show: (r) =>
          interval(ratio, r.result.ratio?.estimate, r.result.ratio?.low, r.result.ratio?.high) +
          (r.view.verdict === "unsure" ? " ?" : ""),
      },
      {
        title: "Verdict",
        field: "verdict",
        value: (r) => r.view.verdict,
        show: (r) => (r.view.verdict ? explained(r.view.verdict, VERDICTS[r.view.verdict] ?? "") : ""),
      },
    );
  const flags = (r: Row): string[] => (failure(r) ? ["FAILED", ...r.result.flags] : r.result.flags);
  if (any((r) => flags(r).length))
    columns.push({
      title: "Flags",
      field: "flags",
      value: (r) => flags(r).join(" "),
      show: (r) => flagged(flags(r), { ...view.flags, FAILED: failure(r) }),
    });
  columns.push({
    title: "Inferences",
    field: "inferences_per_s",
    value: (r) => r.view.inferences_per_s,
    show: (r) => rate(r.view.inferences_per_s),
  });
  if (any((r) => r.view.gflop_per_s))
    columns.push({
      title: "GFLOP/s",
      field: "gflop_per_s",
      value: (r) => r.view.gflop_per_s,
      show: (r) => significant(r.view.gflop_per_s),
    });
  if (any((r) => r.view.usd_per_million !== null))
    columns.push({
      title: "$/million",
      field: "usd_per_million",
      value: (r) => r.view.usd_per_million,
      show: (r) => dollars(r.view.usd_per_million),
    });
  view.axes.forEach((axis, i) =>
    columns.push(
      axis === null
        ? {
            title: "Batch gain",
            field: "batch_gain",
            help: "time per item at the smallest batch over this row's",
            value: (r) => r.view.scaling[i],
            show: (r) => ratio(r.view.scaling[i]),
          }
        : {
            title: `Scaling, ${axis}`,
            field: `scaling_${axis}`,
            help: "speed-up over the smallest value, divided by the ratio of the values",
            value: (r) => r.view.scaling[i],
            show: (r) => percent(r.view.scaling[i]),
          },
    ),
  );
  if (any((r) => r.view.best.length))
    columns.push({ title: "Best for", field: "best_for", value: (r) => r.view.best.join(", ") });
  for (const [title, key] of [
    ["p90", "p90_ns"],
    ["p99", "p99_ns"],
  ] as const)
    if (any((r) => r.result.stats?.[key] != null))
      columns.push({
        title,
        field: key,
        value: (r) => r.result.stats?.[key],
        show: (r) => duration(r.result.stats?.[key]),
      });
  columns.push(
    {
      title: "Load",
      field: "load_ns",
      help: "opening the model: median over launches",
      value: (r) => r.view.load_ns,
      show: (r) => duration(r.view.load_ns),
    },
    {
      title: "First run",
      field: "first_run_ns",
      value: (r) => r.view.first_run_ns,
      show: (r) => duration(r.view.first_run_ns),
    },
    {
      title: "Peak memory",
      field: "peak_bytes",
      value: (r) => r.view.peak_bytes,
      show: (r) => bytes(r.view.peak_bytes),
    },
    {
      title: "Samples",
      field: "samples",
      value: (r) => r.view.samples?.count ?? 0,
      show: (r) => integer(r.view.samples?.count ?? 0),
    },
  );
  if (any(failure)) columns.push({ title: "Failure", field: "failure", value: failure });
  return table({ label: "Results", file: "results", columns, rows });
}

// ---- Distributions and samples ----

const pointLabel = (profile: Profile, point: number): string => profile.points[point]?.label || "all";

// The points of a sweep that have results, each with its rows.
function byPoint(profile: Profile, rows: Row[]): { label: string; value: Row[] }[] {
  return profile.points
    .map((_, i) => ({ label: pointLabel(profile, i), value: rows.filter((r) => r.result.point === i).slice(0, SHOWN) }))
    .filter((p) => p.value.length > 0);
}

function distribution(rows: Row[]): HTMLElement {
  return figure(
    "Distribution",
    "How the times of a backend are spread; the line is the median, the bar on the ground its 95 % interval." +
      (apart(rows.map(({ view }) => histogram(view))) ? " Each has its own axis: they are far apart." : ""),
    spreads(
      "Distribution of times",
      rows.map(({ result, view }) => ({
        name: view.name,
        ...histogram(view),
        median: result.stats?.median_ns ?? null,
        medianLow: result.stats?.low_ns ?? null,
        medianHigh: result.stats?.high_ns ?? null,
        tip: [
          `median ${interval(duration, result.stats?.median_ns, result.stats?.low_ns, result.stats?.high_ns)}`,
          `from ${duration(result.stats?.min_ns)} to ${duration(result.stats?.max_ns)}`,
          `${integer(view.samples?.count)} samples`,
        ],
      })),
      duration,
    ),
    {
      label: "Distribution",
      file: "distribution",
      columns: [
        { title: "Backend", field: "backend", value: (r) => r.view.name },
        { title: "From", field: "from_ns", value: (r) => r.from, show: (r) => duration(r.from) },
        { title: "To", field: "to_ns", value: (r) => r.to, show: (r) => duration(r.to) },
        { title: "Samples", field: "samples", value: (r) => r.n, show: (r) => integer(r.n) },
      ],
      rows: rows.flatMap(bins),
    },
  );
}

function histogram(view: ResultView): { low: number; high: number; above: number; counts: number[] } {
  const g = view.histogram;
  return g
    ? { low: g.low_ns, high: g.high_ns, above: g.above, counts: g.counts }
    : { low: 0, high: 0, above: 0, counts: [0] };
}

function bins(row: Row): { view: ResultView; from: number; to: number; n: number }[] {
  const g = histogram(row.view);
  const step = (g.high - g.low) / g.counts.length;
  return g.counts.map((n, i) => ({
    view: row.view,
    from: Math.round(g.low + i * step),
    to: Math.round(g.low + (i + 1) * step),
    n,
  }));
}

function line(row: Row): Line {
  const series = row.view.samples as NonNullable<ResultView["samples"]>;
  const breaks = series.launch.flatMap((launch, i) =>
    i === 0 || launch !== series.launch[i - 1] ? [{ x: series.place[i], name: `launch ${launch}` }] : [],
  );
  return {
    name: row.view.name,
    x: series.place,
    low: series.low_ns,
    high: series.high_ns,
    middle: series.median_ns,
    breaks,
    ceiling: row.view.histogram?.high_ns,
  };
}

function samples(rows: Row[]): HTMLElement {
  const flat = rows.flatMap((r) => {
    const v = r.view.samples as NonNullable<ResultView["samples"]>;
    return v.low_ns.map((low, i) => ({
      name: r.view.name,
      launch: v.launch[i],
      block: v.block[i],
      low,
      high: v.high_ns?.[i] ?? low,
      n: v.samples?.[i] ?? 1,
    }));
  });
  const thinned = rows.some((r) => r.view.samples?.high_ns);
  const lines = rows.map(line);
  const { top, above } = ceiling(lines);
  return figure(
    "Samples over time",
    "In blocks, in the order in which they were measured; flags above are launches, which are fresh processes. " +
      (above > 0 ? `Triangles at the top are what took longer than ${duration(top)}. ` : "") +
      (thinned
        ? "There are more samples than places: a band is from the shortest to the longest of each place, " +
          "the line in it is their median."
        : ""),
    seriesPlot({
      title: "Samples over time",
      xTitle: "block",
      lines,
      wholeX: true,
      showX: (v, digits = 4) => significant(v, digits),
      showY: duration,
    }),
    {
      label: "Samples",
      file: "samples",
      columns: [
        { title: "Backend", field: "backend", value: (r) => r.name },
        { title: "Launch", field: "launch", value: (r) => r.launch },
        { title: "Block", field: "block", value: (r) => r.block },
        {
          title: thinned ? "Shortest" : "Time",
          field: thinned ? "shortest_ns" : "time_ns",
          value: (r) => r.low,
          show: (r) => duration(r.low),
        },
        ...(thinned
          ? [
              {
                title: "Longest",
                field: "longest_ns",
                value: (r: (typeof flat)[0]) => r.high,
                show: (r: (typeof flat)[0]) => duration(r.high),
              },
              { title: "Samples", field: "samples", value: (r: (typeof flat)[0]) => r.n },
            ]
          : []),
      ],
      rows: flat,
    },
  );
}

// ---- Where the time goes ----

export const LEDGER: [Exclude<keyof Ledger, "total">, string][] = [
  ["node", "Nodes"],
  ["overhead", "Executor overhead"],
  ["before", "Before the executor"],
  ["after", "After the executor"],
  ["unexplained", "Unexplained"],
];

function ledgers(rows: Row[]): HTMLElement | null {
  const some = rows.filter((r) => r.result.ops?.ledger);
  if (some.length === 0) return null;
  const flat = some
    .flatMap((r) => LEDGER.map(([key, title]) => ({ name: r.view.name, title, part: r.result.ops?.ledger?.[key] })))
    .filter((p) => p.part);
  const said = some.map((r) =>
    some.length > 1 ? `${shorten(r.view.name, 60)}: ${r.view.profiled ?? ""}` : (r.view.profiled ?? ""),
  );
  return figure(
    "Ledger",
    `Where the time of a run goes, with the profiler on. ${said.join(" ")}`,
    stacked(
      "Ledger",
      some.map((r) => ({
        name: r.view.name,
        parts: LEDGER.map(([key, title], i) => {
          const part = r.result.ops?.ledger?.[key];
          return {
            name: title,
            value: part?.mean_ns ?? 0,
            colour: i,
            tip: [r.view.name, `${title}: ${interval(duration, part?.mean_ns, part?.low_ns, part?.high_ns)}`],
          };
        }),
      })),
      duration,
    ),
    {
      label: "Ledger",
      file: "ledger",
      columns: [
        { title: "Backend", field: "backend", value: (r) => r.name },
        { title: "Part", field: "part", value: (r) => r.title },
        { title: "Mean", field: "mean_ns", value: (r) => r.part?.mean_ns, show: (r) => duration(r.part?.mean_ns) },
        {
          title: "From",
          field: "low_ns",
          help: "of the 95 % interval of the mean",
          value: (r) => r.part?.low_ns,
          show: (r) => duration(r.part?.low_ns),
        },
        {
          title: "To",
          field: "high_ns",
          help: "of the 95 % interval of the mean",
          value: (r) => r.part?.high_ns,
          show: (r) => duration(r.part?.high_ns),
        },
      ],
      rows: flat,
    },
  );
}

function branches(ops: Ops): Branch[] {
  return ops.operators
    .filter((o) => (o.mean_ns ?? 0) > 0)
    .map((o) => ({
      name: o.op ?? "",
      value: o.mean_ns ?? 0,
      tip: [
        `${o.op}: ${interval(duration, o.mean_ns, o.low_ns, o.high_ns)} per run`,
        `${integer(o.nodes)} nodes, ${o.provider ?? ""}`,
      ],
      leaves: ops.nodes
        .filter((n) => n.op === o.op && n.provider === o.provider)
        .map((n) => ({
          name: n.name ?? "",
          value: n.mean_ns ?? 0,
          tip: [
            n.name ?? "",
            n.onnx?.name ? `ONNX node ${n.onnx.name}` : "ONNX node not known",
            `${interval(duration, n.mean_ns, n.low_ns, n.high_ns)} per run`,
          ],
        })),
    }));
}

function operators(row: Row): HTMLElement {
  const ops = row.result.ops as Ops;
  if (ops.error) return h("p", {}, `${shorten(row.view.name, 120)}: ${shorten(ops.error, 1000)}`);
  const total = ops.operators.reduce((sum, o) => sum + (o.mean_ns ?? 0), 0);
  const times = [
    {
      title: "Mean",
      field: "mean_ns",
      value: (r: OpsRow) => r.mean_ns,
      show: (r: OpsRow) => duration(r.mean_ns),
    },
    {
      title: "From",
      field: "low_ns",
      help: "of the 95 % interval of the mean",
      value: (r: OpsRow) => r.low_ns,
      show: (r: OpsRow) => duration(r.low_ns),
    },
    {
      title: "To",
      field: "high_ns",
      help: "of the 95 % interval of the mean",
      value: (r: OpsRow) => r.high_ns,
      show: (r: OpsRow) => duration(r.high_ns),
    },
    {
      title: "Share",
      field: "share",
      value: (r: OpsRow) => (r.mean_ns ?? 0) / total,
      show: (r: OpsRow) => percent((r.mean_ns ?? 0) / total),
    },
    {
      title: "FLOP/s",
      field: "flop_per_s",
      value: (r: OpsRow) => r.flop_per_s,
      show: (r: OpsRow) => count(r.flop_per_s),
    },
  ];
  return h(
    "div",
    {},
    figure(
      "Operators and their nodes",
      "Areas are times per run.",
      treemap("Operators and their nodes", branches(ops)),
    ),
    table<OpsRow>({
      label: "Operators",
      file: "operators",
      leftOut: ops.operators_left_out,
      columns: [
        { title: "Operator", field: "op", value: (r) => r.op ?? "" },
        { title: "Provider", field: "provider", value: (r) => r.provider ?? "" },
        { title: "Nodes", field: "nodes", value: (r) => r.nodes },
        ...times,
      ],
      rows: ops.operators,
    }),
    folded("Nodes", () =>
      table<OpsRow>({
        label: "Nodes",
        file: "nodes",
        leftOut: ops.nodes_left_out,
        columns: [
          { title: "Node", field: "node", value: (r) => r.name ?? "" },
          { title: "Operator", field: "op", value: (r) => r.op ?? "" },
          { title: "ONNX node", field: "onnx", value: (r) => r.onnx?.name ?? "" },
          { title: "Calls", field: "calls", value: (r) => r.calls, show: (r) => significant(r.calls) },
          ...times,
        ],
        rows: ops.nodes,
      }),
    ),
    ops.kernels.length > 0 &&
      folded("Kernels", () =>
        table<OpsRow>({
          label: "Kernels",
          file: "kernels",
          columns: [
            { title: "Kernel", field: "kernel", value: (r) => r.name ?? "" },
            { title: "Calls", field: "calls", value: (r) => r.calls, show: (r) => significant(r.calls) },
            ...times.slice(0, 4),
          ],
          rows: ops.kernels,
        }),
      ),
  );
}

export interface Pair {
  name: string;
  ns: Num;
  baseline_ns: Num;
}

// Operator by operator, the largest difference first.
export function pairs(title: string, caption: string, before: string, after: string, all: Pair[]): HTMLElement {
  const changed = all.filter((c) => c.ns !== null && c.baseline_ns !== null);
  const difference = (c: Pair): number => (c.ns ?? 0) - (c.baseline_ns ?? 0);
  const signed: Show = (ns, digits) =>
    (!ns ? "" : ns > 0 ? "+" : "−") + duration(ns == null ? ns : Math.abs(ns), digits);
  return figure(
    title,
    caption,
    ranges(
      title,
      changed.slice(0, 20).map((c): Range => ({
        name: c.name,
        value: difference(c),
        low: null,
        high: null,
        sign: difference(c) > 0 ? "more" : "less",
        tip: [`${after}: ${duration(c.ns)}`, `${before}: ${duration(c.baseline_ns)}`, signed(difference(c))],
      })),
      signed,
      { origin: 0 },
    ),
    {
      label: title,
      file: "differences",
      columns: [
        { title: "Operator", field: "name", value: (c) => c.name },
        { title: "Time", field: "ns", help: after, value: (c) => c.ns, show: (c) => duration(c.ns) },
        {
          title: "Baseline",
          field: "baseline_ns",
          help: before,
          value: (c) => c.baseline_ns,
          show: (c) => duration(c.baseline_ns),
        },
        { title: "Difference", field: "difference_ns", value: difference, show: (c) => signed(difference(c)) },
      ],
      rows: changed,
    },
  );
}

function whereTimeGoes(rows: Row[]): HTMLElement | null {
  const some = rows.filter((r) => r.result.ops);
  if (some.length === 0) return null;
  const differing = some.filter((r) => r.result.ops?.difference);
  return section(
    "Where the time goes",
    ledgers(some),
    chooser(
      "Backend",
      some.map((r) => ({ label: r.view.name, value: r })),
      operators,
    ),
    differing.length > 0 &&
      chooser(
        "Compared",
        differing.map((r) => ({ label: r.view.name, value: r })),
        (r) => {
          const baseline = rows.find((o) => o.index === r.result.ops?.difference?.baseline)?.view.name ?? "baseline";
          return pairs(
            "What makes the difference",
            `${shorten(r.view.name, 120)} against ${shorten(baseline, 120)}; bars to the right take longer.`,
            baseline,
            r.view.name,
            r.result.ops?.difference?.operators ?? [],
          );
        },
      ),
  );
}

// ---- Sweeps ----

interface Axis {
  title: string;
  x: (row: Row) => number | null;
  key: (row: Row) => string;
  scaling?: number;
}

function option(row: Row, key: string): number | null {
  const found = new RegExp(`[[,]${key}=(\\d+)[\\],]`).exec(row.result.backend.spec ?? row.result.backend.name);
  return found ? Number(found[1]) : null;
}

function axes(profile: Profile, view: ProfileView, rows: Row[]): Axis[] {
  const found: Axis[] = [];
  const swept = (row: Row): { name: string; size: Num }[] => profile.points[row.result.point]?.swept ?? [];
  for (const { name: dim } of swept(rows[0]))
    found.push({
      title: dim,
      x: (r) => swept(r).find((s) => s.name === dim)?.size ?? null,
      key: (r) =>
        [
          r.view.backend,
          ...swept(r)
            .filter((s) => s.name !== dim)
            .map((s) => `${s.name}=${s.size}`),
        ].join(", "),
      scaling: view.axes.indexOf(null) < 0 ? undefined : view.axes.indexOf(null),
    });
  view.axes.forEach((axis, i) => {
    if (axis === null || !/^\w+$/.test(axis)) return;
    found.push({
      title: axis,
      x: (r) => option(r, axis),
      scaling: i,
      key: (r) =>
        [r.view.backend.replace(new RegExp(`([[,])${axis}=\\d+,?`), "$1"), profile.points[r.result.point]?.label]
          .filter(Boolean)
          .join(", "),
    });
  });
  return found.filter((a) => new Set(rows.map(a.x).filter((x) => x !== null)).size > 1);
}

interface Measure {
  title: string;
  field: string; // in CSV
  value: (row: Row) => Num | undefined;
  low?: (row: Row) => Num | undefined;
  high?: (row: Row) => Num | undefined;
  show: Show;
}

function measures(axis: Axis, view: ProfileView): Measure[] {
  const list: Measure[] = [
    {
      title: "Latency",
      field: "median_ns",
      value: (r) => r.result.stats?.median_ns,
      low: (r) => r.result.stats?.low_ns,
      high: (r) => r.result.stats?.high_ns,
      show: duration,
    },
    { title: "Throughput", field: "inferences_per_s", value: (r) => r.view.inferences_per_s, show: rate },
    { title: "Time per item", field: "item_ns", value: (r) => r.view.item_ns, show: duration },
  ];
  if (axis.scaling !== undefined) {
    const at = axis.scaling;
    list.push(
      view.axes[at] === null
        ? { title: "Batch gain", field: "batch_gain", value: (r) => r.view.scaling[at], show: ratio }
        : { title: "Efficiency", field: "efficiency", value: (r) => r.view.scaling[at], show: percent },
    );
  }
  return list;
}

function sweepCurves(axis: Axis, measure: Measure, rows: Row[]): Curve[] {
  const groups = new Map<string, Curve>();
  for (const row of rows) {
    const [x, y] = [axis.x(row), measure.value(row)];
    if (x === null || y === null || y === undefined) continue;
    const key = axis.key(row);
    if (!groups.has(key)) groups.set(key, { name: key, points: [], line: true });
    groups.get(key)?.points.push({
      x,
      y,
      low: measure.low?.(row),
      high: measure.high?.(row),
      tip: [
        row.view.name,
        `${axis.title} ${x}`,
        `${measure.title}: ${interval(measure.show, y, measure.low?.(row), measure.high?.(row))}`,
      ],
    });
  }
  return [...groups.values()].slice(0, SHOWN);
}

function sweep(profile: Profile, view: ProfileView, rows: Row[]): HTMLElement | null {
  const along = rows.length > 1 ? axes(profile, view, rows) : [];
  if (along.length === 0) return null;
  return section(
    "Sweep",
    chooser(
      "Along",
      along.map((a) => ({ label: a.title, value: a })),
      (axis) =>
        chooser(
          "Show",
          measures(axis, view).map((m) => ({ label: m.title, value: m })),
          (m) => {
            const flat = rows.filter((r) => axis.x(r) !== null && m.value(r) != null);
            const xs = flat.map(axis.x) as number[];
            return figure(
              `${m.title} over ${axis.title}`,
              "",
              curves({
                title: `${m.title} over ${axis.title}`,
                xTitle: axis.title,
                yTitle: m.title,
                curves: sweepCurves(axis, m, rows),
                showX: significant,
                showY: m.show,
                logX: Math.max(...xs) / Math.min(...xs) > 8,
                ticksX: [...new Set(xs)].sort((a, b) => a - b),
              }),
              {
                label: `${m.title} over ${axis.title}`,
                columns: [
                  { title: "Backend", field: "backend", value: (r) => axis.key(r) },
                  { title: axis.title, value: (r) => axis.x(r) },
                  { title: m.title, field: m.field, value: (r) => m.value(r), show: (r) => m.show(m.value(r)) },
                ],
                rows: flat,
              },
            );
          },
        ),
    ),
  );
}

function costs(rows: Row[]): HTMLElement | null {
  const priced = rows.filter(
    (r) => r.view.measured && r.view.usd_per_million !== null && r.result.stats?.median_ns != null,
  );
  if (priced.length < 2) return null;
  const point = (r: Row) => ({
    x: r.result.stats?.median_ns as number,
    y: r.view.usd_per_million as number,
    tip: [
      r.view.name,
      `${duration(r.result.stats?.median_ns)} per run`,
      `${dollars(r.view.usd_per_million)} per million`,
      r.view.front ? "no other is both faster and cheaper" : "another is faster and cheaper",
    ],
  });
  const wide = (values: number[]): boolean => Math.max(...values) / Math.min(...values) > 20;
  return section(
    "Cost",
    figure(
      "Cost against latency",
      "Of the rows on the line no other is both faster and cheaper.",
      curves({
        title: "Cost against latency",
        xTitle: "latency",
        yTitle: "$ per million",
        showX: duration,
        showY: dollars,
        logX: wide(priced.map((r) => point(r).x)),
        logY: wide(priced.map((r) => point(r).y)),
        curves: [
          {
            name: "best choices (Pareto front)",
            points: priced.filter((r) => r.view.front).map(point),
            line: true,
            step: true,
          },
          { name: "others", points: priced.filter((r) => !r.view.front).map(point), line: false },
        ].filter((c) => c.points.length > 0),
      }),
      {
        label: "Cost against latency",
        columns: [
          { title: "Backend", field: "backend", value: (r) => r.view.name },
          {
            title: "Latency",
            field: "median_ns",
            value: (r) => r.result.stats?.median_ns,
            show: (r) => duration(r.result.stats?.median_ns),
          },
          {
            title: "$/million",
            field: "usd_per_million",
            value: (r) => r.view.usd_per_million,
            show: (r) => dollars(r.view.usd_per_million),
          },
          { title: "On the front", field: "front", value: (r) => (r.view.front ? "yes" : "no") },
        ],
        rows: priced,
      },
    ),
  );
}

// ---- Load ----

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

// ---- The report ----

export function facts(list: [string, string | null | undefined][]): HTMLElement {
  return h(
    "dl",
    { class: "facts" },
    ...list.filter(([, v]) => v).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, name(v as string))]),
  );
}

export function profile({ data, view }: Report<Profile, ProfileView>): Node[] {
  const env = data.environment;
  const about = section(
    "How it was measured",
    facts([
      ["Model", data.model?.path],
      ["Size", data.model ? `${bytes(data.model.bytes)}, ${count(data.model.parameters)} parameters` : null],
      ["Measured", data.created],
      ["By", data.prony_version && `prony ${data.prony_version}`],
      ["Runtimes", [...new Set(data.results.map((r) => r.backend.runtime_version).filter(Boolean))].join(", ")],
      ["Processor", env.cpu ? `${env.cpu}, ${env.cores} cores` : null],
      ["System", [env.os, env.kernel].filter(Boolean).join(", ")],
    ]),
    ...data.notes.map((note) => h("p", {}, h("bdi", {}, shorten(note, 1000)))),
  );
  if (data.profiles) return [...recorded(data, view), about];
  const rows: Row[] = data.results.map((result, index) => ({ result, view: view.results[index], index }));
  const sampled = rows.filter((r) => r.view.samples && r.result.stats);
  const loaded = rows.filter((r) => r.result.load?.rows);
  return [
    section("Results", summary(view, rows)),
    sampled.length > 0 &&
      section(
        "Times",
        chooser("Sizes", byPoint(data, sampled), (some) => h("div", {}, distribution(some), samples(some))),
      ),
    sampled.length > 0 && sweep(data, view, sampled),
    costs(rows),
    loaded.length > 0 &&
      section(
        "Under load",
        chooser(
          "Backend",
          loaded.map((r) => ({ label: r.view.name, value: r })),
          (r) => loadOf(r, view.flags),
        ),
      ),
    whereTimeGoes(rows),
    about,
  ].filter((node): node is HTMLElement => Boolean(node));
}
