/** Counts what is in progress in this process. */
type AccountCounts = {
  readonly total: () => number;
  readonly countOf: (account: string) => number;
  /** Counts one more of the account until the returned function is called. */
  readonly enter: (account: string) => () => void;
};

export const createAccountCounts = (): AccountCounts => {
  const counts = new Map<string, number>();
  let total = 0;
  const countOf = (account: string): number => counts.get(account) ?? 0;
  return {
    total: () => total,
    countOf,
    enter: (account) => {
      counts.set(account, countOf(account) + 1);
      total += 1;
      return () => {
        total -= 1;
        const left = countOf(account) - 1;
        if (left > 0) {
          counts.set(account, left);
        } else {
          counts.delete(account);
        }
      };
    },
  };
};
