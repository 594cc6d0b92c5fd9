// Small ways to ask the stand-in in tests.

export interface Asked {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

export async function post(
  url: string,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Asked> {
  const answer = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  return {
    status: answer.status,
    contentType: answer.headers.get("content-type") ?? "",
    body: await answer.text(),
  };
}

/** The frames of a recorded or received stream with LF line ends. */
export function frames(stream: string): string[] {
  return stream
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => event.replace(/^data: /, ""));
}

/** Waits until `met` holds, at most `limitMs`. */
export async function until(met: () => boolean, limitMs = 2_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!met()) {
    if (performance.now() > end) throw new Error(`not met within ${limitMs} ms: ${String(met)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
