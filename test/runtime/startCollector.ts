import type { ExecutionContext } from "ava";
import protobuf from "protobufjs";
import { z } from "zod";
import { serveRequests } from "../support/server.ts";

/** The fields of https://github.com/open-telemetry/opentelemetry-proto that the tests read. */
const PROTOCOL = `
  syntax = "proto3";
  message Request { repeated ResourceSpans resource_spans = 1; }
  message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
  message Resource { repeated KeyValue attributes = 1; }
  message ScopeSpans { repeated Span spans = 2; }
  message Span {
    bytes trace_id = 1;
    bytes span_id = 2;
    bytes parent_span_id = 4;
    string name = 5;
    repeated KeyValue attributes = 9;
    repeated Link links = 13;
  }
  message Link { bytes trace_id = 1; bytes span_id = 2; }
  message KeyValue { string key = 1; Value value = 2; }
  message Value { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }
`;

const REQUEST = protobuf.parse(PROTOCOL).root.lookupType("Request");

const hex = z
  .string()
  .default("")
  .transform((base64) => Buffer.from(base64, "base64").toString("hex"));

const attributes = z
  .array(z.object({ key: z.string(), value: z.record(z.string(), z.unknown()).default({}) }))
  .default([])
  .transform((pairs) =>
    Object.fromEntries(pairs.map(({ key, value }) => [key, Object.values(value)[0]])),
  );

const request = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes }),
      scopeSpans: z.array(
        z.object({
          spans: z.array(
            z.object({
              traceId: hex,
              spanId: hex,
              parentSpanId: hex,
              name: z.string(),
              attributes,
              links: z.array(z.object({ traceId: hex, spanId: hex })).default([]),
            }),
          ),
        }),
      ),
    }),
  ),
});

export type ReceivedSpan = z.output<
  typeof request
>["resourceSpans"][number]["scopeSpans"][number]["spans"][number] & { readonly service: unknown };

/** Starts a collector that receives spans by OTLP over HTTP, as protobuf. */
export const startCollector = async (t: ExecutionContext) => {
  const spans: ReceivedSpan[] = [];
  const url = await serveRequests(t, async (incoming, response) => {
    if (incoming.url !== "/v1/traces") {
      response.statusCode = 404;
      response.end();
      return;
    }
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a request without an encoding yields buffers.
    const body = Buffer.concat((await incoming.toArray()) as Buffer[]);
    const { resourceSpans } = request.parse(
      REQUEST.toObject(REQUEST.decode(body), { bytes: String, longs: Number }),
    );
    for (const { resource, scopeSpans } of resourceSpans) {
      const service = resource.attributes["service.name"];
      spans.push(
        ...scopeSpans.flatMap((scope) => scope.spans.map((span) => ({ ...span, service }))),
      );
    }
    response.setHeader("Content-Type", "application/x-protobuf");
    response.end();
  });
  return { url, spans };
};
