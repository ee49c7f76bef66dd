import type { DatabaseTransactionConnection } from "slonik";
import { accountModeKey } from "../records/owner.rules.ts";
import { fromMicroseconds } from "../records/timestamps.rules.ts";
import { lockLimits } from "../registrations/checkLimits.ts";
import { LOCKED } from "../../db/batching/createGroupCommit.ts";
import type { Context } from "../../runtime/context.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { limitLockWait, lockFreeBalances } from "./balances.sql.ts";
import type { LockedBalance, NewBalanceEntry } from "./balances.sql.ts";
import { listIdempotentResponses } from "./idempotentResponses.sql.ts";
import { lockBalance, reportDecisions } from "./lockBalance.ts";
import { isLongReversal, reverseStoreRecords } from "./reverseStoreRecords.ts";
import type { NewStoreDonation } from "./storeDonations.sql.ts";
import type { NewReversal, StoreRegistration } from "./storeRegistrations.sql.ts";
import { recordStoreWrites } from "./storeWrites.sql.ts";
import { balanceOf, decideStoreWrite, enterStoreWrite, responseKey } from "./storeWrites.rules.ts";
import type {
  AcceptedWrite,
  BalanceRefusal,
  PaidWrite,
  StoreDonationWrite,
  StoreLedger,
  StoreRegistrationWrite,
  StoreResponse,
} from "./storeWrites.rules.ts";

/** After it another store is written. PostgreSQL grants locks in the order in which they are requested. */
const LOCK_WAIT_MS = 250;

/** What a write records, besides what its reversal has recorded already. */
type Recorded<Write extends PaidWrite = PaidWrite> = {
  readonly write: Write;
  readonly unitPriceCents: number;
  readonly amountCents: number;
  /** After the write. */
  readonly balanceCents: number;
  /** In microseconds. */
  readonly createdAt: string;
  readonly reversals: readonly NewReversal[];
};

type Result = StoreResponse | DomainError | typeof LOCKED;

const isRecorded = (outcome: Recorded | Result): outcome is Recorded =>
  typeof outcome === "object" && "write" in outcome;

const isRegistration = (recorded: Recorded): recorded is Recorded<StoreRegistrationWrite> =>
  "count" in recorded.write;

const isDonation = (recorded: Recorded): recorded is Recorded<StoreDonationWrite> =>
  recorded.write.kind === "donation";

/** Locks the balance of a store that is written alone. */
const awaitBalance = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
): Promise<readonly LockedBalance[]> => {
  const free = await lockFreeBalances(transaction, [accountId]);
  if (free.length > 0) {
    return free;
  }
  await limitLockWait(transaction, LOCK_WAIT_MS);
  const balance = await lockBalance(transaction, accountId);
  await limitLockWait(transaction, 0);
  return [balance];
};

/** Reads the stored responses to writes of locked stores: earlier requests with their keys have committed. */
const readResponses = async (
  transaction: DatabaseTransactionConnection,
  writes: readonly PaidWrite[],
): Promise<StoreLedger["responses"]> => {
  const keys = writes.flatMap(({ accountId, mode, operation, idempotency }) =>
    idempotency === null ? [] : [{ accountId, mode, operation, key: idempotency.key }],
  );
  const stored = await listIdempotentResponses(transaction, keys);
  return new Map(stored.map((response) => [responseKey(response), response]));
};

type Batch = {
  readonly transaction: DatabaseTransactionConnection;
  readonly ledger: StoreLedger;
  readonly now: Date;
  readonly isAlone: boolean;
};

/** Enters an accepted write, with the selection of a reversal. */
const applyWrite = async (
  { transaction, ledger, now, isAlone }: Batch,
  write: PaidWrite,
  { unitPriceCents, costCents }: AcceptedWrite,
): Promise<Recorded | DomainError | typeof LOCKED> => {
  const { balanceCents: before } = balanceOf(ledger, write.accountId);
  const change =
    write.kind === "refund"
      ? await reverseStoreRecords(transaction, write, { balanceCents: before, now, isAlone })
      : { amountCents: -costCents, reversals: [] };
  if (change === LOCKED || change instanceof DomainError) {
    return change;
  }
  const { amountCents, reversals } = change;
  const { balanceCents, createdUs } = enterStoreWrite(write, ledger, amountCents, now);
  const createdAt = fromMicroseconds(createdUs);
  return { write, unitPriceCents, amountCents, balanceCents, createdAt, reversals };
};

/**
 * Decides writes in their order, and enters those that are accepted. A reversal is the only write of its store in a
 * transaction: it needs statements of its own, so that many of one store would delay the others, and no total may change
 * twice in one statement. What must be written later is LOCKED, and so is all that follows it.
 */
const decideAll = async (batch: Batch, writes: readonly PaidWrite[]) => {
  const { ledger, isAlone } = batch;
  const postponed = new Set(
    writes.map(({ accountId }) => accountId).filter((accountId) => !ledger.balances.has(accountId)),
  );
  /** The stores with an accepted write. */
  const entered = new Set<string>();
  const refusals = new Map<string, BalanceRefusal>();
  const outcomes: (Recorded | Result)[] = [];
  for (const write of writes) {
    const { accountId } = write;
    const decision = postponed.has(accountId) ? LOCKED : decideStoreWrite(write, ledger);
    if (decision === LOCKED) {
      outcomes.push(LOCKED);
    } else if (decision.kind === "replayed") {
      outcomes.push(decision.response);
    } else if (decision.kind === "rejected") {
      outcomes.push(decision.error);
      if (decision.refusal && !refusals.has(accountId)) {
        refusals.set(accountId, decision.refusal);
      }
    } else {
      const isReversal = write.kind === "refund";
      const mustWait =
        isReversal && (entered.has(accountId) || (isLongReversal(write) && !isAlone));
      const outcome = mustWait ? LOCKED : await applyWrite(batch, write, decision);
      outcomes.push(outcome);
      entered.add(accountId);
      if (isReversal || outcome === LOCKED) {
        postponed.add(accountId);
      }
    }
  }
  return { outcomes, refusals };
};

const toRegistration = ({
  write,
  ...rest
}: Recorded<StoreRegistrationWrite>): StoreRegistration => ({
  ...write,
  ...rest,
  id: write.recordId,
});

const toDonation = ({ write, createdAt }: Recorded<StoreDonationWrite>): NewStoreDonation => {
  const { recordId: id, accountId, mode, amountCents, charity, customer } = write;
  return { id, accountId, mode, amountCents, charity, customer, createdAt };
};

const toEntry = ({ write, ...rest }: Recorded): NewBalanceEntry => {
  const { accountId, kind } = write;
  const entry = { ...rest, accountId, kind };
  if (write.kind === "refund") {
    return { ...entry, quantity: write.quantity, note: write.reason ?? "" };
  }
  return write.kind === "donation"
    ? { ...entry, donationId: write.recordId, note: write.charity.charity.name }
    : { ...entry, quantity: write.count, registrationId: write.recordId, note: "" };
};

const recordAll = async (
  transaction: DatabaseTransactionConnection,
  recorded: readonly Recorded[],
  ledger: StoreLedger,
): Promise<void> => {
  if (recorded.length === 0) {
    return;
  }
  const accountIds = new Set(recorded.map(({ write }) => write.accountId));
  await recordStoreWrites(transaction, {
    registrations: recorded.filter(isRegistration).map(toRegistration),
    donations: recorded.filter(isDonation).map(toDonation),
    reversals: recorded.flatMap(({ reversals }) => reversals),
    entries: recorded.filter(({ amountCents }) => amountCents !== 0).map(toEntry),
    responses: recorded.flatMap(({ write, createdAt }) =>
      write.idempotency === null ? [] : [{ ...write, ...write.idempotency, createdAt }],
    ),
    balances: [...accountIds].map((accountId) => {
      const { balanceCents, lastRecordUs } = balanceOf(ledger, accountId);
      return { accountId, balanceCents, lastRecordUs };
    }),
  });
};

/**
 * Decides and records writes of stores in one transaction, under the locks of their balances.
 * @param options.isAlone whether all writes are of one store, and may wait for locks of other transactions
 * @returns the response to each write, why it is rejected, or LOCKED: then its store must be written alone
 */
export const writeStores = async (
  { db, clock }: Context,
  writes: readonly PaidWrite[],
  { isAlone }: { readonly isAlone: boolean },
): Promise<readonly Result[]> => {
  const [first] = writes;
  if (!first) {
    return [];
  }
  return db.transaction(async (transaction) => {
    const balances = isAlone
      ? await awaitBalance(transaction, first.accountId)
      : await lockFreeBalances(transaction, [...new Set(writes.map(({ accountId }) => accountId))]);
    const locked = new Map(balances.map((balance) => [balance.accountId, balance]));
    const ready = writes.filter(({ accountId }) => locked.has(accountId));
    const now = clock.now();
    const registrations = ready.filter((write) => "count" in write);
    const { limits, countRegistered } = await lockLimits(transaction, registrations, now);
    const ledger: StoreLedger = {
      balances: new Map(locked),
      responses: await readResponses(transaction, ready),
      limits: new Map(limits.map((each) => [accountModeKey(each), each])),
    };
    const { outcomes, refusals } = await decideAll({ transaction, ledger, now, isAlone }, writes);
    const recorded = outcomes.filter(isRecorded);
    await recordAll(transaction, recorded, ledger);
    await countRegistered(recorded.filter(isRegistration).map(({ write }) => write));
    await reportDecisions(transaction, balances, ledger.balances, refusals, now);
    return outcomes.map((outcome) => {
      if (!isRecorded(outcome)) {
        return outcome;
      }
      const { responseBody, recordId } = outcome.write;
      return { responseBody, recordId, replayed: false };
    });
  });
};
