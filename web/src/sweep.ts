// Sweeps: how figures go along what was swept, and what they cost.
import { type Curve, curves } from "./charts";
import { h } from "./dom";
import { chooser, figure, section } from "./figures";
import { type Show, distinct, dollars, duration, interval, percent, rate, ratio, significant } from "./format";
import { heatMap } from "./heat";
import { type Row, SHOWN } from "./rows";
import { coloursOf } from "./theme";
import type { Num, Profile, ProfileView } from "./types";

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
  const shown = [...groups.values()].slice(0, SHOWN);
  const colours = coloursOf(
    "curve",
    shown.map((c) => c.name),
  );
  return shown.map((c, i) => ({ ...c, colour: colours[i] }));
}

// A figure over two of the things that were swept, for each combination of the others.
function heat(along: Axis[], measure: Measure, rows: Row[]): HTMLElement | null {
  const [across, down] = along;
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    if (across.x(row) === null || down.x(row) === null || measure.value(row) == null) continue;
    const others = along.slice(2).map((a) => `${a.title}=${a.x(row)}`);
    const backend = along
      .slice(0, 2)
      .reduce((text, a) => text.replace(new RegExp(`([[,])${a.title}=\\d+,?`), "$1"), row.view.backend)
      .replace(/,?\[?,?\]$|\[\]$/, (end) => (end.startsWith("[") ? "" : "]"));
    const key = [backend, ...others].join(", ");
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  const choices = [...groups].filter(([, some]) => some.length > 3).map(([label, value]) => ({ label, value }));
  if (choices.length === 0) return null;
  const title = `${measure.title} over ${across.title} and ${down.title}`;
  return chooser(
    "Map of",
    choices,
    (some) =>
      figure(
        title,
        "The darker, the larger.",
        heatMap({
          title,
          xTitle: across.title,
          yTitle: down.title,
          cells: some.map((row) => ({
            x: across.x(row) as number,
            y: down.x(row) as number,
            value: measure.value(row) as number,
            tip: [
              row.view.name,
              `${measure.title}: ` +
                interval(measure.show, measure.value(row), measure.low?.(row), measure.high?.(row)),
            ],
          })),
          show: measure.show,
        }),
        {
          label: title,
          columns: [
            { title: "Backend", field: "backend", value: (r) => r.view.name },
            { title: across.title, field: `x_${across.title}`.toLowerCase(), value: (r) => across.x(r) },
            { title: down.title, field: `y_${down.title}`.toLowerCase(), value: (r) => down.x(r) },
            {
              title: measure.title,
              field: measure.field,
              value: (r) => measure.value(r),
              show: (r) => measure.show(measure.value(r)),
            },
          ],
          rows: some,
        },
      ),
    "map",
  );
}

export function sweep(profile: Profile, view: ProfileView, rows: Row[]): HTMLElement | null {
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
            const curve = figure(
              `${m.title} over ${axis.title}`,
              m.low ? "Bars are 95 % intervals." : "",
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
            const two = [axis, ...along.filter((a) => a !== axis)];
            return h("div", {}, curve, two.length > 1 && heat(two, m, rows));
          },
        ),
    ),
  );
}

export function costs(rows: Row[]): HTMLElement | null {
  const priced = rows.filter(
    (r) => r.view.measured && r.view.usd_per_million !== null && r.result.stats?.median_ns != null,
  );
  if (priced.length < 2) return null;
  const many = priced.length > 16;
  const short = distinct(priced.map((r) => r.view.name));
  const point = (r: Row) => ({
    x: r.result.stats?.median_ns as number,
    y: r.view.usd_per_million as number,
    xLow: r.result.stats?.low_ns,
    xHigh: r.result.stats?.high_ns,
    label: !many || r.view.front ? short[priced.indexOf(r)] : undefined,
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
      "Of the rows on the line no other is both faster and cheaper. Bars are 95 % intervals of the time.",
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
