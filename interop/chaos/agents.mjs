// The agents of the run: each rollout has some turns, and goes through whichever gateway answers. What was answered in full
// is remembered; what was not is asked again, as agents do.
const TURNS = 5;
export const GROUP_SIZE = 4;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Agents {
  /** Call id to `{rollout, group}` of every answer that came whole. */
  answered = new Map();
  asked = 0;
  askedAgain = 0;
  finished = 0;
  wrong = [];
  #gateways;
  #next = 0;
  #isOver = false;

  constructor(gateways) {
    this.#gateways = gateways;
  }

  get groups() {
    return Math.ceil(this.#next / GROUP_SIZE);
  }

  /** Keeps so many rollouts in flight; groups that were begun are finished. */
  async run(inFlight, milliseconds) {
    const end = setTimeout(() => (this.#isOver = true), milliseconds);
    await Promise.all(
      Array.from({ length: inFlight }, async () => {
        while (!this.#isOver || this.#next % GROUP_SIZE !== 0) await this.#rollout(this.#next++);
      }),
    );
    clearTimeout(end);
  }

  async #rollout(number) {
    const id = `r${number}`;
    const group = `g${Math.floor(number / GROUP_SIZE)}`;
    const open = { group_id: group, group_size: GROUP_SIZE, generation_index: number % GROUP_SIZE };
    await this.#until("PUT", `/rollouts/${id}`, open, [200]);
    const accepted = [];
    const messages = [{ role: "user", content: `task ${number}` }];
    for (let turn = 0; turn < TURNS; turn++) {
      await pause(300 + Math.random() * 900);
      const { json, headers } = await this.#until(
        "POST",
        `/r/${id}/v1/chat/completions`,
        { model: "any", messages },
        [200],
      );
      this.answered.set(headers.get("x-coppice-call-id"), { rollout: id, group });
      accepted.push(json.id);
      messages.push(json.choices[0].message, { role: "user", content: `observation ${turn}` });
    }
    await this.#until("POST", `/rollouts/${id}/outcome`, { reward: number % 2, accepted }, [200]);
    this.finished += 1;
  }

  /** Asks any gateway until one answers so. */
  async #until(method, path, body, statuses) {
    for (let attempt = 0; ; attempt++) {
      const gateway = this.#gateways[Math.floor(Math.random() * this.#gateways.length)];
      this.asked += 1;
      try {
        const response = await fetch(gateway + path, {
          method,
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(60_000),
        });
        const json = await response.json();
        if (statuses.includes(response.status)) return { json, headers: response.headers };
        // A repeat of an outcome that was taken meanwhile, and then published.
        if (response.status === 409 && path.endsWith("/outcome") && attempt > 0) return { json };
        if (response.status < 500)
          this.wrong.push(`${method} ${path}: ${response.status} ${JSON.stringify(json)}`);
      } catch {
        // The gateway died, or is not there yet.
      }
      this.askedAgain += 1;
      await pause(50 + Math.random() * 200);
    }
  }
}
