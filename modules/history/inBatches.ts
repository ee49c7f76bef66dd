import type { BulkPace } from "../../db/createBulkPace.ts";
import type { ImportLine } from "./importLine.ts";

/** Two statements of about 50 ms, which are written at the same time unless bulk work yields. */
const BATCH = 2000;

/** The same in two steps of a few milliseconds, while bulk work yields to what clients record. */
const YIELDING_BATCH = 100;

/** Groups lines, so that one statement handles many. If the lines end with an error, those before it are yielded first. */
export async function* inBatches(
  lines: AsyncIterable<ImportLine>,
  { isYielding }: Pick<BulkPace, "isYielding">,
): AsyncGenerator<readonly ImportLine[], void, void> {
  let batch: ImportLine[] = [];
  let failure: { readonly error: unknown } | null = null;
  try {
    for await (const line of lines) {
      batch.push(line);
      if (batch.length >= (isYielding() ? YIELDING_BATCH : BATCH)) {
        yield batch;
        batch = [];
      }
    }
  } catch (error) {
    failure = { error };
  }
  if (batch.length > 0) {
    yield batch;
  }
  if (failure) {
    throw failure.error;
  }
}
