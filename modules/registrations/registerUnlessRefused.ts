import type { Caller } from "../accounts/apiKeys.sql.ts";
import { findSuspension } from "../accounts/accounts.rules.ts";
import type { SubscriptionStatus } from "../accounts/accounts.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { RegistrationRequest } from "./registrations.rules.ts";
import type { Registered, RegistrationWriter } from "./createRegistrationWriter.ts";
import type { RetryGuard } from "./createRetryGuard.ts";

/** Returns why an organization's registration is refused unless it repeats an earlier one, or null. */
export const findRefusal = (
  suspendingSubscription: SubscriptionStatus | null,
  { kind, refusal }: RegistrationRequest,
): DomainError | null => {
  const suspension = findSuspension(suspendingSubscription, kind);
  return (
    refusal ?? (suspension === null ? null : new DomainError("subscription_inactive", suspension))
  );
};

/**
 * Records an impact action within the account's limits, unless it is refused or the organization's registrations are
 * suspended. Then only a repeated request gets its original record, which bills nothing and uses nothing of a limit.
 * @throws DomainError the refusal, subscription_inactive, what exceeds a limit, or queue_full
 */
export const registerUnlessRefused = async (
  {
    writer,
    guard,
  }: {
    readonly writer: Pick<RegistrationWriter, "register" | "findOriginal">;
    readonly guard: Pick<RetryGuard, "write" | "findOriginal">;
  },
  caller: Pick<Caller, "accountId" | "mode" | "suspendingSubscription">,
  request: RegistrationRequest,
): Promise<Registered> => {
  const { idempotencyKey } = request;
  const findOriginal = (): Promise<Registered | null> =>
    idempotencyKey === null ? Promise.resolve(null) : writer.findOriginal(request, idempotencyKey);
  const refusal = findRefusal(caller.suspendingSubscription, request);
  if (refusal === null) {
    return guard.write(caller, {
      idempotencyKey,
      write: () => writer.register(request),
      findOriginal,
    });
  }
  const original = await guard.findOriginal(caller, { idempotencyKey, findOriginal });
  if (original === null) {
    throw refusal;
  }
  return original;
};
