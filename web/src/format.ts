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
  if (size >= 10 ** digits || (size >= 1000 && digits <= 4)) return Math.round(value).toLocaleString("en-US");
  if (size < 1e-6) return value.toExponential(digits - 1);
  const places = digits - 1 - Math.floor(Math.log10(size));
  const text = value.toFixed(Math.min(20, Math.max(0, places)));
  // 9.996 has become "10.00": one digit too many.
  return Math.abs(Number(text)) >= 10 ** (Math.floor(Math.log10(size)) + 1) && places > 0
    ? value.toFixed(places - 1)
    : text;
}

function scaled(value: Value, units: [number, string][], digits = 3): string {
  if (!known(value)) return UNKNOWN;
  const size = Math.abs(value);
  // What would be rounded up to 1,000 of a unit is 1 of the next.
  const [factor, unit] = units.find(([f]) => size * 1.0005 >= f) ?? units[units.length - 1];
  return `${significant(value / factor, digits)} ${unit}`.trimEnd();
}

// How a number is shown; `digits` is for axes, whose numbers are round.
export type Show = (value: Value, digits?: number) => string;

export const duration: Show = (ns, digits) =>
  scaled(
    ns,
    [
      [1e9, "s"],
      [1e6, "ms"],
      [1e3, "µs"],
      [1, "ns"],
    ],
    digits,
  );

export const bytes: Show = (value, digits) =>
  scaled(
    value,
    [
      [2 ** 40, "TiB"],
      [2 ** 30, "GiB"],
      [2 ** 20, "MiB"],
      [2 ** 10, "KiB"],
      [1, "B"],
    ],
    digits,
  );

export const count: Show = (value, digits) =>
  known(value) && Math.abs(value) < 1000 && Number.isInteger(value)
    ? String(value)
    : scaled(
        value,
        [
          [1e12, "T"],
          [1e9, "G"],
          [1e6, "M"],
          [1e3, "k"],
          [1, ""],
        ],
        digits,
      );

export const integer: Show = (value) => (known(value) ? Math.round(value).toLocaleString("en-US") : UNKNOWN);

export function percent(fraction: Value, digits?: number): string {
  if (!known(fraction)) return UNKNOWN;
  if (fraction !== 0 && Math.abs(fraction) < 1e-4) return fraction > 0 ? "<0.01 %" : ">-0.01 %";
  return `${significant(100 * fraction, digits)} %`;
}

export const rate: Show = (value, digits = 4) => (known(value) ? `${significant(value, digits)}/s` : UNKNOWN);

export function ratio(value: Value, digits?: number): string {
  if (!known(value)) return UNKNOWN;
  if (digits) return significant(value, digits);
  return Math.abs(value) < 10 ? value.toFixed(3) : significant(value, 4);
}

export function dollars(value: Value, digits = 2): string {
  if (!known(value)) return UNKNOWN;
  if (value >= 1000) return `$${Math.round(value).toLocaleString("en-US")}`;
  return value >= 1 ? `$${value.toFixed(2)}` : `$${significant(value, digits)}`;
}

export const seconds: Show = (s, digits) => duration(known(s) ? 1e9 * s : s, digits);
export const micros: Show = (us, digits) => duration(known(us) ? 1e3 * us : us, digits);

// How long something has lasted: "4.2 s", "12 min", "3.4 h", "5.1 days".
export const lasted: Show = (ms) => {
  if (!known(ms)) return UNKNOWN;
  if (ms < 120e3) return `${(ms / 1e3).toFixed(1)} s`;
  if (ms < 7200e3) return `${Math.round(ms / 60e3)} min`;
  return ms < 172800e3 ? `${(ms / 3600e3).toFixed(1)} h` : `${(ms / 86400e3).toFixed(1)} days`;
};

const two = (n: number): string => String(n).padStart(2, "0");

export function clockTime(ms: Value): string {
  if (!known(ms)) return UNKNOWN;
  const t = new Date(ms);
  return [t.getHours(), t.getMinutes(), t.getSeconds()].map(two).join(":");
}

// A moment, on the reader's clock.
export function moment(ms: Value): string {
  if (!known(ms)) return UNKNOWN;
  const t = new Date(ms);
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${clockTime(ms)}`;
}

const places = (text: string): number => /\.(\d*?)0*(?!\d)/.exec(text)?.[1].length ?? 0;

// The numbers of an axis, in as few digits as say them exactly, those of a unit with as many places:
// "500 µs", "1.0 ms", "1.5 ms". What isn't known is left empty.
export function axisTexts(values: Value[], show: Show): string[] {
  const number = (text: string): number => parseFloat(text.replace(/[^\d.e-]/g, ""));
  const exact = (value: Value): string => {
    for (let digits = 1; digits < 7; digits++) {
      const text = show(value, digits);
      if (number(text) === number(show(value, 7))) return text;
    }
    return show(value);
  };
  const unit = (text: string): string => text.replace(/[\d.,]+(e-?\d+)?/, "");
  const texts = values.map((v) => (!known(v) ? "" : v === 0 ? "0" : exact(v)));
  const most = new Map<string, number>();
  for (const text of texts) most.set(unit(text), Math.max(most.get(unit(text)) ?? 0, places(text)));
  return texts.map((text) => {
    const wanted = most.get(unit(text)) ?? 0;
    if (text === "0" || text === "" || text.includes("e")) return text;
    return text.replace(/[\d,]+(\.\d+)?/, (n) => {
      const [whole, rest = ""] = n.split(".");
      return wanted > 0 ? `${whole}.${rest.slice(0, wanted).padEnd(wanted, "0")}` : whole;
    });
  });
}

// "12.3 ms (12.1 to 12.5)"
export function interval(show: Show, value: Value, low: Value, high: Value): string {
  const range = known(low) && known(high) ? ` (${show(low)} to ${show(high)})` : "";
  return show(value) + range;
}

// Names without what all of them begin and end with, in whole words, where that is much: what is left
// tells them apart.
export function distinct(names: string[]): string[] {
  if (names.length < 2) return names;
  const least = Math.min(...names.map((n) => n.length));
  const first = names[0];
  const word = (c: string): boolean => /[\p{L}\p{N}]/u.test(c) || /[\ud800-\udfff]/.test(c);
  let front = 0;
  while (front < least && names.every((n) => n[front] === first[front])) front++;
  while (front > 0 && word(first[front - 1])) front--;
  let back = 0;
  while (back < least - front && names.every((n) => n[n.length - 1 - back] === first[first.length - 1 - back])) back++;
  while (back > 0 && word(first[first.length - back])) back--;
  return front + back < 6 ? names : names.map((n) => n.slice(front, n.length - back) || n);
}

// A long name, with both ends, which tell it from others.
export function shorten(text: string, most: number): string {
  const letters = [...text.slice(0, 4 * most + 16)];
  if (letters.length <= most && text.length <= 4 * most + 16) return text;
  if (most < 2) return "…";
  const tail = Math.floor((most - 1) / 3);
  const end = [...text.slice(-4 * most - 16)];
  return `${letters.slice(0, most - 1 - tail).join("")}…${end.slice(end.length - tail).join("")}`;
}
