import type { Owner } from "../records/owner.rules.ts";
import type { Caller } from "../accounts/apiKeys.sql.ts";
import { listKnownKeys } from "../records/ownedRecords.sql.ts";
import { readTotals } from "./totals.sql.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { isAccepted, requireAll } from "../records/batches.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { RegistrationRequest } from "./registrations.rules.ts";
import type { WrittenItem } from "./createRegistrationWriter.ts";
import { findRefusal } from "./registerUnlessRefused.ts";
import type { RegistrationContext } from "./context.ts";

/** The registration of a batch at an index. */
type Item = {
  readonly index: number;
  readonly entry: RegistrationRequest;
  /** Why it records nothing of its own. Then it can only repeat an earlier registration. */
  readonly refusal: DomainError | null;
};

const keysOf = (items: readonly Item[]): readonly string[] =>
  items.flatMap(({ entry: { idempotencyKey } }) => idempotencyKey ?? []);

/**
 * Returns the items that cannot be recorded, after those before them, and why.
 * @param overflow the error of items that would increase the account's total beyond a safe integer
 */
const findUnrecordable = async (
  { db, clock }: RegistrationContext,
  owner: Owner,
  items: readonly Item[],
  overflow: DomainError,
): Promise<ReadonlyMap<Item, DomainError>> => {
  const keys = new Set(await listKnownKeys(db, "registration", owner, keysOf(items)));
  let total = (await readTotals(db, owner, clock.now())).all;
  const found = new Map<Item, DomainError>();
  for (const item of items) {
    const { count, idempotencyKey } = item.entry;
    if (idempotencyKey !== null && keys.has(idempotencyKey)) {
      continue;
    }
    const isTooMany = count > Number.MAX_SAFE_INTEGER - total;
    const error = item.refusal ?? (isTooMany ? overflow : null);
    if (error !== null) {
      found.set(item, error);
      continue;
    }
    total += count;
    if (idempotencyKey !== null) {
      keys.add(idempotencyKey);
    }
  }
  return found;
};

/** Writes items in one transaction, and rejects those that exceed the account's total. */
const writeItems = async (
  context: RegistrationContext,
  owner: Owner,
  items: readonly Item[],
  isAtomic: boolean,
  reject: (item: Item, error: DomainError) => void,
): Promise<ReadonlyMap<number, WrittenItem>> => {
  if (items.length === 0) {
    return new Map();
  }
  try {
    const outcomes = await context.writer.registerTogether(
      owner,
      items.map(({ entry, refusal }) => ({ ...entry, refusal })),
      isAtomic,
    );
    const written = new Map<number, WrittenItem>();
    for (const [place, item] of items.entries()) {
      const outcome = outcomes[place];
      if (outcome instanceof DomainError) {
        reject(item, outcome);
      } else if (outcome) {
        written.set(item.index, outcome);
      }
    }
    return written;
  } catch (error) {
    if (!(error instanceof DomainError) || error.code !== "request_invalid") {
      throw error;
    }
    // An item that repeats one of them may be refused.
    const unrecordable = await findUnrecordable(context, owner, items, error);
    if (unrecordable.size === 0) {
      throw error;
    }
    for (const [item, reason] of unrecordable) {
      reject(item, reason);
    }
    return writeItems(
      context,
      owner,
      items.filter((item) => !unrecordable.has(item)),
      isAtomic,
      reject,
    );
  }
};

/** Returns the refused items that do not repeat an earlier registration or item, and why. */
const findRefused = (
  items: readonly Item[],
  knownKeys: ReadonlySet<string>,
): ReadonlyMap<Item, DomainError> => {
  const keys = new Set(knownKeys);
  const refused = new Map<Item, DomainError>();
  for (const item of items) {
    const { idempotencyKey: key } = item.entry;
    if (key !== null && keys.has(key)) {
      continue;
    }
    if (item.refusal !== null) {
      refused.set(item, item.refusal);
    } else if (key !== null) {
      keys.add(key);
    }
  }
  return refused;
};

/**
 * Records impact actions of one kind in one transaction, in their order. An item with a known idempotency key, or with
 * that of an earlier item, returns the original record.
 * @param items each registration, or why it is rejected already
 * @param isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
 * @throws BatchRejectedError, or DomainError queue_full
 */
export const registerBatch = async (
  context: RegistrationContext,
  caller: Pick<Caller, "accountId" | "mode" | "suspendingSubscription">,
  owner: Owner,
  items: readonly Outcome<RegistrationRequest>[],
  isAtomic: boolean,
): Promise<readonly Outcome<WrittenItem>[]> => {
  const rejected: (DomainError | null)[] = items.map((item) => (isAccepted(item) ? null : item));
  const check = (): void => {
    if (isAtomic) {
      requireAll(rejected);
    }
  };
  check();
  const entries = items.flatMap((entry, index): readonly Item[] =>
    isAccepted(entry)
      ? [{ index, entry, refusal: findRefusal(caller.suspendingSubscription, entry) }]
      : [],
  );
  const reject = ({ index }: Item, error: DomainError): void => {
    rejected[index] = error;
  };
  const keys = keysOf(entries);
  const written = await context.guard.writeBatch(caller, keys, async (awaitEarlier) => {
    if (entries.some(({ refusal }) => refusal !== null)) {
      await awaitEarlier();
      const known = await listKnownKeys(context.db, "registration", owner, keys);
      for (const [item, refusal] of findRefused(entries, known)) {
        reject(item, refusal);
      }
      check();
    }
    return writeItems(
      context,
      owner,
      entries.filter(({ index }) => rejected[index] === null),
      isAtomic,
      (item, error) => {
        reject(item, error);
        check();
      },
    );
  });
  return items.map((_, index) => {
    const outcome = written.get(index) ?? rejected[index];
    if (!outcome) {
      throw new Error(`Item ${index} of the batch is neither recorded nor rejected.`);
    }
    return outcome;
  });
};
