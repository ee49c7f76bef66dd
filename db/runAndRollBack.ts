import type { DatabasePool, DatabaseTransactionConnection } from "slonik";

/** Runs a transaction for a dry run: its changes are rolled back, and its result is returned. */
export const runAndRollBack = async <Result>(
  db: DatabasePool,
  work: (transaction: DatabaseTransactionConnection) => Promise<Result>,
): Promise<Result> => {
  const { promise, resolve } = Promise.withResolvers<Result>();
  const rollback = new Error("The transaction of a dry run is rolled back.");
  try {
    await db.transaction(async (transaction) => {
      resolve(await work(transaction));
      throw rollback;
    });
  } catch (error) {
    if (error !== rollback) {
      throw error;
    }
  }
  return promise;
};
