import test from "ava";
import { centsToDollars, dollarsToCents, formatCents } from "../../domain/money.ts";

test("every amount of whole cents up to 10,000 dollars survives both conversions", (t) => {
  for (let cents = 0; cents <= 1_000_000; cents += 1) {
    if (dollarsToCents(centsToDollars(cents)) !== cents) {
      t.fail(`${cents} cents became ${dollarsToCents(centsToDollars(cents))}`);
    }
  }
  t.is(dollarsToCents(999_999_999.99), 99_999_999_999);
});

test("fractions of a cent and numbers that are not plain amounts are null", (t) => {
  for (const dollars of [
    1.005,
    0.001,
    0.30001,
    0.29999,
    1.23001,
    1e21,
    1e-7,
    Number.NaN,
    Infinity,
    2 ** 60,
  ]) {
    t.is(dollarsToCents(dollars), null, String(dollars));
  }
});

test("floating-point noise under a thousandth of a cent is rounded", (t) => {
  t.is(dollarsToCents(0.1 + 0.2), 30);
  t.is(dollarsToCents(0.7 + 0.1), 80);
  t.is(dollarsToCents(1.1 * 3), 330);
  t.is(dollarsToCents(4.35 * 100 - 434), 100);
  t.is(dollarsToCents(0.300009), 30);
  t.is(dollarsToCents(0.299991), 30);
  t.is(dollarsToCents(9.999999), 1000);
  t.is(dollarsToCents(-9.999999), -1000);
});

test("amounts are formatted with their sign, groups of three digits and both digits of the cents", (t) => {
  t.deepEqual(
    [0, 5, 50, 123, -7, -12_345, 99_999, 123_456, 9_007_199_254_740_991, -123_456].map(formatCents),
    [
      "$0.00",
      "$0.05",
      "$0.50",
      "$1.23",
      "-$0.07",
      "-$123.45",
      "$999.99",
      "$1,234.56",
      "$90,071,992,547,409.91",
      "-$1,234.56",
    ],
  );
});
