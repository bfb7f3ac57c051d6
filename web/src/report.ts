// The page: reads the data that stand in it and shows each report in its own way.
import { comparison } from "./comparison";
import { folded, h, name } from "./dom";
import { layerProfile, layers, schedule } from "./pipeline";
import { profile } from "./profile";
import { themeButton } from "./theme";
import { trace, traceComparison } from "./trace";
import { LayerProfile, Layers, Page, Profile, ProfileView, Report, Schedule, Trace, TraceView } from "./types";

type Any = Page["reports"][0];

interface Kind {
  title: (report: Any) => string;
  show: (report: Any, all: Any[]) => Node[];
}

function as<D, V>(report: Any): Report<D, V> {
  return report as unknown as Report<D, V>;
}

const fileName = (path: string | null | undefined): string => (path ?? "").split("/").pop() ?? "";

const kinds: Record<string, Kind> = {
  "prony.profile/1": {
    title: (r) => fileName(as<Profile, ProfileView>(r).data.model?.path) || "Recorded program",
    show: (r) => profile(as(r)),
  },
  "prony.profile-comparison/1": {
    title: () => "Comparison",
    show: (r, all) => comparison(as(r), all),
  },
  "prony.trace/1": {
    title: (r) => fileName(as<Trace, TraceView>(r).data.trace.name),
    show: (r) => trace(as(r)),
  },
  "prony.trace-comparison/1": {
    title: () => "Comparison of traces",
    show: (r) => traceComparison(as(r)),
  },
  "prony.layer-profile/1": {
    title: (r) => `${as<LayerProfile, object>(r).data.model_name}, layer by layer`,
    show: (r) => layerProfile(as(r)),
  },
  "prony.layers/1": {
    title: (r) => `Layers of ${fileName(as<Layers, object>(r).data.file)}`,
    show: (r) => layers(as(r)),
  },
  "prony.schedule/1": {
    title: (r) => `Schedule of ${as<Schedule, object>(r).data.model_name}`,
    show: (r) => schedule(as(r)),
  },
};

// What a file says that prony didn't write may be anything; the rest of the page stands.
function attempt<T>(make: () => T, otherwise: (fault: string) => T): T {
  try {
    return make();
  } catch (fault) {
    return otherwise(fault instanceof Error ? fault.message : String(fault));
  }
}

function showReport(report: Any, all: Any[]): HTMLElement {
  const kind = kinds[report.data.schema];
  const title = attempt(
    () => kind.title(report),
    () => report.data.schema,
  );
  const text = report.view?.text;
  return h(
    "article",
    { "aria-label": title.slice(0, 200), "data-schema": report.data.schema },
    h("h1", {}, name(title)),
    report.name ? h("p", { class: "file" }, name(report.name)) : null,
    h("p", { class: "verdict" }, h("bdi", {}, String(report.data.verdict ?? ""))),
    ...attempt(
      () => kind.show(report, all),
      (fault) => [h("p", { class: "warning" }, `This report can't be shown: ${fault}`)],
    ),
    text ? folded("As text", () => h("pre", { tabindex: 0, "aria-label": "The report as text" }, text)) : null,
  );
}

function navigation(reports: Any[], show: (index: number) => void): HTMLElement | null {
  if (reports.length < 2) return null;
  const buttons = reports.map((report, i) => {
    const title = attempt(
      () => kinds[report.data.schema].title(report),
      () => report.data.schema,
    );
    const button = h(
      "button",
      { type: "button", "aria-pressed": i === 0 ? "true" : "false" },
      name(report.name ? `${title} (${fileName(report.name)})` : title),
    );
    button.addEventListener("click", () => {
      buttons.forEach((b) => b.setAttribute("aria-pressed", b === button ? "true" : "false"));
      show(i);
    });
    return button;
  });
  return h("nav", { "aria-label": "Reports" }, ...buttons);
}

function start(): void {
  const page = JSON.parse(document.getElementById("prony-data")?.textContent ?? "") as Page;
  const reports = page.reports.filter((r) => r?.data?.schema in kinds);
  const main = h("main");
  const show = (index: number): void => {
    const title = attempt(
      () => kinds[reports[index].data.schema].title(reports[index]),
      () => "report",
    );
    main.replaceChildren(showReport(reports[index], reports));
    document.title = `${title.slice(0, 100)} - prony`;
  };
  const nav = navigation(reports, show);
  const head = h("header", {}, h("span", { class: "brand" }, "prony"), themeButton());
  document.body.prepend(head, ...(nav ? [nav] : []), main);
  document.body.append(h("footer", {}, `prony ${page.prony_version}`));
  show(0);
}

start();
