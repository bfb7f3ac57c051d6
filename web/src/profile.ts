// A model on backends: who is fastest, how sure that is, where the time goes, how it scales.
import { SIGNS, ranges, signOf } from "./charts";
import { type Card, profileCard } from "./card";
import { explained, h, name } from "./dom";
import { figure, section } from "./figures";
import { bytes, dollars, duration, integer, interval, percent, rate, ratio, significant } from "./format";
import { underLoad } from "./load";
import { whereTimeGoes } from "./ops";
import { recorded } from "./recorded";
import { type Row, SHOWN, flagged } from "./rows";
import { times } from "./spread";
import { costs, sweep } from "./sweep";
import { type Column, table } from "./table";
import { colourOf } from "./theme";
import { trust } from "./trust";
import type { Profile, ProfileView, Report } from "./types";

const VERDICTS: Record<string, string> = {
  best: "the shortest time of those that were fed the same, and all others are slower",
  "best?": "the shortest median of those that were fed the same, but not all others are known to be slower",
  same: "the interval is inside the smallest difference that counts",
  slower: "the interval clears the smallest difference that counts",
  faster: "the interval clears the smallest difference that counts",
  unsure: "more launches would tell",
};

// The shortest time first, what failed last; a sweep keeps its order.
function bestFirst(data: Profile, rows: Row[]): Row[] {
  if (data.points.length > 1) return rows;
  const time = (r: Row): number => (r.view.measured ? (r.result.stats?.median_ns ?? Infinity) : Infinity);
  return [...rows].sort((a, b) => (time(a) === time(b) ? a.index - b.index : time(a) - time(b)));
}

// What a row is best at: "fastest", "fastest?" where others may be as fast.
const mark = (r: Row): string => r.view.best.join(", ") || r.view.verdict.replace(/^best/, "fastest");
const isBest = (r: Row): boolean => r.view.best.length > 0 || r.view.verdict.startsWith("best");

function summary(view: ProfileView, rows: Row[]): HTMLElement {
  const any = (f: (r: Row) => unknown): boolean => rows.some((r) => Boolean(f(r)));
  const failure = (r: Row): string => r.result.error?.message ?? "";
  const columns: Column<Row>[] = [
    {
      title: "Backend",
      field: "backend",
      value: (r) => r.view.name,
      show: (r) =>
        isBest(r) ? h("span", {}, name(r.view.name), " ", h("span", { class: "chip" }, mark(r))) : r.view.name,
    },
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
  return table({ label: "Results", file: "results", columns, rows, marked: isBest });
}

// ---- Several models ----

// Each model against the first, on every backend.
function models(data: Profile, rows: Row[]): HTMLElement | null {
  const all = data.models ?? [];
  const others = rows.filter((r) => r.result.model_ratio?.estimate != null);
  if (all.length < 2 || others.length === 0) return null;
  const first = all[0].name ?? "the first model";
  return section(
    "Models",
    figure(
      "Models against the first",
      `Time over that of ${first} on the same backend, with its 95 % interval. ${SIGNS}`,
      ranges(
        "Models against the first",
        others.slice(0, SHOWN).map((r) => ({
          name: r.view.name,
          value: r.result.model_ratio?.estimate ?? null,
          low: r.result.model_ratio?.low ?? null,
          high: r.result.model_ratio?.high ?? null,
          sign: signOf(r.result.model_verdict ?? ""),
          tip: [
            interval(ratio, r.result.model_ratio?.estimate, r.result.model_ratio?.low, r.result.model_ratio?.high),
            r.result.model_verdict ?? "",
          ],
        })),
        significant,
        { origin: 1, dots: true, log: true },
      ),
    ),
    table<Row>({
      label: "Models",
      file: "models",
      columns: [
        { title: "Row", field: "row", value: (r) => r.view.name },
        {
          title: "Time",
          field: "median_ns",
          value: (r) => r.result.stats?.median_ns,
          show: (r) => duration(r.result.stats?.median_ns),
        },
        {
          title: `vs ${first}`,
          field: "model_ratio",
          value: (r) => r.result.model_ratio?.estimate,
          show: (r) =>
            interval(ratio, r.result.model_ratio?.estimate, r.result.model_ratio?.low, r.result.model_ratio?.high),
        },
        {
          title: "Verdict",
          field: "model_verdict",
          value: (r) => r.result.model_verdict,
          show: (r) => explained(r.result.model_verdict ?? "", VERDICTS[r.result.model_verdict ?? ""] ?? ""),
        },
        {
          title: "Outputs",
          field: "outputs",
          value: (r) => outputsOf(data, r),
        },
      ],
      rows: others,
    }),
  );
}

function outputsOf(data: Profile, row: Row): string {
  const point = data.points[row.result.point];
  if (!point?.outputs?.length) return "not compared";
  return point.outputs_differing ? `${integer(point.outputs_differing)} differ` : "agree";
}

// ---- The report ----

const rowsOf = ({ data, view }: Report<Profile, ProfileView>): Row[] =>
  data.results.map((result, index) => ({ result, view: view.results[index], index }));

export function profileAnswer(report: Report<Profile, ProfileView>, title: string): Card {
  return profileCard(report.data, report.view, rowsOf(report), title);
}

export function profile(report: Report<Profile, ProfileView>): Node[] {
  const { data, view } = report;
  const rows = rowsOf(report);
  if (data.profiles) return [...recorded(data, view), trust(data, view, rows)];
  for (const row of rows) colourOf("backend", row.view.backend);
  const sampled = rows.filter((r) => r.view.samples && r.result.stats);
  return [
    section("Results", summary(view, bestFirst(data, rows))),
    models(data, rows),
    times(data, sampled),
    sampled.length > 0 && sweep(data, view, sampled),
    costs(rows),
    underLoad(rows, view.flags),
    whereTimeGoes(data, rows),
    trust(data, view, rows),
  ].filter((node): node is HTMLElement => Boolean(node));
}
