import { z } from "zod";
import { findExcess } from "../accounts/limits.rules.ts";
import type { LimitUse } from "../accounts/limits.rules.ts";
import type { ConfirmedCharity } from "../charities/charities.rules.ts";
import { accountModeKey } from "../records/owner.rules.ts";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import { fromMicroseconds, toMicroseconds } from "../records/timestamps.rules.ts";
import { invalidRequest, mustExist } from "../../runtime/errors.rules.ts";
import type { CustomerDetails, RefundFilter } from "./customers.rules.ts";
import { selectUnits } from "./storeRefunds.rules.ts";
import type { Units } from "./storeRefunds.rules.ts";
import type { BalanceRefusal, Feature, Prices, StoreOperation } from "./stores.rules.ts";
import { addToBalance, balanceInsufficient, findDisabled } from "./stores.rules.ts";

/** What every write of a store needs for its idempotency. */
export type StoreWrite = AccountMode & {
  readonly operation: StoreOperation;
  /** Null for a write without a key. `requestHash` is the SHA-256 of the request in hexadecimal digits. */
  readonly idempotency: { readonly key: string; readonly requestHash: string } | null;
  /** The body of the response on success, which is known before the write is done. */
  readonly responseBody: string;
};

/** Plants trees, rescues bottles, or donates to a confirmed charity. The kind is also that of its balance entry. */
type Purchase = StoreWrite &
  CustomerDetails & { readonly recordId: string } & (
    | {
        readonly kind: Kind;
        readonly count: number;
        /** Whether an operator has set limits for the store. */
        readonly isLimited: boolean;
      }
    | {
        readonly kind: "donation";
        readonly amountCents: number;
        readonly charity: ConfirmedCharity;
      }
  );

export type StoreRegistrationWrite = Extract<Purchase, { readonly kind: Kind }>;

/** Refunds units or donations, the newest first. */
export type StoreRefundWrite = StoreWrite & {
  /** It may refund several records. */
  readonly recordId: null;
  readonly refunded: Kind | "donation";
  readonly quantity: number;
  readonly filter: RefundFilter;
  readonly reason: string | null;
};

/** Creates a page for a payment, of which only the response is stored. */
type TopUpWrite = StoreWrite & { readonly recordId: null; readonly kind: "topup" };

export type AnyStoreWrite = Purchase | StoreRefundWrite | TopUpWrite;

export const isRefund = (write: AnyStoreWrite): write is StoreRefundWrite => "refunded" in write;

/** A refund of more can take long. */
const MAXIMUM_QUICK = 100;

/**
 * Returns the writes that one transaction does: of each store those before its first refund, or only the refund. One that
 * can take long, or waits for the locks of donations, must be of the only store.
 */
export const selectReady = (
  writes: readonly AnyStoreWrite[],
  { isAlone }: { readonly isAlone: boolean },
): readonly AnyStoreWrite[] =>
  [...Map.groupBy(writes, ({ accountId }) => accountId).values()].flatMap((ofStore) => {
    const [first] = ofStore;
    if (first && isRefund(first)) {
      const isQuick = first.refunded !== "donation" && first.quantity <= MAXIMUM_QUICK;
      return isAlone || isQuick ? [first] : [];
    }
    const end = ofStore.findIndex(isRefund);
    return end < 0 ? ofStore : ofStore.slice(0, end);
  });

export type StoreResponse = {
  readonly responseBody: string;
  /** The registration or donation that the write recorded; null if it recorded none, or if its id is not known. */
  readonly recordId: string | null;
  /** Whether it is the stored response of an earlier request with the same key. */
  readonly replayed: boolean;
};

/** The response that was stored for a key. What follows from the request is null once it was erased. */
export const storedResponse = z.strictObject({
  /** SHA-256 in hexadecimal digits. */
  requestHash: z.string().nullable(),
  responseBody: z.string().nullable(),
  /** Also null if the write recorded nothing, or if its record was imported. */
  recordId: z.uuid().nullable(),
});
export type StoredResponse = Readonly<z.output<typeof storedResponse>>;

/** Returns a string that identifies a write's key among the keys of all stores, modes and operations; null without a key. */
export const keyOf = ({ accountId, mode, operation, idempotency }: StoreWrite): string | null =>
  idempotency && `${accountId}/${mode}/${operation}/${idempotency.key}`;

/**
 * Returns the stored response to a repeated write, or null. Of an erased request and of an imported key only the key is
 * known: its response follows from the repeated request.
 * @param responses by `keyOf`
 * @throws DomainError request_invalid if the key was used for another request
 */
export const findReplay = (
  write: StoreWrite,
  { responses }: { readonly responses: ReadonlyMap<string, StoredResponse> },
): StoreResponse | null => {
  const stored = responses.get(keyOf(write) ?? "");
  if (!stored) {
    return null;
  }
  if (stored.requestHash !== null && write.idempotency?.requestHash !== stored.requestHash) {
    throw invalidRequest("Idempotency-Key: was used before with another request body");
  }
  return {
    responseBody: stored.responseBody ?? write.responseBody,
    recordId: stored.recordId,
    replayed: true,
  };
};

export type StoreBalance = Readonly<Record<Feature, boolean>> &
  Prices & {
    readonly balanceCents: number;
    /** The time of the store's latest record or refund, in microseconds since 1970. */
    readonly lastRecordUs: number;
  };

/** Returns the time of a store's next record or refund: later than all others of the store, even if the clock was set back. */
export const nextTime = ({ lastRecordUs }: Pick<StoreBalance, "lastRecordUs">, now: Date): string =>
  fromMicroseconds(Math.max(now.getTime() * 1000, lastRecordUs + 1));

export type AcceptedWrite = {
  readonly write: AnyStoreWrite;
  /** What a unit cost, of a purchase. */
  readonly unitPriceCents: number;
  /** What a refund takes back. */
  readonly units?: readonly Units[];
  /** What is added to the balance; negative for a write that costs something. */
  readonly amountCents: number;
  readonly balanceCents: number;
  /** When it is recorded, in microseconds. No other record or refund of the store has this time. */
  readonly createdAt: string;
};

/** What decides about the writes of a batch. Those that are accepted change it for those that follow. */
export type StoreLedger = {
  /** By account id; holds every account of the batch. */
  readonly balances: Map<string, StoreBalance>;
  /** By `keyOf`; holds every key of the batch that was used before. */
  readonly responses: Map<string, StoredResponse>;
  /** By `accountModeKey`, of the stores that have some. */
  readonly limits: Map<string, LimitUse>;
  /** What refunds select, newest first. */
  readonly selected: ReadonlyMap<AnyStoreWrite, readonly Units[]>;
  /** The first of each store, by account id. */
  readonly refusals: Map<string, BalanceRefusal>;
  readonly accepted: AcceptedWrite[];
};

const accept = (
  ledger: StoreLedger,
  balance: StoreBalance,
  { write, ...decided }: Omit<AcceptedWrite, "balanceCents" | "createdAt">,
  now: Date,
): StoreResponse => {
  const { accountId, idempotency, responseBody, recordId } = write;
  const balanceCents = balance.balanceCents + decided.amountCents;
  const createdAt = nextTime(balance, now);
  const lastRecordUs = toMicroseconds(createdAt);
  ledger.balances.set(accountId, { ...balance, balanceCents, lastRecordUs });
  const key = keyOf(write);
  if (key !== null && idempotency) {
    ledger.responses.set(key, { requestHash: idempotency.requestHash, responseBody, recordId });
  }
  ledger.accepted.push({ write, ...decided, balanceCents, createdAt });
  return { responseBody, recordId, replayed: false };
};

/** The field of the requests in which the units of a kind are. */
export const COUNT_FIELDS: Readonly<Record<Kind, string>> = { tree: "trees", bottle: "bottles" };

/** Returns the price of a unit; a donation is one unit. Test keys spend nothing, and a page for a payment costs nothing. */
const unitPriceOf = (write: Purchase | TopUpWrite, prices: Prices): number => {
  if (write.mode === "test" || write.kind === "topup") {
    return 0;
  }
  return write.kind === "donation" ? write.amountCents : prices[`${write.kind}PriceCents`];
};

/**
 * Decides a write by what the earlier ones have left, and enters it if it is accepted.
 * @throws DomainError
 */
export const decideStoreWrite = (write: AnyStoreWrite, ledger: StoreLedger, now: Date) => {
  const replay = findReplay(write, ledger);
  if (replay) {
    return replay;
  }
  const { accountId } = write;
  // Its store is locked.
  const balance = mustExist(ledger.balances.get(accountId), `Account ${accountId} has no balance.`);
  if (isRefund(write)) {
    const units = selectUnits(ledger.selected.get(write) ?? [], write);
    const amountCents = units.reduce(
      (sum, { count, unitPriceCents }) => sum + count * unitPriceCents,
      0,
    );
    addToBalance(balance, amountCents);
    return accept(ledger, balance, { write, units, unitPriceCents: 0, amountCents }, now);
  }
  const disabled = findDisabled(balance, write.operation);
  if (disabled) {
    throw disabled;
  }
  const registered = "count" in write ? write : null;
  const use = registered && ledger.limits.get(accountModeKey(registered));
  const excess =
    registered && use ? findExcess(use, COUNT_FIELDS[registered.kind], registered.count) : null;
  if (excess) {
    throw excess;
  }
  const unitPriceCents = unitPriceOf(write, balance);
  // It can exceed the safe integers.
  const neededCents = BigInt(registered?.count ?? 1) * BigInt(unitPriceCents);
  const { balanceCents } = balance;
  if (neededCents > balanceCents) {
    const refusal = { neededCents, balanceCents };
    if (!ledger.refusals.has(accountId)) {
      ledger.refusals.set(accountId, refusal);
    }
    throw balanceInsufficient(refusal);
  }
  if (registered && use) {
    const countToday = use.countToday + registered.count;
    ledger.limits.set(accountModeKey(registered), { ...use, countToday });
  }
  return accept(ledger, balance, { write, unitPriceCents, amountCents: Number(-neededCents) }, now);
};
