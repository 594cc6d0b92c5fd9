// Chat templates of four families, each with what a model of the family samples for an answer, rendered by the real
// Jinja of Hugging Face and tokenised by the real Llama 3 tokenizer around the family's special tokens. They leave
// out what does not bear on splicing; the lines that do are those of the templates that models are published with.
import { Template } from "@huggingface/jinja";
import llama3 from "llama3-tokenizer-js";
import type { Message } from "../../lineage/call.ts";
import { isRecord } from "../../lineage/message.ts";
import type { RenderAsk, Rendering, TokenIn } from "../token-in.ts";

export interface TemplateFamily {
  readonly name: string;
  readonly template: string;
  readonly specials: readonly string[];
  /** What the model samples for an answer, without the stop token. */
  readonly sampled: (answer: Message) => string;
  /** The stop token after an answer. */
  readonly stop: (answer: Message) => string;
}

const TOOLS = `{%- if tools %}{{ TURN }}{% for tool in tools %}{{ tool | tojson }}
{% endfor %}{{ END }}{%- endif %}`;

function hermesCalls(answer: Message): string {
  const calls = toolCalls(answer)
    .map(({ name, given }) => `<tool_call>\n{"name": "${name}", "arguments": ${spaced(given)}}\n</tool_call>`)
    .join("\n");
  return calls === "" || contentOf(answer) === "" ? calls : `\n${calls}`;
}

function toolCalls(answer: Message): { readonly name: string; readonly given: string }[] {
  const calls = Array.isArray(answer["tool_calls"]) ? (answer["tool_calls"] as unknown[]) : [];
  return calls.filter(isRecord).map((call) => {
    const target = call["function"] as { readonly name: string; readonly arguments: string };
    return { name: target.name, given: target.arguments };
  });
}

/** JSON as Jinja's `tojson` writes it. */
function spaced(json: string): string {
  const entries = Object.entries(JSON.parse(json) as Record<string, unknown>);
  return `{${entries.map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`).join(", ")}}`;
}

function contentOf(answer: Message): string {
  return typeof answer["content"] === "string" ? answer["content"] : "";
}

function reasoningOf(answer: Message): string | null {
  return typeof answer["reasoning_content"] === "string" ? answer["reasoning_content"] : null;
}

/** ChatML with a default system message and Hermes tool calls (SmolLM2, Qwen2.5). */
export const CHATML: TemplateFamily = {
  name: "ChatML",
  specials: ["<|im_start|>", "<|im_end|>"],
  template: `{%- if messages[0].role != 'system' %}{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{%- endif %}
${TOOLS.replace("{{ TURN }}", "{{ '<|im_start|>system\\n' }}").replace("{{ END }}", "{{ '<|im_end|>\\n' }}")}
{%- for message in messages %}
{%- if message.role == 'tool' %}{{ '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}{{ '<|im_start|>' + message.role + '\\n' }}{%- if message.content %}{{ message.content }}{%- endif %}
{%- if message.tool_calls %}{%- for call in message.tool_calls %}{%- if message.content or not loop.first %}{{ '\\n' }}{%- endif %}{{ '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}{{ call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{%- endfor %}{%- endif %}{{ '<|im_end|>\\n' }}
{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}`,
  sampled: (answer) => contentOf(answer) + hermesCalls(answer),
  stop: () => "<|im_end|>",
};

/** Llama 3: the end of the turn is followed by the next head at once; tool calls are bare JSON. */
export const LLAMA3: TemplateFamily = {
  name: "Llama 3",
  specials: ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
  template: `{{ '<|begin_of_text|>' }}
${TOOLS.replace("{{ TURN }}", "{{ '<|start_header_id|>system<|end_header_id|>\\n\\n' }}").replace("{{ END }}", "{{ '<|eot_id|>' }}")}
{%- for message in messages %}
{%- if message.tool_calls %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- if message.content %}{{ message.content | trim }}{%- endif %}{%- for call in message.tool_calls %}{{ '{"name": "' + call.function.name + '", "parameters": ' }}{{ call.function.arguments | tojson }}{{ '}' }}{%- endfor %}{{ '<|eot_id|>' }}
{%- elif message.role == 'tool' %}{{ '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + message.content + '<|eot_id|>' }}
{%- else %}{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}
{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}`,
  sampled: (answer) =>
    contentOf(answer).trim() +
    toolCalls(answer)
      .map(({ name, given }) => `{"name": "${name}", "parameters": ${spaced(given)}}`)
      .join(""),
  stop: () => "<|eot_id|>",
};

/** GLM: a turn has no end of its own; the model stops by sampling the marker of the next role. */
export const ROLE_MARKER: TemplateFamily = {
  name: "role-marker-stop",
  specials: ["[gMASK]<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"],
  template: `{{ '[gMASK]<sop>' }}
${TOOLS.replace("{{ TURN }}", "{{ '<|system|>\\n' }}").replace("{{ END }}", "")}
{%- for message in messages %}
{%- if message.role == 'assistant' %}{{ '<|assistant|>' }}{%- if message.content %}{{ '\\n' + message.content | trim }}{%- endif %}{%- for call in message.tool_calls or [] %}{{ '\\n<tool_call>' + call.function.name + '\\n' }}{{ call.function.arguments | tojson }}{{ '\\n</tool_call>' }}{%- endfor %}
{%- elif message.role == 'tool' %}{{ '<|observation|>\\n' + message.content }}
{%- else %}{{ '<|' + message.role + '|>\\n' + message.content }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{%- endif %}`,
  sampled: (answer) =>
    (contentOf(answer) === "" ? "" : `\n${contentOf(answer).trim()}`) +
    toolCalls(answer)
      .map(({ name, given }) => `\n<tool_call>${name}\n${spaced(given)}\n</tool_call>`)
      .join(""),
  stop: (answer) => (toolCalls(answer).length > 0 ? "<|observation|>" : "<|user|>"),
};

/**
 * Qwen3: reasoning stays in the turns after the last question of the user and goes from those before, and an answer
 * that stands last gets a thought even where it had none.
 */
export const REASONING: TemplateFamily = {
  name: "reasoning-dropping",
  specials: ["<|im_start|>", "<|im_end|>", "<think>", "</think>"],
  template: `${TOOLS.replace("{{ TURN }}", "{{ '<|im_start|>system\\n' }}").replace("{{ END }}", "{{ '<|im_end|>\\n' }}")}
{%- set ns = namespace(last_query=0) %}
{%- for message in messages %}{%- if message.role == 'user' %}{%- set ns.last_query = loop.index0 %}{%- endif %}{%- endfor %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{%- set content = message.content or '' %}{%- set reasoning = message.reasoning_content or '' %}
{{- '<|im_start|>assistant\\n' }}
{%- if loop.index0 > ns.last_query and (loop.last or reasoning) %}{{ '<think>\\n' + reasoning + '\\n</think>\\n\\n' }}{%- endif %}{{ content }}
{%- for call in message.tool_calls or [] %}{%- if message.content or not loop.first %}{{ '\\n' }}{%- endif %}{{ '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}{{ call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}{{ '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}`,
  sampled: (answer) => {
    const reasoning = reasoningOf(answer);
    const thought = reasoning === null ? "" : `<think>\n${reasoning}\n</think>\n\n`;
    return thought + contentOf(answer) + hermesCalls(answer);
  },
  stop: () => "<|im_end|>",
};

export const FAMILIES: readonly TemplateFamily[] = [CHATML, LLAMA3, ROLE_MARKER, REASONING];

const FIRST_SPECIAL = 200_000;

/** A scripted engine that renders as the family does. */
export class FamilyEngine {
  readonly family: TemplateFamily;
  readonly #template: Template;

  constructor(family: TemplateFamily) {
    this.family = family;
    this.#template = new Template(family.template);
  }

  tokenize(text: string): number[] {
    const { specials } = this.family;
    return text.split(new RegExp(`(${this.#anySpecial()})`)).flatMap((piece) => {
      const special = specials.indexOf(piece);
      if (special !== -1) return [FIRST_SPECIAL + special];
      return piece === "" ? [] : llama3.encode(piece, { bos: false, eos: false });
    });
  }

  /** Specials and single characters: tokenised one by one they read the same and are other ids. */
  pieces(text: string): readonly string[] {
    return text.match(new RegExp(`${this.#anySpecial()}|.`, "gsu")) ?? [];
  }

  #anySpecial(): string {
    return this.family.specials.map((special) => special.replaceAll(/[|[\]]/g, String.raw`\$&`)).join("|");
  }

  text(
    messages: readonly Message[],
    options: { readonly generationPrompt: boolean; readonly tools?: unknown },
  ): string {
    return this.#template.render({
      messages: messages.map(withParsedArguments),
      add_generation_prompt: options.generationPrompt,
      tools: options.tools ?? null,
    });
  }

  /** Only its rendering is asked. */
  readonly tokenIn: Pick<TokenIn, "render"> = {
    render: async ({ body, messages, ending }: RenderAsk): Promise<Rendering> => {
      const generationPrompt = ending === "as asked" && body["add_generation_prompt"] !== false;
      const text = this.text(messages, { generationPrompt, tools: body["tools"] });
      return { ids: Uint32Array.from(this.tokenize(text)), sampling: null };
    },
  };
}

/** Engines hand a template the arguments as values. */
function withParsedArguments(message: Message): Message {
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return message;
  return {
    ...message,
    tool_calls: (calls as Record<string, { readonly name: string; readonly arguments: string }>[]).map(
      (call) => {
        const target = call["function"] as { readonly name: string; readonly arguments: string };
        const given: unknown = JSON.parse(target.arguments);
        return { ...call, function: { ...target, arguments: given } };
      },
    ),
  };
}
