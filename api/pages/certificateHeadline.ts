import { KINDS } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { formatNumber, nameUnits } from "./format.ts";
import { isDonation } from "./presentCertificate.ts";
import type { CertificateView, ItemView } from "./presentCertificate.ts";

/** A sum by itself, and within a sentence. */
type Sum = { readonly number: string; readonly what: string; readonly inSentence: string };

/** The parts of a record: all, what remains of it, or what was refunded. */
type Part = "registered" | "remaining" | "refunded";

const sumUnits = (items: readonly ItemView[], kind: Kind, part: Part): readonly Sum[] => {
  const count = items.reduce(
    (sum, view) => sum + (isDonation(view) || view.item.kind !== kind ? 0 : view[part]),
    0,
  );
  const [number, what] = [formatNumber(count), nameUnits(kind, count)];
  return count === 0 ? [] : [{ number, what, inSentence: `${number} ${what}` }];
};

const sumDonations = (items: readonly ItemView[], part: Part): readonly Sum[] => {
  const donations = items
    .filter(isDonation)
    .filter(
      ({ state }) => part === "registered" || (state === "refunded") === (part === "refunded"),
    )
    .map(({ item }) => item);
  const [first, ...others] = new Set(donations.map(({ charityName }) => charityName));
  if (first === undefined) {
    return [];
  }
  const number = formatCents(donations.reduce((sum, { amountCents }) => sum + amountCents, 0));
  const to = others.length === 0 ? first : `${others.length + 1} charities`;
  const [noun, phrase] =
    donations.length === 1 ? ["donation", "a donation"] : ["donations", "donations"];
  return [{ number, what: `${noun} to ${to}`, inSentence: `${phrase} of ${number} to ${to}` }];
};

const conjunction = new Intl.ListFormat("en-US", { type: "conjunction" });

/** Returns the sum of the trees, or of what there is instead, and the other sums. */
const sumUp = (items: readonly ItemView[], part: Part) => {
  const sums = [
    ...KINDS.flatMap((kind) => sumUnits(items, kind, part)),
    ...sumDonations(items, part),
  ];
  const whats = sums.map(({ what, inSentence }, index) => (index === 0 ? what : inSentence));
  return {
    number: sums[0]?.number ?? "",
    what: conjunction.format(whats),
    inSentence: conjunction.format(sums.map(({ inSentence }) => inSentence)),
  };
};

type Headline = {
  readonly number: string;
  readonly what: string;
  /** What to say below it about refunds. */
  readonly refunds: string | null;
};

/** Returns what counts now. After refunds of a part, that is less than what was registered. */
export const headlineOf = ({ items, state }: CertificateView): Headline => {
  const registered = sumUp(items, "registered");
  const refunded = sumUp(items, "refunded");
  if (refunded.number === "") {
    return { ...registered, what: `${registered.what} registered`, refunds: null };
  }
  if (state === "refunded") {
    return {
      ...registered,
      what: `${registered.what} registered and refunded`,
      refunds: "This certificate no longer counts.",
    };
  }
  const remaining = sumUp(items, "remaining");
  return {
    ...remaining,
    what: `${remaining.what} left`,
    refunds: `${registered.inSentence} registered, ${refunded.inSentence} refunded.`,
  };
};
