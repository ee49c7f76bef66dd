import { z } from "zod";
import type { ApiResponse } from "./startStandaloneApi.ts";

const batch = z.strictObject({
  succeeded: z.number(),
  failed: z.number(),
  results: z.array(
    z.strictObject({
      status: z.number(),
      idempotent_replayed: z.boolean().optional(),
      body: z.record(z.string(), z.unknown()),
    }),
  ),
});
const rejected = z.strictObject({
  error: z.string(),
  errors: z.array(z.strictObject({ index: z.number(), status: z.number(), error: z.string() })),
});

/** Returns the results in the response to a batch. */
export const batchIn = ({ body }: ApiResponse): z.output<typeof batch> => batch.parse(body);

/** Returns the errors in the response to a batch of which nothing was recorded. */
export const rejectionIn = ({ body }: ApiResponse) => rejected.parse(body);
