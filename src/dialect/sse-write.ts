// Writes server-sent events and heartbeats, as text that is ready to be sent.
// Format: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream

export interface SseEventOut {
  /** The `event:` field; left out where absent, as Chat Completions has it. */
  readonly type?: string;
  readonly text: string;
  readonly id?: string;
}

const LINE_END = /\r\n|\r|\n/;

/** One event. Text of several lines becomes as many `data:` lines, whatever their ends; readers join them with LF. */
export function sseEvent(event: SseEventOut): string {
  const type = event.type === undefined ? "" : `event: ${oneLine(event.type, "type")}\n`;
  const id = event.id === undefined ? "" : `id: ${oneLine(event.id, "id")}\n`;
  const lines = LINE_END.test(event.text) ? event.text.split(LINE_END).join("\ndata: ") : event.text;
  return `${type}${id}data: ${lines}\n\n`;
}

/** An event whose text is JSON, which has no line ends; `type` is a name that has none either. Nothing is looked at. */
export function jsonEvent(type: string, value: unknown): string {
  return `event: ${type}\ndata: ${JSON.stringify(value)}\n\n`;
}

/** A comment, which readers pass over: what keeps a silent connection open between two events. */
export function sseComment(text = "heartbeat"): string {
  return `: ${oneLine(text, "comment")}\n\n`;
}

/** Throws where a line end would begin a field of its own; that is a bug of the caller. */
function oneLine(text: string, field: string): string {
  if (LINE_END.test(text)) throw new Error(`the ${field} of a server-sent event holds a line end`);
  return text;
}
