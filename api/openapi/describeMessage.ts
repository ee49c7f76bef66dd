import type { z } from "zod";

/** A request that the service sends to clients' servers. */
export type MessageDescription = {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly schema: z.ZodType;
  readonly example: unknown;
};

/** Returns the webhooks of an API description. */
export const describeMessage = (
  { name, summary, description, headers, example }: MessageDescription,
  schema: object,
): object => ({
  [name]: {
    post: {
      summary,
      description,
      security: [],
      parameters: Object.entries(headers).map(([header, meaning]) => ({
        name: header,
        in: "header",
        description: meaning,
        required: true,
        schema: { type: "string" },
      })),
      requestBody: { required: true, content: { "application/json": { schema, example } } },
      responses: { "2XX": { description: "The event was received." } },
    },
  },
});
