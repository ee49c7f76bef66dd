/** The maximum of one payment or donation: $999,999,999.99. */
export const MAXIMUM_CENTS = 99_999_999_999;

/** Noise of floating-point sums, as in 0.1 + 0.2, is far below this fraction of a cent. */
const NOISE_CENTS = 0.001;

/**
 * Converts dollars to whole cents; null for an amount with a fraction of a cent. It reads the number's decimal digits,
 * because 1.15 * 100 is 114.99999999999999. A fraction within a thousandth of a cent is noise and rounded.
 */
export const dollarsToCents = (dollars: number): number | null => {
  const digits = /^(-?)(\d+)(?:\.(\d{1,2})(\d*))?$/u.exec(String(dollars));
  if (!digits) {
    return null;
  }
  const [, sign = "", whole = "", hundredths = "", rest = ""] = digits;
  const remainder = Number(`0.${rest}0`);
  if (remainder >= NOISE_CENTS && remainder <= 1 - NOISE_CENTS) {
    return null;
  }
  const cents = Number(`${whole}${hundredths.padEnd(2, "0")}`) + Math.round(remainder);
  if (!Number.isSafeInteger(cents)) {
    return null;
  }
  return sign === "-" && cents !== 0 ? -cents : cents;
};

export const centsToDollars = (cents: number): number => cents / 100;

/** Formats an amount with its currency: `$1,234.50`, `-$5.00`. What an unlimited number of units would cost is a bigint. */
export const formatCents = (cents: number | bigint): string => {
  const digits = String(cents < 0 ? -cents : cents).padStart(3, "0");
  const dollars = BigInt(digits.slice(0, -2)).toLocaleString("en-US");
  return `${cents < 0 ? "-" : ""}$${dollars}.${digits.slice(-2)}`;
};
