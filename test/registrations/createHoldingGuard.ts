import { DomainError } from "../../runtime/errors.rules.ts";
import { createRetryGuard } from "../../modules/registrations/createRetryGuard.ts";
import type { RetryGuard, WriteAttempt } from "../../modules/registrations/createRetryGuard.ts";
import { eventually } from "../support/programs.ts";

/** Returns a guard whose next write is held until the test ends the hold. */
export const createHoldingGuard = () => {
  const guard = createRetryGuard();
  const gate = Promise.withResolvers<void>();
  let isHolding = false;
  let isHeld = false;
  let begun = 0;
  let lookups = 0;
  const hold = <Args extends readonly unknown[], Result>(
    write: (...args: Args) => Promise<Result>,
  ): ((...args: Args) => Promise<Result>) => {
    if (!isHolding || isHeld) {
      return write;
    }
    isHeld = true;
    return async (...args) => {
      await gate.promise;
      return write(...args);
    };
  };
  const countLookups =
    <Result>(find: () => Promise<Result>) =>
    async (): Promise<Result> => {
      const found = await find();
      lookups += 1;
      return found;
    };
  /** The write has begun when the guard returns its promise. */
  const count = <Result>(result: Promise<Result>): Promise<Result> => {
    begun += 1;
    return result;
  };
  const watch = <Result>(attempt: WriteAttempt<Result>): WriteAttempt<Result> => ({
    ...attempt,
    findOriginal: countLookups(attempt.findOriginal),
    write: hold(attempt.write),
  });
  const holding: RetryGuard = {
    write: (account, attempt) => count(guard.write(account, watch(attempt))),
    writeBatch: (account, keys, write) =>
      count(
        guard.writeBatch(
          account,
          keys,
          hold((awaitEarlier) => write(countLookups(awaitEarlier))),
        ),
      ),
  };
  /** Sends a request and waits until its write has begun. */
  const send = async <Response>(request: () => Promise<Response>) => {
    const before = begun;
    const response = request();
    await eventually(() => begun > before);
    return { response };
  };
  return {
    guard: holding,
    send,
    /** Sends a request whose write is held. */
    sendHeld: <Response>(request: () => Promise<Response>) => {
      isHolding = true;
      return send(request);
    },
    /** Returns how often a request that failed or was refused has looked up its original. */
    lookups: () => lookups,
    write: gate.resolve,
    fail: () => gate.reject(new DomainError("queue_full", "too many registrations are waiting")),
  };
};
