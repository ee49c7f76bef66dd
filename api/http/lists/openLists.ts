import type { Caller } from "../../../db/accounts/apiKeys.ts";
import { DomainError } from "../../../domain/errors.ts";
import { createAccountCounts } from "../createAccountCounts.ts";

/** Counts the lists that are being sent. Each holds a page in memory for as long as its client takes to read it. */
export type OpenLists = {
  /**
   * Counts a list until the returned function is called.
   * @throws DomainError rate_limited if the account has too many open lists, queue_full if the process has
   */
  readonly open: (caller: Pick<Caller, "accountId" | "mode" | "limits">) => () => void;
  readonly count: () => number;
};

export type OpenListLimits = {
  readonly maximum: number;
  /** Of an account and mode, unless an operator has set another limit. Test keys have a quarter of it. */
  readonly maximumPerAccount: number;
};

/** Rounded up, so that a test key can always read one. */
const TEST_SHARE = 1 / 4;

export const createOpenLists = ({ maximum, maximumPerAccount }: OpenListLimits): OpenLists => {
  const counts = createAccountCounts();
  return {
    open: ({ accountId, mode, limits }) => {
      const name = `${accountId}/${mode}`;
      const share = mode === "test" ? TEST_SHARE : 1;
      const most = limits?.openLists ?? Math.ceil(maximumPerAccount * share);
      if (counts.countOf(name) >= most) {
        throw new DomainError(
          "rate_limited",
          `too many lists are being read: at most ${most} at the same time`,
        );
      }
      if (counts.total() >= maximum) {
        throw new DomainError("queue_full", "too many lists are being read, try again");
      }
      return counts.enter(name);
    },
    count: counts.total,
  };
};
