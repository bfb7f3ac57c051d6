// What the parts of a profile's page share: a row for each result.
import { explained, h } from "./dom";
import type { Result, ResultView } from "./types";

export interface Row {
  result: Result;
  view: ResultView;
  index: number;
}

export const SHOWN = 40; // rows of a picture

export function flagged(flags: string[], why: Record<string, string>): Node {
  return h("span", {}, ...flags.map((flag) => explained(flag, why[flag] ?? flag, { class: "flag" })));
}
