import type { Caller } from "../accounts/apiKeys.sql.ts";
import { findSuspension } from "../accounts/accounts.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import { listKnownKeys } from "../records/ownedRecords.sql.ts";
import { readTotals } from "./totals.sql.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { isAccepted, requireAll, resultOfOne } from "../records/batches.rules.ts";
import { DomainError, OutageError } from "../../runtime/errors.rules.ts";
import type { RegistrationRequest } from "./registrations.rules.ts";
import type { Registered, WrittenItem } from "./createRegistrationWriter.ts";
import type { RegistrationContext } from "./context.ts";
import { listByIdempotencyKeys } from "./registrations.sql.ts";

type RegisterContext = Pick<RegistrationContext, "db" | "clock" | "writer">;

/** Whether a write has failed. A full queue is no time for queries, and its error asks for another retry. */
export const isFinal = (error: unknown): boolean =>
  error instanceof OutageError || (error instanceof DomainError && error.code !== "queue_full");

type Registrar = Pick<Caller, "accountId" | "mode" | "suspendingSubscription">;

/** The registration at an index. If it has a refusal, it can only repeat an earlier one. */
type Item = { readonly index: number; readonly request: RegistrationRequest };

const keysOf = (items: readonly Item[]): readonly string[] =>
  items.flatMap(({ request: { idempotencyKey } }) => idempotencyKey ?? []);

/** Returns why an organization's registration is refused unless it repeats an earlier one, or null. */
const findRefusal = (
  { suspendingSubscription }: Registrar,
  { kind, refusal }: RegistrationRequest,
): DomainError | null => {
  const suspension = findSuspension(suspendingSubscription, kind);
  return (
    refusal ?? (suspension === null ? null : new DomainError("subscription_inactive", suspension))
  );
};

/**
 * Returns the items that cannot be recorded after those before them, and why. Items that repeat a key record nothing.
 * @param room how many units the owner's total can still grow by
 * @param overflow the error of items that would increase it by more
 */
const findUnrecordable = (
  items: readonly Item[],
  knownKeys: ReadonlySet<string>,
  room: number,
  overflow: DomainError | null,
): ReadonlyMap<Item, DomainError> => {
  const keys = new Set(knownKeys);
  const found = new Map<Item, DomainError>();
  let free = room;
  for (const item of items) {
    const { count, idempotencyKey: key, refusal } = item.request;
    if (key !== null && keys.has(key)) {
      continue;
    }
    const error = refusal ?? (count > free ? overflow : null);
    if (error !== null) {
      found.set(item, error);
      continue;
    }
    free -= count;
    if (key !== null) {
      keys.add(key);
    }
  }
  return found;
};

/** Writes items in one transaction; one item together with those of other calls. */
const writeItems = async (
  { writer }: RegisterContext,
  owner: Owner,
  items: readonly Item[],
  isAtomic: boolean,
): Promise<readonly Outcome<WrittenItem>[]> => {
  const requests = items.map(({ request }) => request);
  const [first] = requests;
  return first && requests.length === 1
    ? [{ ...(await writer.register(first)), idempotencyKey: first.idempotencyKey }]
    : writer.registerTogether(owner, requests, isAtomic);
};

/**
 * Returns the outcomes of items that can be decided although their write has failed: all repeat what is recorded by now, or
 * some cannot be recorded.
 * @throws the error if it has another reason
 */
const decideFailed = async (
  { db, clock }: RegisterContext,
  owner: Owner,
  items: readonly Item[],
  knownKeys: ReadonlySet<string>,
  error: unknown,
): Promise<ReadonlyMap<Item, Outcome<WrittenItem>>> => {
  const [first] = items;
  const isReplay = items.every(
    ({ request: { idempotencyKey: key } }) => key !== null && knownKeys.has(key),
  );
  if (isReplay) {
    const totals = await readTotals(db, owner, clock.now());
    return new Map(
      items.map((item) => {
        const { idempotencyKey } = item.request;
        return [item, { registration: null, replayed: true, idempotencyKey, totals }];
      }),
    );
  }
  if (!(error instanceof DomainError)) {
    throw error;
  }
  if (first && items.length === 1) {
    return new Map([[first, error]]);
  }
  const totals = await readTotals(db, owner, clock.now());
  const room = Number.MAX_SAFE_INTEGER - totals.all;
  const unrecordable = findUnrecordable(items, knownKeys, room, error);
  if (unrecordable.size === 0) {
    throw error;
  }
  return unrecordable;
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
  const outcomes: (Outcome<WrittenItem> | undefined)[] = given.map((item) =>
    isAccepted(item) ? undefined : item,
  );
  const decide = (decided: ReadonlyMap<Item, Outcome<WrittenItem> | undefined>): void => {
    for (const [{ index }, outcome] of decided) {
      outcomes[index] = outcome;
    }
    if (isAtomic) {
      requireAll(outcomes);
    }
  };
  decide(new Map());
  const items = given.flatMap((request, index) =>
    isAccepted(request)
      ? [{ index, request: { ...request, refusal: findRefusal(caller, request) } }]
      : [],
  );
  const keys = keysOf(items);
  const findKnownKeys = async (): Promise<ReadonlySet<string>> =>
    keys.length === 0 ? new Set() : listKnownKeys(context.db, "registration", owner, keys);
  if (items.some(({ request: { refusal } }) => refusal !== null)) {
    decide(findUnrecordable(items, await findKnownKeys(), Infinity, null));
  }
  const listUndecided = () => items.filter(({ index }) => outcomes[index] === undefined);
  for (let rest = listUndecided(); rest.length > 0; rest = listUndecided()) {
    try {
      const written = await writeItems(context, owner, rest, isAtomic);
      decide(new Map(rest.map((item, place) => [item, written[place]])));
    } catch (error) {
      if (!isFinal(error)) {
        throw error;
      }
      decide(await decideFailed(context, owner, rest, await findKnownKeys(), error));
    }
  }
  return outcomes.filter((outcome) => outcome !== undefined);
};

/** Returns the items with their registrations: those of replays are read now. */
export const readRegistered = async (
  { db }: Pick<RegisterContext, "db">,
  owner: Owner,
  items: readonly WrittenItem[],
): Promise<readonly Registered[]> => {
  const keys = items.flatMap(({ registration, idempotencyKey }) =>
    registration === null && idempotencyKey !== null ? [idempotencyKey] : [],
  );
  const originals = keys.length === 0 ? [] : await listByIdempotencyKeys(db, owner, keys);
  const byKey = new Map(originals.map((original) => [original.idempotencyKey, original]));
  return items.map(({ idempotencyKey, ...item }) => {
    const registration = item.registration ?? byKey.get(idempotencyKey);
    if (!registration) {
      throw new Error("An item was not recorded, and its idempotency key is unknown.");
    }
    return { ...item, registration };
  });
};

/**
 * Records an impact action as a batch of one.
 * @throws DomainError the refusal, subscription_inactive, or what exceeds a limit
 */
export const register = async (
  context: RegisterContext,
  caller: Registrar,
  request: RegistrationRequest,
): Promise<Registered> => {
  const written = resultOfOne(await registerAll(context, caller, request, [request], false));
  return resultOfOne(await readRegistered(context, request, [written]));
};
