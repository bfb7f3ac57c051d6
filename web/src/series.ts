// Many points over time, on a canvas by uPlot, with a window that can be moved by mouse and keys.
import uPlot from "uplot";
import { h, responsive } from "./dom";
import { Show, axisTexts, shorten } from "./format";
import { colour, seriesVariable } from "./theme";

export interface Line {
  name: string;
  x: number[];
  low: number[];
  high?: number[]; // beside `low`, where several samples share a place
  joined?: boolean;
  // Where something begins anew, such as a process.
  breaks?: { x: number; name: string }[];
}

export interface SeriesPlot {
  title: string;
  xTitle: string;
  lines: Line[];
  showX: Show;
  showY: Show;
}

// All places of all lines, and for each line its values there.
function align(lines: Line[]): uPlot.AlignedData {
  const places = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const index = new Map(places.map((x, i) => [x, i]));
  const data: (number | null)[][] = [];
  for (const line of lines) {
    for (const values of [line.low, line.high]) {
      if (!values) continue;
      const column: (number | null)[] = new Array(places.length).fill(null);
      line.x.forEach((x, i) => (column[index.get(x) as number] = values[i]));
      data.push(column);
    }
  }
  return [places, ...data] as uPlot.AlignedData;
}

function drawBreaks(lines: Line[]): (u: uPlot) => void {
  return (u) => {
    const ratio = devicePixelRatio;
    const { left, width, top } = u.bbox;
    u.ctx.save();
    lines.forEach((line, i) => {
      u.ctx.strokeStyle = u.ctx.fillStyle = colour(seriesVariable(i));
      for (const { x } of line.breaks ?? []) {
        const at = u.valToPos(x, "x", true);
        if (at < left || at > left + width) continue;
        // A flag for each, in a row of its own.
        u.ctx.fillRect(at, top + 7 * i * ratio, 2 * ratio, 6 * ratio);
      }
    });
    u.ctx.restore();
  };
}

function zoomKeys(u: uPlot, full: [number, number], event: KeyboardEvent): boolean {
  const low = u.scales.x.min as number;
  const high = u.scales.x.max as number;
  const size = high - low;
  const set = (min: number, max: number): void =>
    u.setScale("x", { min: Math.max(full[0], min), max: Math.min(full[1], max) });
  switch (event.key) {
    case "+": case "=": set(low + size / 4, high - size / 4); return true;
    case "-": set(low - size / 2, high + size / 2); return true;
    case "ArrowRight": if (high < full[1]) set(low + size / 4, high + size / 4); return true;
    case "ArrowLeft": if (low > full[0]) set(low - size / 4, high - size / 4); return true;
    case "0": set(...full); return true;
    default: return false;
  }
}

export function seriesPlot(spec: SeriesPlot): HTMLElement {
  const data = align(spec.lines);
  const places = data[0] as number[];
  const first = places[0] ?? 0;
  const last = places[places.length - 1] ?? 1;
  const full: [number, number] = last > first ? [first, last] : [first - 0.5, first + 0.5];
  const values = spec.lines.flatMap((line) => [line.low, line.high ?? []]).map((v) => v.filter((y) => y > 0));
  // Lines far apart keep their shapes on a logarithmic axis.
  const lows = values.filter((v) => v.length > 0).map((v) => v.reduce((a, b) => Math.min(a, b)));
  const log = lows.length > 1 && Math.max(...lows) > 5 * Math.min(...lows);
  return responsive((width) => {
    const box = h("div", {
      class: "series", tabindex: 0, role: "application", "aria-roledescription": "chart",
      "aria-label": `${spec.title}. Plus and minus zoom, arrow keys move, 0 shows all.`,
    });
    const grid = { stroke: colour("--grid"), width: 1 };
    const series: uPlot.Series[] = [{ label: spec.xTitle, value: (_, v) => (v === null ? "" : spec.showX(v)) }];
    spec.lines.forEach((line, i) => {
      const stroke = colour(seriesVariable(i));
      const common: uPlot.Series = {
        stroke, width: line.joined ? 1.5 : 0, spanGaps: true,
        points: { show: !line.joined || line.x.length < 200, size: 4, stroke, fill: stroke },
        value: (_, v) => (v === null ? "" : spec.showY(v)),
      };
      series.push({ ...common, label: shorten(line.name, 48) + (line.high ? ", shortest" : "") });
      if (line.high) series.push({ ...common, label: `${shorten(line.name, 48)}, longest` });
    });
    const plot = new uPlot({
      width, height: Math.min(340, Math.max(220, Math.round(0.45 * width))), series,
      scales: { x: { time: false, min: full[0], max: full[1] }, y: { distr: log ? 3 : 1 } },
      axes: [
        { stroke: colour("--muted"), grid, ticks: grid, space: 80, values: (_, v) => axisTexts(v, spec.showX) },
        { stroke: colour("--muted"), grid, ticks: grid, size: 68, values: (_, v) => axisTexts(v.map((y) => y ?? NaN), spec.showY).map((t) => (t === "n/a" ? "" : t)) },
      ],
      cursor: { drag: { x: true, y: false } },
      legend: { show: spec.lines.length <= 8 },
      hooks: { draw: [drawBreaks(spec.lines)] },
    }, data, box);
    box.addEventListener("keydown", (event) => {
      if (zoomKeys(plot, full, event)) event.preventDefault();
    });
    (box as HTMLElement & { plot?: uPlot }).plot = plot;
    return box;
  });
}
