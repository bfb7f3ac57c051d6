// What pages are made of: sections, pictures with their numbers, choices.
import { type Child, h, name } from "./dom";
import { shorten } from "./format";
import { pictureTools, svgText } from "./share";
import { bind, recall, remember, slug } from "./state";
import { type Table, table } from "./table";

const PAPER = 700; // px that a sheet has, at least
const PRINTED = 12; // choices that are printed

// Before whatever is made for paper: what is made then is drawn at once.
let printing = false;
addEventListener("beforeprint", () => (printing = true));
addEventListener("afterprint", () => (printing = false));

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
  const print = (): void => {
    if (box.isConnected || printing) put(draw(paper));
  };
  new ResizeObserver((entries) => {
    const now = Math.floor(entries[0].contentRect.width);
    if (printing || now === width || now === 0) return;
    // What is read comes first: pictures are drawn when the page has been seen for the first time.
    const first = width === 0;
    width = now;
    if (first) requestAnimationFrame(() => setTimeout(redraw));
    else redraw();
  }).observe(box);
  addEventListener("themechange", redraw);
  addEventListener("beforeprint", print);
  addEventListener("afterprint", redraw);
  if (printing) print();
  return box;
}

// A picture with its title and, to open, the numbers behind it.
export function figure<Row>(title: string, caption: string, picture: Node, numbers?: Table<Row>): HTMLElement {
  const drawn = h("div", {}, picture);
  const text = shorten(title, 60);
  return h(
    "figure",
    {},
    h(
      "figcaption",
      {},
      h("div", { class: "head" }, h("h3", {}, title), ...pictureTools(text, slug(title), () => svgText(drawn))),
      caption && h("p", {}, caption),
    ),
    drawn,
    numbers && numbers.rows.length > 0 && folded("Numbers", () => table(numbers), `numbers-${slug(title)}`),
  );
}

// What few want to see is made when it is opened; on paper it stays closed.
export function folded(title: string, make: () => Node, id = slug(title)): HTMLElement {
  const details = h("details", {}, h("summary", {}, title));
  const key = `open.${id}`;
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(make());
    remember(key, details.open ? "1" : null);
  });
  bind(key, (value) => {
    details.open = value !== null;
  });
  return details;
}

export function section(title: string, ...children: Child[]): HTMLElement {
  const id = `s-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  const link = h("a", { class: "anchor", href: `#at=${id}`, "aria-label": `Link to ${title}` }, "#");
  const element = h("section", { class: id, id }, h("h2", {}, title, " ", link), ...children);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    remember("at", id, true);
    element.scrollIntoView();
  });
  return element;
}

// Goes to the section that the address names, and stays there while pictures above it are drawn, until the
// reader goes elsewhere.
export function arrive(main: HTMLElement): void {
  const go = (): void => {
    const id = recall("at");
    if (id) main.querySelector(`[id="${CSS.escape(id)}"]`)?.scrollIntoView();
  };
  const watch = new ResizeObserver(go);
  watch.observe(main);
  for (const event of ["wheel", "pointerdown", "keydown", "touchmove"])
    addEventListener(event, () => watch.disconnect(), { once: true, passive: true });
  bind("at", go);
}

export function facts(list: [string, string | null | undefined][]): HTMLElement {
  return h(
    "dl",
    { class: "facts" },
    ...list.filter(([, v]) => v).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, name(v as string))]),
  );
}

export interface Choice<T> {
  label: string;
  value: T;
}

// How choices are called in the address: by name, or by number where that says nothing.
const tags = <T>(choices: Choice<T>[]): string[] =>
  choices.map(({ label }, i) =>
    label && label.length <= 60 && choices.findIndex((c) => c.label === label) === i ? label : `~${i}`,
  );

// One of several pictures in the same place; on paper all of them, each with its name.
export function chooser<T>(
  label: string,
  choices: Choice<T>[],
  make: (value: T) => Node,
  id = slug(label),
): HTMLElement {
  const place = h("div");
  const names = tags(choices);
  const select = h(
    "select",
    { "aria-label": label },
    ...choices.map((choice, i) => h("option", { value: i }, shorten(choice.label, 80))),
  );
  const update = (): void => place.replaceChildren(make(choices[Number(select.value)].value));
  if (choices.length < 2) {
    update();
    return place;
  }
  const onPaper = (): void => {
    const some = choices.slice(0, PRINTED);
    place.replaceChildren(
      ...some.map((choice) => h("div", {}, h("h3", {}, `${label}: ${choice.label}`), make(choice.value))),
      choices.length > PRINTED ? `${choices.length - PRINTED} more are not printed.` : "",
    );
  };
  select.addEventListener("change", () => {
    update();
    remember(id, select.value === "0" ? null : names[Number(select.value)], true);
  });
  addEventListener("beforeprint", () => place.isConnected && onPaper());
  addEventListener("afterprint", () => place.isConnected && update());
  if (printing) onPaper();
  else if (recall(id) === null) update();
  bind(id, (value) => {
    select.value = String(Math.max(0, value === null ? 0 : names.indexOf(value)));
    update();
  });
  return h("div", {}, h("div", { class: "tools" }, h("label", {}, `${label} `, select)), place);
}
