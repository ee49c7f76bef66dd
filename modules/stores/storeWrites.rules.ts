import { accountModeKey } from "../records/owner.rules.ts";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import { findExcess } from "../accounts/limits.rules.ts";
import type { LimitUse } from "../accounts/limits.rules.ts";
import { isAccepted, outcomeOf } from "../records/batches.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { DomainError } from "../../runtime/errors.rules.ts";
import type { Prices, StoreOperation } from "./stores.rules.ts";
import { balanceInsufficient } from "./stores.rules.ts";

/** What every write of a store needs for its idempotency. */
export type StoreWrite = AccountMode & {
  readonly operation: StoreOperation;
  /** Null for a write without a key. `requestHash` is the SHA-256 of the request in hexadecimal digits. */
  readonly idempotency: { readonly key: string; readonly requestHash: string } | null;
  /** The body of the response on success, which is known before the write is done. */
  readonly responseBody: string;
};

export type StoreResponse = {
  readonly responseBody: string;
  /** The registration or donation that the write recorded; null if it recorded none, or if its id is not known. */
  readonly recordId: string | null;
  /** Whether it is the stored response of an earlier request with the same key. */
  readonly replayed: boolean;
};

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

/** A write that plants trees or rescues bottles. */
export type StoreRegistrationWrite = StoreWrite & {
  /** The id of the registration to record. */
  readonly id: string;
  readonly kind: Kind;
  readonly count: number;
  /** Whether an operator has set limits for the store. */
  readonly isLimited: boolean;
};

export type StoreBalance = { readonly balanceCents: number; readonly prices: Prices };

/** A write that the balance did not cover. */
export type BalanceRefusal = {
  readonly accountId: string;
  readonly neededCents: number;
  /** The balance at that time. */
  readonly balanceCents: number;
};

export type StoreWriteDecision<Write> =
  | {
      readonly kind: "rejected";
      readonly error: DomainError;
      /** Null if the balance is not the reason. */
      readonly refusal: BalanceRefusal | null;
    }
  | { readonly kind: "replayed"; readonly response: StoreResponse }
  | {
      readonly kind: "accepted";
      readonly write: Write;
      readonly unitPriceCents: number;
      readonly costCents: number;
      /** The store's balance after the write. */
      readonly balanceCents: number;
    };

/** The field of the requests in which the units of a kind are. */
const COUNT_FIELDS = { tree: "trees", bottle: "bottles" } as const satisfies Record<Kind, string>;

const decideNewWrite = <Write extends StoreRegistrationWrite>(
  write: Write,
  { balanceCents, prices }: StoreBalance,
  limits: LimitUse | undefined,
): StoreWriteDecision<Write> => {
  const excess = limits ? findExcess(limits, COUNT_FIELDS[write.kind], write.count) : null;
  if (excess !== null) {
    return { kind: "rejected", error: excess, refusal: null };
  }
  const unitPriceCents = write.mode === "live" ? prices[write.kind] : 0;
  // Inexact beyond the safe integers, but then it exceeds every balance anyway.
  const costCents = write.count * unitPriceCents;
  return costCents <= balanceCents
    ? {
        kind: "accepted",
        write,
        unitPriceCents,
        costCents,
        balanceCents: balanceCents - costCents,
      }
    : {
        kind: "rejected",
        error: balanceInsufficient(costCents, balanceCents),
        refusal: { accountId: write.accountId, neededCents: costCents, balanceCents },
      };
};

const decideRepeatedWrite = <Write extends StoreRegistrationWrite>(
  write: Write,
  stored: StoredResponse,
): StoreWriteDecision<Write> => {
  const response = outcomeOf(() => replayResponse(write, stored));
  return isAccepted(response)
    ? { kind: "replayed", response }
    : { kind: "rejected", error: response, refusal: null };
};

/**
 * Decides the writes of a batch in order, each as if it had come alone: a later write sees what an earlier one spent
 * and registered, and the response that it stored.
 * @param balances by account id; holds every account of the batch
 * @param storedResponses by `responseKey`; holds every key of the batch that was used before
 * @param limits by `accountModeKey`, of the stores that have some
 */
export const decideStoreWrites = <Write extends StoreRegistrationWrite>(
  batch: readonly Write[],
  balances: ReadonlyMap<string, StoreBalance>,
  storedResponses: ReadonlyMap<string, StoredResponse>,
  limits: ReadonlyMap<string, LimitUse> = new Map(),
): readonly StoreWriteDecision<Write>[] => {
  const currentBalances = new Map(balances);
  const responses = new Map(storedResponses);
  const currentLimits = new Map(limits);
  return batch.map((write) => {
    const balance = currentBalances.get(write.accountId);
    if (!balance) {
      throw new Error(`Account ${write.accountId} has no balance.`);
    }
    const { idempotency, responseBody, id: recordId } = write;
    const key = idempotency && responseKey({ ...write, key: idempotency.key });
    const stored = key === null ? undefined : responses.get(key);
    if (stored) {
      return decideRepeatedWrite(write, stored);
    }
    const limitsKey = accountModeKey(write);
    const use = currentLimits.get(limitsKey);
    const decision = decideNewWrite(write, balance, use);
    if (decision.kind === "accepted") {
      if (use) {
        currentLimits.set(limitsKey, { ...use, countToday: use.countToday + write.count });
      }
      currentBalances.set(write.accountId, { ...balance, balanceCents: decision.balanceCents });
      if (key !== null && idempotency) {
        responses.set(key, { requestHash: idempotency.requestHash, responseBody, recordId });
      }
    }
    return decision;
  });
};
