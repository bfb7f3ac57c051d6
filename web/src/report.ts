// The page: reads the data that stand in it and shows each report in its own way.
import { comparisonCard, layerProfileCard, layersCard, scheduleCard, traceCard, traceComparisonCard } from "./answers";
import { type Card, plainCard, showCard } from "./card";
import { comparison } from "./comparison";
import { h, name } from "./dom";
import { arrive, folded } from "./figures";
import { history } from "./history";
import { layerProfile, layers, schedule } from "./pipeline";
import { watchPicks } from "./pick";
import { profile, profileAnswer } from "./profile";
import { begin, bind, recall } from "./state";
import { themeButton } from "./theme";
import { trace, traceComparison } from "./trace";
import { LayerProfile, Layers, Page, Profile, ProfileView, Report, Schedule, Trace, TraceView } from "./types";

type Any = Page["reports"][0];

interface Kind {
  title: (report: Any) => string;
  show: (report: Any, all: Any[]) => Node[];
  answer?: (report: Any, title: string) => Card;
}

function as<D, V>(report: Any): Report<D, V> {
  return report as unknown as Report<D, V>;
}

const fileName = (path: string | null | undefined): string => (path ?? "").split("/").pop() ?? "";

const kinds: Record<string, Kind> = {
  "prony.profile/1": {
    title: (r) => fileName(as<Profile, ProfileView>(r).data.model?.path) || "Recorded program",
    show: (r) => profile(as(r)),
    answer: (r, title) => profileAnswer(as(r), title),
  },
  "prony.profile-comparison/1": {
    title: () => "Comparison",
    show: (r, all) => comparison(as(r), all),
    answer: (r, title) => comparisonCard(as(r), title),
  },
  "prony.history/1": {
    title: (r) => `${as<{ model: string }, object>(r).data.model} over time`,
    show: (r) => history(as(r)),
  },
  "prony.trace/1": {
    title: (r) => fileName(as<Trace, TraceView>(r).data.trace.name),
    show: (r) => trace(as(r)),
    answer: (r, title) => traceCard(as(r), title),
  },
  "prony.trace-comparison/1": {
    title: () => "Comparison of traces",
    show: (r) => traceComparison(as(r)),
    answer: (r, title) => traceComparisonCard(as(r), title),
  },
  "prony.layer-profile/1": {
    title: (r) => `${as<LayerProfile, object>(r).data.model_name}, layer by layer`,
    show: (r) => layerProfile(as(r)),
    answer: (r, title) => layerProfileCard(as(r), title),
  },
  "prony.layers/1": {
    title: (r) => `Layers of ${fileName(as<Layers, object>(r).data.file)}`,
    show: (r) => layers(as(r)),
    answer: (r, title) => layersCard(as(r), title),
  },
  "prony.schedule/1": {
    title: (r) => `Schedule of ${as<Schedule, object>(r).data.model_name}`,
    show: (r) => schedule(as(r)),
    answer: (r, title) => scheduleCard(as(r), title),
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
    showCard(
      attempt(
        () => kind.answer?.(report, title),
        () => undefined,
      ) ?? plainCard(String(report.data.verdict ?? ""), title, report.view?.markdown),
    ),
    ...attempt(
      () => kind.show(report, all),
      (fault) => [h("p", { class: "warning" }, `This report can't be shown: ${fault}`)],
    ),
    text ? folded("As text", () => h("pre", { tabindex: 0, "aria-label": "The report as text" }, text)) : null,
  );
}

// Which of several reports is shown is in the address, by its number.
function navigation(
  reports: Any[],
  choose: (index: number) => void,
): { element: HTMLElement; mark: (i: number) => void } {
  const buttons = reports.map((report, i) => {
    const title = attempt(
      () => kinds[report.data.schema].title(report),
      () => report.data.schema,
    );
    const button = h(
      "button",
      { type: "button", "aria-pressed": "false" },
      name(report.name ? `${title} (${fileName(report.name)})` : title),
    );
    button.addEventListener("click", () => choose(i));
    return button;
  });
  return {
    element: h("nav", { "aria-label": "Reports", hidden: reports.length < 2 }, ...buttons),
    mark: (index) => buttons.forEach((b, i) => b.setAttribute("aria-pressed", i === index ? "true" : "false")),
  };
}

function start(): void {
  const page = JSON.parse(document.getElementById("prony-data")?.textContent ?? "") as Page;
  const reports = page.reports.filter((r) => r?.data?.schema in kinds);
  const main = h("main");
  const nav = navigation(reports, (index) => {
    // The node that is picked stays: it may be in both of two traces.
    begin({ report: index > 0 ? String(index + 1) : null, node: recall("node") });
    show(index);
  });
  const show = (index: number): void => {
    const report = reports[index];
    const title = attempt(
      () => kinds[report.data.schema].title(report),
      () => "report",
    );
    nav.mark(index);
    watchPicks();
    main.replaceChildren(showReport(report, reports));
    arrive(main);
    document.title = `${title.slice(0, 100)} - prony`;
  };
  const wanted = (value: string | null): number => {
    const index = Number(value ?? 1) - 1;
    return index in reports ? index : 0;
  };
  const head = h("header", {}, h("span", { class: "brand" }, "prony"), themeButton());
  document.body.prepend(head, nav.element, main);
  document.body.append(h("footer", {}, `prony ${page.prony_version}`));
  bind("report", (value) => show(wanted(value)));
  if (recall("report") === null) show(0);
}

start();
