import type { Callback } from "../http/endpoint.ts";
import type { Collect, Json } from "./describeSchema.ts";

/**
 * Returns the callbacks of an operation. They are not in `webhooks`, because a generator leaves out the schemas that only
 * those refer to.
 */
export const describeCallback = (
  { operationId, urlField, summary, description, headers, schema, example }: Callback,
  collect: Collect,
): Json => ({
  [operationId]: {
    [`{$request.body#/${urlField}}`]: {
      post: {
        operationId,
        summary,
        description,
        security: [],
        parameters: Object.entries(headers).map(([name, meaning]) => ({
          name,
          in: "header",
          description: meaning,
          required: true,
          schema: { type: "string" },
        })),
        requestBody: {
          required: true,
          content: { "application/json": { schema: collect(schema, "output"), example } },
        },
        responses: { "2XX": { description: "The event was received." } },
      },
    },
  },
});
