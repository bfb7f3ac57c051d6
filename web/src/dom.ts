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
  });
}

// ---- Tables ----

export interface Column<Row> {
  title: string;
  help?: string;
  // What is sorted, and exported: the data's own number or text.
  value: (row: Row) => number | string | null | undefined;
  // A node is made again when the value has changed, a text is put into the one that is there.
  show?: (row: Row) => string | Node;
  field?: string; // its name in CSV, with the unit of the value
  number?: boolean; // where there may be no rows that could tell
  plain?: boolean; // neither sorted nor exported, such as buttons
}

export interface Table<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  leftOut?: number;
  file?: string;
  empty?: string; // said instead of a table without rows
}

const ROWS_SHOWN = 100;
const FILTERED = 8; // rows that are seen without a filter

function csvField(value: number | string | null | undefined): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  // A spreadsheet would compute what begins like a formula.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csv<Row>(table: Table<Row>): string {
  const columns = table.columns.filter((c) => !c.plain);
  const lines = [columns.map((c) => csvField(c.field ?? c.title)).join(",")];
  for (const row of table.rows) lines.push(columns.map((c) => csvField(c.value(row))).join(","));
  return `${lines.join("\n")}\n`;
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

// What a node in a cell was made for.
const madeFor = new WeakMap<HTMLElement, unknown>();

// What a cell says of a row, and does so again when the row has changed.
function tell<Row>(place: HTMLElement, column: Column<Row>, row: Row): void {
  const value = column.value(row);
  const number = typeof value === "number" && !column.plain;
  const set = (attribute: string, text: string | null): void => {
    if (text === null) place.removeAttribute(attribute);
    else if (place.getAttribute(attribute) !== text) place.setAttribute(attribute, text);
  };
  const shown = column.show ? column.show(row) : (value ?? "");
  if (typeof shown === "object") {
    if (!madeFor.has(place) || madeFor.get(place) !== value) place.replaceChildren(shown);
    madeFor.set(place, value);
  } else if (madeFor.delete(place) || place.textContent !== String(shown)) {
    place.replaceChildren(number ? String(shown) : name(String(shown)));
  }
  set("class", column.plain ? "plain" : number || value === null || value === undefined ? "number" : null);
  set("data-value", number ? String(value) : null);
  set("title", typeof value === "string" && value.length > 40 ? shorten(value, 1000) : null);
}

// Puts rows in order without moving the one that has the focus, which would lose it.
function arrange(body: HTMLElement, wanted: HTMLElement[]): void {
  const stay = new Set<Element>(wanted);
  for (const row of [...body.children]) if (!stay.has(row)) row.remove();
  const focused = wanted.findIndex((row) => row.contains(document.activeElement));
  let next: Element | null = null;
  for (let i = wanted.length - 1; i >= 0; i--) {
    if (i !== focused && (wanted[i].nextElementSibling !== next || !wanted[i].isConnected))
      body.insertBefore(wanted[i], next);
    next = wanted[i];
  }
}

export interface LiveTable<Row> {
  element: HTMLElement;
  update: (rows: Row[]) => void;
}

// A table whose rows change: `key` says which is which, and what a row has in the page stays in the
// page, with its focus and what is selected in it.
export function liveTable<Row>(given: Table<Row>, key: (row: Row) => unknown): LiveTable<Row> {
  const spec = { ...given };
  const body = h("tbody");
  const said = h("span", { tabindex: -1 });
  const all = h("button", { type: "button", hidden: true });
  const drawn = new Map<unknown, HTMLTableRowElement>();
  let filter = "";
  let shown = ROWS_SHOWN;
  let sorted: { column: Column<Row>; up: boolean } | null = null;

  const numeric = (column: Column<Row>): boolean =>
    column.number ?? spec.rows.every((row) => typeof (column.value(row) ?? 0) === "number");

  function order(rows: Row[]): Row[] {
    if (!sorted) return rows;
    const { column, up } = sorted;
    return [...rows].sort((a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      const missing = Number(x === null || x === undefined) - Number(y === null || y === undefined);
      return missing || (up ? compare(x, y) : compare(y, x));
    });
  }

  function line(row: Row): HTMLElement {
    let element = drawn.get(key(row));
    if (!element) {
      element = h("tr", {}, ...spec.columns.map((_, i) => (i === 0 ? h("th", { scope: "row" }) : h("td"))));
      drawn.set(key(row), element);
    }
    spec.columns.forEach((column, i) => tell((element as HTMLElement).children[i] as HTMLElement, column, row));
    return element;
  }

  function draw(): void {
    const wanted = order(
      filter
        ? spec.rows.filter((row) =>
            spec.columns.some(
              (c) =>
                !c.plain &&
                String(c.value(row) ?? "")
                  .toLowerCase()
                  .includes(filter),
            ),
          )
        : spec.rows,
    );
    const nothing = spec.rows.length === 0 && spec.empty !== undefined;
    const focused = document.activeElement;
    const within = region.contains(focused) || more.contains(focused);
    arrange(body, wanted.slice(0, shown).map(line));
    const says = [
      wanted.length > shown && `${shown} of ${wanted.length.toLocaleString("en-US")} rows.`,
      spec.leftOut && `${spec.leftOut.toLocaleString("en-US")} smaller ones are left out.`,
      filter && wanted.length === 0 && "No row has that.",
      nothing && spec.empty,
    ]
      .filter(Boolean)
      .join(" ");
    if (said.textContent !== says) said.textContent = says;
    all.textContent = `Show all ${wanted.length.toLocaleString("en-US")}`;
    all.hidden = wanted.length <= shown;
    region.hidden = tools.hidden = nothing;
    // It stays once it was there: somebody may be typing.
    if (spec.rows.length > FILTERED) input.hidden = false;
    // What had the focus may be gone; the next key then works where it was.
    if (within && (!focused?.isConnected || (focused === all && all.hidden) || nothing))
      (nothing ? said : region).focus({ preventScroll: true });
  }

  const heads = spec.columns.map((column) => {
    if (column.plain) return h("th", { scope: "col", class: "plain" }, column.title);
    const button = h("button", { type: "button", title: column.help }, column.title);
    const head = h("th", { scope: "col", "aria-sort": "none", class: numeric(column) ? "number" : null }, button);
    button.addEventListener("click", () => {
      // Numbers from the largest on, texts from A.
      sorted = { column, up: sorted?.column === column ? !sorted.up : !numeric(column) };
      heads.forEach((other) => other.hasAttribute("aria-sort") && other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", sorted.up ? "ascending" : "descending");
      draw();
    });
    return head;
  });

  all.addEventListener("click", () => {
    shown = Infinity;
    draw();
  });
  const input = h("input", {
    type: "search",
    placeholder: "Filter",
    "aria-label": `Filter ${spec.label}`,
    hidden: true,
  });
  input.addEventListener("input", () => {
    filter = input.value.trim().toLowerCase();
    draw();
  });
  const save = h("button", { type: "button", class: "csv", "aria-label": `${spec.label} as CSV` }, "CSV");
  save.addEventListener("click", () =>
    download(`${spec.file ?? spec.label.replace(/\W+/g, "-").toLowerCase()}.csv`, csv(spec)),
  );
  const tools = h("div", { class: "tools" }, input, save);
  const region = h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": spec.label },
    h("table", {}, h("caption", { class: "unseen" }, spec.label), h("thead", {}, h("tr", {}, ...heads)), body),
  );
  const more = h("p", { class: "more" }, said, " ", all);
  draw();
  return {
    element: h("div", { class: "table" }, tools, region, more),
    update(rows) {
      spec.rows = rows;
      const keys = new Set(rows.map(key));
      for (const old of drawn.keys()) if (!keys.has(old)) drawn.delete(old);
      draw();
    },
  };
}

export const table = <Row>(spec: Table<Row>): HTMLElement => liveTable(spec, (row) => row).element;

// ---- Figures ----

const PAPER = 700; // px that a sheet has, at least

// Draws for the width that there is, again when that changes, and when the theme does.
export function responsive(draw: (width: number) => Element, minimum = 240, paper = PAPER): HTMLElement {
  const box = h("div", { class: "picture" });
  let width = 0;
  const put = (picture: Element): void => {
    // One that is there already keeps the focus.
    if (box.firstElementChild !== picture) box.replaceChildren(picture);
  };
  const redraw = (): void => {
    if (width > 0 && box.isConnected) put(draw(Math.max(minimum, width)));
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
  addEventListener("beforeprint", () => box.isConnected && put(draw(paper)));
  addEventListener("afterprint", redraw);
  return box;
}

// A picture with its title and, to open, the numbers behind it.
export function figure<Row>(title: string, caption: string, picture: Node, numbers?: Table<Row>): HTMLElement {
  return h(
    "figure",
    {},
    h("figcaption", {}, h("h3", {}, title), caption && h("p", {}, caption)),
    picture,
    numbers && numbers.rows.length > 0 && folded("Numbers", () => table(numbers)),
  );
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
  const select = h(
    "select",
    { "aria-label": label },
    ...choices.map((choice, i) => h("option", { value: i }, shorten(choice.label, 80))),
  );
  const update = (): void => place.replaceChildren(make(choices[Number(select.value)].value));
  select.addEventListener("change", update);
  update();
  if (choices.length < 2) return place;
  return h("div", {}, h("div", { class: "tools" }, h("label", {}, `${label} `, select)), place);
}
