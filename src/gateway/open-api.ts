// The OpenAPI 3.1 document of the service, made of the routes as they are declared and of the very schemas that check
// their requests. The four APIs that clients speak are described by their makers; here they are named.
import { z } from "zod";
import type { RouteDoc } from "./routes.ts";

export interface DocumentedRoute {
  readonly method: string;
  readonly url: string;
  readonly needsKey: boolean;
  readonly doc: RouteDoc;
}

type Json = Record<string, unknown>;

export function openApiDocument(routes: readonly DocumentedRoute[]): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.url.replaceAll(/:([a-z]+)/g, "{$1}");
    (paths[path] ??= {})[route.method.toLowerCase()] = operationOf(route, path);
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Coppice",
      version: "1",
      description: "Records the model calls of rollouts and turns what the agent kept into training rows.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    paths,
    components: {
      schemas: { Error: ERROR_SCHEMA },
      securitySchemes: { key: { type: "http", scheme: "bearer" } },
    },
  };
}

function operationOf({ method, needsKey, doc }: DocumentedRoute, path: string): Json {
  return {
    summary: doc.summary,
    operationId: operationId(method, path),
    parameters: [...pathParameters(path), ...queryParameters(doc.query)],
    ...(doc.body === undefined
      ? {}
      : { requestBody: { content: { "application/json": { schema: schemaOf(doc.body, "input") } } } }),
    responses: {
      "200": {
        description: "done",
        content: {
          [(doc.contentType ?? "application/json").split(";", 1)[0] as string]: {
            schema: doc.answer === undefined ? {} : schemaOf(doc.answer, "output"),
          },
        },
      },
      default: {
        description: "refused",
        content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
      },
    },
    security: needsKey ? [{ key: [] }, {}] : [],
  };
}

function operationId(method: string, path: string): string {
  return [method.toLowerCase(), ...path.split(/[^A-Za-z0-9]+/).filter((part) => part !== "")].join("_");
}

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/\{([a-z]+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string", maxLength: 200 },
  }));
}

function queryParameters(query: z.ZodType | undefined): Json[] {
  if (query === undefined) return [];
  const { properties } = schemaOf(query, "input") as { readonly properties?: Readonly<Record<string, Json>> };
  return Object.entries(properties ?? {}).map(([name, schema]) => ({
    name,
    in: "query",
    required: false,
    schema,
  }));
}

function schemaOf(schema: z.ZodType, io: "input" | "output"): Json {
  const { $schema: _dialect, ...json } = z.toJSONSchema(schema, { io });
  return json;
}

const ERROR_SCHEMA: Json = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["message", "type", "param", "code"],
      properties: {
        message: { type: "string" },
        type: { type: "string" },
        param: { type: ["string", "null"] },
        code: {},
        detail: { type: "object", description: "more for programs, e.g. {reason, index}" },
      },
    },
  },
};
