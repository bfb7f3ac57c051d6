// The node that one has picked: it is the same in every picture and table of a page, and in its address.
import { bind, recall, remember } from "./state";

interface Watcher {
  element: Element;
  show: (id: string | null) => void;
}

let watchers: Watcher[] = [];

export const picked = (): string | null => recall("node");

function tell(): void {
  watchers = watchers.filter(({ element }) => element.isConnected);
  for (const { show } of watchers) show(picked());
}

// Picking it again lets go of it.
export function pick(id: string | null): void {
  remember("node", id === picked() ? null : id);
  tell();
}

// Shows what is picked now, and whenever that changes, for as long as `element` is in the page.
export function onPick(element: Element, show: (id: string | null) => void): void {
  watchers.push({ element, show });
  show(picked());
}

export const watchPicks = (): void => bind("node", tell);
