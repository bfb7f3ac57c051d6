// Saved profiles against a baseline: what became slower or faster, and, operator by operator, why.
import { SIGNS, ranges, signOf } from "./charts";
import { explained, h } from "./dom";
import { chooser, facts, figure, section } from "./figures";
import { table } from "./table";
import { bytes, duration, interval, percent, ratio, significant, Show } from "./format";
import { Pair, pairs } from "./ops";
import { Compared, Comparison, ComparisonRow, Profile, Report } from "./types";

type File = Comparison["files"][0];

const title = (row: ComparisonRow): string => `${row.backend} (${row.sizes})`;

function change(key: keyof ComparisonRow, name: string, show: Show) {
  const get = (r: ComparisonRow): Compared => r[key] as Compared;
  const [, field, unit] = /^(.*)_(\w+)$/.exec(key) as RegExpExecArray;
  return [
    {
      title: `${name} before`,
      field: `${field}_before_${unit}`,
      value: (r: ComparisonRow) => get(r).before,
      show: (r: ComparisonRow) => show(get(r).before),
    },
    {
      title: `${name} after`,
      field: `${field}_after_${unit}`,
      value: (r: ComparisonRow) => get(r).after,
      show: (r: ComparisonRow) => show(get(r).after),
    },
    {
      title: `${name} ratio`,
      field: `${field}_ratio`,
      value: (r: ComparisonRow) => get(r).ratio,
      show: (r: ComparisonRow) => interval(ratio, get(r).ratio, get(r).ratio_low, get(r).ratio_high),
    },
  ];
}

function times(file: File): HTMLElement {
  const drawn = file.rows.filter((r) => r.time_ns.ratio !== null).slice(0, 40);
  return h(
    "div",
    {},
    drawn.length > 0 &&
      figure(
        "Times",
        `Time after over time before, with its 95 % interval. ${SIGNS}`,
        ranges(
          "Times after over before",
          drawn.map((r) => ({
            name: title(r),
            value: r.time_ns.ratio,
            low: r.time_ns.ratio_low,
            high: r.time_ns.ratio_high,
            sign: signOf(r.verdict),
            tip: [
              interval(ratio, r.time_ns.ratio, r.time_ns.ratio_low, r.time_ns.ratio_high),
              `${duration(r.time_ns.before)} → ${duration(r.time_ns.after)}`,
              r.verdict,
            ],
          })),
          significant,
          { origin: 1, dots: true, log: true },
        ),
      ),
    table<ComparisonRow>({
      label: "Comparison",
      file: "comparison",
      columns: [
        { title: "Backend", field: "backend", value: title },
        {
          title: "Verdict",
          field: "verdict",
          value: (r) => r.verdict,
          show: (r) =>
            r.regression
              ? explained(`${r.verdict} !`, "a regression: over the limit that was given", { class: "flag" })
              : r.verdict,
        },
        ...change("time_ns", "Time", duration),
        {
          title: "p",
          field: "p_holm",
          help: "corrected for the number of rows",
          value: (r) => r.time_ns.p_holm,
          show: (r) => significant(r.time_ns.p_holm, 2),
        },
        ...change("load_ns", "Load", duration),
        ...change("first_run_ns", "First run", duration),
        ...change("peak_bytes", "Peak memory", bytes),
      ],
      rows: file.rows,
    }),
  );
}

// Operators of the same backend in both profiles.
function operatorPairs(before: Profile, after: Profile): { label: string; value: Pair[] }[] {
  return after.results.flatMap((now) => {
    const was = before.results.find(
      (r) => r.backend.name === now.backend.name && before.points[r.point]?.label === after.points[now.point]?.label,
    );
    if (!was?.ops?.operators || !now.ops?.operators) return [];
    const sums = new Map<string, Pair>();
    const add = (op: string, key: "ns" | "baseline_ns", ns: number): void => {
      const pair = sums.get(op) ?? { name: op, ns: 0, baseline_ns: 0 };
      pair[key] = (pair[key] ?? 0) + ns;
      sums.set(op, pair);
    };
    was.ops.operators.forEach((o) => add(o.op ?? "", "baseline_ns", o.mean_ns ?? 0));
    now.ops.operators.forEach((o) => add(o.op ?? "", "ns", o.mean_ns ?? 0));
    const change = (p: Pair): number => Math.abs((p.ns ?? 0) - (p.baseline_ns ?? 0));
    return [
      {
        label: [now.backend.name, after.points[now.point]?.label].filter(Boolean).join(", "),
        value: [...sums.values()].sort((a, b) => change(b) - change(a)),
      },
    ];
  });
}

export function comparison(
  { data }: Report<Comparison, object>,
  others: Report<{ schema: string }, unknown>[],
): Node[] {
  const profiles = others
    .filter((o) => o.data.schema === "prony.profile/1")
    .map((o) => ({ name: o.name, data: o.data as unknown as Profile }));
  const before = profiles.find((p) => p.name === data.before.file);
  return [
    section(
      "What changed",
      chooser(
        "File",
        data.files.map((f) => ({ label: f.after.file, value: f })),
        (file) => {
          const after = profiles.find((p) => p.name === file.after.file);
          const ops = before && after ? operatorPairs(before.data, after.data) : [];
          return h(
            "div",
            {},
            file.machines_differ && h("p", { class: "warning" }, "The files are of different machines."),
            times(file),
            ops.length > 0 &&
              chooser("Operators of", ops, (list) =>
                pairs(
                  "Operator by operator",
                  "Time per run after minus before; bars to the right take longer now.",
                  "before",
                  "after",
                  list,
                ),
              ),
            file.differences.length > 0 && h("h3", {}, "What else differs"),
            file.differences.length > 0 &&
              table({
                label: "What else differs",
                columns: [
                  { title: "What", field: "what", value: (d) => d.what },
                  { title: "Before", field: "before", value: (d) => d.before ?? "" },
                  { title: "After", field: "after", value: (d) => d.after ?? "" },
                ],
                rows: file.differences,
              }),
            facts([
              ["Before", `${data.before.file}, ${data.before.created ?? ""}`],
              ["After", `${file.after.file}, ${file.after.created ?? ""}`],
              ["Counts from", file.must_clear === null ? null : percent(file.must_clear)],
            ]),
          );
        },
      ),
    ),
  ];
}
