// Tables: sorted by their titles, filtered by typing, saved as CSV, copied as Markdown.
import { h, name } from "./dom";
import { shorten } from "./format";
import { onPick, pick } from "./pick";
import { action, copyText, save } from "./share";
import { bind, remember, slug } from "./state";

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
  marked?: (row: Row) => boolean; // it stands out
  id?: (row: Row) => string; // of what can be picked
}

const ROWS_SHOWN = 100;
const FILTERED = 8; // rows that are seen without a filter
const CARDS_FROM = 4; // columns from which on a row is a card on a phone

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

// As it is shown, in its order.
function markdown<Row>(columns: Column<Row>[], rows: Row[]): string {
  const cell = (text: string): string => text.replace(/[\\|`*_<>[\]]/g, "\\$&").replace(/\s+/g, " ");
  const shown = (column: Column<Row>, row: Row): string => {
    const made = column.show ? column.show(row) : (column.value(row) ?? "");
    return cell(shorten(typeof made === "object" ? (made.textContent ?? "") : String(made), 300));
  };
  const kept = columns.filter((c) => !c.plain);
  const right = (c: Column<Row>): boolean => rows.some((row) => typeof c.value(row) === "number");
  return [
    kept.map((c) => cell(c.title)),
    kept.map((c) => (right(c) ? "-:" : ":-")),
    ...rows.map((row) => kept.map((c) => shown(c, row))),
  ]
    .map((cells) => `| ${cells.join(" | ")} |\n`)
    .join("");
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
  const id = slug(spec.file ?? spec.label);
  const cards = spec.columns.length >= CARDS_FROM;
  const role = (name: string): string | null => (cards ? name : null);
  const body = h("tbody", { role: role("rowgroup") });
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
      element = h(
        "tr",
        { role: role("row"), class: spec.marked?.(row) ? "best" : null },
        ...spec.columns.map((column, i) =>
          i === 0
            ? h("th", { scope: "row", role: role("rowheader") })
            : h("td", { "data-title": column.title, role: role("cell") }),
        ),
      );
      const picks = spec.id?.(row);
      if (picks !== undefined) {
        const own = element;
        own.classList.add("pickable");
        own.addEventListener("click", () => pick(picks));
        onPick(own, (id) => own.classList.toggle("picked", id === picks));
      }
      drawn.set(key(row), element);
    }
    spec.columns.forEach((column, i) => tell((element as HTMLElement).children[i] as HTMLElement, column, row));
    return element;
  }

  const has = (row: Row): boolean =>
    spec.columns.some(
      (c) =>
        !c.plain &&
        String(c.value(row) ?? "")
          .toLowerCase()
          .includes(filter),
    );
  const filtered = (): Row[] => order(filter ? spec.rows.filter(has) : spec.rows);

  function draw(): void {
    const wanted = filtered();
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

  const nameOf = (column: Column<Row>): string => column.field ?? column.title;

  function sort(by: typeof sorted): void {
    sorted = by;
    heads.forEach((head, i) => {
      const own = sorted?.column === spec.columns[i];
      if (head.hasAttribute("aria-sort"))
        head.setAttribute("aria-sort", own ? (sorted?.up ? "ascending" : "descending") : "none");
    });
    sorter.value = by ? `${by.up ? "" : "-"}${nameOf(by.column)}` : "";
    draw();
  }

  // "-median_ns": the largest first.
  function sortBy(value: string | null): void {
    const column = spec.columns.find((c) => !c.plain && nameOf(c) === value?.replace(/^-/, ""));
    sort(column && value ? { column, up: !value.startsWith("-") } : null);
  }

  const heads = spec.columns.map((column) => {
    const aligned = numeric(column) ? "number" : null;
    if (column.plain) return h("th", { scope: "col", class: "plain", role: role("columnheader") }, column.title);
    const button = h("button", { type: "button", title: column.help }, column.title);
    const head = h("th", { scope: "col", "aria-sort": "none", class: aligned, role: role("columnheader") }, button);
    button.addEventListener("click", () => {
      // Numbers from the largest on, texts from A.
      sort({ column, up: sorted?.column === column ? !sorted.up : !numeric(column) });
      remember(`sort.${id}`, sorter.value, false);
    });
    return head;
  });
  // Cards have no titles to click on.
  const sorter = h(
    "select",
    { class: "sorter", "aria-label": `Sort ${spec.label}` },
    h("option", { value: "" }, "Sort by"),
    ...spec.columns
      .filter((c) => !c.plain)
      .flatMap((c) => [
        h("option", { value: nameOf(c) }, `${c.title} ▲`),
        h("option", { value: `-${nameOf(c)}` }, `${c.title} ▼`),
      ]),
  );
  sorter.addEventListener("change", () => {
    sortBy(sorter.value);
    remember(`sort.${id}`, sorter.value || null);
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
  const filterBy = (value: string): void => {
    filter = value.trim().toLowerCase();
    draw();
  };
  input.addEventListener("input", () => {
    filterBy(input.value);
    remember(`filter.${id}`, input.value.trim() || null);
  });
  const saver = h("button", { type: "button", class: "csv", "aria-label": `${spec.label} as CSV` }, "CSV");
  saver.addEventListener("click", () => save(`${id}.csv`, csv(spec), "text/csv;charset=utf-8"));
  const copy = action("Markdown", `Copy ${spec.label} as Markdown`, () =>
    copyText(markdown(spec.columns, filtered()), `${id}.md`),
  );
  const tools = h("div", { class: "tools" }, input, cards ? sorter : null, saver, copy);
  const region = h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": spec.label },
    h(
      "table",
      { class: cards ? "stack" : null, role: role("table") },
      h("caption", { class: "unseen" }, spec.label),
      h("thead", { role: role("rowgroup") }, h("tr", { role: role("row") }, ...heads)),
      body,
    ),
  );
  const more = h("p", { class: "more" }, said, " ", all);
  draw();
  bind(`sort.${id}`, sortBy);
  bind(`filter.${id}`, (value) => {
    input.value = value ?? "";
    input.hidden &&= value === null;
    filterBy(input.value);
  });
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
