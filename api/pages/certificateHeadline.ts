import { formatCents } from "../../modules/records/money.rules.ts";
import { formatNumber, nameUnits } from "./format.ts";
import type { CertificateJson, ItemJson } from "./presentCertificate.ts";

/** A sum by itself, and within a sentence. */
type Sum = { readonly number: string; readonly what: string; readonly inSentence: string };

/** The parts of a record: all, what remains of it, or what was refunded. */
type Part = "registered" | "remaining" | "refunded";

/** Returns a part of a record's units, or cents. */
const partOf = (item: ItemJson, part: Part): number => {
  const registered = item.type === "donation" ? item.amount_cents : item.registered;
  const refundedCents = item.state === "refunded" ? registered : 0;
  const refunded = item.type === "donation" ? refundedCents : item.refunded;
  return { registered, refunded, remaining: registered - refunded }[part];
};

/** Adds up a part of the trees, the bottles or the donations; nothing if there is none. */
const sumOf = (all: readonly ItemJson[], type: ItemJson["type"], part: Part): readonly Sum[] => {
  const items = all.filter((item) => item.type === type && partOf(item, part) > 0);
  const sum = items.reduce((total, item) => total + partOf(item, part), 0);
  if (type !== "donation") {
    const [number, what] = [formatNumber(sum), nameUnits(type, sum)];
    return sum === 0 ? [] : [{ number, what, inSentence: `${number} ${what}` }];
  }
  const charities = new Set(items.map((item) => ("charity" in item ? item.charity.name : "")));
  const [first, ...others] = charities;
  if (first === undefined) {
    return [];
  }
  const number = formatCents(sum);
  const to = others.length === 0 ? first : `${charities.size} charities`;
  const [noun, phrase] =
    items.length === 1 ? ["donation", "a donation"] : ["donations", "donations"];
  return [{ number, what: `${noun} to ${to}`, inSentence: `${phrase} of ${number} to ${to}` }];
};

const conjunction = new Intl.ListFormat("en-US", { type: "conjunction" });

/** Returns the sum of the trees, or of what there is instead, and the other sums. */
const sumUp = (items: readonly ItemJson[], part: Part) => {
  const sums = (["trees", "bottles", "donation"] as const).flatMap((type) =>
    sumOf(items, type, part),
  );
  const whats = sums.map(({ what, inSentence }, index) => (index === 0 ? what : inSentence));
  return {
    number: sums[0]?.number ?? "",
    what: conjunction.format(whats),
    inSentence: conjunction.format(sums.map(({ inSentence }) => inSentence)),
  };
};

/** Returns what counts now, and below it what to say about refunds: after some, less counts than was registered. */
export const headlineOf = ({ items, state }: CertificateJson) => {
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
