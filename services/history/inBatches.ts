import type { ImportLine } from "./importHistory.ts";

/** One statement of about 50 ms, which is how long the totals of a busy account stay locked. */
const BATCH = 1000;

/** Groups lines, so that one statement handles many. */
export async function* inBatches(
  lines: AsyncIterable<ImportLine>,
): AsyncGenerator<readonly ImportLine[], void, void> {
  let batch: ImportLine[] = [];
  for await (const line of lines) {
    batch.push(line);
    if (batch.length === BATCH) {
      yield batch;
      batch = [];
    }
  }
  if (batch.length > 0) {
    yield batch;
  }
}
