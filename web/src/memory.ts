// The memory of a run, node by node: what was in use before each, and what it added.
import { type Frame, type Scale, frame, scale, textWidth, ticks } from "./charts";
import { interactive, s } from "./dom";
import { figure, responsive } from "./figures";
import { axisTexts, bytes, integer } from "./format";
import { colourOf, seriesColour } from "./theme";
import type { Levels } from "./types";

const HEIGHT = 260;
const BOTTOM = HEIGHT - 34;
const TOP = 22;

// A column of the picture: nodes next to each other, of which the one that added most gives its name.
interface Column {
  first: number;
  last: number;
  shown: number;
}

const growth = (m: Levels, i: number): number => m.after_bytes[i] - m.before_bytes[i];

function columnsOf(m: Levels, most: number): Column[] {
  const n = m.node.length;
  const each = Math.max(1, Math.ceil(n / Math.max(1, most)));
  const columns: Column[] = [];
  for (let first = 0; first < n; first += each) {
    const last = Math.min(n, first + each) - 1;
    let shown = first;
    for (let i = first; i <= last; i++) if (growth(m, i) > growth(m, shown)) shown = i;
    columns.push({ first, last, shown });
  }
  return columns;
}

// The first node at whose end the allocator's peak is the one of the trace; -1: it was reached elsewhere.
const peakAt = (m: Levels): number => m.allocator_peak_bytes.indexOf(m.peak_bytes);

const signed = (value: number): string => `${value < 0 ? "−" : "+"}${bytes(Math.abs(value))}`;

function tipOf(m: Levels, column: Column): string[] {
  const { first, last, shown } = column;
  const others = last > first ? [`one of ${integer(last - first + 1)} nodes here; it added most`] : [];
  return [
    [m.op[shown], m.node[shown]].filter(Boolean).join(" "),
    `${bytes(m.before_bytes[shown])} in use before, ${bytes(m.after_bytes[shown])} after: ${signed(growth(m, shown))}`,
    `arena ${bytes(m.arena_bytes[shown])}`,
    ...others,
  ];
}

// Bytes from the bottom up; returns where the picture begins, beside their names.
function axis(f: Frame, y: Scale, width: number): number {
  // Round numbers of the unit that they are shown in.
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(1, y.high)) / 10));
  const marks = ticks({ ...y, low: y.low / unit, high: y.high / unit }, 5).map((v) => v * unit);
  const texts = axisTexts(marks, bytes);
  const left = 14 + Math.max(30, ...texts.map(textWidth));
  marks.forEach((v, i) =>
    f.svg.append(
      s("line", { class: "grid", x1: left, x2: width - 8, y1: y.at(v), y2: y.at(v) }),
      s("text", { class: "axis", x: left - 5, y: y.at(v) + 4, "text-anchor": "end" }, texts[i]),
    ),
  );
  return left;
}

// What was in use, and above it what the node added or gave back.
function nodeBars(m: Levels, node: number, y: Scale, x: number, width: number): SVGElement {
  const [before, after] = [m.before_bytes[node], m.after_bytes[node]];
  const low = y.at(Math.min(before, after));
  const paint = { x, width, fill: "var(--muted)", "fill-opacity": 0.3, class: "level" };
  const own = s("g", {}, s("rect", { ...paint, y: low, height: Math.max(0, BOTTOM - low) }));
  if (before !== after)
    own.append(
      s("rect", {
        x,
        y: y.at(Math.max(before, after)),
        width: Math.max(1, width),
        height: Math.abs(y.at(before) - y.at(after)),
        fill: seriesColour(colourOf("operator", m.op[node])),
        "fill-opacity": after > before ? 1 : 0.35,
        class: after > before ? "grown" : "freed",
      }),
    );
  return own;
}

function peakLine(f: Frame, m: Levels, y: Scale, left: number, width: number): void {
  const at = y.at(m.peak_bytes);
  f.svg.append(
    s("line", { x1: left, x2: width - 8, y1: at, y2: at, stroke: "var(--ink)", "stroke-dasharray": "4 3" }),
    s("text", { class: "axis", x: width - 8, y: 12, "text-anchor": "end" }, `peak ${bytes(m.peak_bytes)}`),
    s("text", { class: "axis title", x: width - 8, y: HEIGHT - 8, "text-anchor": "end" }, "nodes, as they ran"),
  );
}

function picture(m: Levels): HTMLElement {
  return responsive((width) => {
    const f = frame(width, HEIGHT);
    const y = scale([0, m.peak_bytes, ...m.after_bytes, ...m.before_bytes], BOTTOM, TOP, { zero: true });
    const left = axis(f, y, width);
    const columns = columnsOf(m, width - left - 8);
    const step = (width - left - 8) / Math.max(1, columns.length);
    const peak = peakAt(m);
    columns.forEach((column, i) => {
      const x = left + i * step;
      const own = nodeBars(m, column.shown, y, x, step);
      f.svg.append(own);
      f.marks.push({ element: own, tip: tipOf(m, column), id: m.node[column.shown] });
      if (peak >= column.first && peak <= column.last)
        f.svg.append(
          s("path", { d: `M${x + step / 2} ${y.at(m.peak_bytes)}l5 -9h-10Z`, class: "peak", fill: "var(--ink)" }),
        );
    });
    peakLine(f, m, y, left, width);
    interactive(f.svg, "Memory of a run, node by node", f.marks);
    return f.svg;
  });
}

export function memory(m: Levels): HTMLElement {
  const rows = m.node.map((node, i) => ({ i, node }));
  const who = m.provider ?? "the allocator";
  return figure(
    `Memory in run ${m.run}`,
    `The run of the peak. Grey is what ${who} had in use before a node, colour what the node added; pale is what it ` +
      "gave back. A drop between two nodes is what was no longer needed. The triangle marks the node of the peak. " +
      "A click marks a node everywhere." +
      (m.nodes > rows.length ? ` The first ${integer(rows.length)} of ${integer(m.nodes)} nodes are shown.` : ""),
    picture(m),
    {
      label: "Memory of nodes",
      file: "memory-nodes",
      id: (r) => r.node,
      columns: [
        { title: "Place", field: "place", value: (r) => r.i },
        { title: "Node", field: "node", value: (r) => r.node },
        { title: "Operator", field: "op", value: (r) => m.op[r.i] },
        {
          title: "Before",
          field: "before_bytes",
          value: (r) => m.before_bytes[r.i],
          show: (r) => bytes(m.before_bytes[r.i]),
        },
        {
          title: "After",
          field: "after_bytes",
          value: (r) => m.after_bytes[r.i],
          show: (r) => bytes(m.after_bytes[r.i]),
        },
        { title: "Growth", field: "growth_bytes", value: (r) => growth(m, r.i), show: (r) => signed(growth(m, r.i)) },
        {
          title: "Arena",
          field: "arena_bytes",
          value: (r) => m.arena_bytes[r.i],
          show: (r) => bytes(m.arena_bytes[r.i]),
        },
      ],
      rows,
    },
  );
}
