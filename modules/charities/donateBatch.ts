import { insertDonations } from "./donationBatches.sql.ts";
import { changeDonationTotals, readDonationTotals } from "./donationTotals.sql.ts";
import { listKnownKeys } from "../records/ownedRecords.sql.ts";
import { accountModeOf } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { asRejection, countBack, isAccepted, requireAll } from "../records/batches.rules.ts";
import type { ConfirmedCharity } from "./charities.rules.ts";
import type { Donation, DonationRequest } from "./donations.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { getAccount } from "../accounts/getAccount.ts";
import { recordEvents } from "../events/recordEvent.ts";
import type { BillingContext } from "../billing/context.ts";
import type { RegistrationContext } from "../registrations/context.ts";
import { charityKey, createCharityConfirmer } from "./createCharityConfirmer.ts";
import { providerOf } from "./createCharities.ts";
import type { CharityContext } from "./context.ts";
import { donationCreated } from "./presentDonation.rules.ts";
import { createDonation } from "./donate.ts";
import { requireDonationSubscription } from "./subscribeToDonations.ts";
import { newId } from "../../runtime/newId.ts";

/** A donation of a batch. That of a replay is read when it is needed, because a batch may have a thousand of them. */
type DonatedItem = {
  readonly idempotencyKey: string | null;
  /** Null for a replay. */
  readonly donation: Donation | null;
  /** The owner's donations after this one. */
  readonly totalDonations: number;
  readonly replayed: boolean;
};

/** The donation of a batch at an index. */
type Item = { readonly index: number; readonly request: DonationRequest };

type AcceptedItem = Item & { readonly charity: ConfirmedCharity };

const keysOf = (items: readonly Item[]): readonly string[] =>
  items.flatMap(({ request: { idempotencyKey } }) => idempotencyKey ?? []);

/** Returns the items that do not repeat a key, in their order. */
const findFirstOfKeys = (items: readonly Item[]): readonly Item[] => {
  const keys = new Set<string>();
  return items.filter(({ request: { idempotencyKey: key } }) => {
    const isFirst = key === null || !keys.has(key);
    if (key !== null) {
      keys.add(key);
    }
    return isFirst;
  });
};

const tooMuch = (): DomainError =>
  invalidRequest(
    `amount_cents: would increase the account's total to more than ${Number.MAX_SAFE_INTEGER}`,
  );

/** What items of a batch become, as far as their charities are known. */
type Decision = {
  readonly rejections: ReadonlyMap<number, DomainError>;
  readonly accepted: readonly AcceptedItem[];
  /** Items whose charities must be confirmed before they are decided. */
  readonly undecided: readonly Item[];
};

/**
 * Decides items in their order, as if each were a call of its own: one that repeats the key of an accepted item is
 * a replay, whatever its charity and its amount are.
 * @param outcomes by `charityKey`
 * @param totalCents the owner's donations before the batch
 */
const decide = (
  items: readonly Item[],
  outcomes: ReadonlyMap<string, Outcome<ConfirmedCharity>>,
  totalCents: number,
): Decision => {
  const rejections = new Map<number, DomainError>();
  const accepted: AcceptedItem[] = [];
  const undecided: Item[] = [];
  const keys = new Set<string>();
  let total = totalCents;
  for (const item of items) {
    const { idempotencyKey: key, amountCents, charity } = item.request;
    if (key !== null && keys.has(key)) {
      continue;
    }
    const outcome = outcomes.get(charityKey(charity));
    if (!outcome) {
      undecided.push(item);
    } else if (outcome instanceof DomainError) {
      rejections.set(item.index, outcome);
    } else if (amountCents > Number.MAX_SAFE_INTEGER - total) {
      rejections.set(item.index, tooMuch());
    } else {
      accepted.push({ ...item, charity: outcome });
      total += amountCents;
      if (key !== null) {
        keys.add(key);
      }
    }
  }
  return { rejections, accepted, undecided };
};

/** Decides all items. Those that are neither rejected nor accepted are replays. */
const decideAll = async (
  context: CharityContext & BillingContext,
  owner: AccountMode,
  items: readonly Item[],
): Promise<Decision> => {
  if (items.length === 0) {
    return { rejections: new Map(), accepted: [], undecided: [] };
  }
  const provider = await providerOf(context, owner.accountId);
  const confirm = createCharityConfirmer(context, provider, owner.accountId);
  // Replays need no charity. If the first item of a key is rejected, the charities of its others are confirmed together:
  // one after the other could take a thousand rounds.
  let unconfirmed = findFirstOfKeys(items);
  for (;;) {
    const outcomes = await confirm(unconfirmed.map(({ request }) => request.charity));
    const { all } = await readDonationTotals(context.db, owner, context.clock.now());
    const decision = decide(items, outcomes, all.amountCents);
    if (decision.undecided.length === 0) {
      return decision;
    }
    unconfirmed = decision.undecided;
  }
};

/** Records donations in one transaction. Those whose keys a concurrent call has used are left out. */
const recordAll = (
  { db, clock }: CharityContext & BillingContext,
  owner: AccountMode,
  accepted: readonly AcceptedItem[],
): Promise<{ readonly recorded: ReadonlyMap<number, Donation>; readonly total: number }> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const entries = accepted.map(({ index, request, charity }) => ({
      index,
      donation: createDonation({ ...request, id: newId() }, charity, now),
    }));
    const ids =
      entries.length === 0
        ? new Set<string>()
        : await insertDonations(
            transaction,
            owner,
            entries.map(({ donation }) => donation),
            now,
          );
    const inserted = entries.filter(({ donation: { id } }) => ids.has(id));
    const donations = inserted.map(({ donation }) => donation);
    await changeDonationTotals(transaction, owner, donations, "add");
    await recordEvents(transaction, owner, now, donations.map(donationCreated));
    const { all } = await readDonationTotals(transaction, owner, now);
    return {
      recorded: new Map(inserted.map(({ index, donation }) => [index, donation])),
      total: all.count,
    };
  });

/** Returns each item's result. */
const withTotals = (
  rejected: readonly (DomainError | null)[],
  items: ReadonlyMap<number, Item>,
  { recorded, total }: Awaited<ReturnType<typeof recordAll>>,
): readonly Outcome<DonatedItem>[] =>
  countBack(
    rejected.map((error, index) => error ?? { index, donation: recorded.get(index) ?? null }),
    total,
    ({ donation }) => (donation === null ? 0 : 1),
    ({ index, donation }, totalDonations) => ({
      idempotencyKey: items.get(index)?.request.idempotencyKey ?? null,
      donation,
      totalDonations,
      replayed: donation === null,
    }),
  );

/**
 * Records an organization's donations in one transaction, in their order, once their charities are confirmed. An item with
 * a known idempotency key, or with that of an earlier item, returns the original record.
 * @param given each donation, or why it is rejected already
 * @param isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
 * @throws BatchRejectedError
 * @throws OutageError if the catalogue of charities fails
 */
export const donateBatch = async (
  context: CharityContext & Pick<RegistrationContext, "billing" | "guard">,
  caller: AccountMode,
  given: readonly Outcome<DonationRequest>[],
  isAtomic: boolean,
): Promise<readonly Outcome<DonatedItem>[]> => {
  const owner = accountModeOf(caller);
  const rejected: (DomainError | null)[] = given.map((item) => (isAccepted(item) ? null : item));
  const check = (): void => {
    if (isAtomic) {
      requireAll(rejected);
    }
  };
  check();
  const items = given.flatMap((request, index) => (isAccepted(request) ? { index, request } : []));
  const findKnownKeys = (): Promise<ReadonlySet<string>> =>
    listKnownKeys(context.db, "donation", owner, keysOf(items));

  /** Returns the accepted items whose keys are unknown. */
  const listNew = (known: ReadonlySet<string>): readonly Item[] =>
    items.filter(
      ({ index, request: { idempotencyKey: key } }) =>
        rejected[index] === null && (key === null || !known.has(key)),
    );

  /** Rejects what the account may not donate. */
  const checkSubscription = async (wanted: readonly Item[]): Promise<void> => {
    if (owner.mode === "test" || wanted.length === 0) {
      return;
    }
    try {
      await requireDonationSubscription(context, await getAccount(context.db, owner.accountId));
    } catch (error) {
      const rejection = asRejection(error);
      for (const { index } of wanted) {
        rejected[index] = rejection;
      }
    }
  };

  /** Accepts rejected items that repeat what is recorded meanwhile. */
  const acceptReplays = async (
    refused: readonly Item[],
    awaitEarlier: () => Promise<void>,
  ): Promise<void> => {
    if (keysOf(refused).length === 0) {
      return;
    }
    await awaitEarlier();
    const known = await findKnownKeys();
    for (const { index, request } of refused) {
      if (request.idempotencyKey !== null && known.has(request.idempotencyKey)) {
        rejected[index] = null;
      }
    }
  };

  return context.guard.writeBatch(caller, keysOf(items), async (awaitEarlier) => {
    const known = await findKnownKeys();
    const wanted = listNew(known);
    await checkSubscription(wanted);
    const { rejections, accepted } = await decideAll(context, owner, listNew(known));
    for (const [index, error] of rejections) {
      rejected[index] = error;
    }
    await acceptReplays(
      wanted.filter(({ index }) => rejected[index] !== null),
      awaitEarlier,
    );
    check();
    const result = await recordAll(context, owner, accepted);
    return withTotals(rejected, new Map(items.map((item) => [item.index, item])), result);
  });
};
