import { DomainError } from "../../domain/errors.ts";

/** Counts the lists that are being sent. Each holds a page in memory for as long as its client takes to read it. */
export type OpenLists = {
  /**
   * Counts a list until the returned function is called.
   * @throws DomainError rate_limited if the account has too many open lists, queue_full if the process has
   */
  readonly open: (accountId: string) => () => void;
  readonly count: () => number;
};

export type OpenListLimits = {
  readonly maximum: number;
  readonly maximumPerAccount: number;
};

export const createOpenLists = ({ maximum, maximumPerAccount }: OpenListLimits): OpenLists => {
  const byAccount = new Map<string, number>();
  let total = 0;
  return {
    open: (accountId) => {
      const own = byAccount.get(accountId) ?? 0;
      if (own >= maximumPerAccount) {
        throw new DomainError(
          "rate_limited",
          `too many lists are being read: at most ${maximumPerAccount} at the same time`,
        );
      }
      if (total >= maximum) {
        throw new DomainError("queue_full", "too many lists are being read, try again");
      }
      byAccount.set(accountId, own + 1);
      total += 1;
      return () => {
        total -= 1;
        const left = (byAccount.get(accountId) ?? 0) - 1;
        if (left > 0) {
          byAccount.set(accountId, left);
        } else {
          byAccount.delete(accountId);
        }
      };
    },
    count: () => total,
  };
};
