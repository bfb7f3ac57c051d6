// Pictures in SVG: few marks, each of which says what it is.
import { type Mark, interactive, s } from "./dom";
import { responsive } from "./figures";
import { type Show, axisTexts, distinct, shorten } from "./format";
import { dashes, seriesColour } from "./theme";

const ruler = document.createElement("canvas").getContext("2d");

export function textWidth(text: string): number {
  if (!ruler) return 7 * text.length;
  ruler.font = '12px system-ui, "Liberation Sans", sans-serif';
  return ruler.measureText(text.slice(0, 400)).width;
}

// As much of a text as fits.
export function fit(text: string, width: number): string {
  let shown = text.slice(0, 2000) === text ? text : shorten(text, 400);
  let wide = textWidth(shown);
  while (wide > width && shown.length > 1) {
    shown = shorten(text, Math.max(1, Math.min([...shown].length - 1, Math.floor((shown.length * width) / wide))));
    wide = textWidth(shown);
  }
  return wide > width ? "" : shown;
}

// ---- Axes ----

export interface Scale {
  low: number;
  high: number;
  log: boolean;
  at: (value: number) => number; // px
}

export function scale(
  values: number[],
  from: number,
  to: number,
  options: { zero?: boolean; log?: boolean } = {},
): Scale {
  const finite = values.filter((v) => Number.isFinite(v) && (!options.log || v > 0));
  let low = finite.length ? Math.min(...finite) : 0;
  let high = finite.length ? Math.max(...finite) : 1;
  const log = Boolean(options.log) && low > 0;
  if (options.zero && !log) {
    low = Math.min(0, low);
    high = Math.max(0, high);
  }
  if (low === high) {
    const half = Math.abs(low) * 0.1 || 0.5;
    high += half;
    low -= log || (options.zero && low === 0) ? 0 : half;
  } else if (!options.zero || log) {
    const edge = log ? (high / low) ** 0.04 : 0.04 * (high - low);
    low = log ? low / edge : low - edge;
    high = log ? high * edge : high + edge;
  }
  const place = (v: number): number => (log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
  return { low, high, log, at: (v) => from + (to - from) * place(v) };
}

// The numbers that a scale must hold: all values, and of their intervals as much as leaves the values their
// room. One that is wider, as on a machine that was disturbed, goes on beyond the picture.
function extent(values: (number | null)[], ends: (number | null | undefined)[]): number[] {
  const known = values.filter((v): v is number => v !== null && Number.isFinite(v));
  if (known.length === 0) return [];
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const room = Math.max(high - low, 0.5 * Math.max(Math.abs(low), Math.abs(high)));
  const least = low >= 0 ? Math.max(low / 2, low - room) : low - room;
  return [
    ...known,
    ...ends
      .filter((v): v is number => typeof v === "number" && Number.isFinite(v))
      .map((v) => Math.min(high + room, Math.max(least, v))),
  ];
}

// The path of an interval from `low` to `high` across or along the scale: its ends have bars, or, where it
// goes on beyond the picture, arrows.
function whisker(axis: Scale, low: number, high: number, at: number, upright: boolean): string {
  const point = (along: number, across: number): string =>
    upright ? `${at + across} ${along}` : `${along} ${at + across}`;
  const edge = (v: number): { px: number; beyond: boolean } => {
    const inside = Math.min(axis.high, Math.max(axis.low, v));
    return { px: axis.at(inside), beyond: inside !== v };
  };
  const [from, to] = [edge(low), edge(high)];
  const end = (e: { px: number; beyond: boolean }, back: number): string =>
    e.beyond
      ? `M${point(e.px + back, -4)}L${point(e.px, 0)}L${point(e.px + back, 4)}`
      : `M${point(e.px, -4)}L${point(e.px, 4)}`;
  const back = Math.sign(to.px - from.px) * 6 || 6;
  return `M${point(from.px, 0)}L${point(to.px, 0)}${end(from, back)}${end(to, -back)}`;
}

// Round numbers on a scale.
export function ticks(axis: Scale, most: number): number[] {
  const found: number[] = [];
  if (axis.log && axis.high / axis.low > 8) {
    for (let power = Math.floor(Math.log10(axis.low)); power <= Math.ceil(Math.log10(axis.high)); power++)
      for (const digit of [1, 2, 5]) found.push(digit * 10 ** power);
  } else {
    const raw = (axis.high - axis.low) / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * ([1, 2, 5, 10].find((f) => f * power >= raw) ?? 10);
    for (let i = Math.ceil(axis.low / step); i * step <= axis.high; i++) found.push(i * step);
  }
  const inside = found.filter((v) => v >= axis.low && v <= axis.high);
  const every = Math.ceil(inside.length / Math.max(2, most));
  return inside.filter((_, i) => i % every === 0);
}

export const logTicks = (low: number, high: number): number[] => ticks({ low, high, log: true, at: (v) => v }, 7);

export interface Frame {
  svg: SVGSVGElement;
  marks: Mark[];
}

export function frame(width: number, height: number): Frame {
  return { svg: s("svg", { viewBox: `0 0 ${width} ${height}`, width, height }), marks: [] };
}

// With round numbers, or with those that are `given`, as far as they have room.
function xAxis(f: Frame, axis: Scale, top: number, bottom: number, width: number, show: Show, given?: number[]): void {
  const at = given ?? ticks(axis, Math.max(2, Math.floor(width / 90)));
  const edge = Number(f.svg.getAttribute("width"));
  let free = -Infinity;
  axisTexts(at, show).forEach((text, i) => {
    const x = axis.at(at[i]);
    const half = textWidth(text) / 2;
    const middle = Math.max(half, Math.min(x, edge - half));
    f.svg.append(s("line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom }));
    if (middle - half < free) return;
    free = middle + half + 8;
    f.svg.append(s("text", { class: "axis", x: middle, y: bottom + 16, "text-anchor": "middle" }, text));
  });
}

interface Entry {
  name: string;
  sign: (x: number, y: number) => SVGElement;
}

const LEGEND_ROW = 18;

// What colours and shapes stand for, below a picture; returns the height that it takes.
function legendHeight(entries: Entry[], width: number): number {
  return LEGEND_ROW * Math.ceil(entries.length / legendColumns(entries, width));
}

function legendColumns(entries: Entry[], width: number): number {
  const widest = Math.max(0, ...entries.map((e) => textWidth(e.name.slice(0, 60)))) + 40;
  return Math.max(1, Math.min(entries.length, Math.floor(width / Math.min(widest, 420))));
}

function drawLegend(f: Frame, entries: Entry[], top: number, width: number): void {
  const columns = legendColumns(entries, width);
  const wide = Math.min(width / columns, 420);
  entries.forEach((entry, i) => {
    const x = (i % columns) * wide + 12;
    const y = top + LEGEND_ROW * Math.floor(i / columns);
    f.svg.append(entry.sign(x, y - 4), label(entry.name, x + 12, y, wide - 26));
  });
}

export function label(
  text: string,
  x: number,
  y: number,
  width: number,
  attributes: Record<string, string | number> = {},
): SVGTextElement {
  return s("text", { x, y, ...attributes }, fit(text, width));
}

// Names stand beside their rows where there is room, above them otherwise.
function rowLayout(width: number, names: string[]): { left: number; above: number } {
  const longest = Math.max(...names.map((n) => textWidth(n.slice(0, 60)))) + 12;
  return width >= 560 ? { left: Math.min(longest, 0.36 * width), above: 0 } : { left: 0, above: 16 };
}

// ---- Distributions ----

export interface Spread {
  name: string;
  low: number;
  high: number;
  counts: number[];
  above: number;
  median: number | null;
  medianLow: number | null;
  medianHigh: number | null;
  tip: string[];
  colour: number;
}

const COMMON_AXIS_MAX = 3; // times further apart than this have axes of their own

// One hill per row, with the median and its interval: over a common axis, unless that would press
// the hills into lines.
export const apart = (rows: { low: number; high: number }[]): boolean =>
  Math.max(...rows.map((r) => r.low)) > COMMON_AXIS_MAX * Math.min(...rows.map((r) => r.high));

export function spreads(title: string, rows: Spread[], show: Show): HTMLElement {
  return responsive((width) => {
    const { left, above } = rowLayout(
      width,
      rows.map((r) => r.name),
    );
    const pitch = 46 + above + (apart(rows) ? 22 : 0);
    const height = rows.length * pitch + (apart(rows) ? 4 : 26);
    const f = frame(width, height);
    const place = (some: Spread[]): Scale =>
      scale(
        extent(
          some.flatMap((r) => [r.low, r.high, r.median]),
          some.flatMap((r) => [r.medianLow, r.medianHigh]),
        ),
        left + 6,
        width - 14,
      );
    const common = apart(rows) ? null : place(rows);
    if (common) xAxis(f, common, 4, height - 22, width - left, show);
    rows.forEach((row, i) => {
      const axis = common ?? place([row]);
      const base = i * pitch + 46 + above - 4;
      if (!common) xAxis(f, axis, base - 36, base + 2, width - left, show);
      const most = Math.max(1, ...row.counts);
      const step = (axis.at(row.high) - axis.at(row.low)) / row.counts.length;
      const x0 = axis.at(row.low);
      let path = `M${x0} ${base}`;
      row.counts.forEach((c, k) => {
        const y = base - (36 * c) / most;
        path += `L${(x0 + k * step).toFixed(1)} ${y.toFixed(1)}L${(x0 + (k + 1) * step).toFixed(1)} ${y.toFixed(1)}`;
      });
      path += `L${axis.at(row.high)} ${base}Z`;
      const group = s(
        "g",
        {},
        s("rect", { class: "hit", x: 0, y: base - 42 - above, width, height: pitch }),
        s("line", { class: "base", x1: left + 6, x2: width - 14, y1: base, y2: base }),
        step > 0.05
          ? s("path", {
              d: path,
              fill: seriesColour(row.colour),
              "fill-opacity": 0.35,
              stroke: seriesColour(row.colour),
            })
          : s("line", { x1: x0, x2: x0, y1: base - 36, y2: base, stroke: seriesColour(row.colour), "stroke-width": 2 }),
      );
      if (row.medianLow !== null && row.medianHigh !== null) {
        const [from, to] = [axis.at(Math.max(axis.low, row.medianLow)), axis.at(Math.min(axis.high, row.medianHigh))];
        group.append(
          s("rect", { x: from, y: base - 5, height: 8, fill: seriesColour(row.colour), width: Math.max(2, to - from) }),
        );
        // It goes on beyond the picture.
        if (row.medianHigh > axis.high)
          group.append(s("path", { d: `M${to} ${base - 8}l8 7-8 7z`, fill: seriesColour(row.colour) }));
        if (row.medianLow < axis.low)
          group.append(s("path", { d: `M${from} ${base - 8}l-6 7 6 7z`, fill: seriesColour(row.colour) }));
      }
      if (row.median !== null)
        group.append(
          s("line", { class: "median", x1: axis.at(row.median), x2: axis.at(row.median), y1: base - 38, y2: base + 4 }),
        );
      group.append(
        above
          ? label(row.name, 10, base - 40, width - 16)
          : label(row.name, left - 6, base - 10, left - 6, { "text-anchor": "end" }),
      );
      if (row.above > 0)
        group.append(
          label(`${row.above} above →`, width - 14, base - 24, 140, { "text-anchor": "end", class: "axis over" }),
        );
      f.svg.append(group);
      f.marks.push({ element: group, tip: [row.name, ...row.tip] });
    });
    interactive(f.svg, title, f.marks);
    return f.svg;
  });
}

// ---- Bars ----

export interface Part {
  name: string;
  value: number;
  tip: string[];
  colour?: number;
  failed?: boolean;
  quiet?: boolean;
}

export interface Bar {
  name: string;
  parts: Part[];
  marked?: string;
}

const LEGEND_MAX = 16;

// Each kind of part once, in the order in which they are met.
function legendOf(bars: Bar[]): Entry[] {
  const found = new Map<string, Entry>();
  for (const bar of bars)
    bar.parts.forEach((part, k) => {
      if (part.value <= 0 || part.failed || found.has(part.name)) return;
      found.set(part.name, {
        name: part.name,
        sign: (x, y) =>
          s("rect", {
            x: x - 5,
            y: y - 5,
            width: 11,
            height: 11,
            class: part.quiet ? "quiet" : null,
            fill: part.quiet ? null : seriesColour(part.colour ?? k),
            "fill-opacity": part.quiet ? null : 0.55,
          }),
      });
    });
  return found.size > 1 && found.size <= LEGEND_MAX ? [...found.values()] : [];
}

// Each row is a bar of parts behind each other: a ledger, the segments of a program.
export function stacked(title: string, bars: Bar[], show: Show): HTMLElement {
  return responsive((width) => {
    const { left, above } = rowLayout(
      width,
      bars.map((b) => b.name),
    );
    const pitch = 34 + above;
    const signs = legendOf(bars);
    const bottom = bars.length * pitch + 4;
    const f = frame(width, bottom + 22 + (signs.length > 0 ? 8 : 0) + legendHeight(signs, width));
    const sums = bars.map((b) => b.parts.reduce((sum, p) => sum + Math.max(0, p.value), 0));
    const axis = scale([0, ...sums], left + 6, width - 24, { zero: true });
    xAxis(f, axis, 4, bottom, width - left, show);
    drawLegend(f, signs, bottom + 38, width);
    bars.forEach((bar, i) => {
      const top = i * pitch + above + 6;
      let from = 0;
      const failures: SVGElement[] = [];
      f.svg.append(
        above
          ? label(bar.name, 10, top - 5, width - 16)
          : label(bar.name, left - 6, top + 16, left - 6, { "text-anchor": "end" }),
      );
      bar.parts.forEach((part, k) => {
        const value = Math.max(0, part.value);
        const x = axis.at(from);
        const wide = axis.at(from + value) - x;
        from += value;
        const group = s(
          "g",
          {},
          s("rect", {
            x,
            y: top,
            width: Math.max(part.failed ? 14 : 0.5, wide - (wide > 4 ? 1 : 0)),
            height: 24,
            class: part.failed ? "failed" : part.quiet ? "quiet" : null,
            fill: part.failed || part.quiet ? null : seriesColour(part.colour ?? k),
            "fill-opacity": part.quiet ? null : 0.55,
          }),
        );
        if (wide > 40)
          group.append(label((part.failed ? "✕ " : "") + part.name, x + 4, top + 16, wide - 8, { class: "inside" }));
        else if (part.failed) group.append(label("✕", x + 1, top + 16, 12, { class: "inside" }));
        // What failed is seen, however short it is: it stands above the others.
        if (part.failed) failures.push(group);
        else f.svg.append(group);
        f.marks.push({ element: group, tip: part.tip });
      });
      f.svg.append(...failures);
      if (bar.marked)
        f.svg.append(s("text", { class: "marked", x: Math.min(axis.at(from) + 4, width - 18), y: top + 17 }, "◀"));
    });
    interactive(f.svg, title, f.marks);
    return f.svg;
  });
}

export interface Range {
  name: string;
  value: number | null;
  low: number | null;
  high: number | null;
  tip: string[];
  sign?: Sign;
}

// What is known of a value: it is more than the origin, it is less, or neither.
export type Sign = "more" | "less" | "open";

export const signOf = (verdict: string): Sign =>
  verdict === "slower" ? "more" : verdict === "faster" ? "less" : "open";
export const SIGNS = "Squares are slower, full circles faster; hollow circles are the same, or not known to differ.";

// Values with their intervals: bars from `origin`, or dots for ratios.
export function ranges(
  title: string,
  rows: Range[],
  show: Show,
  options: { origin: number; dots?: boolean; log?: boolean },
): HTMLElement {
  return responsive((width) => {
    const { left, above } = rowLayout(
      width,
      rows.map((r) => r.name),
    );
    const pitch = 26 + above;
    const height = rows.length * pitch + 26;
    const f = frame(width, height);
    const values = extent(
      [options.origin, ...rows.map((r) => r.value)],
      rows.flatMap((r) => [r.low, r.high]),
    );
    const axis = scale(values, left + 6, width - 24, { zero: !options.dots, log: options.log });
    const origin = axis.at(options.origin);
    xAxis(f, axis, 4, height - 22, width - left, show);
    f.svg.append(s("line", { class: "origin", x1: origin, x2: origin, y1: 4, y2: height - 22 }));
    rows.forEach((row, i) => {
      const top = i * pitch + above + 3;
      const middle = top + 10;
      const group = s("g", {}, s("rect", { class: "hit", x: 0, y: i * pitch, width, height: pitch }));
      group.append(
        above
          ? label(row.name, 10, top - 3, width - 16)
          : label(row.name, left - 6, middle + 4, left - 6, { "text-anchor": "end" }),
      );
      if (row.value !== null) {
        const x = axis.at(row.value);
        const fill = row.sign === "more" ? seriesColour(1) : seriesColour(0);
        if (!options.dots)
          group.append(
            s("rect", {
              x: Math.min(origin, x),
              y: top,
              width: Math.max(1, Math.abs(x - origin)),
              height: 18,
              fill,
              "fill-opacity": 0.55,
            }),
          );
        if (row.low !== null && row.high !== null)
          group.append(s("path", { class: "whisker", d: whisker(axis, row.low, row.high, middle, false) }));
        if (options.dots)
          group.append(
            row.sign === "more"
              ? s("rect", { class: "more", x: x - 5, y: middle - 5, width: 10, height: 10, fill })
              : s(
                  "circle",
                  row.sign === "open"
                    ? { class: "open", cx: x, cy: middle, r: 5 }
                    : { class: "less", cx: x, cy: middle, r: 5, fill },
                ),
          );
      }
      f.svg.append(group);
      f.marks.push({ element: group, tip: [row.name, ...row.tip] });
    });
    interactive(f.svg, title, f.marks);
    return f.svg;
  });
}

// ---- Curves ----

export interface Point {
  x: number;
  y: number;
  low?: number | null;
  high?: number | null;
  xLow?: number | null; // the same across
  xHigh?: number | null;
  tip: string[];
  hollow?: boolean;
  label?: string; // beside it, where there is room
  choose?: () => void; // when it is clicked
}

export interface Curve {
  name: string;
  points: Point[];
  line: boolean;
  step?: boolean;
  colour?: number; // by its place among the curves unless given
  along?: { x: number; y: number }[]; // what the line is drawn through instead of the points
}

export interface Curves {
  title: string;
  xTitle: string;
  yTitle: string;
  curves: Curve[];
  showX: Show;
  showY: Show;
  logX?: boolean;
  logY?: boolean;
  lines?: { y: number; name: string }[];
  marks?: { x: number; name: string; colour: number }[]; // places on the axis below
  ticksX?: number[]; // instead of round numbers
  beside?: boolean; // points with intervals at the same place stand beside each other
}

const SHAPES = 4;

function shape(index: number, x: number, y: number, hollow: boolean): SVGElement {
  const paint = {
    fill: hollow ? "var(--surface)" : seriesColour(index),
    stroke: seriesColour(index),
    "stroke-width": 2,
  };
  switch (index % SHAPES) {
    case 0:
      return s("circle", { cx: x, cy: y, r: 4.5, ...paint });
    case 1:
      return s("rect", { x: x - 4, y: y - 4, width: 8, height: 8, ...paint });
    case 2:
      return s("path", { d: `M${x} ${y - 5.5}l5.5 9.5h-11z`, ...paint });
    default:
      return s("path", { d: `M${x} ${y - 6}l6 6-6 6-6-6z`, ...paint });
  }
}

interface Area {
  x: number;
  y: number;
  w: number;
  h: number;
}

const overlaps = (a: Area, b: Area): boolean =>
  a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

// The name of a point, where it covers nothing: right, left, above or below; nowhere if there is no room.
function labelPoint(f: Frame, text: string, x: number, y: number, left: number, right: number, taken: Area[]): void {
  const shown = shorten(text, 32);
  const w = textWidth(shown);
  const places = [
    [x + 9, y + 4],
    [x - 9 - w, y + 4],
    [x - w / 2, y - 10],
    [x - w / 2, y + 20],
  ];
  for (const [lx, ly] of places) {
    const area = { x: lx, y: ly - 11, w, h: 14 };
    if (lx < left || lx + w > right || ly < 12 || taken.some((other) => overlaps(area, other))) continue;
    taken.push(area);
    f.svg.append(s("text", { x: lx, y: ly, class: "over" }, shown));
    return;
  }
}

export function curves(c: Curves): HTMLElement {
  return responsive((width) => {
    const legend =
      c.curves.length > 1
        ? c.curves.map((curve, i): Entry => ({
            name: curve.name,
            sign: (lx, ly) => shape(curve.colour ?? i, lx, ly, false),
          }))
        : [];
    const below = legendHeight(legend, width);
    const height = Math.min(380, Math.max(240, 0.5 * width)) + below;
    const bottom = height - 40 - below;
    const f = frame(width, height);
    const points = c.curves.flatMap((k) => k.points);
    const ys = extent(
      points.map((p) => p.y),
      points.flatMap((p) => [p.low, p.high]),
    );
    // Marks at the top have room.
    const most = Math.max(0, ...ys, ...(c.lines ?? []).map((l) => l.y));
    const y = scale([...ys, ...(c.lines ?? []).map((l) => l.y), ...(c.logY ? [] : [1.04 * most])], bottom, 22, {
      zero: !c.logY,
      log: c.logY,
    });
    const yTicks = ticks(y, 6);
    const yTexts = axisTexts(yTicks, c.showY);
    const left = 12 + Math.max(...yTexts.map(textWidth), 20);
    const x = scale(
      [
        ...extent(
          points.map((p) => p.x),
          points.flatMap((p) => [p.xLow, p.xHigh]),
        ),
        ...c.curves.flatMap((k) => (k.along ?? []).map((p) => p.x)),
        ...(c.marks ?? []).map((m) => m.x),
      ],
      left,
      width - 16,
      { log: c.logX },
    );
    yTicks.forEach((tick, i) =>
      f.svg.append(
        s("line", { class: "grid", x1: left, x2: width - 8, y1: y.at(tick), y2: y.at(tick) }),
        s("text", { class: "axis", x: left - 5, y: y.at(tick) + 4, "text-anchor": "end" }, yTexts[i]),
      ),
    );
    xAxis(f, x, 16, bottom, width, c.showX, c.ticksX);
    f.svg.append(
      s("text", { class: "axis title", x: 4, y: 12 }, c.yTitle),
      s("text", { class: "axis title", x: width - 8, y: bottom + 32, "text-anchor": "end" }, c.xTitle),
    );
    const taken: Area[] = [];
    const besides = c.beside ? c.curves.filter((k) => k.points.some((p) => typeof p.low === "number")) : [];
    c.curves.forEach((curve, place) => {
      const i = curve.colour ?? place;
      const sorted = [...curve.points].sort((a, b) => a.x - b.x);
      const joined = sorted.filter((p) => !p.hollow);
      const aside = besides.includes(curve) ? 4 * (besides.indexOf(curve) - (besides.length - 1) / 2) : 0;
      const px = (p: Point): number => x.at(p.x) + aside;
      const along = curve.along ?? joined;
      if (curve.line && along.length > 1)
        f.svg.append(
          s("path", {
            fill: "none",
            stroke: seriesColour(i),
            "stroke-width": 2,
            "stroke-dasharray": dashes(i),
            d: along
              .map((p, k) => {
                const at = x.at(p.x) + aside;
                return k === 0 ? `M${at} ${y.at(p.y)}` : curve.step ? `H${at}V${y.at(p.y)}` : `L${at} ${y.at(p.y)}`;
              })
              .join(""),
          }),
        );
      for (const p of sorted) {
        const group = s("g", {});
        if (typeof p.low === "number" && typeof p.high === "number")
          group.append(
            s("path", {
              fill: "none",
              stroke: seriesColour(i),
              "stroke-width": 1.5,
              d: whisker(y, p.low, p.high, px(p), true),
            }),
          );
        if (typeof p.xLow === "number" && typeof p.xHigh === "number")
          group.append(
            s("path", {
              fill: "none",
              stroke: seriesColour(i),
              "stroke-width": 1.5,
              d: whisker(x, p.xLow, p.xHigh, y.at(p.y), false),
            }),
          );
        group.append(shape(i, px(p), y.at(p.y), Boolean(p.hollow)));
        taken.push({ x: px(p) - 6, y: y.at(p.y) - 6, w: 12, h: 12 });
        f.svg.append(group);
        f.marks.push({ element: group, tip: p.tip, choose: p.choose });
      }
    });
    for (const p of points) if (p.label) labelPoint(f, p.label, x.at(p.x), y.at(p.y), left, width, taken);
    for (const mark of c.marks ?? [])
      f.svg.append(
        s("path", { d: `M${x.at(mark.x)} ${bottom}l5 8h-10z`, fill: seriesColour(mark.colour) }),
        s("line", {
          x1: x.at(mark.x),
          x2: x.at(mark.x),
          y1: 16,
          y2: bottom,
          stroke: seriesColour(mark.colour),
          "stroke-dasharray": "2 4",
        }),
        label(mark.name, Math.min(x.at(mark.x) + 4, width - 8), 26 + 14 * mark.colour, 160, {
          class: "over",
          "text-anchor": x.at(mark.x) > width - 170 ? "end" : "start",
        }),
      );
    for (const line of c.lines ?? [])
      f.svg.append(
        s("line", { class: "limit", x1: left, x2: width - 8, y1: y.at(line.y), y2: y.at(line.y) }),
        label(line.name, width - 10, y.at(line.y) - 5, width - left, { "text-anchor": "end", class: "limit-name" }),
      );
    drawLegend(f, legend, bottom + 52, width);
    interactive(f.svg, c.title, f.marks);
    return f.svg;
  });
}

// ---- Treemap ----

export interface Leaf {
  name: string;
  value: number;
  tip: string[];
  id?: string; // what it is elsewhere on the page
}

export interface Branch {
  name: string;
  value: number;
  tip: string[];
  leaves: Leaf[];
  colour: number;
}

interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

// Squarified: rows are filled along the shorter side as long as that makes boxes squarer.
function squarify(values: number[], box: Box): Box[] {
  const boxes: Box[] = [];
  const total = values.reduce((sum, v) => sum + v, 0);
  let rest = { ...box };
  let left = total;
  let i = 0;
  while (i < values.length && left > 0 && rest.w > 0 && rest.h > 0) {
    const side = Math.min(rest.w, rest.h);
    const area = (rest.w * rest.h) / left;
    let sum = 0;
    let worst = Infinity;
    let n = 0;
    while (i + n < values.length) {
      const next = sum + values[i + n];
      const depth = (next * area) / side;
      const first = (values[i] * area) / depth;
      const last = (values[i + n] * area) / depth;
      const ratio = Math.max(first / depth, depth / first, depth / (last || 1e-9), (last || 1e-9) / depth);
      if (n > 0 && ratio > worst) break;
      worst = ratio;
      sum = next;
      n++;
    }
    const depth = (sum * area) / side;
    let at = 0;
    for (let k = 0; k < n; k++) {
      const long = depth > 0 ? (values[i + k] * area) / depth : 0;
      boxes.push(
        rest.w >= rest.h
          ? { x: rest.x, y: rest.y + at, w: depth, h: long }
          : { x: rest.x + at, y: rest.y, w: long, h: depth },
      );
      at += long;
    }
    rest =
      rest.w >= rest.h
        ? { x: rest.x + depth, y: rest.y, w: rest.w - depth, h: rest.h }
        : { x: rest.x, y: rest.y + depth, w: rest.w, h: rest.h - depth };
    left -= sum;
    i += n;
  }
  return boxes;
}

const LEAF_MIN = 5; // px² below which a box is not drawn

export function treemap(title: string, branches: Branch[]): HTMLElement {
  return responsive((width) => {
    const boxed = branches.reduce((n, b) => n + Math.max(1, b.leaves.length), 0);
    const height = Math.round(Math.min(460, Math.max(260, 0.55 * width), 140 + 20 * boxed));
    const f = frame(width, height);
    const boxes = squarify(
      branches.map((b) => b.value),
      { x: 0, y: 0, w: width, h: height },
    );
    boxes.forEach((box, i) => {
      const branch = branches[i];
      const titled = box.w > 40 && box.h > 30;
      const inner = {
        x: box.x + 1,
        y: box.y + (titled ? 18 : 1),
        w: Math.max(0, box.w - 2),
        h: Math.max(0, box.h - (titled ? 19 : 2)),
      };
      const own = s(
        "g",
        {},
        s("rect", {
          x: box.x + 0.5,
          y: box.y + 0.5,
          width: Math.max(0, box.w - 1),
          height: Math.max(0, box.h - 1),
          fill: seriesColour(branch.colour),
          "fill-opacity": 0.45,
          class: "box",
        }),
      );
      if (titled) own.append(label(branch.name, box.x + 4, box.y + 13, box.w - 8, { class: "inside strong" }));
      f.svg.append(own);
      if (box.w * box.h >= LEAF_MIN) f.marks.push({ element: own, tip: branch.tip });
      const leaves = branch.leaves.filter((l) => l.value > 0);
      if (!titled || leaves.length === 0) return;
      const short = distinct(leaves.map((l) => l.name));
      // Leaves that aren't listed have their room, too.
      const rest = Math.max(0, branch.value - leaves.reduce((sum, l) => sum + l.value, 0));
      squarify([...leaves.map((l) => l.value), rest], inner).forEach((place, k) => {
        if (k === leaves.length || place.w * place.h < LEAF_MIN) return;
        const leaf = leaves[k];
        const group = s(
          "g",
          {},
          s("rect", {
            x: place.x + 0.5,
            y: place.y + 0.5,
            width: Math.max(0, place.w - 1),
            height: Math.max(0, place.h - 1),
            fill: "var(--surface)",
            "fill-opacity": 0.55,
            class: "box",
          }),
        );
        if (place.w > 44 && place.h > 16)
          group.append(label(short[k], place.x + 4, place.y + 13, place.w - 8, { class: "inside" }));
        f.svg.append(group);
        f.marks.push({ element: group, tip: leaf.tip, id: leaf.id });
      });
    });
    interactive(f.svg, title, f.marks);
    return f.svg;
  });
}

// ---- Gantt ----

export interface Task {
  lane: number;
  start: number;
  end: number;
  name: string;
  colour: number;
  tip: string[];
  marked?: boolean;
  thin?: boolean;
}

export function gantt(title: string, lanes: string[], tasks: Task[], show: Show): HTMLElement {
  return responsive((width) => {
    const { left, above } = rowLayout(width, lanes);
    const pitch = 30 + above;
    const height = lanes.length * pitch + 26;
    const f = frame(width, height);
    const axis = scale([0, ...tasks.map((t) => t.end)], left + 6, width - 14, { zero: true });
    xAxis(f, axis, 4, height - 22, width - left, show);
    lanes.forEach((lane, i) =>
      f.svg.append(
        above
          ? label(lane, 10, i * pitch + 13, width - 16)
          : label(lane, left - 6, i * pitch + 20, left - 6, { "text-anchor": "end" }),
      ),
    );
    for (const task of tasks) {
      const x = axis.at(task.start);
      const wide = Math.max(1, axis.at(task.end) - x - 1);
      const top = task.lane * pitch + above + (task.thin ? 10 : 4);
      const group = s(
        "g",
        {},
        s("rect", {
          x,
          y: top,
          width: wide,
          height: task.thin ? 8 : 20,
          fill: seriesColour(task.colour),
          "fill-opacity": 0.55,
          class: task.marked ? "bottleneck" : null,
        }),
      );
      if (wide > 20 && !task.thin) group.append(label(task.name, x + 4, top + 15, wide - 6, { class: "inside" }));
      f.svg.append(group);
      f.marks.push({ element: group, tip: task.tip });
    }
    interactive(f.svg, title, f.marks);
    return f.svg;
  });
}
