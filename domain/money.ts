/** The most that one payment may be: a cent less than a billion dollars. */
export const MAXIMUM_CENTS = 99_999_999_999;

/**
 * Whole cents of an amount in dollars, null for an amount with a fraction of a cent. It reads the digits that the number
 * is written with: multiplied by 100, 1.15 would become 114.99999999999999.
 */
export const dollarsToCents = (dollars: number): number | null => {
  const digits = /^(-?\d+)(?:\.(\d{1,2}))?$/u.exec(String(dollars));
  if (!digits) {
    return null;
  }
  const [, whole = "", fraction = ""] = digits;
  const cents = Number(`${whole}${fraction.padEnd(2, "0")}`);
  return Number.isSafeInteger(cents) ? cents : null;
};

/** The amount as JSON carries it, exact to the cent. */
export const centsToDollars = (cents: number): number => cents / 100;

/** The sign, the whole dollars and the two digits of the cents. */
const digitsOf = (cents: number): readonly [string, string, string] => {
  const digits = String(Math.abs(cents)).padStart(3, "0");
  return [cents < 0 ? "-" : "", digits.slice(0, -2), digits.slice(-2)];
};

/** For people: `1234.50 USD`. */
export const formatCents = (cents: number): string => {
  const [sign, whole, fraction] = digitsOf(cents);
  return `${sign}${whole}.${fraction} USD`;
};

/** For people, where the currency stands beside it: `1,234.50`. */
export const formatDollars = (cents: number): string => {
  const [sign, whole, fraction] = digitsOf(cents);
  return `${sign}${Number(whole).toLocaleString("en-US")}.${fraction}`;
};
