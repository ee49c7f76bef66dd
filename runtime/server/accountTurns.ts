type Account = {
  readonly name: string;
  running: number;
  readonly waiting: Set<Turn>;
  /** Of responses that have been written. */
  unreadBytes: number;
};

/** A request of an account. */
export type Turn = {
  readonly account: Account;
  isRunning: boolean;
  /** While the request waits; called with false if its client has gone. */
  start: ((isRunning: boolean) => void) | null;
  unreadBytes: number;
};

const run = (turn: Turn): void => {
  turn.isRunning = true;
  turn.account.running += 1;
};

const stop = (turn: Turn): void => {
  if (turn.isRunning) {
    turn.isRunning = false;
    turn.account.running -= 1;
  }
};

/**
 * Limits how many requests of an account run at the same time, and how many bytes of responses its clients leave unread.
 * Further requests wait.
 */
export const createAccountTurns = ({
  maximumRunning,
  maximumUnreadBytes,
}: {
  readonly maximumRunning: number;
  readonly maximumUnreadBytes: number;
}) => {
  const accounts = new Map<string, Account>();

  const canRun = ({ running, unreadBytes }: Account): boolean =>
    running < maximumRunning && unreadBytes <= maximumUnreadBytes;

  const runWaiting = (account: Account): void => {
    for (const next of account.waiting) {
      if (!canRun(account)) {
        return;
      }
      account.waiting.delete(next);
      run(next);
      next.start?.(true);
    }
  };

  return {
    /** Enters a request, which runs or waits. */
    enter: (name: string): Turn => {
      const account = accounts.get(name) ?? {
        name,
        running: 0,
        waiting: new Set(),
        unreadBytes: 0,
      };
      accounts.set(name, account);
      const turn: Turn = { account, isRunning: false, start: null, unreadBytes: 0 };
      if (canRun(account)) {
        run(turn);
      } else {
        account.waiting.add(turn);
      }
      return turn;
    },
    /** Ends the work of a request. */
    stop: (turn: Turn): void => {
      stop(turn);
      runWaiting(turn.account);
    },
    /** Ends the work of a request whose response is written. */
    finish: (turn: Turn, unreadBytes: number): void => {
      const { account } = turn;
      stop(turn);
      turn.unreadBytes = unreadBytes;
      account.unreadBytes += unreadBytes;
      runWaiting(account);
    },
    /** Ends a request whose response is read, or whose client has gone. */
    end: (turn: Turn): void => {
      const { account } = turn;
      stop(turn);
      account.unreadBytes -= turn.unreadBytes;
      if (account.waiting.delete(turn)) {
        turn.start?.(false);
      }
      runWaiting(account);
      const isIdle =
        account.running === 0 && account.unreadBytes === 0 && account.waiting.size === 0;
      // A response may end after the account was forgotten and has new requests.
      if (isIdle && accounts.get(account.name) === account) {
        accounts.delete(account.name);
      }
    },
  };
};
