import { invalidRequest } from "../../../runtime/errors.rules.ts";
import type { AttemptOutcome } from "../sending/decideNextStep.rules.ts";
import type { MeterEventState } from "../meterEvents.rules.ts";
import type { ProcessorName } from "../usage.rules.ts";
import { minuteOf } from "../usage.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";

/** What the customers that may have an event depend on. */
type EventInDoubt = {
  readonly processor: ProcessorName;
  readonly customerId: string | null;
  readonly quantity: number;
  readonly state: MeterEventState;
};

/**
 * A refund goes to the customer of its usage. But one that was held has only the customer to which it would have gone, and
 * only if it was waived since can it be checked.
 */
const mayBeAtPresent = ({ processor, customerId, quantity, state }: EventInDoubt): boolean =>
  processor === "stripe" && (customerId === null || quantity > 0 || state === "waived");

/**
 * Returns the customers that may have usage of which it is unknown whether it was sent, its own first. A lost history may have
 * given the organization its present customer and retried the usage, which goes to that customer then.
 * @param currentCustomerId the organization's Stripe customer; null if it has none
 * @returns `[null]` for usage of the built-in ledger, which has no customers; nothing if no customer is known
 */
export const customersInDoubt = (
  event: EventInDoubt,
  currentCustomerId: string | null,
): readonly (string | null)[] => {
  if (event.processor !== "stripe") {
    return [null];
  }
  const { customerId } = event;
  const customers = mayBeAtPresent(event) ? [customerId, currentCustomerId] : [customerId];
  return [...new Set(customers)].filter((customer) => customer !== null);
};

/** Returns whether a customer may have an event; null: the built-in ledger. */
export const mayBeAt = (
  customerId: string | null,
  event: EventInDoubt,
  currentCustomerId: string | null,
): boolean => customersInDoubt(event, currentCustomerId).includes(customerId);

/**
 * Returns whether usage that no known customer has may be at an unknown one: the organization has no customer, and a lost
 * history may have given it one.
 */
export const isCustomerUnknown = (event: EventInDoubt, currentCustomerId: string | null): boolean =>
  currentCustomerId === null && mayBeAtPresent(event);

/** Why it is unclear who has usage whose customer is unknown. */
export const CUSTOMER_UNKNOWN =
  "its organization has no Stripe customer; set the one that may have the usage with `impact org update`, and retry";

/**
 * Returns the check that decides about an event, of those at the customers that may have it. A customer that has all of it
 * decides. What one lacks may be at another, so that decides unless it has nothing of it.
 * @throws DomainError request_invalid if several have parts of it
 */
export const decisiveCheck = <Check extends { readonly outcome: AttemptOutcome }>(
  { id }: { readonly id: bigint },
  checks: readonly [Check, ...Check[]],
): Check => {
  const delivered = checks.find(({ outcome }) => outcome.kind === "delivered");
  const others = checks.filter(({ outcome }) => outcome.kind !== "absent");
  const undecided = others.find(({ outcome }) => outcome.kind !== "partial");
  if (!delivered && !undecided && others.length > 1) {
    throw invalidRequest(
      `meter event ${id}: more than one customer has units of that minute that no other usage explains. Find out which units belong to this event. If both customers have a part of it, settle it with the number of a document or a ticket, and acknowledge the differences that the next \`impact usage reconcile\` lists`,
    );
  }
  return delivered ?? undecided ?? others[0] ?? checks[0];
};

/** Returns where an event was checked, for messages; nothing if that is clear, so that `customerId` is null. */
export const atCustomer = (customerId: string | null): string =>
  customerId === null ? "" : ` at ${customerId}`;

/**
 * Returns the customer that has usage which an operator has found delivered.
 * @param named by the operator; null: the only one that may have it
 * @throws DomainError request_invalid if several may have it and none is named, or the named one cannot have it
 */
export const requireCustomer = (
  { id }: { readonly id: bigint },
  customers: readonly [string | null, ...(readonly (string | null)[])],
  named: string | null,
): string | null => {
  const places = customers.map((customer) => customer ?? "the built-in ledger").join(" or ");
  if (named === null && customers.length > 1) {
    throw invalidRequest(
      `meter event ${id} may be at ${places}; name the customer that has it with \`--customer\``,
    );
  }
  if (named !== null && !customers.includes(named)) {
    throw invalidRequest(`meter event ${id} cannot be at ${named}, only at ${places}`);
  }
  return named ?? customers[0];
};

/** What the comparison of a live event in doubt depends on. */
type ComparedEvent = Omit<EventInDoubt, "state"> & {
  readonly id: bigint;
  readonly accountId: string;
  readonly kind: Kind;
  readonly second: number;
};

/** The events in doubt of one customer and kind in one minute, usage before refunds. The processor has one sum of them. */
export type MinuteInDoubt<Event> = readonly [Event, ...Event[]];

/** Orders usage before refunds, and the events of a stream in the order of their sealings. */
const inComparisonOrder = (a: ComparedEvent, b: ComparedEvent): number =>
  Math.sign(b.quantity) - Math.sign(a.quantity) ||
  a.accountId.localeCompare(b.accountId) ||
  a.kind.localeCompare(b.kind) ||
  a.second - b.second ||
  Number(a.id - b.id);

/** Groups the events that the processor sums together. */
export const groupByMinute = <Event extends ComparedEvent>(
  events: readonly Event[],
): readonly MinuteInDoubt<Event>[] => {
  const minutes = Map.groupBy(
    events.toSorted(inComparisonOrder),
    ({ processor, customerId, accountId, kind, second }) =>
      [processor, customerId ?? accountId, kind, minuteOf(second).start].join("/"),
  );
  return [...minutes.values()].flatMap(([first, ...others]): readonly MinuteInDoubt<Event>[] =>
    first === undefined ? [] : [[first, ...others]],
  );
};
