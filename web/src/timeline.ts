// The events of one run, on a canvas: lanes are threads and streams, events inside others stand
// below them. The window is moved by wheel, drag and keys.
import { h, hideTip, responsive, showTip } from "./dom";
import { axisTexts, distinct, micros } from "./format";
import type { Timeline } from "./types";
import { colour, seriesVariable } from "./theme";

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

export interface TimelineElement extends HTMLElement {
  // What is shown, for whoever wants to know: from, to, in µs.
  shown?: () => [number, number];
}

export function timeline(t: Timeline): HTMLElement {
  const placed = place(t);
  const short = shortNames(t);
  const total = t.duration_us || 1;
  let from = 0;
  let to = total;
  return responsive((width) => {
    const box: TimelineElement = h("div", {
      class: "timeline",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "timeline",
      "aria-label": `Timeline of run ${t.run}, ${t.events} events. Plus and minus zoom, arrow keys move, 0 shows all.`,
    });
    const canvas = h("canvas", { "aria-hidden": "true" });
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    const colours = Array.from({ length: 8 }, (_, i) => colour(seriesVariable(i)));
    const [ink, muted, grid] = [colour("--ink"), colour("--muted"), colour("--grid")];
    box.append(canvas);
    let waiting = false;

    const x = (us: number): number => ((us - from) / (to - from)) * width;

    function drawAxis(): void {
      context.fillStyle = muted;
      context.strokeStyle = grid;
      const raw = (to - from) / Math.max(2, width / 110);
      const power = 10 ** Math.floor(Math.log10(raw));
      const step = power * ([1, 2, 5, 10].find((f) => f * power >= raw) as number);
      const ticks: number[] = [];
      for (let i = Math.ceil(from / step); i * step <= to; i++) ticks.push(i * step);
      axisTexts(ticks, micros).forEach((text, i) => {
        const at = x(ticks[i]);
        context.beginPath();
        context.moveTo(at, AXIS - 6);
        context.lineTo(at, placed.height);
        context.stroke();
        if (at + context.measureText(text).width + 3 <= width) context.fillText(text, at + 3, 12);
      });
    }

    function drawRest(): void {
      // What is too short to be drawn alone: how busy each pixel of the whole was with it.
      const wide = total / t.pixels;
      context.fillStyle = muted;
      t.rest.lane.forEach((lane, i) => {
        const start = t.rest.pixel[i] * wide;
        if (start > to || start + wide < from) return;
        const { top, depth } = placed.lanes[lane];
        const share = Math.min(1, t.rest.busy_us[i] / wide);
        const high = Math.max(1, share * (ROW - 3));
        context.globalAlpha = 0.7;
        context.fillRect(x(start), top + depth * ROW - 2 - high, Math.max(1, x(start + wide) - x(start)), high);
        context.globalAlpha = 1;
      });
    }

    function drawSpans(): void {
      const last = new Map<number, number>(); // right end of what a row has already, px
      for (let i = 0; i < t.spans.lane.length; i++) {
        const start = t.spans.start_us[i];
        const end = start + t.spans.duration_us[i];
        if (end < from || start > to) continue;
        const left = Math.max(-2, x(start));
        const right = Math.min(width + 2, x(end));
        const top = placed.top[i];
        // Below a pixel, the first of a pixel stands for all.
        if (right - left < 1) {
          if ((last.get(top) ?? -1) >= Math.floor(right)) continue;
        }
        last.set(top, Math.floor(Math.max(left + 1, right)));
        context.globalAlpha = 0.6;
        context.fillStyle = colours[t.spans.op[i] % colours.length];
        context.fillRect(left, top, Math.max(1, right - left - (right - left > 4 ? 1 : 0)), ROW - 2);
        context.globalAlpha = 1;
        if (right - left > 40) {
          context.save();
          context.beginPath();
          context.rect(left, top, right - left - 3, ROW);
          context.clip();
          context.fillStyle = ink;
          context.fillText(short[t.spans.name[i]].slice(0, 200), Math.max(0, left) + 3, top + 13);
          context.restore();
        }
      }
    }

    function draw(): void {
      waiting = false;
      const ratio = devicePixelRatio || 1;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(placed.height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${placed.height}px`;
      context.scale(ratio, ratio);
      context.font = "12px system-ui, sans-serif";
      context.direction = "ltr";
      drawAxis();
      context.fillStyle = muted;
      for (const lane of placed.lanes) context.fillText(lane.name, 3, lane.top - 3);
      drawRest();
      drawSpans();
    }

    function look(low: number, high: number): void {
      const size = Math.min(total, Math.max(total / 1e6, high - low));
      from = Math.max(0, Math.min(low, total - size));
      to = from + size;
      hideTip();
      if (!waiting) requestAnimationFrame(draw);
      waiting = true;
    }

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
      else return;
      event.preventDefault();
    });
    let dragged: { x: number; from: number; to: number } | null = null;
    canvas.addEventListener("pointerdown", (event) => {
      dragged = { x: event.clientX, from, to };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", () => (dragged = null));
    canvas.addEventListener("pointermove", (event) => {
      if (dragged) {
        const moved = ((dragged.x - event.clientX) / width) * (dragged.to - dragged.from);
        look(dragged.from + moved, dragged.to + moved);
        return;
      }
      const rect = canvas.getBoundingClientRect();
      const us = from + ((event.clientX - rect.left) / width) * (to - from);
      const y = event.clientY - rect.top;
      const slack = (to - from) / width;
      let found = -1;
      for (let i = 0; i < t.spans.lane.length; i++) {
        if (t.spans.start_us[i] > us + slack) break;
        if (y >= placed.top[i] && y < placed.top[i] + ROW && t.spans.start_us[i] + t.spans.duration_us[i] >= us - slack)
          found = i;
      }
      if (found < 0) hideTip();
      else
        showTip(
          [
            t.names[t.spans.name[found]],
            t.ops[t.spans.op[found]] || "session",
            `${micros(t.spans.duration_us[found])}, from ${micros(t.spans.start_us[found])}`,
          ],
          event.clientX,
          event.clientY,
        );
    });
    canvas.addEventListener("pointerleave", hideTip);
    box.shown = () => [from, to];
    draw();
    return box;
  });
}

export function timelineTools(place: HTMLElement): HTMLElement {
  const press = (key: string) => () =>
    place.querySelector(".timeline")?.dispatchEvent(new KeyboardEvent("keydown", { key }));
  const button = (text: string, key: string, label: string): HTMLElement => {
    const b = h("button", { type: "button", "aria-label": label }, text);
    b.addEventListener("click", press(key));
    return b;
  };
  return h(
    "div",
    { class: "tools" },
    button("+", "+", "Zoom in"),
    button("−", "-", "Zoom out"),
    button("◀", "ArrowLeft", "Earlier"),
    button("▶", "ArrowRight", "Later"),
    button("All", "0", "Show all"),
  );
}
