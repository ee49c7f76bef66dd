import { findSuspension } from "../../domain/accounts/accounts.ts";
import type { SubscriptionStatus } from "../../domain/accounts/accounts.ts";
import { DomainError } from "../../domain/errors.ts";
import type { NewRegistration } from "../../domain/registrations/registrations.ts";
import type { Registered, RegistrationWriter } from "./createRegistrationWriter.ts";

/**
 * Records an impact action, unless the organization's registrations are suspended. Then only a repeated request gets its
 * original record, which bills nothing.
 * @throws DomainError subscription_inactive, or queue_full
 */
export const registerUnlessSuspended = async (
  writer: Pick<RegistrationWriter, "register" | "findOriginal">,
  suspendingSubscription: SubscriptionStatus | null,
  entry: NewRegistration,
): Promise<Registered> => {
  const suspension = findSuspension(suspendingSubscription, entry.kind);
  if (suspension === null) {
    return writer.register(entry);
  }
  const original =
    entry.idempotencyKey === null ? null : await writer.findOriginal(entry, entry.idempotencyKey);
  if (original === null) {
    throw new DomainError("subscription_inactive", suspension);
  }
  return original;
};
