// The model as a graph: layers from top to bottom, modules that open and close, coloured by what each node takes
// on a backend, or on two beside each other.
import { fit, frame, textWidth } from "./charts";
import { h, hideTip, s, showTip } from "./dom";
import { chooser, figure, responsive } from "./figures";
import { type Show, bytes, count, duration, integer, percent, shorten } from "./format";
import { layered } from "./layout";
import { onPick, pick, picked } from "./pick";
import type { Row } from "./rows";
import type { Drawn } from "./share";
import { bind, remember } from "./state";
import { type Column } from "./table";
import { colour, seriesVariable } from "./theme";
import type { OpsRow, Profile } from "./types";

type ModelNode = NonNullable<NonNullable<Profile["model"]>["graph"]>[number];

const HIGH = 34; // px of a node
const PITCH = 62; // from layer to layer
const SHOWN_FIRST = 48; // nodes and modules that are seen at first, about
const SHOWN_MAX = 3000;
const PICTURE = 480; // px of height
const LEAST = 0.02; // as small as it gets

// ---- Modules ----

interface Group {
  name: string;
  path: string;
  groups: Group[];
  nodes: number[]; // its own
  all: number[]; // with those of the modules in it
}

const parts = (name: string): string[] =>
  (name.includes("/") ? name.split("/") : name.split(".")).filter((part) => part !== "");

function modules(graph: ModelNode[], kept: number[]): Group {
  const root: Group = { name: "", path: "", groups: [], nodes: [], all: [] };
  const byPath = new Map([["", root]]);
  for (const i of kept) {
    let at = root;
    root.all.push(i);
    const path = parts(graph[i].name).slice(0, -1);
    // Names are a stranger's: a few levels are enough.
    for (const part of path.slice(0, 24)) {
      const key = `${at.path}/${part}`;
      let next = byPath.get(key);
      if (!next) {
        next = { name: part, path: key, groups: [], nodes: [], all: [] };
        byPath.set(key, next);
        at.groups.push(next);
      }
      next.all.push(i);
      at = next;
    }
    at.nodes.push(i);
  }
  return flattened(root);
}

// A module with one thing in it is that thing.
function flattened(group: Group): Group {
  const groups = group.groups.map(flattened);
  const kept = groups.filter((g) => g.all.length > 1);
  const single = groups.filter((g) => g.all.length === 1).flatMap((g) => g.all);
  const own = { ...group, groups: kept, nodes: [...group.nodes, ...single] };
  if (own.path && kept.length === 1 && own.nodes.length === 0)
    return { ...kept[0], name: `${own.name}/${kept[0].name}` };
  return own;
}

// ---- What is seen ----

interface Item {
  group: Group | null; // closed; null: a node
  nodes: number[];
  text: string;
}

interface Seen {
  items: Item[];
  edges: [number, number][];
  of: Map<number, number>; // where a node is
}

function seen(graph: ModelNode[], root: Group, open: Set<string>): Seen {
  const items: Item[] = [];
  const of = new Map<number, number>();
  const add = (item: Item): void => {
    for (const node of item.nodes) of.set(node, items.length);
    items.push(item);
  };
  const walk = (group: Group): void => {
    for (const i of group.nodes)
      add({ group: null, nodes: [i], text: parts(graph[i].name).slice(-1)[0] || graph[i].op });
    for (const inner of group.groups)
      if (open.has(inner.path)) walk(inner);
      else add({ group: inner, nodes: inner.all, text: `${inner.name} (${integer(inner.all.length)})` });
  };
  walk(root);
  const known = new Set<number>();
  const edges: [number, number][] = [];
  of.forEach((to, node) => {
    for (const input of graph[node].inputs) {
      const from = of.get(input);
      const key = (from ?? 0) * items.length + to;
      if (from === undefined || from === to || known.has(key)) continue;
      known.add(key);
      edges.push([from, to]);
    }
  });
  return { items, edges, of };
}

// Opens the modules that hold most nodes until there is enough to see.
function openFirst(root: Group, most: number): Set<string> {
  const open = new Set<string>();
  let closed = [...root.groups];
  let n = root.nodes.length + closed.length;
  for (;;) {
    const next = closed
      .filter((g) => n - 1 + g.nodes.length + g.groups.length <= most)
      .sort((a, b) => b.all.length - a.all.length)[0];
    if (!next) return open;
    open.add(next.path);
    n += next.nodes.length + next.groups.length - 1;
    closed = [...closed.filter((g) => g !== next), ...next.groups];
  }
}

const everything = (root: Group): string[] => root.groups.flatMap((g) => [g.path, ...everything(g)]);

// ---- Figures of nodes ----

interface Figures {
  ns: number;
  flops: number;
  flopsNs: number;
  value: number; // bytes
  ran: number; // nodes that have a time of their own
}

type Colouring = { title: string; of: (f: Figures) => number | null; show: Show };

const rateOf = (f: Figures): number | null => (f.flopsNs > 0 ? f.flops / (1e-9 * f.flopsNs) : null);
const COLOURINGS: Colouring[] = [
  { title: "Time", of: (f) => (f.ran > 0 ? f.ns : null), show: duration },
  { title: "FLOP/s", of: rateOf, show: (v, digits) => `${count(v, digits)}FLOP/s` },
  { title: "Memory", of: (f) => f.value, show: bytes },
];

class Backend {
  readonly byNode = new Map<number, OpsRow[]>();
  readonly elsewhere: OpsRow[] = [];

  constructor(
    readonly row: Row,
    readonly graph: ModelNode[],
  ) {
    for (const node of (row.result.ops?.nodes ?? []) as OpsRow[]) {
      const at = node.onnx?.node;
      if (at === undefined || !(at in graph)) this.elsewhere.push(node);
      else this.byNode.set(at, [...(this.byNode.get(at) ?? []), node]);
    }
  }

  figures(nodes: number[]): Figures {
    const sum: Figures = { ns: 0, flops: 0, flopsNs: 0, value: 0, ran: 0 };
    for (const i of nodes) {
      sum.value += (this.graph[i].value_bytes ?? 0) + this.graph[i].weight_bytes;
      const rows = this.byNode.get(i) ?? [];
      if (rows.length > 0) sum.ran++;
      for (const r of rows) {
        sum.ns += r.mean_ns ?? 0;
        if (r.flops && r.flop_per_s) {
          sum.flops += r.flops;
          sum.flopsNs += r.flops_ns ?? 0;
        }
      }
    }
    return sum;
  }

  get missing(): string {
    return this.row.result.ops?.nodes_left_out || this.elsewhere.length > 0
      ? "without a time of their own: fused, computed beforehand, or run under a name that doesn't tell"
      : "not run by themselves: fused into another node, or computed beforehand";
  }

  tip(item: Item): string[] {
    const f = this.figures(item.nodes);
    const [node] = item.nodes;
    const kinds = [...new Set((this.byNode.get(node) ?? []).map((r) => r.op))].filter(
      (op) => op !== this.graph[node].op,
    );
    return [
      shorten(item.group ? item.group.path : this.graph[node].name || this.graph[node].op, 200),
      item.group ? `${integer(item.nodes.length)} nodes` : this.graph[node].op,
      f.ran > 0 ? `${duration(f.ns)} per run on ${shorten(this.row.view.name, 80)}` : this.missing,
      item.group && f.ran < item.nodes.length ? `${integer(item.nodes.length - f.ran)} of them ${this.missing}` : "",
      !item.group && kinds.length > 0 ? `runs as ${shorten(kinds.join(", "), 100)}` : "",
      rateOf(f) === null ? "" : `${count(rateOf(f))}FLOP/s`,
      `${bytes(f.value)} of values and weights`,
    ].filter(Boolean);
  }
}

// ---- Drawing ----

interface View {
  scale: number;
  x: number; // of the graph, at the left and the top of the picture
  y: number;
}

interface Placement extends Seen {
  x: number[];
  y: number[];
  wide: number[];
  left: number;
  right: number;
  height: number;
  bends: number[][];
  first: number[]; // the layer in which an edge begins
}

function placement(graph: ModelNode[], root: Group, open: Set<string>): Placement {
  const shown = seen(graph, root, open);
  const wide = shown.items.map((item) => Math.min(190, Math.max(84, textWidth(item.text) + 22)));
  const placed = layered(wide, shown.edges);
  return {
    ...shown,
    wide,
    x: placed.x,
    y: placed.layer.map((l) => l * PITCH),
    left: placed.left,
    right: placed.right,
    height: (placed.layers - 1) * PITCH + HIGH,
    bends: placed.bends,
    first: shown.edges.map(([from]) => placed.layer[from]),
  };
}

interface Paint {
  fill: string;
  alpha: number;
  dashed: boolean;
  heavy: boolean; // a module
  chosen: boolean;
}

interface Pen {
  edge: (points: [number, number][]) => void;
  node: (x: number, y: number, w: number, high: number, paint: Paint) => void;
  text: (text: string, x: number, y: number, small: boolean) => void;
}

// Points joined by curves that leave and arrive upright.
function eachCurve(
  points: [number, number][],
  move: (x: number, y: number) => void,
  curve: (...at: [number, number, number, number, number, number]) => void,
): void {
  move(...points[0]);
  for (let i = 1; i < points.length; i++) {
    const [[ax, ay], [bx, by]] = [points[i - 1], points[i]];
    const middle = (ay + by) / 2;
    curve(ax, middle, bx, middle, bx, by);
  }
}

function canvasPen(context: CanvasRenderingContext2D, view: View): Pen {
  const [ink, line, bad] = ["--ink", "--line", "--bad"].map(colour);
  return {
    edge(points) {
      context.strokeStyle = line;
      context.lineWidth = 1.2 / view.scale;
      context.beginPath();
      eachCurve(
        points,
        (x, y) => context.moveTo(x, y),
        (...at) => context.bezierCurveTo(...at),
      );
      context.stroke();
    },
    node(x, y, w, high, paint) {
      context.fillStyle = colour("--surface");
      context.fillRect(x, y, w, high);
      context.globalAlpha = paint.alpha;
      context.fillStyle = paint.fill;
      context.fillRect(x, y, w, high);
      context.globalAlpha = 1;
      context.strokeStyle = paint.chosen ? bad : ink;
      context.lineWidth = (paint.chosen ? 4 : paint.heavy ? 2 : 1) / Math.max(view.scale, 0.4);
      context.setLineDash(paint.dashed ? [4, 3] : []);
      context.strokeRect(x, y, w, high);
      context.setLineDash([]);
    },
    text(text, x, y, small) {
      context.font = `${small ? 11 : 12}px system-ui, sans-serif`;
      context.textAlign = "center";
      context.fillStyle = ink;
      context.fillText(text, x, y);
    },
  };
}

function svgPen(place: SVGElement): Pen {
  return {
    edge(points) {
      let d = "";
      eachCurve(
        points,
        (x, y) => (d += `M${x} ${y}`),
        (...at) => (d += `C${at.join(" ")}`),
      );
      place.append(s("path", { d, fill: "none", stroke: colour("--line") }));
    },
    node: (x, y, width, height, paint) =>
      place.append(
        s("rect", { x, y, width, height, fill: colour("--surface") }),
        s("rect", {
          x,
          y,
          width,
          height,
          fill: paint.fill,
          "fill-opacity": paint.alpha,
          stroke: colour(paint.chosen ? "--bad" : "--ink"),
          "stroke-width": paint.chosen ? 4 : paint.heavy ? 2 : 1,
          "stroke-dasharray": paint.dashed ? "4 3" : null,
        }),
      ),
    text: (text, x, y) => place.append(s("text", { x, y, "text-anchor": "middle" }, text)),
  };
}

// What lies inside `area` of the graph, on one backend.
function drawGraph(
  pen: Pen,
  p: Placement,
  backend: Backend,
  by: Colouring,
  area: [number, number, number, number],
  texts: boolean,
  at: number,
): void {
  const [left, top, right, bottom] = area;
  const own = picked();
  const fill = colour(seriesVariable(1));
  const figures = p.items.map((item) => backend.figures(item.nodes));
  const most = Math.max(0, ...figures.map((f) => by.of(f) ?? 0));
  p.edges.forEach(([from, to], i) => {
    const step = Math.sign(p.y[to] - p.y[from]) || 1;
    const bends = p.bends[i];
    const whole: [number, number][] = bends.map((x, k) => [
      k === bends.length - 1 ? p.x[to] : x,
      k === 0
        ? p.y[from] + (step > 0 ? HIGH : 0)
        : k === bends.length - 1
          ? p.y[to] + (step > 0 ? 0 : HIGH)
          : p.y[from] + step * k * PITCH + HIGH / 2,
    ]);
    const ys = whole.map(([, y]) => y);
    const xs = whole.map(([x]) => x);
    if (Math.max(...ys) < top || Math.min(...ys) > bottom || Math.max(...xs) < left || Math.min(...xs) > right) return;
    pen.edge(whole);
  });
  p.items.forEach((item, i) => {
    const x = p.x[i] - p.wide[i] / 2;
    if (x > right || x + p.wide[i] < left || p.y[i] > bottom || p.y[i] + HIGH < top) return;
    const value = by.of(figures[i]);
    const chosen = i === at || (own !== null && item.nodes.some((n) => idOf(backend.graph, n) === own));
    pen.node(x, p.y[i], p.wide[i], HIGH, {
      fill: value === null ? colour("--raised") : fill,
      alpha: value === null ? 1 : 0.05 + 0.55 * Math.sqrt(most > 0 ? value / most : 0),
      dashed: figures[i].ran === 0,
      heavy: item.group !== null,
      chosen,
    });
    if (!texts) return;
    pen.text(fit(item.text, p.wide[i] - 8), p.x[i], p.y[i] + 14, false);
    const told = value === null ? (figures[i].ran > 0 ? "" : "no own time") : by.show(value);
    pen.text(fit(told, p.wide[i] - 8), p.x[i], p.y[i] + 28, true);
  });
}

const idOf = (graph: ModelNode[], node: number): string => graph[node].name || `#${node}`;

// ---- The figure ----

interface Pane {
  box: HTMLElement;
  draw: () => void;
}

function picture(graph: ModelNode[], backends: Backend[], by: Colouring, last: { view: View | null }): HTMLElement {
  const kept = graph.flatMap((node, i) => (node.op === "Constant" ? [] : [i]));
  const root = modules(graph, kept);
  const open = openFirst(root, SHOWN_FIRST);
  let p = placement(graph, root, open);
  let view = last.view;
  let at = -1; // the item that keys are at
  let panes: Pane[] = [];
  const told = h("span", { class: "unseen", role: "status" });
  const redraw = (): void => {
    last.view = view; // other colours show the same part
    panes.forEach((pane) => pane.draw());
  };

  function fitAll(width: number): View {
    const scale = Math.max(LEAST, Math.min(1, (width - 20) / Math.max(1, p.right - p.left), (PICTURE - 20) / p.height));
    return {
      scale,
      x: (p.left + p.right) / 2 - width / 2 / scale,
      y: Math.min(-10 / scale, p.height / 2 - PICTURE / 2 / scale),
    };
  }
  // At first as much as can be read.
  function fitFirst(width: number): View {
    const all = fitAll(width);
    if (all.scale >= 0.6) return all;
    const top = p.y.indexOf(Math.min(...p.y));
    return { scale: 0.75, x: p.x[top] - width / 2 / 0.75, y: -14 };
  }

  // What stays where it is on the screen while something opens or closes.
  function change(anchor: number, width: number, act: () => void): void {
    const node = p.items[anchor]?.nodes[0];
    const before =
      anchor in p.items && view ? [(p.x[anchor] - view.x) * view.scale, (p.y[anchor] - view.y) * view.scale] : null;
    const onKeys = at >= 0;
    act();
    p = placement(graph, root, open);
    const now = node === undefined ? undefined : p.of.get(node);
    at = onKeys ? (now ?? -1) : -1;
    if (before && now !== undefined && view)
      view = { ...view, x: p.x[now] - before[0] / view.scale, y: p.y[now] - before[1] / view.scale };
    else view = fitFirst(width);
    keep();
    redraw();
  }
  const keep = (): void => {
    const paths = [...open].sort();
    const value = JSON.stringify(paths);
    remember("open.graph", value.length < 1500 ? value : null);
  };

  function toggle(index: number, width: number): void {
    const group = p.items[index]?.group;
    if (group) {
      if (p.items.length + group.nodes.length + group.groups.length > SHOWN_MAX) return;
      change(index, width, () => open.add(group.path));
    } else pick(idOf(graph, p.items[index].nodes[0]));
  }
  // Closes the module that an item is in.
  function closeAround(index: number, width: number): void {
    const path = [...open]
      .filter((candidate) => {
        const name = graph[p.items[index].nodes[0]].name;
        return (
          `/${parts(name).slice(0, -1).join("/")}/`.startsWith(`${candidate}/`) &&
          p.items[index].group?.path !== candidate
        );
      })
      .sort((a, b) => b.length - a.length)[0];
    if (path === undefined) return;
    change(index, width, () => [...open].forEach((o) => (o === path || o.startsWith(`${path}/`)) && open.delete(o)));
  }

  function reveal(index: number, width: number): void {
    if (!view) return;
    const [x, y] = [(p.x[index] - view.x) * view.scale, (p.y[index] - view.y) * view.scale];
    if (x < 40 || x > width - 40) view.x = p.x[index] - width / 2 / view.scale;
    if (y < 10 || y > PICTURE - 50) view.y = p.y[index] - PICTURE / 2 / view.scale;
  }

  function step(key: string): number {
    if (at < 0) return p.y.indexOf(Math.min(...p.y));
    const near = p.edges.flatMap(([from, to]) =>
      key === "ArrowDown" && from === at ? [to] : key === "ArrowUp" && to === at ? [from] : [],
    );
    if (key === "ArrowDown" || key === "ArrowUp")
      return near.sort((a, b) => Math.abs(p.x[a] - p.x[at]) - Math.abs(p.x[b] - p.x[at]))[0] ?? at;
    const sign = key === "ArrowRight" ? 1 : -1;
    const row = p.items.map((_, i) => i).filter((i) => p.y[i] === p.y[at] && sign * (p.x[i] - p.x[at]) > 0);
    return row.sort((a, b) => sign * (p.x[a] - p.x[b]))[0] ?? at;
  }

  function pane(backend: Backend): HTMLElement {
    return responsive((width) => {
      view ??= fitFirst(width);
      const box: Drawn = h("div", {
        class: "graph",
        tabindex: 0,
        role: "application",
        "aria-roledescription": "graph",
        "aria-label":
          `The model's graph on ${shorten(backend.row.view.name, 80)}, ${p.items.length} nodes and modules. ` +
          "Arrow keys go from node to node, Enter opens a module or marks a node, Backspace closes the module " +
          "around it, plus and minus zoom, 0 shows all.",
      });
      const canvas = h("canvas", { "aria-hidden": "true" });
      const context = canvas.getContext("2d") as CanvasRenderingContext2D;
      box.append(canvas);
      let waiting = false;
      const now = (): void => {
        waiting = false;
        if (!view) return;
        const ratio = devicePixelRatio || 1;
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(PICTURE * ratio);
        canvas.style.width = `${width}px`;
        canvas.style.height = `${PICTURE}px`;
        context.setTransform(
          ratio * view.scale,
          0,
          0,
          ratio * view.scale,
          -view.x * view.scale * ratio,
          -view.y * view.scale * ratio,
        );
        const area: [number, number, number, number] = [
          view.x,
          view.y,
          view.x + width / view.scale,
          view.y + PICTURE / view.scale,
        ];
        drawGraph(canvasPen(context, view), p, backend, by, area, view.scale > 0.45, at);
      };
      const draw = (): void => {
        if (!waiting) requestAnimationFrame(now);
        waiting = true;
      };
      panes = [...panes.filter((other) => other.box.isConnected), { box, draw }];

      const zoom = (factor: number, x = width / 2, y = PICTURE / 2): void => {
        if (!view) return;
        const scale = Math.min(3, Math.max(LEAST, view.scale * factor));
        view = { scale, x: view.x + x / view.scale - x / scale, y: view.y + y / view.scale - y / scale };
        hideTip();
        redraw();
      };
      const under = (event: PointerEvent | MouseEvent): number => {
        if (!view) return -1;
        const rect = canvas.getBoundingClientRect();
        const x = view.x + (event.clientX - rect.left) / view.scale;
        const y = view.y + (event.clientY - rect.top) / view.scale;
        return p.items.findIndex((_, i) => Math.abs(x - p.x[i]) <= p.wide[i] / 2 && y >= p.y[i] && y <= p.y[i] + HIGH);
      };
      box.addEventListener(
        "wheel",
        (event) => {
          // The page scrolls as ever; with a modifier the graph is zoomed.
          if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
          const rect = canvas.getBoundingClientRect();
          zoom(event.deltaY > 0 || event.deltaX > 0 ? 0.8 : 1.25, event.clientX - rect.left, event.clientY - rect.top);
          event.preventDefault();
        },
        { passive: false },
      );
      box.addEventListener("keydown", (event) => {
        if (event.key === "+" || event.key === "=") zoom(1.25);
        else if (event.key === "-") zoom(0.8);
        else if (event.key === "0") {
          view = fitAll(width);
          redraw();
        } else if (event.key === "Enter" && at >= 0) toggle(at, width);
        else if (event.key === "Backspace" && at >= 0) closeAround(at, width);
        else if (event.key.startsWith("Arrow")) {
          at = step(event.key);
          reveal(at, width);
          redraw();
        } else return;
        if (at in p.items) told.textContent = backend.tip(p.items[at]).join(", ");
        event.preventDefault();
      });
      let dragged: { x: number; y: number; view: View; moved: boolean } | null = null;
      canvas.addEventListener("pointerdown", (event) => {
        if (view) dragged = { x: event.clientX, y: event.clientY, view: { ...view }, moved: false };
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointerup", (event) => {
        const index = dragged && !dragged.moved ? under(event) : -1;
        dragged = null;
        if (index >= 0 && event.altKey) closeAround(index, width);
        else if (index >= 0) toggle(index, width);
      });
      canvas.addEventListener("pointermove", (event) => {
        if (dragged) {
          const [dx, dy] = [event.clientX - dragged.x, event.clientY - dragged.y];
          dragged.moved ||= Math.hypot(dx, dy) > 4;
          view = {
            ...dragged.view,
            x: dragged.view.x - dx / dragged.view.scale,
            y: dragged.view.y - dy / dragged.view.scale,
          };
          hideTip();
          redraw();
          return;
        }
        const index = under(event);
        if (index < 0) hideTip();
        else showTip(backend.tip(p.items[index]), event.clientX, event.clientY);
      });
      canvas.addEventListener("pointerleave", hideTip);
      box.asSvg = () => {
        const f = frame(Math.ceil(p.right - p.left) + 20, p.height + 20);
        const group = s("g", { transform: `translate(${10 - p.left} 10)` });
        drawGraph(svgPen(group), p, backend, by, [-Infinity, -Infinity, Infinity, Infinity], true, -1);
        f.svg.append(group);
        return f.svg;
      };
      now();
      onPick(box, (id) => {
        const node = graph.findIndex((_, i) => idOf(graph, i) === id);
        const index = id === null ? undefined : p.of.get(node);
        if (index !== undefined) reveal(index, width);
        redraw();
      });
      return box;
    });
  }

  const widthNow = (): number => panes[0]?.box.clientWidth || 600;
  const button = (text: string, act: () => void): HTMLElement => {
    const b = h("button", { type: "button" }, text);
    b.addEventListener("click", act);
    return b;
  };
  const press = (key: string) => () => panes[0]?.box.dispatchEvent(new KeyboardEvent("keydown", { key }));
  const all = everything(root);
  bind("open.graph", (value) => {
    let paths: unknown = null;
    try {
      paths = JSON.parse(value ?? "null");
    } catch {
      // an address is a stranger's
    }
    const wanted = Array.isArray(paths)
      ? paths.filter((path) => all.includes(path))
      : [...openFirst(root, SHOWN_FIRST)];
    open.clear();
    wanted.forEach((path) => open.add(path));
    p = placement(graph, root, open);
    at = -1;
    if (panes.length > 0) {
      view = fitFirst(widthNow());
      redraw();
    }
  });
  const many = kept.length > SHOWN_MAX;
  return h(
    "div",
    {},
    h(
      "div",
      { class: "tools" },
      button("+", press("+")),
      button("−", press("-")),
      button("All", press("0")),
      all.length > 0 &&
        button(many ? `Open ${integer(SHOWN_MAX)}` : "Open all modules", () =>
          change(-1, widthNow(), () =>
            (many ? openFirst(root, SHOWN_MAX) : new Set(all)).forEach((path) => open.add(path)),
          ),
        ),
      all.length > 0 && button("Close all", () => change(-1, widthNow(), () => open.clear())),
    ),
    h(
      "div",
      { class: "panes" },
      ...backends.map((backend) =>
        h(
          "div",
          {},
          backends.length > 1 && h("p", { class: "kind" }, h("bdi", {}, backend.row.view.name)),
          pane(backend),
        ),
      ),
    ),
    told,
  );
}

interface Line {
  name: string;
  op: string;
  bytes: number;
  figures: Figures[];
  runs: string[];
}

function numbers(graph: ModelNode[], backends: Backend[]): { columns: Column<Line>[]; rows: Line[] } {
  const rows = graph.flatMap((node, i): Line[] =>
    node.op === "Constant"
      ? []
      : [
          {
            name: node.name || `#${i}`,
            op: node.op,
            bytes: (node.value_bytes ?? 0) + node.weight_bytes,
            figures: backends.map((b) => b.figures([i])),
            runs: backends.map((b) => [...new Set((b.byNode.get(i) ?? []).map((r) => r.op ?? ""))].join(", ")),
          },
        ],
  );
  const columns: Column<Line>[] = [
    { title: "Node", field: "node", value: (r) => r.name },
    { title: "Operator", field: "op", value: (r) => r.op },
    { title: "Memory", field: "bytes", help: "values and weights", value: (r) => r.bytes, show: (r) => bytes(r.bytes) },
    ...backends.flatMap((backend, i): Column<Line>[] => {
      const where = backends.length > 1 ? `, ${shorten(backend.row.view.name, 40)}` : "";
      return [
        {
          title: `Time${where}`,
          field: `mean_ns_${i + 1}`,
          value: (r) => (r.figures[i].ran > 0 ? r.figures[i].ns : null),
          show: (r) => (r.figures[i].ran > 0 ? duration(r.figures[i].ns) : "no own time"),
        },
        { title: `Runs as${where}`, field: `runs_as_${i + 1}`, value: (r) => r.runs[i] },
      ];
    }),
  ];
  return { columns, rows };
}

const said = (b: Backend, several: boolean): string => {
  const total = [...b.byNode.values()].flat().concat(b.elsewhere);
  const ns = (rows: OpsRow[]): number => rows.reduce((sum, r) => sum + (r.mean_ns ?? 0), 0);
  const kept = b.graph.flatMap((node, i) => (node.op === "Constant" ? [] : [i]));
  const alone = kept.filter((i) => !b.byNode.has(i)).length;
  const many = b.elsewhere.length;
  const share = percent(ns(b.elsewhere) / ns(total));
  return (
    (several ? `${shorten(b.row.view.name, 60)}: ` : "") +
    `${integer(alone)} of ${integer(kept.length)} nodes are ${b.missing}.` +
    (many > 0
      ? ` ${integer(many)} ${many === 1 ? "node" : "nodes"} of the runtime (${share} of the time) ` +
        `${many === 1 ? "has" : "have"} no place in the model's graph.`
      : "")
  );
};

export function modelGraph(data: Profile, rows: Row[]): HTMLElement | null {
  const models = data.models ?? (data.model ? [data.model] : []);
  const graphOf = (row: Row): ModelNode[] | undefined => models[row.result.point % models.length]?.graph;
  const some = rows.filter((r) => graphOf(r)?.length && r.result.ops && !r.result.ops.error);
  if (some.length === 0) return null;
  const short = (row: Row): string => row.view.name;
  const last: { view: View | null } = { view: null };
  // A backend alone, or two that ran the same graph, beside each other.
  const pairs = some.flatMap((a, i) =>
    some
      .slice(i + 1)
      .filter((b) => graphOf(a) === graphOf(b))
      .slice(0, 8)
      .map((b) => [a, b]),
  );
  const choices = [...pairs.slice(0, 12), ...some.map((row) => [row])].map((value) => ({
    label: value.map(short).join(" beside "),
    value,
  }));
  return chooser(
    "Graph on",
    choices,
    (chosen) =>
      chooser(
        "Coloured by",
        COLOURINGS.map((value) => ({ label: value.title, value })),
        (by) => {
          const graph = graphOf(chosen[0]) as ModelNode[];
          // Inputs come before what needs them; what a file says otherwise isn't drawn.
          const sane = graph.map((node, i) => ({
            ...node,
            inputs: node.inputs.filter((input) => input >= 0 && input < i),
          }));
          const backends = chosen.map((row) => new Backend(row, sane));
          return figure(
            `The model's graph, by ${by.title === "FLOP/s" ? "FLOP/s" : by.title.toLowerCase()}`,
            "The darker, the more. Thick frames are modules: a click opens one, Alt and a click closes it. " +
              "Dashed nodes have no time of their own. Ctrl with the wheel zooms, dragging moves. " +
              backends.map((b) => said(b, backends.length > 1)).join(" "),
            picture(sane, backends, by, last),
            { label: "The model's graph", file: "graph", id: (r) => r.name, ...numbers(sane, backends) },
          );
        },
        "colour",
      ),
    "graph",
  );
}
