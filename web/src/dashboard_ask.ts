// Asking the service: with an end to every wait, and never the same thing twice at a time.

// The service answered, but not with what was asked for.
export class Refused extends Error {
  constructor(
    readonly status: number,
    text: string,
  ) {
    super(text);
  }
}

const refusal = (status: number, answer: unknown): string => {
  const said = (answer as { error?: unknown } | null)?.error;
  return typeof said === "string" && said !== "" ? said.slice(0, 500) : `the service answers with status ${status}`;
};

// Sends `body` as JSON, if there is one, and gets the JSON of the answer. Throws Refused for an answer
// that is an error, and Error when there was none.
export async function ask<T>(path: string, timeoutMs: number, body?: object): Promise<T> {
  const stop = new AbortController();
  const late = setTimeout(() => stop.abort(), timeoutMs);
  try {
    const response = await fetch(path, {
      method: body ? "POST" : "GET",
      headers: body ? { "Content-Type": "application/json" } : {},
      body: body ? JSON.stringify(body) : undefined,
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
      signal: stop.signal,
    });
    const text = await response.text();
    let answer: unknown = null;
    try {
      answer = text === "" ? null : JSON.parse(text);
    } catch {
      if (response.ok) throw new Error("the answer is not JSON");
    }
    if (!response.ok) throw new Refused(response.status, refusal(response.status, answer));
    return answer as T;
  } catch (fault) {
    if (fault instanceof Refused) throw fault;
    if (stop.signal.aborted) throw new Error(`no answer within ${timeoutMs / 1000} s`);
    throw new Error(fault instanceof TypeError ? "the service can't be reached" : String((fault as Error).message));
  } finally {
    clearTimeout(late);
  }
}

// Does something now, and again `pause()` ms after it was done, or, where that is null, when it is called.
// What is called for while it is under way is done once after that.
export function repeated(once: () => Promise<void>, pause: () => number | null): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let busy = false;
  let again = false;
  const run = async (): Promise<void> => {
    clearTimeout(timer);
    again = busy;
    if (busy) return;
    busy = true;
    await once();
    busy = false;
    const next = again ? 0 : pause();
    if (next !== null) timer = setTimeout(() => void run(), next);
  };
  return () => void run();
}
