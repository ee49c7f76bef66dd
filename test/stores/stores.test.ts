import test from "ava";
import { readCursor, writeCursor } from "../../api/store/cursor.ts";
import { normalizeDomain } from "../../domain/stores/stores.ts";

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

test("a cursor is read as it was written; a timestamp in any time zone is a cursor too", (t) => {
  const id = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";
  const position = "2026-03-10T09:08:07.006001Z";
  t.deepEqual(readCursor(writeCursor({ position, id })), { createdAt: position, id });
  t.deepEqual(readCursor("2026-03-10T09:08:07Z"), {
    createdAt: "2026-03-10T09:08:07.000000Z",
    id: null,
  });
  t.deepEqual(readCursor("2026-03-10T11:08:07.1234567+02:00"), {
    createdAt: "2026-03-10T09:08:07.123456Z",
    id: null,
  });
  for (const text of ["", "_", `_${id}`, `${position}_`, `${position}_${id}_`, "2026-03-10"]) {
    t.is(readCursor(text), null, text);
  }
});
