import { CERTIFIED_KINDS } from "../../modules/dashboard/certificate.rules.ts";
import type { CertifiedKind } from "../../modules/dashboard/certificate.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { formatNumber, nameUnits } from "./format.ts";
import { isDonation } from "./presentCertificate.ts";
import type { CertificateView, ItemView } from "./presentCertificate.ts";

/** A sum by itself, and within a sentence. */
type Sum = { readonly number: string; readonly what: string; readonly inSentence: string };

/** The parts of a record: all, what remains of it, or what was refunded. */
type Part = "registered" | "remaining" | "refunded";

/** Adds up a part of the trees, the bottles or the donations; nothing if there is none. */
const sumOf = (items: readonly ItemView[], kind: CertifiedKind, part: Part): readonly Sum[] => {
  const views = items.filter((view) => view.item.kind === kind && view[part] > 0);
  const sum = views.reduce((total, view) => total + view[part], 0);
  if (kind !== "donation") {
    const [number, what] = [formatNumber(sum), nameUnits(kind, sum)];
    return sum === 0 ? [] : [{ number, what, inSentence: `${number} ${what}` }];
  }
  const charities = new Set(views.filter(isDonation).map(({ item }) => item.charityName));
  const [first, ...others] = charities;
  if (first === undefined) {
    return [];
  }
  const number = formatCents(sum);
  const to = others.length === 0 ? first : `${charities.size} charities`;
  const [noun, phrase] =
    views.length === 1 ? ["donation", "a donation"] : ["donations", "donations"];
  return [{ number, what: `${noun} to ${to}`, inSentence: `${phrase} of ${number} to ${to}` }];
};

const conjunction = new Intl.ListFormat("en-US", { type: "conjunction" });

/** Returns the sum of the trees, or of what there is instead, and the other sums. */
const sumUp = (items: readonly ItemView[], part: Part) => {
  const sums = CERTIFIED_KINDS.flatMap((kind) => sumOf(items, kind, part));
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
