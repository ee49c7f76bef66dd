import type { ImportLine } from "./importLine.ts";

/** Two statements of about 50 ms, which are written at the same time. */
const BATCH = 2000;

/** Groups lines, so that one statement handles many. If the lines end with an error, those before it are yielded first. */
export async function* inBatches(
  lines: AsyncIterable<ImportLine>,
): AsyncGenerator<readonly ImportLine[], void, void> {
  let batch: ImportLine[] = [];
  let failure: { readonly error: unknown } | null = null;
  try {
    for await (const line of lines) {
      batch.push(line);
      if (batch.length === BATCH) {
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
