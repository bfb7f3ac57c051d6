// Taking things along: pictures as SVG and PNG, texts and tables by the clipboard.
import { h, s } from "./dom";
import { colour } from "./theme";

const SCALE = 2; // pixels of a PNG for each of the screen's
const STYLES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linecap",
  "font-size",
  "font-weight",
  "font-family",
  "text-anchor",
  "paint-order",
  "opacity",
];

// A picture that isn't SVG on the screen makes one when it is asked for.
export interface Drawn extends HTMLElement {
  asSvg?: () => SVGSVGElement;
}

export function save(file: string, content: BlobPart, type: string): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = h("a", { href: url, download: file });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// The picture alone: what the style sheet says stands in its elements, on the page's ground.
function standalone(svg: SVGSVGElement): SVGSVGElement {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  const to = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  if (svg.isConnected)
    from.forEach((element, i) => {
      const style = getComputedStyle(element);
      for (const property of STYLES) {
        const value = style.getPropertyValue(property);
        if (value && value !== "normal") to[i].setAttribute(property, value.replaceAll('"', "'"));
      }
      // What has a colour of its own, which the style sheet doesn't know.
      const fill = element.getAttribute("data-fill");
      if (fill) to[i].setAttribute("fill", fill);
    });
  for (const element of to)
    for (const name of ["class", "tabindex", "role", "data-fill"]) element.removeAttribute(name);
  for (const element of copy.querySelectorAll(".hit")) element.remove();
  for (const name of ["style", "aria-roledescription"]) copy.removeAttribute(name);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.prepend(s("rect", { width: "100%", height: "100%", fill: colour("--surface") }));
  return copy;
}

// The text of a picture's SVG; null while it isn't drawn.
export function svgText(place: Element): string | null {
  const drawn = place.querySelector<SVGSVGElement>("svg");
  const made = [...place.querySelectorAll<Drawn>("*")].find((element) => element.asSvg)?.asSvg?.();
  const svg = made ? inPage(made) : drawn ? standalone(drawn) : null;
  return svg && new XMLSerializer().serializeToString(svg);
}

// Styles are known of what is in the page only.
function inPage(svg: SVGSVGElement): SVGSVGElement {
  const place = h("div", { class: "unseen", "aria-hidden": "true" }, svg);
  document.body.append(place);
  const copy = standalone(svg);
  place.remove();
  return copy;
}

export const detached = (svg: SVGSVGElement): string => new XMLSerializer().serializeToString(inPage(svg));

async function png(svg: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = h("canvas", { width: SCALE * image.width, height: SCALE * image.height });
  const context = canvas.getContext("2d");
  context?.scale(SCALE, SCALE);
  context?.drawImage(image, 0, 0);
  return new Promise((done, failed) =>
    canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("no picture"))), "image/png"),
  );
}

// By the clipboard where the browser lets, as a file otherwise; says which it was.
async function copyPng(svg: string, file: string): Promise<string> {
  const made = png(svg);
  try {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": made })]);
    return "Copied";
  } catch {
    save(`${file}.png`, await made, "image/png");
    return "Saved";
  }
}

export async function copyText(text: string, file: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(text);
    return "Copied";
  } catch {
    save(file, text, "text/plain;charset=utf-8");
    return "Saved";
  }
}

const said = h("span", { class: "unseen", role: "status" });

// A button that says what came of it, until it is left.
export function action(text: string, label: string, act: () => Promise<string> | string): HTMLElement {
  const button = h("button", { type: "button", class: "share", "aria-label": label }, text);
  const reset = (): void => {
    button.textContent = text;
  };
  button.addEventListener("click", async () => {
    if (!said.isConnected) document.body.append(said);
    try {
      button.textContent = await act();
    } catch {
      button.textContent = "Failed";
    }
    said.textContent = `${label}: ${button.textContent}`;
  });
  button.addEventListener("blur", reset);
  button.addEventListener("pointerleave", reset);
  return button;
}

// What a picture can be taken along as.
export function pictureTools(title: string, file: string, svg: () => string | null): HTMLElement[] {
  return [
    action("PNG", `Copy ${title} as PNG`, () => copyPng(svg() ?? "", file)),
    action("SVG", `Save ${title} as SVG`, () => {
      const text = svg();
      if (text === null) return "Not drawn";
      save(`${file}.svg`, text, "image/svg+xml");
      return "Saved";
    }),
  ];
}
