import type { ExecutionContext } from "ava";
import type { AccountLimits } from "../../domain/accounts/limits.ts";
import { DomainError } from "../../domain/errors.ts";
import type { SpendingGuard } from "../../services/registrations/limits/createSpendingGuard.ts";
import type { WriteAttempt } from "../../services/registrations/limits/writeOrFindOriginal.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestGuard } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";

/** Returns a guard whose next write is held after it was compared with the limits, until the test ends the hold. */
export const createHoldingGuard = (
  t: ExecutionContext<DatabaseContext>,
  limits: Partial<AccountLimits>,
) => {
  const guard = createTestGuard(t, { db: t.context.db, limits });
  const gate = Promise.withResolvers<void>();
  let isHolding = false;
  let isHeld = false;
  let compared = 0;
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
    (): Promise<Result> => {
      lookups += 1;
      return find();
    };
  /** The comparison is made before the guard returns its promise. */
  const count = <Result>(result: Promise<Result>): Promise<Result> => {
    compared += 1;
    return result;
  };
  const watch = <Result>(attempt: WriteAttempt<Result>): WriteAttempt<Result> => ({
    ...attempt,
    findOriginal: countLookups(attempt.findOriginal),
    write: hold(attempt.write),
  });
  const holding: SpendingGuard = {
    ...guard,
    register: (caller, units, attempt) => count(guard.register(caller, units, watch(attempt))),
    write: (caller, attempt) => count(guard.write(caller, watch(attempt))),
    findOriginal: (caller, { idempotencyKey, findOriginal }) =>
      count(
        guard.findOriginal(caller, { idempotencyKey, findOriginal: countLookups(findOriginal) }),
      ),
    writeBatch: (caller, items, { findKnownKeys, write }) =>
      count(
        guard.writeBatch(caller, items, {
          findKnownKeys: countLookups(findKnownKeys),
          write: hold(write),
        }),
      ),
  };
  /** Sends a request and waits until it has been compared with the limits. */
  const send = async <Response>(request: () => Promise<Response>) => {
    const before = compared;
    const response = request();
    await eventually(() => compared > before);
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
    /** Returns how often a request beyond a limit or a refused one has looked up its original. */
    lookups: () => lookups,
    write: gate.resolve,
    fail: () => gate.reject(new DomainError("queue_full", "too many registrations are waiting")),
  };
};
