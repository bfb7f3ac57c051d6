// Numbers as prony's other reports show them: three significant digits and a unit that fits.

export type Value = number | null | undefined;

export const UNKNOWN = "n/a";

function known(value: Value): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

export function significant(value: Value, digits = 3): string {
  if (!known(value)) return UNKNOWN;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 10 ** digits) return Math.round(value).toLocaleString("en-US");
  if (size < 1e-6) return value.toExponential(digits - 1);
  const places = digits - 1 - Math.floor(Math.log10(size));
  const text = value.toFixed(Math.min(20, Math.max(0, places)));
  // 9.996 has become "10.00": one digit too many.
  return Math.abs(Number(text)) >= 10 ** (Math.floor(Math.log10(size)) + 1) && places > 0
    ? value.toFixed(places - 1)
    : text;
}

function scaled(value: Value, units: [number, string][]): string {
  if (!known(value)) return UNKNOWN;
  const size = Math.abs(value);
  // What would be rounded up to 1,000 of a unit is 1 of the next.
  const [factor, unit] = units.find(([f]) => size * 1.0005 >= f) ?? units[units.length - 1];
  return `${significant(value / factor)} ${unit}`.trimEnd();
}

export const duration = (ns: Value): string =>
  scaled(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);

export const bytes = (value: Value): string =>
  scaled(value, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);

export const count = (value: Value): string =>
  known(value) && Math.abs(value) < 1000 && Number.isInteger(value)
    ? String(value)
    : scaled(value, [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]]);

export const integer = (value: Value): string =>
  known(value) ? Math.round(value).toLocaleString("en-US") : UNKNOWN;

export const percent = (fraction: Value): string =>
  known(fraction) ? `${significant(100 * fraction)} %` : UNKNOWN;

export const rate = (value: Value): string => (known(value) ? `${significant(value, 4)}/s` : UNKNOWN);

export function ratio(value: Value): string {
  if (!known(value)) return UNKNOWN;
  return Math.abs(value) < 10 ? value.toFixed(3) : significant(value, 4);
}

export function dollars(value: Value): string {
  if (!known(value)) return UNKNOWN;
  if (value >= 1000) return `$${Math.round(value).toLocaleString("en-US")}`;
  return value >= 1 ? `$${value.toFixed(2)}` : `$${significant(value, 2)}`;
}

export const seconds = (s: Value): string => duration(known(s) ? 1e9 * s : s);
export const micros = (us: Value): string => duration(known(us) ? 1e3 * us : us);

// "12.3 ms (12.1 to 12.5)"
export function interval(show: (v: Value) => string, value: Value, low: Value, high: Value): string {
  const range = known(low) && known(high) ? ` (${show(low)} to ${show(high)})` : "";
  return show(value) + range;
}

// A long name, with both ends, which tell it from others.
export function shorten(text: string, most: number): string {
  const letters = [...text.slice(0, 4 * most + 16)];
  if (letters.length <= most && text.length <= 4 * most + 16) return text;
  if (most < 2) return "…";
  const tail = Math.floor((most - 1) / 3);
  const end = [...text.slice(-4 * most - 16)];
  return letters.slice(0, most - 1 - tail).join("") + "…" + end.slice(end.length - tail).join("");
}
