import { findSuspension } from "../../domain/accounts/accounts.ts";
import type { SubscriptionStatus } from "../../domain/accounts/accounts.ts";
import { DomainError } from "../../domain/errors.ts";
import type { RegistrationRequest } from "../../domain/registrations/registrations.ts";
import type { Registered, RegistrationWriter } from "./createRegistrationWriter.ts";

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
 * Records an impact action, unless it is refused or the organization's registrations are suspended. Then only a repeated
 * request gets its original record, which bills nothing.
 * @throws DomainError the refusal, subscription_inactive, or queue_full
 */
export const registerUnlessRefused = async (
  writer: Pick<RegistrationWriter, "register" | "findOriginal">,
  suspendingSubscription: SubscriptionStatus | null,
  request: RegistrationRequest,
): Promise<Registered> => {
  const refusal = findRefusal(suspendingSubscription, request);
  if (refusal === null) {
    return writer.register(request);
  }
  const { idempotencyKey } = request;
  const original =
    idempotencyKey === null ? null : await writer.findOriginal(request, idempotencyKey);
  if (original === null) {
    throw refusal;
  }
  return original;
};
