import type { DatabasePool } from "slonik";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import { listKnownKeys } from "../../db/ownedRecords.ts";
import { readTotals } from "../../db/registrations/totals.ts";
import type { Outcome } from "../../domain/batches.ts";
import { isAccepted, requireAll } from "../../domain/batches.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import type { Owner, RegistrationRequest } from "../../domain/registrations/registrations.ts";
import type { RegistrationWriter, WrittenItem } from "./createRegistrationWriter.ts";
import type { SpendingGuard } from "./limits/createSpendingGuard.ts";
import { findRefusal } from "./registerUnlessRefused.ts";

export type RegisterBatchDependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly writer: RegistrationWriter;
  readonly guard: SpendingGuard;
};

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
  { db, clock }: RegisterBatchDependencies,
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
  deps: RegisterBatchDependencies,
  owner: Owner,
  items: readonly Item[],
  reject: (item: Item, error: DomainError) => void,
): Promise<ReadonlyMap<number, WrittenItem>> => {
  if (items.length === 0) {
    return new Map();
  }
  try {
    const written = await deps.writer.registerTogether(
      owner,
      items.map(({ entry }) => entry),
    );
    return new Map(
      items.flatMap(({ index }, place) => {
        const item = written[place];
        return item ? [[index, item]] : [];
      }),
    );
  } catch (error) {
    if (!(error instanceof DomainError) || error.code !== "request_invalid") {
      throw error;
    }
    // An item that repeats one of them may be refused.
    const unrecordable = await findUnrecordable(deps, owner, items, error);
    if (unrecordable.size === 0) {
      throw error;
    }
    for (const [item, reason] of unrecordable) {
      reject(item, reason);
    }
    return writeItems(
      deps,
      owner,
      items.filter((item) => !unrecordable.has(item)),
      reject,
    );
  }
};

/**
 * Records impact actions of one kind in one transaction, in their order. An item with a known idempotency key, or with
 * that of an earlier item, returns the original record.
 * @param items each registration, or why it is rejected already
 * @param isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
 * @throws BatchRejectedError, or DomainError queue_full
 */
export const registerBatch = async (
  deps: RegisterBatchDependencies,
  caller: Pick<Caller, "accountId" | "mode" | "limits" | "suspendingSubscription">,
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
  const findKnownKeys = (): Promise<ReadonlySet<string>> =>
    listKnownKeys(deps.db, "registration", owner, keysOf(entries));
  const reject = ({ index }: Item, error: DomainError): void => {
    rejected[index] = error;
  };
  const listAccepted = (): readonly Item[] =>
    entries.filter(({ index }) => rejected[index] === null);
  const { written } = await deps.guard.writeBatch(
    caller,
    entries.map(({ index, entry: { count, idempotencyKey }, refusal }) => ({
      index,
      count,
      idempotencyKey,
      refusal,
    })),
    {
      findKnownKeys,
      write: async (rejections) => {
        for (const [index, error] of rejections) {
          rejected[index] = error;
        }
        check();
        const done = await writeItems(deps, owner, listAccepted(), (item, error) => {
          reject(item, error);
          check();
        });
        const created = [...done.values()].flatMap((item) => item.registration ?? []);
        return {
          written: done,
          newRecords: created.length,
          newUnits: created.reduce((sum, { count }) => sum + count, 0),
        };
      },
    },
  );
  return items.map((_, index) => {
    const outcome = written.get(index) ?? rejected[index];
    if (!outcome) {
      throw new Error(`Item ${index} of the batch is neither recorded nor rejected.`);
    }
    return outcome;
  });
};
