// A recorded program: what its functions spend in graphs and in code of their own.
import { type Bar, stacked } from "./charts";
import { h } from "./dom";
import { chooser, figure, section } from "./figures";
import { table } from "./table";
import { dollars, duration, integer, percent } from "./format";
import { flagged } from "./rows";
import { coloured } from "./theme";
import type { Num, Profile, ProfileView, Recorded } from "./types";

interface SegmentRow {
  position: number;
  name: string;
  backend: string;
  mean: number | null;
  runs: number;
  failed: number;
  why: string;
}

function graphName(data: Profile, id: number): string {
  return data.graphs?.find((g) => g.id === id)?.name ?? `graph ${id}`;
}

// What is wrong with the outputs of a graph on a backend.
function mismatch(data: Profile, graph: number, backend: number): string {
  const check = data.graphs?.find((g) => g.id === graph)?.checks?.[backend];
  if (check?.failure) return `outputs could not be compared: ${check.failure}`;
  if (!check?.mismatch) return "";
  const most = Math.max(...check.outputs.map((o) => o.max_rel ?? Infinity));
  const amount = Number.isFinite(most) ? `, by up to ${percent(most)} of the largest value` : "";
  return `MISMATCH: outputs differ from those computed locally${amount}`;
}

function segmentRows(data: Profile, view: ProfileView, r: Recorded): SegmentRow[] {
  return r.segments.flatMap((segment, position): SegmentRow[] => {
    if (segment.graph === null)
      return [
        {
          position,
          name: view.local ?? "local code",
          backend: "",
          mean: segment.local?.mean_ns ?? null,
          runs: segment.local?.count ?? 0,
          failed: 0,
          why: "",
        },
      ];
    const title = graphName(data, segment.graph);
    const local = data.graphs?.find((g) => g.id === segment.graph)?.local_reason;
    const here: SegmentRow[] = segment.local
      ? [
          {
            position,
            name: title,
            backend: "(local)",
            mean: segment.local.mean_ns,
            runs: segment.local.count,
            failed: 0,
            why: local ?? "",
          },
        ]
      : [];
    if (local) return here;
    return here.concat(
      segment.results.map((result, i) => ({
        position,
        name: title,
        backend: view.results[i].name,
        mean: result.times.mean_ns,
        runs: result.times.count,
        failed: result.failed,
        why: [mismatch(data, segment.graph ?? 0, i), ...result.failures.map((f) => `${f.count}× ${f.message}`)]
          .filter(Boolean)
          .join("; "),
      })),
    );
  });
}

// The segments of a run on each backend, one behind the other.
function bars(data: Profile, view: ProfileView, r: Recorded): Bar[] {
  return view.results.map((backend, i) => ({
    name: backend.name,
    parts: r.segments.map((segment) => {
      const result = segment.graph === null ? null : segment.results[i];
      const title = segment.graph === null ? (view.local ?? "local code") : graphName(data, segment.graph);
      const there = Boolean(result && result.times.count > 0);
      const series = result && there ? result.times : segment.local;
      const failed = Boolean(result && result.failed > 0);
      const reason = data.graphs?.find((g) => g.id === segment.graph)?.local_reason;
      const where = there
        ? `${title} on ${backend.name}`
        : reason
          ? `${title} ran locally: ${reason}`
          : `${title}, locally instead of on ${backend.name}`;
      return {
        name: result && !there ? `${title}, local` : title,
        value: series?.mean_ns ?? 0,
        quiet: !there && !failed,
        failed,
        colour: coloured((segment.graph ?? 1) - 1),
        tip: [
          result ? where : title,
          `${duration(series?.mean_ns)} on average, ${integer(series?.count)} times`,
          ...(result?.failures ?? []).map((f) => `failed ${f.count}×: ${f.message}`),
        ],
      };
    }),
  }));
}

function one(data: Profile, view: ProfileView, r: Recorded, label: string): HTMLElement {
  const totals = r.totals.map((total, i) => ({ total, name: view.results[i].name, flags: total.flags ?? [] }));
  const whole = (t: (typeof totals)[number]): Num => t.total.median_ns ?? t.total.total_ns;
  const rows = segmentRows(data, view, r);
  return h(
    "div",
    {},
    h(
      "p",
      {},
      `${integer(r.runs)} runs`,
      r.discarded_runs ? `, ${integer(r.discarded_runs)} left out because they compiled` : "",
      `; ${integer(r.repeats)} timed runs of a graph per call.`,
    ),
    table({
      label: `Totals of ${label}`,
      file: "totals",
      columns: [
        { title: "Backend", field: "backend", value: (t) => t.name },
        { title: "Total", field: "median_ns", value: whole, show: (t) => duration(whole(t)) },
        {
          title: "95 % interval",
          field: "low_ns",
          value: (t) => t.total.low_ns ?? null,
          show: (t) => (t.total.low_ns ? `${duration(t.total.low_ns)} to ${duration(t.total.high_ns)}` : ""),
        },
        {
          title: "Graphs",
          field: "backend_ns",
          value: (t) => t.total.backend_median_ns ?? t.total.backend_ns,
          show: (t) => duration(t.total.backend_median_ns ?? t.total.backend_ns),
        },
        { title: "Local", field: "local_ns", value: () => r.local_ns, show: () => duration(r.local_ns) },
        {
          title: "Local share",
          field: "local_share",
          value: (t) => (t.total.total_ns ? (r.local_ns ?? 0) / t.total.total_ns : null),
          show: (t) => percent(t.total.total_ns ? (r.local_ns ?? 0) / t.total.total_ns : null),
        },
        {
          title: "$/million",
          field: "usd_per_million",
          value: (t) => t.total.usd_per_million,
          show: (t) => dollars(t.total.usd_per_million),
        },
        ...(totals.some((t) => t.flags.length)
          ? [
              {
                title: "Flags",
                field: "flags",
                value: (t: (typeof totals)[number]) => t.flags.join(" "),
                show: (t: (typeof totals)[number]) => flagged(t.flags, view.flags),
              },
            ]
          : []),
      ],
      rows: totals,
    }),
    figure(
      "Segments",
      "A run from left to right: grey ran locally, as the program's own code does, " +
        "colours are graphs on the backend, ✕ is what failed.",
      stacked(`Segments of ${label}`, bars(data, view, r), duration),
      {
        label: `Segments of ${label}`,
        file: "segments",
        columns: [
          { title: "Segment", field: "segment", value: (x) => x.position },
          { title: "Name", field: "name", value: (x) => x.name },
          { title: "Backend", field: "backend", value: (x) => x.backend },
          { title: "Mean", field: "mean_ns", value: (x) => x.mean, show: (x) => duration(x.mean) },
          { title: "Times", field: "times", value: (x) => x.runs, show: (x) => integer(x.runs) },
          { title: "Failed", field: "failed", value: (x) => x.failed, show: (x) => integer(x.failed) },
          { title: "Why", field: "why", value: (x) => x.why },
        ],
        rows,
      },
    ),
  );
}

export function recorded(data: Profile, view: ProfileView): Node[] {
  const profiles = data.profiles ?? [];
  if (profiles.length === 0) return [h("p", {}, "No function was recorded.")];
  return [
    section(
      "Functions",
      chooser(
        "Function",
        profiles.map((r, i) => ({ label: view.labels?.[i] ?? r.function, value: i })),
        (i) =>
          h(
            "div",
            {},
            h("h3", { class: "function" }, h("bdi", {}, view.labels?.[i] ?? "")),
            one(data, view, profiles[i], view.labels?.[i] ?? ""),
          ),
      ),
    ),
  ];
}
