import { DomainError } from "../../domain/errors.ts";

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

const stop = (turn: Turn): void => {
  const { account } = turn;
  if (!turn.isRunning) {
    return;
  }
  turn.isRunning = false;
  account.running -= 1;
  const [next] = account.waiting;
  if (next !== undefined) {
    account.waiting.delete(next);
    account.running += 1;
    next.isRunning = true;
    next.start?.(true);
  }
};

/**
 * Limits how many requests of an account run at the same time, and how many bytes of responses its clients leave unread.
 * Further requests wait, or are rejected if too much is unread, because a client may never read it.
 */
export const createAccountTurns = ({
  maximumRunning,
  maximumUnreadBytes,
}: {
  readonly maximumRunning: number;
  readonly maximumUnreadBytes: number;
}) => {
  const accounts = new Map<string, Account>();

  return {
    /**
     * Enters a request, which runs or waits.
     * @throws DomainError rate_limited
     */
    enter: (name: string): Turn => {
      const account = accounts.get(name) ?? {
        name,
        running: 0,
        waiting: new Set(),
        unreadBytes: 0,
      };
      if (account.unreadBytes > maximumUnreadBytes) {
        throw new DomainError("rate_limited", "too many unread responses of this account");
      }
      accounts.set(name, account);
      const turn: Turn = { account, isRunning: false, start: null, unreadBytes: 0 };
      if (account.running < maximumRunning) {
        account.running += 1;
        turn.isRunning = true;
      } else {
        account.waiting.add(turn);
      }
      return turn;
    },
    /** Ends the work of a request whose response is written. */
    finish: (turn: Turn, unreadBytes: number): void => {
      stop(turn);
      turn.unreadBytes = unreadBytes;
      turn.account.unreadBytes += unreadBytes;
    },
    /** Ends a request whose response is read, or whose client has gone. */
    end: (turn: Turn): void => {
      const { account } = turn;
      stop(turn);
      account.unreadBytes -= turn.unreadBytes;
      if (account.waiting.delete(turn)) {
        turn.start?.(false);
      }
      const isIdle = account.running === 0 && account.unreadBytes === 0;
      // A response may end after the account was forgotten and has new requests.
      if (isIdle && accounts.get(account.name) === account) {
        accounts.delete(account.name);
      }
    },
  };
};
