// What has been: read page by page, newest first, and from the top again as time goes on.
import { ask } from "./dashboard_ask";
import { h } from "./dom";
import { type Column, liveTable } from "./table";
import { integer } from "./format";

interface Entry {
  id: number;
}

export interface History {
  element: HTMLElement;
  refresh: () => Promise<void>; // throws what ask throws
  count: () => string; // "50+" where there are older ones
}

const PAGE = 50;
const TIMEOUT_MS = 20e3;

// The newest page together with what was known. Entries can have gone in the meantime, and when more
// came than a page holds, what lies between isn't known: then older ones are forgotten.
export function merged<Row extends Entry>(known: Row[], newest: Row[], more: boolean): Row[] {
  if (newest.length === 0) return [];
  const oldest = newest[newest.length - 1].id;
  const joined = known.some((row) => row.id >= oldest);
  return more && joined ? [...newest, ...known.filter((row) => row.id < oldest)] : newest;
}

export function history<Row extends Entry>(
  path: string,
  field: string,
  label: string,
  empty: string,
  columns: Column<Row>[],
  failed: (fault: unknown) => void,
  changed?: (rows: Row[]) => void,
): History {
  let rows: Row[] = [];
  let moreOlder = false;
  const table = liveTable<Row>({ label, columns, rows, empty, file: field }, (row) => row.id);
  const older = h(
    "button",
    { type: "button", class: "older", "aria-label": `Older ${label.toLowerCase()}`, hidden: true },
    "Older",
  );

  async function page(before: number | null): Promise<{ rows: Row[]; more: boolean }> {
    const answer = await ask<Record<string, unknown>>(
      `${path}?limit=${PAGE}${before === null ? "" : `&before=${encodeURIComponent(before)}`}`,
      TIMEOUT_MS,
    );
    return { rows: answer[field] as Row[], more: answer.more === true };
  }
  function show(next: Row[], more: boolean): void {
    rows = next;
    moreOlder = more;
    table.update(rows);
    changed?.(rows);
    if (older.hidden === more) {
      if (!more && document.activeElement === older)
        table.element.querySelector<HTMLElement>(".scroll")?.focus({ preventScroll: true });
      older.hidden = !more;
    }
  }
  older.addEventListener("click", async () => {
    if (older.getAttribute("aria-busy") === "true" || rows.length === 0) return;
    older.setAttribute("aria-busy", "true");
    try {
      const last = rows[rows.length - 1].id;
      const next = await page(last);
      // Meanwhile the list can have begun anew.
      if (rows[rows.length - 1]?.id === last) show([...rows, ...next.rows], next.more);
    } catch (fault) {
      failed(fault);
    }
    older.setAttribute("aria-busy", "false");
  });
  // Until it has been read, nobody knows whether it is empty.
  const element = h("div", { hidden: true }, table.element, older);
  return {
    element,
    async refresh() {
      const newest = await page(null);
      const next = merged(rows, newest.rows, newest.more);
      show(next, next.length > newest.rows.length ? moreOlder : newest.more);
      element.hidden = false;
    },
    count: () => `${integer(rows.length)}${moreOlder ? "+" : ""}`,
  };
}
