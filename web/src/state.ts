// What one has chosen, in the page's address: a link shows what its sender saw, and Back goes back to it.

type Apply = (value: string | null) => void;

const bound = new Map<string, { apply: Apply; value: string | null }>();
let current = new Map(new URLSearchParams(location.hash.slice(1)));

export const slug = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 60);

export const recall = (key: string): string | null => current.get(key) ?? null;

// Does what the address says about `key`, now and whenever it changes. One that is made anew takes the place of
// the one before.
export function bind(key: string, apply: Apply): void {
  const value = recall(key);
  bound.set(key, { apply, value });
  if (value !== null) apply(value);
}

function write(back: boolean): void {
  const address = `#${new URLSearchParams([...current]).toString()}`;
  try {
    if (back) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  } catch {
    // a page inside another may have no address of its own
  }
}

// Puts a choice into the address; null: as at first. `back`: Back undoes it.
export function remember(key: string, value: string | null, back = false): void {
  if (recall(key) === value) return;
  if (value === null) current.delete(key);
  else current.set(key, value);
  const known = bound.get(key);
  if (known) known.value = value;
  write(back);
}

// Another report is shown, in which nothing is chosen but `kept`.
export function begin(kept: Record<string, string | null>): void {
  for (const key of bound.keys()) if (!(key in kept)) bound.delete(key);
  const chosen = Object.entries(kept).filter((entry): entry is [string, string] => entry[1] !== null);
  current = new Map(chosen);
  for (const [key, entry] of bound) entry.value = recall(key);
  write(true);
}

addEventListener("popstate", () => {
  current = new Map(new URLSearchParams(location.hash.slice(1)));
  // What is made anew meanwhile does what the address says by itself.
  for (const key of [...bound.keys()]) {
    const entry = bound.get(key);
    const value = recall(key);
    if (!entry || entry.value === value) continue;
    entry.value = value;
    entry.apply(value);
  }
});
