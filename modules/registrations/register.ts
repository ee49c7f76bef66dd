import type { Caller } from "../accounts/apiKeys.sql.ts";
import { findSuspension } from "../accounts/accounts.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { isAccepted, requireAll } from "../records/batches.rules.ts";
import { DomainError, OutageError } from "../../runtime/errors.rules.ts";
import { findRejections, keyOf, listUsedKeys } from "./checkLimits.ts";
import type { RegistrationRequest } from "./registrations.rules.ts";
import type { WrittenItem } from "./createRegistrationWriter.ts";
import type { RegistrationContext } from "./context.ts";
import { readTotals } from "./totals.sql.ts";

type RegisterContext = Pick<RegistrationContext, "db" | "clock" | "writer">;

/** Whether a write has failed. A full queue is no time for queries, and its error asks for another retry. */
export const isFinal = (error: unknown): boolean =>
  error instanceof OutageError || (error instanceof DomainError && error.code !== "queue_full");

type Registrar = Pick<Caller, "suspendingSubscription">;

type Decided = ReadonlyMap<RegistrationRequest, Outcome<WrittenItem> | undefined>;

/** Returns why requests are refused. Those that repeat an earlier one are not. */
const findRefusals = async (
  { db }: RegisterContext,
  { suspendingSubscription }: Registrar,
  { kind }: Owner,
  requests: readonly RegistrationRequest[],
): Promise<Decided> => {
  const suspension = findSuspension(suspendingSubscription, kind);
  const suspended =
    suspension === null ? null : new DomainError("subscription_inactive", suspension);
  const refusalOf = ({ refusal }: RegistrationRequest) => refusal ?? suspended;
  return requests.some((request) => refusalOf(request) !== null)
    ? findRejections(requests, await listUsedKeys(db, requests), refusalOf)
    : new Map();
};

/**
 * Returns the outcomes of requests that can be decided although their write has failed: all repeat what is recorded by now,
 * or some would increase the owner's total too much, and those that repeat one of them are refused.
 * @throws the error if it has another reason
 */
const decideFailed = async (
  { db, clock }: RegisterContext,
  owner: Owner,
  requests: readonly RegistrationRequest[],
  error: unknown,
): Promise<Decided> => {
  const used = await listUsedKeys(db, requests);
  const known = new Set(used);
  const isReplay = requests.every(
    ({ idempotencyKey: key }) => key !== null && known.has(keyOf(owner, key)),
  );
  if (isReplay) {
    const replay = {
      registration: null,
      totals: await readTotals(db, owner, clock.now()),
      replayed: true,
    };
    return new Map(
      requests.map((request) => [request, { ...replay, idempotencyKey: request.idempotencyKey }]),
    );
  }
  if (!(error instanceof DomainError)) {
    throw error;
  }
  let room = Number.MAX_SAFE_INTEGER - (await readTotals(db, owner, clock.now())).all;
  const rejections = findRejections(requests, used, ({ count, refusal }) => {
    if (refusal !== null || count > room) {
      return refusal ?? error;
    }
    room -= count;
    return null;
  });
  if (rejections.size === 0) {
    throw error;
  }
  return rejections;
};

/**
 * Records impact actions of one kind in one transaction, in their order and within the account's limits. An item with a known
 * idempotency key, or with that of an earlier item, returns the original record. If an item is refused, or the organization
 * is suspended, it can do nothing else.
 * @param given each registration, or why it is rejected already
 * @param isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
 * @throws BatchRejectedError
 */
export const registerAll = async (
  context: RegisterContext,
  caller: Registrar,
  owner: Owner,
  given: readonly Outcome<RegistrationRequest>[],
  isAtomic: boolean,
): Promise<readonly Outcome<WrittenItem>[]> => {
  const decided = new Map<RegistrationRequest, Outcome<WrittenItem> | undefined>();
  const listOutcomes = () => given.map((item) => (isAccepted(item) ? decided.get(item) : item));
  const decide = (found: Decided): void => {
    for (const [request, outcome] of found) {
      decided.set(request, outcome);
    }
    if (isAtomic) {
      requireAll(listOutcomes());
    }
  };
  const requests = given.filter(isAccepted);
  decide(await findRefusals(context, caller, owner, requests));
  const listUndecided = () => requests.filter((request) => !decided.has(request));
  for (let rest = listUndecided(); rest.length > 0; rest = listUndecided()) {
    try {
      const written = await context.writer.write(owner, rest, isAtomic);
      decide(new Map(rest.map((request, place) => [request, written[place]])));
    } catch (error) {
      if (!isFinal(error)) {
        throw error;
      }
      decide(await decideFailed(context, owner, rest, error));
    }
  }
  return listOutcomes().filter((outcome) => outcome !== undefined);
};
