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

type Batch = z.output<typeof batch>;

/** Returns the results in the response to a batch. */
export const batchIn = ({ body }: ApiResponse): Batch => batch.parse(body);

/** Returns what became of each item: the status of one that was rejected. */
export const outcomesOf = (results: Batch["results"]): readonly (number | "new" | "replayed")[] =>
  results.map(({ status, idempotent_replayed: isReplay }) =>
    status === 200 ? (isReplay === true ? "replayed" : "new") : status,
  );

/** Returns a field of the body of each item. */
export const fieldsOf = (results: Batch["results"], name: string): readonly unknown[] =>
  results.map(({ body }) => body[name]);

/** Returns the errors in the response to a batch of which nothing was recorded. */
export const rejectionIn = ({ body }: ApiResponse) => rejected.parse(body);

/** Returns the status of each item that was rejected in such a response, by its index. */
export const rejectedIn = (response: ApiResponse): Readonly<Record<number, number>> =>
  Object.fromEntries(rejectionIn(response).errors.map(({ index, status }) => [index, status]));
