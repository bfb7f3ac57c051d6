// Elements, tables and figures. Whatever comes from the data becomes text, never markup: names of
// models and nodes are hostile.
import { shorten } from "./format";

type Child = Node | string | null | undefined | false;
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
    else if (event.key in steps)
      enter((current < 0 ? (steps[event.key] > 0 ? 0 : marks.length - 1) : current + steps[event.key] + marks.length) % marks.length);
    else return;
    event.preventDefault();
  });
  svg.addEventListener("blur", leave);
  marks.forEach((mark) => {
    mark.element.classList.add("mark");
    mark.element.addEventListener("pointermove", (event) =>
      showTip(mark.tip, (event as PointerEvent).clientX, (event as PointerEvent).clientY));
    mark.element.addEventListener("pointerleave", hideTip);
  });
}

// ---- Tables ----

export interface Column<Row> {
  title: string;
  help?: string;
  // What is sorted, and exported: the data's own number or text.
  value: (row: Row) => number | string | null | undefined;
  show?: (row: Row) => string | Node;
}

export interface Table<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  leftOut?: number;
  file?: string;
}

const ROWS_SHOWN = 100;

function csvField(value: number | string | null | undefined): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  // A spreadsheet would compute what begins like a formula.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csv<Row>(table: Table<Row>): string {
  const lines = [table.columns.map((c) => csvField(c.title)).join(",")];
  for (const row of table.rows) lines.push(table.columns.map((c) => csvField(c.value(row))).join(","));
  return lines.join("\n") + "\n";
}

function download(file: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = h("a", { href: url, download: file });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function compare(a: number | string | null | undefined, b: number | string | null | undefined): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function cell<Row>(column: Column<Row>, row: Row, head: boolean): HTMLElement {
  const value = column.value(row);
  const number = typeof value === "number";
  const shown = column.show ? column.show(row) : (value ?? "");
  const content = typeof shown === "object" ? shown : number ? String(shown) : name(String(shown));
  return h(head ? "th" : "td", {
    class: number || value === null || value === undefined ? "number" : null,
    scope: head ? "row" : null,
    "data-value": number ? value : null,
    title: !number && typeof value === "string" && value.length > 40 ? shorten(value, 1000) : null,
  }, content);
}

export function table<Row>(spec: Table<Row>): HTMLElement {
  const body = h("tbody");
  const more = h("p", { class: "more" });
  let rows = spec.rows;
  let filter = "";
  let shown = ROWS_SHOWN;
  let sorted: { column: Column<Row>; up: boolean } | null = null;

  function draw(): void {
    const wanted = filter
      ? rows.filter((row) => spec.columns.some((c) => String(c.value(row) ?? "").toLowerCase().includes(filter)))
      : rows;
    body.replaceChildren(
      ...wanted.slice(0, shown).map((row) => h("tr", {}, ...spec.columns.map((c, i) => cell(c, row, i === 0)))));
    more.replaceChildren();
    if (wanted.length > shown) {
      const all = h("button", { type: "button" }, `Show all ${wanted.length.toLocaleString("en-US")}`);
      all.addEventListener("click", () => {
        shown = Infinity;
        draw();
      });
      more.append(`${shown} of ${wanted.length.toLocaleString("en-US")} rows. `, all);
    }
    if (spec.leftOut) more.append(` ${spec.leftOut.toLocaleString("en-US")} smaller ones are left out.`);
    if (filter && wanted.length === 0) more.append("No row has that.");
  }

  const heads = spec.columns.map((column) => {
    const button = h("button", { type: "button", title: column.help }, column.title);
    const numeric = spec.rows.every((row) => typeof (column.value(row) ?? 0) === "number");
    const head = h("th", { scope: "col", "aria-sort": "none", class: numeric ? "number" : null }, button);
    button.addEventListener("click", () => {
      // Numbers from the largest on, texts from A.
      const up = sorted?.column === column ? !sorted.up : !numeric;
      sorted = { column, up };
      rows = [...spec.rows].sort((a, b) => {
        const [x, y] = [column.value(a), column.value(b)];
        const missing = Number(x === null || x === undefined) - Number(y === null || y === undefined);
        return missing || (up ? compare(x, y) : compare(y, x));
      });
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      draw();
    });
    return head;
  });

  const tools = h("div", { class: "tools" });
  if (spec.rows.length > 8) {
    const input = h("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${spec.label}` });
    input.addEventListener("input", () => {
      filter = input.value.trim().toLowerCase();
      draw();
    });
    tools.append(input);
  }
  const save = h("button", { type: "button", class: "csv", "aria-label": `${spec.label} as CSV` }, "CSV");
  save.addEventListener("click", () => download(`${spec.file ?? spec.label.replace(/\W+/g, "-").toLowerCase()}.csv`, csv(spec)));
  tools.append(save);
  draw();
  return h("div", { class: "table" }, tools,
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": spec.label },
      h("table", {}, h("caption", { class: "unseen" }, spec.label), h("thead", {}, h("tr", {}, ...heads)), body)),
    more);
}

// ---- Figures ----

const PAPER = 700; // px that a sheet has, at least

// Draws for the width that there is, again when that changes, and when the theme does.
export function responsive(draw: (width: number) => Element, minimum = 240): HTMLElement {
  const box = h("div", { class: "picture" });
  let width = 0;
  const redraw = (): void => {
    if (width > 0 && box.isConnected) box.replaceChildren(draw(Math.max(minimum, width)));
  };
  new ResizeObserver((entries) => {
    const now = Math.floor(entries[0].contentRect.width);
    if (now === width || now === 0) return;
    // What is read comes first: pictures are drawn when the page has been seen for the first time.
    const first = width === 0;
    width = now;
    if (first) requestAnimationFrame(() => setTimeout(redraw));
    else redraw();
  }).observe(box);
  addEventListener("themechange", redraw);
  addEventListener("beforeprint", () => box.isConnected && box.replaceChildren(draw(PAPER)));
  addEventListener("afterprint", redraw);
  return box;
}

// A picture with its title and, to open, the numbers behind it.
export function figure<Row>(title: string, caption: string, picture: Node, numbers?: Table<Row>): HTMLElement {
  return h("figure", {},
    h("figcaption", {}, h("h3", {}, title), caption && h("p", {}, caption)),
    picture,
    numbers && numbers.rows.length > 0 && folded("Numbers", () => table(numbers)));
}

// What few want to see is made when it is opened; on paper it stays closed.
export function folded(title: string, make: () => Node): HTMLElement {
  const details = h("details", {}, h("summary", {}, title));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(make());
  });
  return details;
}

export function section(title: string, ...children: Child[]): HTMLElement {
  const id = `s-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section", { class: id }, h("h2", {}, title), ...children);
}

export interface Choice<T> {
  label: string;
  value: T;
}

// One of several pictures in the same place.
export function chooser<T>(label: string, choices: Choice<T>[], make: (value: T) => Node): HTMLElement {
  const place = h("div");
  const select = h("select", { "aria-label": label },
    ...choices.map((choice, i) => h("option", { value: i }, shorten(choice.label, 80))));
  const update = (): void => place.replaceChildren(make(choices[Number(select.value)].value));
  select.addEventListener("change", update);
  update();
  if (choices.length < 2) return place;
  return h("div", {}, h("div", { class: "tools" }, h("label", {}, `${label} `, select)), place);
}
