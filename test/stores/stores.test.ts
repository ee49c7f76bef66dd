import test from "ava";
import { normalizeDomain } from "../../modules/stores/stores.rules.ts";
import {
  fromMicroseconds,
  readTimestamp,
  spreadTimes,
  TIMESTAMP_PATTERN,
  toMicroseconds,
} from "../../modules/records/timestamps.rules.ts";

test("a domain in every common spelling has one normal form", (t) => {
  for (const [given, domain] of [
    ["Shop.Example", "shop.example"],
    ["  shop.example/ ", "shop.example"],
    ["https://shop.example//", "shop.example"],
    ["HTTP://SHOP.EXAMPLE.", "shop.example"],
    ["admin.shopify.com/store/My-Shop", "my-shop.myshopify.com"],
    ["https://admin.shopify.com/store/my-shop/", "my-shop.myshopify.com"],
    ["bücher.example", "xn--bcher-kva.example"],
    ["localhost", "localhost"],
  ] as const) {
    t.is(normalizeDomain(given), domain, given);
  }
});

test("a text that is not a domain has no normal form", (t) => {
  for (const given of [
    "",
    " ",
    "two words",
    "shop.example/path",
    "shop.example?query",
    "shop.example#1",
    "shop.example:8080",
    "user@shop.example",
    "ftp://shop.example",
    "javascript:alert(1)",
    "https://",
    "[::1]",
    `${"a".repeat(64)}${".b".repeat(120)}.example`,
  ]) {
    t.is(normalizeDomain(given), null, given);
  }
});

test("a timestamp of ISO 8601 is read in UTC, in microseconds", (t) => {
  for (const [given, down, up = down] of [
    ["2026-03-10T09:08:07.006001Z", "2026-03-10T09:08:07.006001Z"],
    ["2026-03-10T09:08:07.5", "2026-03-10T09:08:07.500000Z"],
    ["2026-03-10T11:08:07.123456+02:00", "2026-03-10T09:08:07.123456Z"],
    ["2026-03-10T11:08:07.123456 02:00", "2026-03-10T09:08:07.123456Z"],
    ["2026-03-10T05:08:07,12-0400", "2026-03-10T09:08:07.120000Z"],
    ["20260310T110807.123456+02", "2026-03-10T09:08:07.123456Z"],
    ["2026-03-10T09:08", "2026-03-10T09:08:00.000000Z"],
    ["2026-03-10", "2026-03-10T00:00:00.000000Z"],
    [
      "2026-03-10T09:08:07.123456001Z",
      "2026-03-10T09:08:07.123456Z",
      "2026-03-10T09:08:07.123457Z",
    ],
    ["2026-12-31T23:59:59.9999999Z", "2026-12-31T23:59:59.999999Z", "2027-01-01T00:00:00.000000Z"],
  ] as const) {
    t.is(readTimestamp(given, "down"), down, given);
    t.is(readTimestamp(given, "up"), up, given);
    t.regex(given, new RegExp(TIMESTAMP_PATTERN, "u"));
    t.is(fromMicroseconds(toMicroseconds(down)), down);
  }
});

test("a text that is not a timestamp is not read as one", (t) => {
  for (const given of [
    "",
    "_",
    "yesterday",
    "2026-03",
    "2026-02-30",
    "2026-03-10T24:00:00Z",
    "2026-03-10T09:08:07.Z",
    "2026-03-10T09:08:07Z_0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11",
  ]) {
    t.is(readTimestamp(given, "up"), null, given);
    t.notRegex(given, new RegExp(TIMESTAMP_PATTERN, "u"));
  }
});

test("equal times become unique, each the first that is free", (t) => {
  t.deepEqual(spreadTimes([5, 5, 6, 5, 2, 9], []), [5, 6, 7, 8, 2, 9]);
  t.deepEqual(spreadTimes([5, 5, 8, 5], [5, 7, 8]), [6, 9, 10, 11]);
});
