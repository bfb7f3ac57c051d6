// Many points over time, on a canvas by uPlot, with a window that can be moved by mouse and keys.
import uPlot from "uplot";
import { frame, label, logTicks, textWidth, ticks } from "./charts";
import { h, s } from "./dom";
import { responsive } from "./figures";
import { type Show, axisTexts, shorten } from "./format";
import type { Drawn } from "./share";
import { colour, seriesColour, seriesVariable } from "./theme";

export interface Line {
  name: string;
  colour?: number; // by its place unless given
  x: number[];
  low: number[];
  high?: number[]; // beside `low`, where several samples share a place
  middle?: number[]; // with `high`: between both
  joined?: boolean;
  // Where something begins anew, such as a process.
  breaks?: { x: number; name: string }[];
  ceiling?: number; // what is above would press the others into a line: it is marked at the top
}

export interface SeriesPlot {
  title: string;
  xTitle: string;
  lines: Line[];
  wholeX?: boolean; // places between whole numbers have none
  showX: Show;
  showY: Show;
}

const WHOLE = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

// All places of all lines, and for each line its values there.
function align(lines: Line[]): uPlot.AlignedData {
  const places = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const index = new Map(places.map((x, i) => [x, i]));
  const data: (number | null)[][] = [];
  for (const line of lines) {
    for (const values of [line.low, line.high, line.middle]) {
      if (!values) continue;
      const column: (number | null)[] = new Array(places.length).fill(null);
      line.x.forEach((x, i) => (column[index.get(x) as number] = values[i]));
      data.push(column);
    }
  }
  return [places, ...data] as uPlot.AlignedData;
}

const FLAG_ROWS = 8; // above the picture, one for each of the first lines
const FLAG = 7; // px

// A flag for each break, above the picture; and what is over the top, at the top.
function drawEdges(lines: Line[], top: number): (u: uPlot) => void {
  const rows = flagRows(lines);
  return (u) => {
    const ratio = devicePixelRatio;
    const { left, width, top: edge } = u.bbox;
    const inside = (at: number): boolean => at >= left && at <= left + width;
    u.ctx.save();
    lines.forEach((line, i) => {
      u.ctx.fillStyle = colour(seriesVariable(line.colour ?? i));
      for (const { x } of line.breaks ?? []) {
        const at = u.valToPos(x, "x", true);
        if (inside(at))
          u.ctx.fillRect(at, edge - FLAG * (rows - (i % FLAG_ROWS)) * ratio, 2 * ratio, (FLAG - 1) * ratio);
      }
      (line.high ?? line.low).forEach((y, k) => {
        const at = y > top ? u.valToPos(line.x[k], "x", true) : -1;
        if (!inside(at)) return;
        u.ctx.beginPath();
        u.ctx.moveTo(at, edge);
        u.ctx.lineTo(at + 3.5 * ratio, edge + 6 * ratio);
        u.ctx.lineTo(at - 3.5 * ratio, edge + 6 * ratio);
        u.ctx.fill();
      });
    });
    u.ctx.restore();
  };
}

const flagRows = (lines: Line[]): number => (lines.some((line) => line.breaks) ? Math.min(FLAG_ROWS, lines.length) : 0);

// How many values are above the ceilings, where these are much lower than the longest.
export function ceiling(lines: Line[]): { top: number; above: number } {
  const all = lines.flatMap((line) => line.high ?? line.low);
  const most = all.reduce((a, b) => Math.max(a, b), 0);
  const top = Math.max(0, ...lines.map((line) => line.ceiling ?? Infinity));
  return top > 0 && top < most / 2 ? { top, above: all.filter((y) => y > top).length } : { top: Infinity, above: 0 };
}

// What is far above the upper quartile, as in histograms.
export function fence(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const quarter = Math.floor(sorted.length / 4);
  return sorted.length < 4 ? Infinity : sorted[3 * quarter] + 6 * (sorted[3 * quarter] - sorted[quarter]);
}

function zoomKeys(u: uPlot, full: [number, number], event: KeyboardEvent): boolean {
  const low = u.scales.x.min as number;
  const high = u.scales.x.max as number;
  const size = high - low;
  const set = (min: number, max: number): void =>
    u.setScale("x", { min: Math.max(full[0], min), max: Math.min(full[1], max) });
  switch (event.key) {
    case "+":
    case "=":
      set(low + size / 4, high - size / 4);
      return true;
    case "-":
      set(low - size / 2, high + size / 2);
      return true;
    case "ArrowRight":
      if (high < full[1]) set(low + size / 4, high + size / 4);
      return true;
    case "ArrowLeft":
      if (low > full[0]) set(low - size / 4, high - size / 4);
      return true;
    case "0":
      set(...full);
      return true;
    default:
      return false;
  }
}

// What a plot shows now, as SVG.
function plotSvg(spec: SeriesPlot, plot: uPlot, width: number, log: boolean): SVGSVGElement {
  const bottom = 300;
  const f = frame(width, bottom + 40 + 18 * spec.lines.length);
  const axis = (range: uPlot.Scale, from: number, to: number, log = false) => {
    const [low, high] = [range.min ?? 0, range.max ?? 1];
    const at = (v: number): number =>
      from + (to - from) * (log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
    return { low, high, log, at };
  };
  const y = axis(plot.scales.y, bottom, 12, log);
  const yTicks = log ? logTicks(y.low, y.high) : ticks(y, 6);
  const yTexts = axisTexts(yTicks, spec.showY);
  const left = 14 + Math.max(20, ...yTexts.map(textWidth));
  const x = axis(plot.scales.x, left, width - 12);
  const xTicks = ticks(x, Math.max(2, Math.floor(width / 90)));
  yTicks.forEach((v, i) =>
    f.svg.append(
      s("line", { class: "grid", x1: left, x2: width - 12, y1: y.at(v), y2: y.at(v) }),
      s("text", { class: "axis", x: left - 5, y: y.at(v) + 4, "text-anchor": "end" }, yTexts[i]),
    ),
  );
  axisTexts(xTicks, spec.showX).forEach((text, i) =>
    f.svg.append(
      s("line", { class: "grid", x1: x.at(xTicks[i]), x2: x.at(xTicks[i]), y1: 12, y2: bottom }),
      s("text", { class: "axis", x: x.at(xTicks[i]), y: bottom + 16, "text-anchor": "middle" }, text),
    ),
  );
  f.svg.append(s("text", { class: "axis title", x: width - 12, y: bottom + 32, "text-anchor": "end" }, spec.xTitle));
  spec.lines.forEach((line, i) => {
    const stroke = seriesColour(line.colour ?? i);
    const inside = line.x.map((_, k) => k).filter((k) => line.x[k] >= x.low && line.x[k] <= x.high);
    const point = (v: number, k: number): string =>
      `${x.at(line.x[k]).toFixed(1)} ${y.at(Math.min(v, y.high)).toFixed(1)}`;
    const path = (values: number[], order = inside): string => order.map((k) => point(values[k], k)).join("L");
    if (inside.length === 0) return;
    if (line.high)
      f.svg.append(
        s("path", {
          d: `M${path(line.high)}L${path(line.low, [...inside].reverse())}Z`,
          fill: stroke,
          "fill-opacity": 0.25,
        }),
      );
    const curve = line.high ? line.middle : line.joined ? line.low : undefined;
    if (curve) f.svg.append(s("path", { d: `M${path(curve)}`, fill: "none", stroke, "stroke-width": 1.5 }));
    if (!line.high && !line.joined)
      f.svg.append(
        s("path", {
          d: inside.map((k) => `M${point(line.low[k], k)}h0.1`).join(""),
          stroke,
          "stroke-width": 4,
          "stroke-linecap": "round",
        }),
      );
    const row = bottom + 44 + 18 * i;
    f.svg.append(
      s("rect", { x: 12, y: row - 9, width: 10, height: 10, fill: stroke }),
      label(line.name, 28, row, width - 40),
    );
  });
  return f.svg;
}

export function seriesPlot(spec: SeriesPlot): HTMLElement {
  const data = align(spec.lines);
  const places = data[0] as number[];
  const first = places[0] ?? 0;
  const last = places[places.length - 1] ?? 1;
  const full: [number, number] = last > first ? [first, last] : [first - 0.5, first + 0.5];
  const { top } = ceiling(spec.lines);
  const values = spec.lines.flatMap((line) => [line.low, line.high ?? []]).map((v) => v.filter((y) => y > 0));
  // Lines far apart keep their shapes on a logarithmic axis.
  const lows = values.filter((v) => v.length > 0).map((v) => v.reduce((a, b) => Math.min(a, b)));
  const log = lows.length > 1 && Math.max(...lows) > 5 * Math.min(...lows);
  // All of what is below the ceiling, with a little room.
  const range = (_: uPlot, low: number | null, high: number | null): [number, number] => {
    if (low === null || high === null) return [0, 1];
    const highest = Math.min(high, top);
    const lowest = Math.min(low, highest);
    if (log) return [lowest / 1.1, highest * 1.1];
    const room = 0.06 * (highest - lowest) || 0.1 * Math.abs(highest) || 1;
    return [lowest >= 0 ? Math.max(0, lowest - room) : lowest - room, highest === top ? highest : highest + room];
  };
  const flags = flagRows(spec.lines);
  return responsive((width) => {
    const box = h("div", {
      class: "series",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "chart",
      "aria-label": `${spec.title}. Plus and minus zoom, arrow keys move, 0 shows all.`,
    });
    const grid = { stroke: colour("--grid"), width: 1 };
    const bands: uPlot.Band[] = [];
    const series: uPlot.Series[] = [{ label: spec.xTitle, value: (_, v) => (v === null ? "" : spec.showX(v)) }];
    spec.lines.forEach((line, i) => {
      const stroke = colour(seriesVariable(line.colour ?? i));
      const common: uPlot.Series = {
        stroke,
        width: line.joined ? 1.5 : 0,
        spanGaps: true,
        points: { show: !line.joined || line.x.length < 200, size: 4, stroke, fill: stroke },
        value: (_, v) => (v === null ? "" : spec.showY(v)),
      };
      const title = shorten(line.name, 48);
      if (!line.high) {
        series.push({ ...common, label: title });
        return;
      }
      // Points at both ends would look like two kinds of samples.
      const edge: uPlot.Series = { ...common, width: 0, points: { show: false } };
      series.push({ ...edge, label: `${title}, shortest` }, { ...edge, label: `${title}, longest` });
      bands.push({ series: [series.length - 1, series.length - 2], fill: `${stroke}40` });
      if (line.middle) series.push({ ...common, width: 1.5, points: { show: false }, label: `${title}, median` });
    });
    const plot = new uPlot(
      {
        width,
        height: Math.min(340, Math.max(220, Math.round(0.45 * width))),
        series,
        bands,
        scales: { x: { time: false, min: full[0], max: full[1] }, y: { distr: log ? 3 : 1, range } },
        padding: [8 + FLAG * flags, null, null, null],
        axes: [
          {
            stroke: colour("--muted"),
            grid,
            ticks: grid,
            space: 80,
            values: (_, v) => axisTexts(v, spec.showX),
            ...(spec.wholeX ? { incrs: WHOLE } : {}),
          },
          {
            stroke: colour("--muted"),
            grid,
            ticks: grid,
            size: (_, texts) => 18 + Math.max(30, ...(texts ?? []).map(textWidth)),
            values: (_, v) => axisTexts(v, spec.showY),
            ...(log
              ? {
                  splits: (_: uPlot, __: number, low: number, high: number) => logTicks(low, high),
                  filter: (_: uPlot, v: number[]) => v,
                }
              : {}),
          },
        ],
        cursor: { drag: { x: true, y: false } },
        legend: { show: spec.lines.length <= 8 },
        hooks: { draw: [drawEdges(spec.lines, top)] },
      },
      data,
      box,
    );
    box.addEventListener("keydown", (event) => {
      if (zoomKeys(plot, full, event)) event.preventDefault();
    });
    (box as HTMLElement & { plot?: uPlot }).plot = plot;
    (box as Drawn).asSvg = () => plotSvg(spec, plot, width, log);
    return box;
  });
}
