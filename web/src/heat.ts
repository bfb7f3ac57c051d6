// A map of figures over two lists of sizes.
import { frame, label, textWidth } from "./charts";
import { interactive, s } from "./dom";
import { responsive } from "./figures";
import { type Show, axisTexts, significant } from "./format";
import { seriesColour } from "./theme";

export interface Cell {
  x: number;
  y: number;
  value: number;
  tip: string[];
}

export interface HeatMap {
  title: string;
  xTitle: string;
  yTitle: string;
  cells: Cell[];
  show: Show;
}

const HIGH = 30; // px of a cell
const SHADES: [number, number] = [0.08, 0.6]; // so that what is written on them is read

const sorted = (values: number[]): number[] => [...new Set(values)].sort((a, b) => a - b);

export function heatMap(map: HeatMap): HTMLElement {
  const xs = sorted(map.cells.map((c) => c.x));
  const ys = sorted(map.cells.map((c) => c.y));
  const values = map.cells.map((c) => c.value).filter((v) => v > 0);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  // Figures that are far apart are told apart by their ratio.
  const share = (v: number): number =>
    most <= least ? 0 : most / least > 8 ? Math.log(v / least) / Math.log(most / least) : (v - least) / (most - least);
  return responsive((width) => {
    const texts = axisTexts(ys, significant);
    const left = 12 + Math.max(...texts.map(textWidth), 20);
    const wide = Math.min(120, (width - left - 4) / xs.length);
    const top = 34;
    const f = frame(width, top + ys.length * HIGH + 6);
    f.svg.append(
      s("text", { class: "axis title", x: 0, y: 12 }, `${map.yTitle} ↓`),
      s("text", { class: "axis title", x: left + xs.length * wide, y: 12, "text-anchor": "end" }, `${map.xTitle} →`),
    );
    axisTexts(xs, significant).forEach((text, i) =>
      f.svg.append(label(text, left + (i + 0.5) * wide, top - 5, wide, { class: "axis", "text-anchor": "middle" })),
    );
    texts.forEach((text, i) =>
      f.svg.append(s("text", { class: "axis", x: left - 6, y: top + i * HIGH + 20, "text-anchor": "end" }, text)),
    );
    for (const cell of map.cells) {
      const [x, y] = [left + xs.indexOf(cell.x) * wide, top + ys.indexOf(cell.y) * HIGH];
      const group = s(
        "g",
        {},
        s("rect", {
          class: "box",
          x,
          y,
          width: wide - 1,
          height: HIGH - 1,
          fill: seriesColour(0),
          "fill-opacity": SHADES[0] + (SHADES[1] - SHADES[0]) * share(cell.value),
        }),
        label(map.show(cell.value), x + wide / 2, y + 19, wide - 4, { class: "inside", "text-anchor": "middle" }),
      );
      f.svg.append(group);
      f.marks.push({ element: group, tip: cell.tip });
    }
    interactive(f.svg, map.title, f.marks);
    return f.svg;
  });
}
