// A trace of ONNX Runtime: where the time goes, from run to run and within one.
import { Branch, SIGNS, ranges, signOf, stacked, treemap } from "./charts";
import { h } from "./dom";
import { facts, figure, folded, section } from "./figures";
import { Column, Table, table } from "./table";
import { bytes, integer, interval, micros, percent, ratio, significant } from "./format";
import { memory } from "./memory";
import { LEDGER, pairs } from "./ops";
import { ceiling, fence, seriesPlot } from "./series";
import { onPick } from "./pick";
import { colourOf } from "./theme";
import { timeline } from "./timeline";
import {
  Group,
  GroupTable,
  Num,
  Report,
  Timeline,
  Trace,
  TraceComparison,
  TraceComparisonView,
  TraceDifference,
  TraceView,
} from "./types";

function groupColumns(groups: GroupTable, gpu: boolean): Column<Group>[] {
  const has = (key: keyof Group): boolean => groups.groups.some((g) => g[key] !== undefined);
  const columns: Column<Group>[] = [];
  if (gpu) columns.push({ title: "Kernel", field: "kernel", value: (g) => g.kernel });
  if (has("node")) columns.push({ title: "Node", field: "node", value: (g) => g.node });
  if (has("op")) columns.push({ title: "Operator", field: "op", value: (g) => g.op });
  if (has("provider")) columns.push({ title: "Provider", field: "provider", value: (g) => g.provider });
  if (has("dimensions")) columns.push({ title: "Dimensions", field: "dimensions", value: (g) => g.dimensions });
  if (has("input_type_shape"))
    columns.push({ title: "Inputs", field: "input_type_shape", value: (g) => g.input_type_shape });
  return columns.concat([
    { title: "Total", field: "duration_us", value: (g) => g.duration_us, show: (g) => micros(g.duration_us) },
    {
      title: "Share",
      field: "pct",
      help: "in %",
      value: (g) => g.pct,
      show: (g) => percent(g.pct === null ? null : g.pct / 100),
    },
    { title: "Count", field: "count", value: (g) => g.count, show: (g) => integer(g.count) },
    {
      title: "Per run",
      field: "mean_us",
      help: "mean, with its 95 % interval",
      value: (g) => g.per_run.mean_us,
      show: (g) => interval(micros, g.per_run.mean_us, g.per_run.mean_low_us, g.per_run.mean_high_us),
    },
    { title: "p50", field: "p50_us", value: (g) => g.per_run.p50_us, show: (g) => micros(g.per_run.p50_us) },
    { title: "p90", field: "p90_us", value: (g) => g.per_run.p90_us, show: (g) => micros(g.per_run.p90_us) },
    { title: "Longest", field: "max_us", value: (g) => g.per_run.max_us, show: (g) => micros(g.per_run.max_us) },
    {
      title: "Run 0",
      field: "first_us",
      help: "the warm-up",
      value: (g) => g.per_run.first_us,
      show: (g) => micros(g.per_run.first_us),
    },
  ]);
}

// Operators with their nodes where both are known, otherwise whatever groups there are.
function branches(data: Trace, view: TraceView): Branch[] {
  const tip = (title: string, us: number, n: number): string[] => [title, `${micros(us)}, ${integer(n)} times`];
  const title = (g: Group): string => [g.op, g.node, g.provider, g.input_type_shape].filter(Boolean).join(" ") || "?";
  const byOp =
    view.nodes &&
    data.cpu.groups.every((g) => g.op !== undefined && g.provider === undefined && g.input_type_shape === undefined);
  return data.cpu.groups
    .filter((g) => g.duration_us > 0)
    .map((g) => ({
      name: title(g),
      value: g.duration_us,
      colour: colourOf("operator", g.op ?? title(g)),
      tip: tip(title(g), g.duration_us, g.count),
      leaves: byOp
        ? (view.nodes ?? [])
            .filter((n) => n.op === g.op)
            .map((n) => ({ name: n.node, id: n.node, value: n.duration_us, tip: tip(n.node, n.duration_us, n.count) }))
        : [],
    }));
}

// The nodes of the treemap; where the report itself is by node, its own table has them.
function nodeTable(data: Trace, view: TraceView): Table<NonNullable<TraceView["nodes"]>[0]> | undefined {
  if (!view.nodes || data.cpu.groups.some((g) => g.node !== undefined)) return undefined;
  return {
    label: "Nodes",
    file: "nodes",
    id: (n) => n.node,
    leftOut: view.nodes_left_out,
    columns: [
      { title: "Node", field: "node", value: (n) => n.node },
      { title: "Operator", field: "op", value: (n) => n.op },
      { title: "Total", field: "duration_us", value: (n) => n.duration_us, show: (n) => micros(n.duration_us) },
      {
        title: "Share",
        field: "pct",
        help: "in %",
        value: (n) => n.pct,
        show: (n) => percent(n.pct === null ? null : n.pct / 100),
      },
      { title: "Count", field: "count", value: (n) => n.count, show: (n) => integer(n.count) },
    ],
    rows: view.nodes,
  };
}

function ledger(data: Trace): HTMLElement | null {
  const parts = data.ledger;
  if (!parts) return null;
  const rows = LEDGER.map(([key, title]) => ({ title, part: parts[key] })).filter((r) => r.part);
  return figure(
    "Ledger",
    "Where the time of the analysed runs went.",
    stacked(
      "Ledger",
      [
        {
          name: "all runs",
          parts: rows.map(({ title, part }, i) => ({
            name: title,
            value: part.duration_us,
            colour: i,
            tip: [
              `${title}: ${micros(part.duration_us)}, ${percent(part.pct === null ? null : part.pct / 100)}`,
              `per run ${interval(micros, part.per_run.mean_us, part.per_run.mean_low_us, part.per_run.mean_high_us)}`,
            ],
          })),
        },
      ],
      micros,
    ),
    {
      label: "Ledger",
      file: "ledger",
      columns: [
        { title: "Part", field: "part", value: (r) => r.title },
        {
          title: "Total",
          field: "duration_us",
          value: (r) => r.part.duration_us,
          show: (r) => micros(r.part.duration_us),
        },
        {
          title: "Share",
          field: "pct",
          value: (r) => r.part.pct,
          show: (r) => percent(r.part.pct === null ? null : r.part.pct / 100),
        },
        {
          title: "Per run",
          field: "per_run_us",
          value: (r) => r.part.per_run.mean_us,
          show: (r) => micros(r.part.per_run.mean_us),
        },
      ],
      rows,
    },
  );
}

function runs(data: Trace): HTMLElement | null {
  const list = data.runs.list;
  if (!list || list.length < 2) return null;
  const rows = list.map(([start, time, node], i) => ({ i, start, time, node }));
  const all = list.length === data.runs.found;
  // Each file has a clock of its own, so runs of several are in order only.
  const ordered = data.trace.files !== undefined;
  const x = rows.map((r) => (ordered ? (r.i * data.runs.found) / list.length : r.start - rows[0].start));
  const highest = fence(rows.map((r) => r.time));
  const lines = [
    { name: "run", x, low: rows.map((r) => r.time), joined: true, ceiling: highest },
    { name: "at least one node ran", x, low: rows.map((r) => r.node), joined: true, ceiling: highest },
  ];
  const { top, above } = ceiling(lines);
  return figure(
    "Runs",
    (all
      ? "Run 0 is the warm-up."
      : "There are more runs than places: the shortest and the longest of each place are shown.") +
      (above > 0 ? ` Triangles at the top are what took longer than ${micros(top)}.` : ""),
    seriesPlot({
      title: "Runs over time",
      xTitle: ordered ? "run" : "start",
      lines,
      showX: ordered ? (run) => integer(Math.round(run ?? 0)) : micros,
      showY: micros,
    }),
    {
      label: "Runs",
      file: "runs",
      columns: [
        ...(all ? [{ title: "Run", field: "run", value: (r: (typeof rows)[0]) => r.i }] : []),
        {
          title: "Start",
          field: "start_us",
          help: ordered ? "on the clock of its file" : undefined,
          value: (r) => r.start,
          show: (r) => micros(ordered ? r.start : r.start - rows[0].start),
        },
        { title: "Time", field: "duration_us", value: (r) => r.time, show: (r) => micros(r.time) },
        {
          title: "With a node",
          field: "node_us",
          help: "how long at least one node ran",
          value: (r) => r.node,
          show: (r) => micros(r.node),
        },
      ],
      rows,
    },
  );
}

const HOW =
  "Ctrl with the wheel zooms, dragging moves, and with Shift it selects a range to sum up. " +
  "A click marks a node everywhere.";

function runFigure(title: string, about: string, t: Timeline, id: string): HTMLElement {
  const rows = t.spans.lane.map((lane, i) => ({ i, lane }));
  return figure(
    title,
    about +
      (t.shown < t.events
        ? ` The ${integer(t.shown)} longest of ${integer(t.events)} events are drawn one by one; ` +
          "grey shows how busy a lane is with the others."
        : ""),
    timeline(t, id),
    {
      label: `Events of ${title.charAt(0).toLowerCase()}${title.slice(1)}`,
      file: id === "timeline" ? "events" : `events-${id}`,
      columns: [
        { title: "Name", field: "name", value: (r) => t.names[t.spans.name[r.i]] },
        { title: "Operator", field: "op", value: (r) => t.ops[t.spans.op[r.i]] },
        { title: "Lane", field: "lane", value: (r) => `${t.lanes[r.lane].kind} ${t.lanes[r.lane].number}` },
        {
          title: "Start",
          field: "start_us",
          value: (r) => t.spans.start_us[r.i],
          show: (r) => micros(t.spans.start_us[r.i]),
        },
        {
          title: "Time",
          field: "duration_us",
          value: (r) => t.spans.duration_us[r.i],
          show: (r) => micros(t.spans.duration_us[r.i]),
        },
      ],
      rows,
    },
  );
}

function oneRun(view: TraceView): HTMLElement | null {
  const t = view.timeline;
  if (!t || t.shown === 0) return null;
  return section("One run", runFigure(`Run ${t.run}`, `The run that is closest to the median. ${HOW}`, t, "timeline"));
}

export function trace({ data, view }: Report<Trace, TraceView>): Node[] {
  const mapping: Record<string, string | Num>[] = (data.mapping ?? []).map((row) => ({ ...row }));
  return [
    section(
      "Where the time goes",
      ledger(data),
      data.cpu.groups.length > 0 &&
        figure(
          "Operators and their nodes",
          "Areas are times of the analysed runs.",
          treemap("Operators and their nodes", branches(data, view)),
          nodeTable(data, view),
        ),
      data.cpu.groups.length > 0 &&
        table({
          label: "CPU",
          file: "cpu",
          columns: groupColumns(data.cpu, false),
          rows: data.cpu.groups,
          leftOut: (data.cpu as GroupTable).groups_left_out,
        }),
      data.gpu.groups.length > 0 && h("h3", {}, "GPU kernels"),
      data.gpu.groups.length > 0 &&
        table({
          label: "GPU kernels",
          file: "gpu",
          columns: groupColumns(data.gpu, true),
          rows: data.gpu.groups,
          leftOut: (data.gpu as GroupTable).groups_left_out,
        }),
      mapping.length > 0 &&
        folded("Operators and their kernels", () =>
          table<(typeof mapping)[0]>({
            label: "Operators and their kernels",
            file: "mapping",
            rows: mapping,
            columns: Object.keys(mapping[0]).map((key) => ({
              title: key,
              value: (r) => r[key],
              show: (r) => (typeof r[key] === "number" ? significant(r[key] as number, 4) : String(r[key] ?? "")),
            })),
          }),
        ),
    ),
    oneRun(view),
    view.timeline?.memory && section("Where the memory goes", memory(view.timeline.memory)),
    section(
      "From run to run",
      runs(data),
      facts([
        ["Trace", data.trace.name],
        ["Size", `${bytes(data.trace.bytes)}, ${integer(data.trace.events)} events`],
        ["Runs", `${integer(data.runs.found)}; analysed: ${data.runs.selected}`],
        ["Broken events", data.trace.lost ? integer(data.trace.lost) : null],
      ]),
    ),
  ].filter((node): node is HTMLElement => Boolean(node));
}

// ---- Two traces ----

type KernelDifference = NonNullable<TraceComparison["kernels"]>[number];
type MemoryDifference = NonNullable<TraceComparison["memory"]>["groups"][number];

const differenceName = (d: Partial<TraceDifference & KernelDifference>): string =>
  [d.kernel, d.dimensions, d.node, d.op, d.provider, d.input_type_shape].filter(Boolean).join(" ") || "the whole run";

function differences(title: string, rows: (TraceDifference | KernelDifference)[], leftOut?: number): HTMLElement {
  const drawn = rows.filter((r) => r.ratio !== null).slice(0, 30);
  const times = {
    label: title,
    leftOut,
    columns: [
      { title: "Name", field: "name", value: differenceName },
      {
        title: "First",
        field: "first_median_us",
        value: (r: TraceDifference | KernelDifference) => r.first_median_us,
        show: (r: TraceDifference | KernelDifference) => micros(r.first_median_us),
      },
      {
        title: "Second",
        field: "second_median_us",
        value: (r: TraceDifference | KernelDifference) => r.second_median_us,
        show: (r: TraceDifference | KernelDifference) => micros(r.second_median_us),
      },
      {
        title: "Ratio",
        field: "ratio",
        value: (r: TraceDifference | KernelDifference) => r.ratio,
        show: (r: TraceDifference | KernelDifference) => interval(ratio, r.ratio, r.ratio_low, r.ratio_high),
      },
      {
        title: "p",
        field: "p_holm",
        help: "corrected for the number of rows",
        value: (r: TraceDifference | KernelDifference) => r.p_holm,
        show: (r: TraceDifference | KernelDifference) => significant(r.p_holm, 2),
      },
      { title: "Verdict", field: "verdict", value: (r: TraceDifference | KernelDifference) => r.verdict },
    ],
    rows,
  };
  return h(
    "div",
    {},
    drawn.length > 0 &&
      figure(
        title,
        `Time in the second trace over time in the first, with its 95 % interval. ${SIGNS}`,
        ranges(
          title,
          drawn.map((r) => ({
            name: differenceName(r),
            value: r.ratio,
            low: r.ratio_low,
            high: r.ratio_high,
            sign: signOf(r.verdict),
            tip: [
              interval(ratio, r.ratio, r.ratio_low, r.ratio_high),
              `${micros(r.first_median_us)} → ${micros(r.second_median_us)}`,
              r.verdict,
            ],
          })),
          significant,
          { origin: 1, dots: true, log: true },
        ),
      ),
    table(times),
  );
}

// Bytes of single runs: they have no interval.
function memoryDifferences(memory: NonNullable<TraceComparison["memory"]>): HTMLElement {
  const use = (side: "first" | "second", key: "growth_bytes" | "live_bytes", title: string) => ({
    title,
    field: `${side}_${key}`,
    value: (r: MemoryDifference) => r[side]?.[key] ?? null,
    show: (r: MemoryDifference) => bytes(r[side]?.[key] ?? null),
  });
  return section(
    "Memory",
    facts(
      memory.allocators.map((a) => [
        `Peak${a.provider ? ` of ${a.provider}` : ""}`,
        `${bytes(a.first_peak_bytes)} → ${bytes(a.second_peak_bytes)}`,
      ]),
    ),
    table<MemoryDifference>({
      label: "Memory",
      file: "memory",
      columns: [
        { title: "Name", field: "name", value: differenceName },
        use("first", "growth_bytes", "Growth, first"),
        use("second", "growth_bytes", "Growth, second"),
        use("first", "live_bytes", "Live, first"),
        use("second", "live_bytes", "Live, second"),
      ],
      rows: memory.groups,
    }),
  );
}

const timeOf = (t: Timeline, node: string): number =>
  t.spans.name.reduce((sum, n, i) => (t.names[n] === node ? sum + t.spans.duration_us[i] : sum), 0);

// The node that is picked, in both: what is marked in one timeline is marked in the other.
function pickedInBoth(both: Timeline[]): HTMLElement {
  const line = h("p", { role: "status" });
  const told = (us: number, which: string): string =>
    us > 0 ? `${micros(us)} in the ${which}` : `not in the ${which}`;
  onPick(line, (node) => {
    const [first, second] = both.map((t) => (node === null ? 0 : timeOf(t, node)));
    line.textContent =
      node === null
        ? "Click a node to find it in both."
        : `${node}: ${told(first, "first")}, ${told(second, "second")}.`;
  });
  return line;
}

function bothRuns(view: TraceComparisonView): HTMLElement | null {
  const both = (view.timelines ?? []).filter((t): t is Timeline => t !== null && t.shown > 0);
  if (both.length < 2) return null;
  const names = ["first", "second"];
  return section(
    "One run of each",
    pickedInBoth(both),
    ...both.map((t, i) =>
      runFigure(
        `Run ${t.run} of the ${names[i]} trace`,
        i === 0 ? `The runs that are closest to the median. ${HOW}` : "On its own scale.",
        t,
        names[i],
      ),
    ),
  );
}

export function traceComparison({ data, view }: Report<TraceComparison, TraceComparisonView>): Node[] {
  return [
    section(
      "From one to the other",
      data.run ? differences("The whole run", [data.run]) : h("p", {}, "There is none in both."),
    ),
    section(
      "Where it differs",
      data.groups.length > 0 &&
        pairs(
          "What makes the difference",
          "Median time per run in the second trace minus that in the first; " +
            "bars to the right take longer in the second.",
          "first",
          "second",
          data.groups
            .map((g) => ({
              name: differenceName(g),
              ns: 1e3 * (g.second_median_us ?? 0),
              baseline_ns: 1e3 * (g.first_median_us ?? 0),
            }))
            .sort((a, b) => Math.abs(b.ns - b.baseline_ns) - Math.abs(a.ns - a.baseline_ns)),
        ),
      differences("Groups", data.groups),
    ),
    ...(data.nodes
      ? [
          section(
            "Node by node",
            folded("Nodes", () => differences("Nodes", data.nodes ?? [], data.nodes_left_out)),
          ),
        ]
      : []),
    ...(data.kernels ? [section("Kernel by kernel", differences("GPU kernels", data.kernels))] : []),
    ...(data.memory ? [memoryDifferences(data.memory)] : []),
    bothRuns(view),
    section(
      "Traces",
      facts([
        ["First", data.first.name],
        ["Second", data.second.name],
      ]),
    ),
  ].filter((node): node is HTMLElement => Boolean(node));
}
