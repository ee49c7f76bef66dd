import { findExcess } from "../accounts/limits.rules.ts";
import type { LimitUse } from "../accounts/limits.rules.ts";
import type { ConfirmedCharity } from "../charities/charities.rules.ts";
import { outcomeOf } from "../records/batches.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { accountModeKey } from "../records/owner.rules.ts";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import { fromMicroseconds, toMicroseconds } from "../records/timestamps.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import type { CustomerDetails, DonationCustomer, ImpactFilter } from "./customers.rules.ts";
import type { Feature, Prices, StoreOperation } from "./stores.rules.ts";
import { balanceInsufficient, findDisabled } from "./stores.rules.ts";

/** What every write of a store needs for its idempotency. */
export type StoreWrite = AccountMode & {
  readonly operation: StoreOperation;
  /** Null for a write without a key. `requestHash` is the SHA-256 of the request in hexadecimal digits. */
  readonly idempotency: { readonly key: string; readonly requestHash: string } | null;
  /** The body of the response on success, which is known before the write is done. */
  readonly responseBody: string;
};

/** Plants trees or rescues bottles. */
export type StoreRegistrationWrite = StoreWrite &
  CustomerDetails & {
    readonly kind: Kind;
    readonly count: number;
    /** The id of the registration to record. */
    readonly recordId: string;
    /** Whether an operator has set limits for the store. */
    readonly isLimited: boolean;
  };

/** Donates to a charity that is confirmed. */
type StoreDonationWrite = StoreWrite & {
  readonly kind: "donation";
  readonly amountCents: number;
  readonly charity: ConfirmedCharity;
  readonly customer: DonationCustomer;
  /** The id of the donation to record. */
  readonly recordId: string;
};

/** A write that its store pays for. The kind is also that of its balance entry. */
export type PaidWrite = StoreRegistrationWrite | StoreDonationWrite;

/** Refunds units or donations, the newest first. */
export type StoreRefundWrite = StoreWrite & {
  /** It may refund several records. */
  readonly recordId: null;
  readonly refunded: Kind | "donation";
  readonly quantity: number;
  readonly filter: ImpactFilter;
  readonly reason: string | null;
};

/** What is written in a store's turn. */
export type AnyStoreWrite = PaidWrite | StoreRefundWrite;

export const isRefund = (write: AnyStoreWrite): write is StoreRefundWrite => "refunded" in write;

export const isPaid = (write: AnyStoreWrite): write is PaidWrite => !isRefund(write);

export type StoreResponse = {
  readonly responseBody: string;
  /** The registration or donation that the write recorded; null if it recorded none, or if its id is not known. */
  readonly recordId: string | null;
  /** Whether it is the stored response of an earlier request with the same key. */
  readonly replayed: boolean;
};

/** Returns the response to a write that was done now. */
export const responseTo = (write: AnyStoreWrite): StoreResponse => ({
  responseBody: write.responseBody,
  recordId: write.recordId,
  replayed: false,
});

/** The response that was stored for a key. What follows from the request is null once it was erased. */
type StoredResponse = {
  readonly requestHash: string | null;
  readonly responseBody: string | null;
  readonly recordId: string | null;
};

/**
 * Returns the stored response to a repeated write. Of an erased request and of an imported key only the key is known: its
 * response follows from the repeated request.
 * @throws DomainError request_invalid if the key was used for another request
 */
export const replayResponse = (
  { idempotency, responseBody }: StoreWrite,
  stored: StoredResponse,
): StoreResponse => {
  if (stored.requestHash !== null && idempotency?.requestHash !== stored.requestHash) {
    throw invalidRequest("Idempotency-Key: was used before with another request body");
  }
  return {
    responseBody: stored.responseBody ?? responseBody,
    recordId: stored.recordId,
    replayed: true,
  };
};

/** Returns a string that identifies a write's key among the keys of all stores, modes and operations. */
export const responseKey = ({
  accountId,
  mode,
  operation,
  key,
}: Pick<StoreWrite, "accountId" | "mode" | "operation"> & { readonly key: string }): string =>
  `${accountId}/${mode}/${operation}/${key}`;

/** The key that a write has with its scope, or null. */
const keyOf = (write: StoreWrite): string | null =>
  write.idempotency && responseKey({ ...write, key: write.idempotency.key });

export type StoreBalance = Readonly<Record<Feature, boolean>> &
  Prices & {
    readonly balanceCents: number;
    /** The time of the store's latest record or refund, in microseconds since 1970. */
    readonly lastRecordUs: number;
  };

/** Returns the time of a store's next record or refund: later than all others of the store, even if the clock was set back. */
export const nextTime = ({ lastRecordUs }: Pick<StoreBalance, "lastRecordUs">, now: Date): string =>
  fromMicroseconds(Math.max(now.getTime() * 1000, lastRecordUs + 1));

/** What decides about the writes of a batch. Those that are accepted change it for those that follow. */
export type StoreLedger = {
  /** By account id; holds every account of the batch. */
  readonly balances: Map<string, StoreBalance>;
  /** By `responseKey`; holds every key of the batch that was used before. */
  readonly responses: Map<string, StoredResponse>;
  /** By `accountModeKey`, of the stores that have some. */
  readonly limits: Map<string, LimitUse>;
  /** Those of the batch so far. */
  readonly refusals: BalanceRefusal[];
};

/** Returns the balance of a write's store, which is locked. */
export const balanceOf = ({ balances }: StoreLedger, { accountId }: StoreWrite): StoreBalance => {
  const balance = balances.get(accountId);
  if (!balance) {
    throw new Error(`Account ${accountId} has no balance.`);
  }
  return balance;
};

/**
 * Returns the stored response to a repeated write, whatever has changed since, or null.
 * @throws DomainError request_invalid if the key was used for another request
 */
export const findReplay = (write: StoreWrite, { responses }: StoreLedger): StoreResponse | null => {
  const key = keyOf(write);
  const stored = key === null ? undefined : responses.get(key);
  return stored ? replayResponse(write, stored) : null;
};

/** A write that the balance did not cover. */
type BalanceRefusal = {
  readonly accountId: string;
  readonly neededCents: bigint;
  /** The balance at that time. */
  readonly balanceCents: number;
};

export type AcceptedWrite<Write extends AnyStoreWrite = AnyStoreWrite> = {
  readonly write: Write;
  /** What is added to the balance; negative for a write that costs something. */
  readonly amountCents: number;
  /** After the write. */
  readonly balanceCents: number;
  /** When it is recorded, in microseconds. No other record or refund of the store has this time. */
  readonly createdAt: string;
};

/** Whether a write is accepted, or else its stored response or why it is rejected. */
export type Decision<Write extends AnyStoreWrite = AnyStoreWrite> = Outcome<
  AcceptedWrite<Write> | StoreResponse
>;

/** Enters a write into the ledger. */
export const accept = <Write extends AnyStoreWrite>(
  ledger: StoreLedger,
  { write, amountCents }: Pick<AcceptedWrite<Write>, "write" | "amountCents">,
  now: Date,
): AcceptedWrite<Write> => {
  const { accountId, idempotency, responseBody, recordId } = write;
  const balance = balanceOf(ledger, write);
  const balanceCents = balance.balanceCents + amountCents;
  const createdAt = nextTime(balance, now);
  const lastRecordUs = toMicroseconds(createdAt);
  ledger.balances.set(accountId, { ...balance, balanceCents, lastRecordUs });
  const key = keyOf(write);
  if (key !== null && idempotency) {
    ledger.responses.set(key, { requestHash: idempotency.requestHash, responseBody, recordId });
  }
  return { write, amountCents, balanceCents, createdAt };
};

/** The field of the requests in which the units of a kind are. */
export const COUNT_FIELDS = { tree: "trees", bottle: "bottles" } as const satisfies Record<
  Kind,
  string
>;

/** Returns the price of a unit of a registration. Test keys spend nothing. */
export const unitPriceOf = ({ mode, kind }: StoreRegistrationWrite, prices: Prices): number =>
  mode === "test" ? 0 : prices[`${kind}PriceCents`];

/** Returns what a write costs, which can exceed the safe integers. */
const costOf = (write: PaidWrite, prices: Prices): bigint => {
  if (write.kind !== "donation") {
    return BigInt(write.count) * BigInt(unitPriceOf(write, prices));
  }
  return write.mode === "test" ? 0n : BigInt(write.amountCents);
};

const findLimitsExcess = (write: PaidWrite, ledger: StoreLedger): DomainError | null => {
  const use = ledger.limits.get(accountModeKey(write));
  return use && "count" in write ? findExcess(use, COUNT_FIELDS[write.kind], write.count) : null;
};

/** Decides a write by what the earlier ones have left, and enters it if it is accepted. */
export const decideStoreWrite = (
  write: PaidWrite,
  ledger: StoreLedger,
  now: Date,
): Decision<PaidWrite> =>
  outcomeOf(() => {
    const { accountId } = write;
    const balance = balanceOf(ledger, write);
    const replay = findReplay(write, ledger);
    if (replay) {
      return replay;
    }
    const refused = findDisabled(balance, write.operation) ?? findLimitsExcess(write, ledger);
    if (refused) {
      throw refused;
    }
    const neededCents = costOf(write, balance);
    if (neededCents > balance.balanceCents) {
      const refusal = { accountId, neededCents, balanceCents: balance.balanceCents };
      ledger.refusals.push(refusal);
      throw balanceInsufficient(refusal);
    }
    const use = ledger.limits.get(accountModeKey(write));
    if (use && "count" in write) {
      const countToday = use.countToday + write.count;
      ledger.limits.set(accountModeKey(write), { ...use, countToday });
    }
    return accept(ledger, { write, amountCents: Number(-neededCents) }, now);
  });

/** Returns whether a write is neither rejected nor a repetition, so that it has to be recorded. */
export const isNew = <Decided extends { readonly write: StoreWrite }>(
  outcome: Outcome<Decided | StoreResponse>,
): outcome is Decided => "write" in outcome;
