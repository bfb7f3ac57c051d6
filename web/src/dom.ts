// Elements, and what pictures say when pointed at. Whatever comes from the data becomes text, never markup: names of
// models and nodes are hostile.
import { shorten } from "./format";
import { onPick, pick } from "./pick";

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined>;

function fill<T extends Element>(element: T, attributes: Attributes, children: Child[]): T {
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : String(value));
  for (const child of children) if (child) element.append(child);
  return element;
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// A name from the data, which keeps its direction of writing to itself.
export const name = (text: string): HTMLElement => h("bdi", { class: "name" }, text);

// A sentence, in which options aren't broken.
export function prose(text: string): HTMLElement {
  const parts = text.split(/(--[a-z][\w-]*)/);
  return h("bdi", {}, ...parts.map((part, i) => (i % 2 ? h("span", { class: "option" }, part) : part)));
}

// ---- The tooltip ----

const tip = h("div", { id: "tip", role: "status", "aria-live": "polite", hidden: true });

export function showTip(lines: string[], x: number, y: number): void {
  if (!tip.isConnected) document.body.append(tip);
  tip.replaceChildren(...lines.map((line) => h("div", {}, h("bdi", {}, shorten(line, 300)))));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
  const top = y + 14 + box.height > innerHeight ? y - 14 - box.height : y + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

export function hideTip(): void {
  tip.hidden = true;
}

addEventListener("scroll", hideTip, true);
addEventListener("keydown", (event) => event.key === "Escape" && hideTip());

// An explanation of a word that appears when it is pointed at or focused.
export function explained(text: string, why: string, attributes: Attributes = {}): HTMLElement {
  const element = h("span", { ...attributes, tabindex: 0, "aria-label": `${text}: ${why}` }, text);
  element.setAttribute("role", "note");
  const show = (): void => {
    const box = element.getBoundingClientRect();
    showTip([why], box.left, box.bottom);
  };
  element.addEventListener("pointerenter", show);
  element.addEventListener("focus", show);
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("blur", hideTip);
  return element;
}

export interface Mark {
  element: SVGElement;
  tip: string[];
  id?: string; // of what can be picked
  choose?: () => void; // what a click does besides
}

// Marks of a picture say what they are when pointed at, and one after the other by arrow keys.
export function interactive(svg: SVGElement, label: string, marks: Mark[]): void {
  if (marks.length === 0) {
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    return;
  }
  let current = -1;
  svg.setAttribute("role", "application");
  svg.setAttribute("aria-roledescription", "chart");
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("aria-label", `${label}. ${marks.length} values; arrow keys read them.`);
  const leave = (): void => {
    if (current >= 0) marks[current].element.classList.remove("current");
    current = -1;
    hideTip();
  };
  const enter = (index: number): void => {
    leave();
    current = index;
    marks[index].element.classList.add("current");
    const box = marks[index].element.getBoundingClientRect();
    showTip(marks[index].tip, box.left + box.width / 2, box.top + box.height / 2);
  };
  svg.addEventListener("keydown", (event) => {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (event.key === "Home") enter(0);
    else if (event.key === "End") enter(marks.length - 1);
    else if (event.key === "Enter" && current >= 0) {
      if (marks[current].id !== undefined) pick(marks[current].id ?? null);
      marks[current].choose?.();
    } else if (event.key in steps)
      enter(
        (current < 0 ? (steps[event.key] > 0 ? 0 : marks.length - 1) : current + steps[event.key] + marks.length) %
          marks.length,
      );
    else return;
    event.preventDefault();
  });
  svg.addEventListener("blur", leave);
  marks.forEach((mark) => {
    mark.element.classList.add("mark");
    mark.element.addEventListener("pointermove", (event) =>
      showTip(mark.tip, (event as PointerEvent).clientX, (event as PointerEvent).clientY),
    );
    mark.element.addEventListener("pointerleave", hideTip);
    if (mark.id !== undefined) mark.element.addEventListener("click", () => pick(mark.id ?? null));
    if (mark.choose) mark.element.addEventListener("click", mark.choose);
  });
  if (marks.some((mark) => mark.id !== undefined))
    onPick(svg, (id) => {
      for (const mark of marks) mark.element.classList.toggle("picked", id !== null && mark.id === id);
    });
}
