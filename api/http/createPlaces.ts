import { createConnectionShares } from "../../db/pools/connectionShares.ts";

/** Places for responses that hold much memory for as long as their clients take to read them. */
export type Places = {
  /**
   * Runs work when it is its turn. Accounts take turns, and one has half of the places at most.
   * @throws DomainError queue_full if too much work waits, or this has waited too long
   */
  readonly run: <Result>(accountName: string, work: () => Promise<Result>) => Promise<Result>;
  readonly usedCount: () => number;
  /** Returns whether work waits, so that a client that does not read must leave its place. */
  readonly areNeeded: () => boolean;
};

export const createPlaces = (maximum: number): Places => {
  const shares = createConnectionShares({
    total: maximum,
    perKind: maximum,
    perAccount: Math.ceil(maximum / 2),
  });
  return {
    run: (accountId, work) => shares.run({ accountId, kind: "any" }, work),
    usedCount: shares.usedCount,
    areNeeded: () => shares.waitingCount() > 0,
  };
};
