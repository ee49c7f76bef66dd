import type { Caller } from "../accounts/apiKeys.sql.ts";
import { findSuspension } from "../accounts/accounts.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { completeOutcomes, isAccepted, requireAll } from "../records/batches.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { findRejections, listUsedKeys } from "./checkLimits.ts";
import type { NewRegistration } from "./registrations.rules.ts";
import type { WrittenItem } from "./createRegistrationWriter.ts";
import type { RegistrationContext } from "./context.ts";

type RegisterContext = Pick<RegistrationContext, "db" | "writer">;

type Registrar = Pick<Caller, "suspendingSubscription">;

const NONE: ReadonlyMap<NewRegistration, DomainError> = new Map();

/**
 * Records impact actions of one kind in one transaction, in their order and within the account's limits. An item with a known
 * idempotency key, or with that of an earlier item, returns the original record. If an item is refused, or the organization
 * is suspended, it can do nothing else.
 * @param given each registration, or why it is rejected already
 * @param isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
 * @throws BatchRejectedError
 * @throws DomainError request_invalid if the owner's total would exceed a safe integer, and all or nothing is recorded
 */
export const registerAll = async (
  context: RegisterContext,
  caller: Registrar,
  owner: Owner,
  given: readonly Outcome<NewRegistration>[],
  isAtomic: boolean,
): Promise<readonly Outcome<WrittenItem>[]> => {
  const requests = given.filter(isAccepted);
  const suspension = findSuspension(caller.suspendingSubscription, owner.kind);
  const suspended =
    suspension === null ? null : new DomainError("subscription_inactive", suspension);
  const refusalOf = ({ refusal = null }: NewRegistration) => refusal ?? suspended;
  // Those that repeat an earlier request are not refused.
  const refusals = requests.some((request) => refusalOf(request) !== null)
    ? findRejections(requests, await listUsedKeys(context.db, requests), refusalOf)
    : NONE;
  const decided = given.map((item) => (isAccepted(item) ? (refusals.get(item) ?? item) : item));
  if (isAtomic) {
    requireAll(decided);
  }
  const accepted = decided.filter(isAccepted);
  const written =
    accepted.length === 0 ? [] : await context.writer.write(owner, accepted, isAtomic);
  return completeOutcomes(decided, written);
};
