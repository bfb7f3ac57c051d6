// Where the time of a run goes: parts, operators, nodes, and what makes the difference between two backends.
import { type Branch, type Range, ranges, stacked, treemap } from "./charts";
import { h } from "./dom";
import { chooser, figure, folded, section } from "./figures";
import { type Show, count, duration, integer, interval, percent, shorten, significant } from "./format";
import { modelGraph } from "./graph";
import { roofline } from "./roofline";
import type { Row } from "./rows";
import { table } from "./table";
import { colourOf } from "./theme";
import type { Ledger, Num, Ops, OpsRow, Profile } from "./types";

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

// What a node is called on the whole page: as in the model where that is known.
export const nodeId = (n: OpsRow): string => (n.onnx ? n.onnx.name || `#${n.onnx.node}` : (n.name ?? ""));

function branches(ops: Ops): Branch[] {
  return ops.operators
    .filter((o) => (o.mean_ns ?? 0) > 0)
    .map((o) => ({
      name: o.op ?? "",
      value: o.mean_ns ?? 0,
      colour: colourOf("operator", o.op ?? ""),
      tip: [
        `${o.op}: ${interval(duration, o.mean_ns, o.low_ns, o.high_ns)} per run`,
        `${integer(o.nodes)} nodes, ${o.provider ?? ""}`,
      ],
      leaves: ops.nodes
        .filter((n) => n.op === o.op && n.provider === o.provider)
        .map((n) => ({
          name: n.name ?? "",
          value: n.mean_ns ?? 0,
          id: nodeId(n),
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
  const roofs = ops.operators.some((o) => o.roof)
    ? [
        {
          title: "Roof",
          field: "roof",
          help: "what limits it on the measured machine",
          value: (r: OpsRow) => r.roof ?? "",
        },
        {
          title: "Of the roof",
          field: "roof_share",
          help: "how much of that it reaches",
          value: (r: OpsRow) => r.roof_share ?? null,
          show: (r: OpsRow) => percent(r.roof_share ?? null),
        },
      ]
    : [];
  return h(
    "div",
    {},
    row.view.placement ? h("p", {}, row.view.placement) : null,
    figure(
      "Operators and their nodes",
      "Areas are times per run.",
      treemap("Operators and their nodes", branches(ops)),
    ),
    roofline(ops, nodeId),
    table<OpsRow>({
      label: "Operators",
      file: "operators",
      leftOut: ops.operators_left_out,
      columns: [
        { title: "Operator", field: "op", value: (r) => r.op ?? "" },
        { title: "Provider", field: "provider", value: (r) => r.provider ?? "" },
        { title: "Nodes", field: "nodes", value: (r) => r.nodes },
        ...times,
        ...roofs,
      ],
      rows: ops.operators,
    }),
    folded("Nodes", () =>
      table<OpsRow>({
        label: "Nodes",
        file: "nodes",
        leftOut: ops.nodes_left_out,
        id: nodeId,
        columns: [
          { title: "Node", field: "node", value: (r) => r.name ?? "" },
          { title: "Operator", field: "op", value: (r) => r.op ?? "" },
          { title: "ONNX node", field: "onnx", value: (r) => r.onnx?.name ?? "" },
          { title: "Calls", field: "calls", value: (r) => r.calls, show: (r) => significant(r.calls) },
          ...times,
          ...roofs,
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

export function whereTimeGoes(data: Profile, rows: Row[]): HTMLElement | null {
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
      "ops",
    ),
    modelGraph(data, some),
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
