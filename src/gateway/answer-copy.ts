// A copy of what one call is answered with, kept while the answer is on its way: a client that left after the call was
// committed and asks again gets this very answer (kept-answers.ts). Heartbeats are no part of it.

/** UTF-16 units past which an answer is not worth keeping: it is then sampled anew like any other repeat. */
const MAX_LENGTH = 8 * 1024 * 1024;

export class AnswerCopy {
  #pieces: string[] = [];
  #length = 0;

  take(text: string): void {
    this.#length += text.length;
    if (this.#length > MAX_LENGTH) this.#pieces = [];
    else this.#pieces.push(text);
  }

  /** All of it; null where it was too long to keep. */
  get text(): string | null {
    return this.#length > MAX_LENGTH ? null : this.#pieces.join("");
  }
}
