// The events of one run, on a canvas: lanes are threads and streams, events inside others stand
// below them. The window is moved by wheel, drag and keys; what is searched for stands out; a range that is
// selected is summed up.
import { fit, frame } from "./charts";
import { h, hideTip, s, showTip } from "./dom";
import { responsive } from "./figures";
import { axisTexts, distinct, integer, micros, percent } from "./format";
import { onPick, pick, picked } from "./pick";
import type { Drawn } from "./share";
import { bind, remember } from "./state";
import { table } from "./table";
import { SERIES, colour, colourOf, seriesVariable } from "./theme";
import type { Timeline } from "./types";

const ROW = 20;
const GAP = 6;
const AXIS = 22;
const LABEL = 15;

interface Placed {
  top: number[]; // of each span, px
  lanes: { top: number; depth: number; name: string }[];
  height: number;
}

// Spans come sorted by start, longer ones first, so one that is inside another comes after it.
function place(t: Timeline): Placed {
  const open: number[][] = t.lanes.map(() => []);
  const depth = t.spans.lane.map((lane, i) => {
    const stack = open[lane];
    const start = t.spans.start_us[i];
    while (stack.length > 0 && stack[stack.length - 1] <= start) stack.pop();
    stack.push(start + t.spans.duration_us[i]);
    return stack.length - 1;
  });
  const deepest = t.lanes.map(() => 1);
  depth.forEach((d, i) => (deepest[t.spans.lane[i]] = Math.max(deepest[t.spans.lane[i]], d + 1)));
  const rank = (kind: string): number => ["run", "thread", "stream"].indexOf(kind);
  const order = t.lanes.map((_, i) => i).sort((a, b) => rank(t.lanes[a].kind) - rank(t.lanes[b].kind) || a - b);
  const hasRest = new Set(t.rest.lane);
  const lanes: Placed["lanes"] = [];
  let top = AXIS;
  for (const i of order) {
    const depth = Math.min(12, deepest[i]) + (hasRest.has(i) ? 1 : 0);
    lanes[i] = { top: top + LABEL, depth, name: `${t.lanes[i].kind} ${t.lanes[i].number}` };
    top += LABEL + depth * ROW + GAP;
  }
  return { top: depth.map((d, i) => lanes[t.spans.lane[i]].top + Math.min(11, d) * ROW), lanes, height: top };
}

// Nodes of an operator share much of their names.
function shortNames(t: Timeline): string[] {
  const byOp = new Map<number, Set<number>>();
  t.spans.name.forEach((n, i) => byOp.set(t.spans.op[i], (byOp.get(t.spans.op[i]) ?? new Set()).add(n)));
  const short = [...t.names];
  for (const some of byOp.values()) {
    const texts = distinct([...some].map((n) => t.names[n]));
    [...some].forEach((n, i) => (short[n] = texts[i]));
  }
  return short;
}

// Draws on a canvas, or the same as SVG.
interface Pen {
  box: (x: number, y: number, w: number, h: number, fill: string, alpha: number) => void;
  outline: (x: number, y: number, w: number, h: number, stroke: string) => void;
  text: (text: string, x: number, y: number, fill: string) => void;
  line: (x: number, y1: number, y2: number, stroke: string) => void;
}

function canvasPen(context: CanvasRenderingContext2D): Pen {
  context.font = "12px system-ui, sans-serif";
  context.direction = "ltr";
  return {
    box(x, y, w, high, fill, alpha) {
      context.globalAlpha = alpha;
      context.fillStyle = fill;
      context.fillRect(x, y, w, high);
      context.globalAlpha = 1;
    },
    outline(x, y, w, high, stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = 2;
      context.strokeRect(x, y, w, high);
      context.lineWidth = 1;
    },
    text(text, x, y, fill) {
      context.fillStyle = fill;
      context.fillText(text, x, y);
    },
    line(x, y1, y2, stroke) {
      context.strokeStyle = stroke;
      context.beginPath();
      context.moveTo(x, y1);
      context.lineTo(x, y2);
      context.stroke();
    },
  };
}

function svgPen(svg: SVGSVGElement): Pen {
  const put = (element: SVGElement): void => svg.append(element);
  return {
    box: (x, y, width, height, fill, alpha) => put(s("rect", { x, y, width, height, fill, "fill-opacity": alpha })),
    outline: (x, y, width, height, stroke) =>
      put(s("rect", { x, y, width, height, fill: "none", stroke, "stroke-width": 2 })),
    text: (text, x, y, fill) => put(s("text", { x, y, "data-fill": fill }, text)),
    line: (x, y1, y2, stroke) => put(s("line", { x1: x, x2: x, y1, y2, stroke })),
  };
}

export interface TimelineElement extends Drawn {
  // What is shown, for whoever wants to know: from, to, in µs.
  shown?: () => [number, number];
}

interface Sum {
  op: string;
  us: number;
  count: number;
}

// What ran between two moments, by operator; parts of events count as far as they are inside.
function sums(t: Timeline, from: number, to: number): Sum[] {
  const byOp = new Map<string, Sum>();
  for (let i = 0; i < t.spans.lane.length; i++) {
    const start = Math.max(from, t.spans.start_us[i]);
    const end = Math.min(to, t.spans.start_us[i] + t.spans.duration_us[i]);
    const op = t.ops[t.spans.op[i]];
    if (end <= start || !op) continue;
    const sum = byOp.get(op) ?? { op, us: 0, count: 0 };
    sum.us += end - start;
    sum.count++;
    byOp.set(op, sum);
  }
  return [...byOp.values()].sort((a, b) => b.us - a.us);
}

// Of what is too short to be drawn alone.
function restBetween(t: Timeline, from: number, to: number): number {
  const wide = (t.duration_us || 1) / t.pixels;
  return t.rest.pixel.reduce((sum, pixel, i) => {
    const middle = (pixel + 0.5) * wide;
    return middle >= from && middle <= to ? sum + t.rest.busy_us[i] : sum;
  }, 0);
}

export function timeline(t: Timeline, id = "timeline"): HTMLElement {
  const placed = place(t);
  const short = shortNames(t);
  const total = t.duration_us || 1;
  let from = 0;
  let to = total;
  let wanted = ""; // what is searched for, in small letters
  let chosen: [number, number] | null = null; // the range that is selected
  let again = (): void => {};
  const found = h("span", { role: "status" });
  const summed = h("div", {});

  const isWanted = (i: number): boolean =>
    t.names[t.spans.name[i]].toLowerCase().includes(wanted) || t.ops[t.spans.op[i]].toLowerCase().includes(wanted);

  function drawOn(pen: Pen, width: number): void {
    const x = (us: number): number => ((us - from) / (to - from)) * width;
    const [ink, muted, grid, bad] = ["--ink", "--muted", "--grid", "--bad"].map(colour);
    const colours = Array.from({ length: SERIES }, (_, i) => colour(seriesVariable(i)));
    drawAxis();
    for (const lane of placed.lanes) pen.text(lane.name, 3, lane.top - 3, muted);
    drawRest();
    drawSpans();
    if (chosen) {
      const [a, b] = chosen.map(x);
      pen.box(a, AXIS, Math.max(1, b - a), placed.height - AXIS, ink, 0.12);
      pen.line(a, AXIS - 6, placed.height, ink);
      pen.line(b, AXIS - 6, placed.height, ink);
    }

    function drawAxis(): void {
      const raw = (to - from) / Math.max(2, width / 110);
      const power = 10 ** Math.floor(Math.log10(raw));
      const step = power * ([1, 2, 5, 10].find((f) => f * power >= raw) as number);
      const ticks: number[] = [];
      for (let i = Math.ceil(from / step); i * step <= to; i++) ticks.push(i * step);
      axisTexts(ticks, micros).forEach((text, i) => {
        const at = x(ticks[i]);
        pen.line(at, AXIS - 6, placed.height, grid);
        const shown = fit(text, width - at - 3);
        if (shown === text) pen.text(text, at + 3, 12, muted);
      });
    }

    // What is too short to be drawn alone: how busy each pixel of the whole was with it.
    function drawRest(): void {
      const wide = total / t.pixels;
      t.rest.lane.forEach((lane, i) => {
        const start = t.rest.pixel[i] * wide;
        if (start > to || start + wide < from) return;
        const { top, depth } = placed.lanes[lane];
        const share = Math.min(1, t.rest.busy_us[i] / wide);
        const high = Math.max(1, share * (ROW - 3));
        pen.box(x(start), top + depth * ROW - 2 - high, Math.max(1, x(start + wide) - x(start)), high, muted, 0.7);
      });
    }

    function drawSpans(): void {
      const last = new Map<number, number>(); // right end of what a row has already, px
      const node = picked();
      for (let i = 0; i < t.spans.lane.length; i++) {
        const start = t.spans.start_us[i];
        const end = start + t.spans.duration_us[i];
        if (end < from || start > to) continue;
        const left = Math.max(-2, x(start));
        const right = Math.min(width + 2, x(end));
        const top = placed.top[i];
        const own = node !== null && t.names[t.spans.name[i]] === node;
        const stands = own || (wanted !== "" && isWanted(i));
        // Below a pixel, the first of a pixel stands for all.
        if (right - left < 1 && !stands && (last.get(top) ?? -1) >= Math.floor(right)) continue;
        last.set(top, Math.floor(Math.max(left + 1, right)));
        const wide = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
        const op = t.ops[t.spans.op[i]];
        const fill = op ? colours[colourOf("operator", op) % SERIES] : muted;
        pen.box(left, top, wide, ROW - 2, fill, wanted !== "" && !stands ? 0.12 : op ? 0.6 : 0.3);
        if (stands) pen.outline(left, top + 1, Math.max(2, wide), ROW - 4, own ? bad : ink);
        if (right - left > 40) {
          const begin = Math.max(0, left) + 3;
          pen.text(fit(short[t.spans.name[i]].slice(0, 200), right - begin - 3), begin, top + 13, ink);
        }
      }
    }
  }

  function look(low: number, high: number): void {
    const size = Math.min(total, Math.max(total / 1e6, high - low));
    from = Math.max(0, Math.min(low, total - size));
    to = from + size;
    hideTip();
    again();
  }

  // While a range is drawn, it isn't in the address yet.
  function select(range: [number, number] | null, done = true): void {
    chosen = range;
    if (done) remember(`range.${id}`, range ? range.map((us) => us.toFixed(3)).join("-") : null);
    tellSums();
    again();
  }

  function tellSums(): void {
    if (!chosen) {
      summed.replaceChildren();
      return;
    }
    const [low, high] = chosen;
    const rows = sums(t, low, high);
    const rest = restBetween(t, low, high);
    const busy = rows.reduce((sum, r) => sum + r.us, 0);
    summed.replaceChildren(
      h(
        "p",
        {},
        `Selected: ${micros(high - low)}, from ${micros(low)} to ${micros(high)}. ` +
          `Nodes took ${micros(busy)} of it, those inside others counted in both` +
          (rest > 0 ? `, and events that are too short to be drawn ${micros(rest)}.` : "."),
      ),
      table({
        label: "Selected range",
        file: "selected-range",
        columns: [
          { title: "Operator", field: "op", value: (r) => r.op },
          { title: "Time", field: "duration_us", value: (r) => r.us, show: (r) => micros(r.us) },
          {
            title: "Share",
            field: "share",
            help: "of the time of all nodes in the range",
            value: (r) => r.us / busy,
            show: (r) => percent(r.us / busy),
          },
          { title: "Events", field: "events", value: (r) => r.count, show: (r) => integer(r.count) },
        ],
        rows,
      }),
    );
  }

  function search(text: string): void {
    wanted = text.trim().toLowerCase();
    let [n, us] = [0, 0];
    if (wanted)
      for (let i = 0; i < t.spans.lane.length; i++)
        if (isWanted(i)) {
          n++;
          us += t.spans.duration_us[i];
        }
    found.textContent = !wanted
      ? ""
      : n === 0
        ? "No event has that."
        : n === 1
          ? `1 event, ${micros(us)}`
          : `${integer(n)} events, ${micros(us)} together`;
    again();
  }

  // The next event that is searched for, in the middle.
  function next(): void {
    const after = (from + to) / 2 + (to - from) / 1e6;
    const matches = t.spans.start_us
      .map((start, i) => ({ middle: start + t.spans.duration_us[i] / 2, i }))
      .filter(({ i }) => wanted !== "" && isWanted(i));
    const to_ = matches.find(({ middle }) => middle > after) ?? matches[0];
    if (!to_) return;
    const half = Math.max(4 * t.spans.duration_us[to_.i], Math.min(to - from, total / 10)) / 2;
    look(to_.middle - half, to_.middle + half);
  }

  const picture = responsive((width) => {
    const box: TimelineElement = h("div", {
      class: "timeline",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "timeline",
      "aria-label":
        `Timeline of run ${t.run}, ${t.events} events. ` +
        "Plus and minus zoom, arrow keys move, 0 shows all, s selects what is shown.",
    });
    const canvas = h("canvas", { "aria-hidden": "true" });
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    box.append(canvas);
    let waiting = false;

    function draw(): void {
      waiting = false;
      const ratio = devicePixelRatio || 1;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(placed.height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${placed.height}px`;
      context.scale(ratio, ratio);
      drawOn(canvasPen(context), width);
    }
    again = () => {
      if (!waiting) requestAnimationFrame(draw);
      waiting = true;
    };

    function zoom(factor: number, at = (from + to) / 2): void {
      look(at - (at - from) * factor, at + (to - at) * factor);
    }

    box.addEventListener(
      "wheel",
      (event) => {
        // The page scrolls as ever; with a modifier, or sideways, the window moves.
        const at = from + ((event.offsetX || 0) / width) * (to - from);
        if (event.ctrlKey || event.metaKey || event.shiftKey)
          zoom(event.deltaY > 0 || event.deltaX > 0 ? 1.25 : 0.8, at);
        else if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
          look(from + (event.deltaX / width) * (to - from), to + (event.deltaX / width) * (to - from));
        else return;
        event.preventDefault();
      },
      { passive: false },
    );
    box.addEventListener("dblclick", (event) => zoom(0.5, from + (event.offsetX / width) * (to - from)));
    box.addEventListener("keydown", (event) => {
      const size = to - from;
      if (event.key === "+" || event.key === "=") zoom(0.5);
      else if (event.key === "-") zoom(2);
      else if (event.key === "0") look(0, total);
      else if (event.key === "ArrowRight") look(from + size / 4, to + size / 4);
      else if (event.key === "ArrowLeft") look(from - size / 4, to - size / 4);
      else if (event.key === "s") select([from, to]);
      else if (event.key === "Escape" && chosen) select(null);
      else return;
      event.preventDefault();
    });

    const timeAt = (clientX: number): number =>
      from + ((clientX - canvas.getBoundingClientRect().left) / width) * (to - from);
    function under(event: PointerEvent): number {
      const us = timeAt(event.clientX);
      const y = event.clientY - canvas.getBoundingClientRect().top;
      const slack = (to - from) / width;
      let hit = -1;
      for (let i = 0; i < t.spans.lane.length; i++) {
        if (t.spans.start_us[i] > us + slack) break;
        if (y >= placed.top[i] && y < placed.top[i] + ROW && t.spans.start_us[i] + t.spans.duration_us[i] >= us - slack)
          hit = i;
      }
      return hit;
    }
    let dragged: { x: number; from: number; to: number; start: number; range: boolean; moved: boolean } | null = null;
    canvas.addEventListener("pointerdown", (event) => {
      const start = timeAt(event.clientX);
      dragged = { x: event.clientX, from, to, start, range: event.shiftKey, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", (event) => {
      const hit = dragged && !dragged.moved && !dragged.range ? under(event) : -1;
      if (dragged?.range) select(dragged.moved ? chosen : null);
      dragged = null;
      if (hit >= 0) pick(t.names[t.spans.name[hit]]);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (dragged) {
        dragged.moved ||= Math.abs(event.clientX - dragged.x) > 3;
        if (!dragged.moved) return;
        if (dragged.range) {
          const now = Math.max(0, Math.min(total, timeAt(event.clientX)));
          select([Math.min(now, dragged.start), Math.max(now, dragged.start)], false);
          return;
        }
        const moved = ((dragged.x - event.clientX) / width) * (dragged.to - dragged.from);
        look(dragged.from + moved, dragged.to + moved);
        return;
      }
      const hit = under(event);
      if (hit < 0) hideTip();
      else
        showTip(
          [
            t.names[t.spans.name[hit]],
            t.ops[t.spans.op[hit]] || "session",
            `${micros(t.spans.duration_us[hit])}, from ${micros(t.spans.start_us[hit])}`,
          ],
          event.clientX,
          event.clientY,
        );
    });
    canvas.addEventListener("pointerleave", hideTip);
    box.shown = () => [from, to];
    box.asSvg = () => {
      const { svg } = frame(width, placed.height);
      drawOn(svgPen(svg), width);
      return svg;
    };
    draw();
    onPick(box, again);
    return box;
  });

  const input = h("input", { type: "search", placeholder: "Search", "aria-label": "Search the timeline" });
  input.addEventListener("input", () => {
    search(input.value);
    remember(`search.${id}`, input.value.trim() || null);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") next();
  });
  bind(`search.${id}`, (value) => {
    input.value = value ?? "";
    search(input.value);
  });
  bind(`range.${id}`, (value) => {
    const [low, high] = (value ?? "").split("-").map(Number);
    chosen = low >= 0 && high > low ? [low, high] : null;
    tellSums();
    again();
  });
  return h("div", {}, h("div", { class: "tools" }, ...timelineTools(picture), input, found), picture, summed);
}

function timelineTools(place: HTMLElement): HTMLElement[] {
  const button = (text: string, key: string, label: string): HTMLElement => {
    const b = h("button", { type: "button", "aria-label": label }, text);
    b.addEventListener("click", () =>
      place.querySelector(".timeline")?.dispatchEvent(new KeyboardEvent("keydown", { key })),
    );
    return b;
  };
  return [
    button("+", "+", "Zoom in"),
    button("−", "-", "Zoom out"),
    button("◀", "ArrowLeft", "Earlier"),
    button("▶", "ArrowRight", "Later"),
    button("All", "0", "Show all"),
    button("Sum", "s", "Sum up what is shown"),
  ];
}
