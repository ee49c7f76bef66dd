import { formatCents } from "../../modules/records/money.rules.ts";
import { formatNumber, nameUnits } from "./format.ts";
import type { CertificateJson, ItemJson } from "./presentCertificate.ts";

/** A sum by itself, and within a sentence. */
type Sum = { readonly number: string; readonly what: string; readonly inSentence: string };

/** Returns the units, or cents, of a record. */
const registeredOf = (item: ItemJson): number =>
  item.type === "donation" ? item.amount_cents : item.registered;

const remainingOf = (item: ItemJson): number =>
  item.type === "donation"
    ? item.state === "refunded"
      ? 0
      : item.amount_cents
    : item.registered - item.refunded;

/** Adds up the donations, by the charities that get them. */
const sumDonations = (items: readonly ItemJson[], cents: number): Sum => {
  const number = formatCents(cents);
  const charities = new Set(items.flatMap((item) => ("charity" in item ? item.charity.name : [])));
  const to = charities.size === 1 ? [...charities].join("") : `${charities.size} charities`;
  const [noun, phrase] =
    items.length === 1 ? ["donation", "a donation"] : ["donations", "donations"];
  return { number, what: `${noun} to ${to}`, inSentence: `${phrase} of ${number} to ${to}` };
};

const conjunction = new Intl.ListFormat("en-US", { type: "conjunction" });

/**
 * Returns what counts now: the sum of the trees, or of what there is instead, and the other sums; and below it what to say about
 * refunds.
 */
export const headlineOf = ({ items, state }: CertificateJson) => {
  const isPart =
    state !== "refunded" && items.some((item) => remainingOf(item) < registeredOf(item));
  const countOf = isPart ? remainingOf : registeredOf;
  const sums = (["trees", "bottles", "donation"] as const).flatMap((type): readonly Sum[] => {
    const counted = items.filter((item) => item.type === type && countOf(item) > 0);
    const sum = counted.reduce((total, item) => total + countOf(item), 0);
    if (type === "donation" || sum === 0) {
      return sum === 0 ? [] : [sumDonations(counted, sum)];
    }
    const [number, what] = [formatNumber(sum), nameUnits(type, sum)];
    return [{ number, what, inSentence: `${number} ${what}` }];
  });
  const whats = sums.map(({ what, inSentence }, index) => (index === 0 ? what : inSentence));
  const ending = isPart ? "left" : state === "refunded" ? "registered and refunded" : "registered";
  return {
    number: sums[0]?.number ?? "",
    what: `${conjunction.format(whats)} ${ending}`,
    refunds: isPart
      ? "The rest of what was registered was refunded."
      : state === "refunded"
        ? "This certificate no longer counts."
        : null,
  };
};
