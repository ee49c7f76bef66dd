/** Short statements, so that neither locks nor replication wait for one of them. */
const BATCH_SIZE = 1000;

/**
 * Repeats a deletion until it finds nothing more. It may be interrupted and repeated.
 * @param deleteBatch deletes up to `limit` rows and returns their number
 * @returns the number of deleted rows
 */
export const deleteInBatches = async (
  deleteBatch: (limit: number) => Promise<number>,
  signal: AbortSignal,
  batchSize = BATCH_SIZE,
): Promise<number> => {
  let total = 0;
  for (;;) {
    signal.throwIfAborted();
    const deleted = await deleteBatch(batchSize);
    if (deleted === 0) {
      return total;
    }
    total += deleted;
  }
};
