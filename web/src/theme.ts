// Light, dark, or as the system is; on paper always light.
import { h } from "./dom";

const ORDER = ["system", "light", "dark"] as const;
type Theme = (typeof ORDER)[number];

function stored(): Theme {
  try {
    const theme = localStorage.getItem("prony-theme") as Theme;
    return ORDER.includes(theme) ? theme : "system";
  } catch {
    return "system"; // some browsers keep nothing for pages from disk
  }
}

function apply(theme: Theme): void {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = theme === "system" ? system : theme;
  dispatchEvent(new Event("themechange"));
}

export function themeButton(): HTMLElement {
  let theme = stored();
  const button = h("button", { type: "button", class: "theme" });
  const show = (): void => {
    button.textContent = `Theme: ${theme}`;
    apply(theme);
  };
  button.addEventListener("click", () => {
    theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
    try {
      localStorage.setItem("prony-theme", theme);
    } catch {
      // it lasts until the page is closed
    }
    show();
  });
  show();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(theme));
  addEventListener("beforeprint", () => apply("light"));
  addEventListener("afterprint", () => apply(theme));
  return button;
}

// A colour of the style sheet, for what is drawn on a canvas.
export const colour = (variable: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(variable).trim();

export const SERIES = 8;
export const seriesVariable = (index: number): string => `--series-${(index % SERIES) + 1}`;
export const seriesColour = (index: number): string => `var(${seriesVariable(index)})`;
// Colours belong to a backend or an operator on the whole page: the first one gets the first.
const given = new Map<string, Map<string, number>>();
export function colourOf(kind: "backend" | "operator" | "curve", name: string): number {
  const known = given.get(kind) ?? new Map<string, number>();
  given.set(kind, known);
  if (!known.has(name)) known.set(name, known.size);
  return known.get(name) as number;
}
// Of the things of one picture, which must differ: their own, or by their order where two would share one.
export function coloursOf(kind: "backend" | "operator" | "curve", names: string[]): number[] {
  const own = names.map((name) => colourOf(kind, name));
  return new Set(own.map((index) => index % SERIES)).size === names.length ? own : names.map((_, i) => i);
}
// Without the grey one, where grey means something else.
const COLOURED = [0, 1, 2, 3, 4, 5, 7];
export const coloured = (index: number): number => COLOURED[index % COLOURED.length];
// What colours alone can't tell apart, dashes do.
export const dashes = (index: number): string =>
  ["", "6 3", "2 3", "8 3 2 3"][Math.floor(index / SERIES) % 4 || index % 4];
