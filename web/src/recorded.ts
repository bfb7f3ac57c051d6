// A recorded program: what its functions spend in graphs and in code of their own.
import { Bar, stacked } from "./charts";
import { chooser, figure, h, section, table } from "./dom";
import { dollars, duration, integer, percent } from "./format";
import { Profile, ProfileView, Recorded } from "./types";

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

function segmentRows(data: Profile, view: ProfileView, r: Recorded): SegmentRow[] {
  return r.segments.flatMap((segment, position): SegmentRow[] => {
    if (segment.graph === null)
      return [{ position, name: view.local ?? "local code", backend: "", mean: segment.local?.mean_ns ?? null, runs: segment.local?.count ?? 0, failed: 0, why: "" }];
    const title = graphName(data, segment.graph);
    const local = data.graphs?.find((g) => g.id === segment.graph)?.local_reason;
    const here: SegmentRow[] = segment.local
      ? [{ position, name: title, backend: "(local)", mean: segment.local.mean_ns, runs: segment.local.count, failed: 0, why: local ?? "" }]
      : [];
    return here.concat(segment.results.map((result, i) => ({
      position, name: title, backend: view.results[i].name, mean: result.times.mean_ns, runs: result.times.count, failed: result.failed,
      why: result.failures.map((f) => `${f.count}× ${f.message}`).join("; "),
    })));
  });
}

// The segments of a run on each backend, one behind the other.
function bars(data: Profile, view: ProfileView, r: Recorded): Bar[] {
  return view.results.map((backend, i) => ({
    name: backend.name,
    parts: r.segments.map((segment) => {
      const result = segment.graph === null ? null : segment.results[i];
      const title = segment.graph === null ? (view.local ?? "local code") : graphName(data, segment.graph);
      const series = result && result.times.count > 0 ? result.times : segment.local;
      const failed = Boolean(result && result.failed > 0);
      return {
        name: title, value: series?.mean_ns ?? 0, quiet: segment.graph === null && !failed, failed, colour: segment.graph ?? 0,
        tip: [`${title} on ${backend.name}`, `${duration(series?.mean_ns)} on average, ${integer(series?.count)} times`,
          ...(result?.failures ?? []).map((f) => `failed ${f.count}×: ${f.message}`)],
      };
    }),
  }));
}

function one(data: Profile, view: ProfileView, r: Recorded, label: string): HTMLElement {
  const totals = r.totals.map((total, i) => ({ total, name: view.results[i].name }));
  const rows = segmentRows(data, view, r);
  return h("div", {},
    h("p", {}, `${integer(r.runs)} runs${r.discarded_runs ? `, ${integer(r.discarded_runs)} left out because they compiled` : ""}; ${integer(r.repeats)} timed runs of a graph per call.`),
    table({ label: `Totals of ${label}`, file: "totals", columns: [
      { title: "Backend", field: "backend", value: (t) => t.name },
      { title: "Total", field: "total_ns", value: (t) => t.total.total_ns, show: (t) => duration(t.total.total_ns) },
      { title: "Graphs", field: "backend_ns", value: (t) => t.total.backend_ns, show: (t) => duration(t.total.backend_ns) },
      { title: "Local", field: "local_ns", value: () => r.local_ns, show: () => duration(r.local_ns) },
      { title: "Local share", field: "local_share", value: (t) => (t.total.total_ns ? (r.local_ns ?? 0) / t.total.total_ns : null), show: (t) => percent(t.total.total_ns ? (r.local_ns ?? 0) / t.total.total_ns : null) },
      { title: "$/million", field: "usd_per_million", value: (t) => t.total.usd_per_million, show: (t) => dollars(t.total.usd_per_million) },
    ], rows: totals }),
    figure("Segments", "A run from left to right: grey is the program's own code, colours are graphs, ✕ is what failed.",
      stacked(`Segments of ${label}`, bars(data, view, r), duration),
      { label: `Segments of ${label}`, file: "segments", columns: [
        { title: "Segment", field: "segment", value: (x) => x.position },
        { title: "Name", field: "name", value: (x) => x.name },
        { title: "Backend", field: "backend", value: (x) => x.backend },
        { title: "Mean", field: "mean_ns", value: (x) => x.mean, show: (x) => duration(x.mean) },
        { title: "Times", field: "times", value: (x) => x.runs, show: (x) => integer(x.runs) },
        { title: "Failed", field: "failed", value: (x) => x.failed, show: (x) => integer(x.failed) },
        { title: "Why", field: "why", value: (x) => x.why },
      ], rows }));
}

export function recorded(data: Profile, view: ProfileView): Node[] {
  const profiles = data.profiles ?? [];
  if (profiles.length === 0) return [h("p", {}, "No function was recorded.")];
  return [section("Functions", chooser("Function", profiles.map((r, i) => ({ label: view.labels?.[i] ?? r.function, value: i })),
    (i) => h("div", {}, h("h3", { class: "function" }, h("bdi", {}, view.labels?.[i] ?? "")), one(data, view, profiles[i], view.labels?.[i] ?? ""))))];
}
