import type { ExecutionContext } from "ava";
import { z } from "zod";
import { findAccount } from "../../modules/accounts/accounts.sql.ts";
import { normalizeDomain } from "../../modules/stores/stores.rules.ts";
import { findStore } from "../../modules/stores/stores.sql.ts";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { readJson, impactOf } from "../cli/runImpact.ts";

const test = testWithDatabase();

const created = z.strictObject({
  id: z.uuid(),
  domain: z.string(),
  api_key_prod: z.string().startsWith("PROD-"),
  api_key_test: z.string().startsWith("TEST-"),
});

const UNKNOWN_ORGANIZATION = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

const newDomain = (): string => `shop-${crypto.randomUUID()}.example`;

/** Creates a store with the command line, and returns what was printed and a function that runs its commands. */
const setUp = async (t: ExecutionContext<DatabaseContext>) => {
  const impact = impactOf(t);
  const store = created.parse(await impact.json("store", "create", "--domain", newDomain()));
  const { id, domain } = store;
  return {
    ...store,
    run: (...[command = "", ...args]: readonly string[]) =>
      impact("store", command, domain, ...args),
    /** Returns what a command prints as JSON. */
    read: (command: string, ...args: readonly string[]) =>
      impact.json("store", command, id, ...args),
  };
};

test("store create prints the id, the normalized domain and two working keys, and nothing else", async (t) => {
  const { id: org } = await createTestOrganization(t.context.db);
  const domain = newDomain();
  const url = `https://${domain.toUpperCase()}/`;

  const run = await impactOf(t).json("store", "create", "--domain", url, "--org", org);

  const store = created.parse(run);
  t.is(store.domain, domain);
  t.like(await findStore(t.context.db, store.id), { organizationId: org, balanceCents: 0 });
  const authenticate = createAuthenticator({ db: t.context.db });
  for (const [key, mode] of [
    [store.api_key_prod, "live"],
    [store.api_key_test, "test"],
  ] as const) {
    t.like(await authenticate(key), { accountType: "store", accountId: store.id, mode });
  }
});

test("store create rejects a taken or malformed domain, an unknown organization and a malformed price", async (t) => {
  const { domain } = await setUp(t);

  for (const [args, exitCode, message] of [
    [["--domain", `HTTPS://${domain}`], 2, /^impact: another store has this domain\n$/u],
    [["--domain", "no domain"], 2, /domain/u],
    [["--domain", newDomain(), "--org", UNKNOWN_ORGANIZATION], 3, /organization/u],
    [["--domain", newDomain(), "--tree-price", "0.001"], 2, /US dollars/u],
    [[], 2, /--domain/u],
  ] as const) {
    const run = await impactOf(t)("store", "create", ...args);
    t.like(run, { exitCode, stdout: "" });
    t.regex(run.stderr, message);
  }
});

test("a store is updated, shown and listed by its id or its domain", async (t) => {
  const { id, run, read } = await setUp(t);
  const { id: org } = await createTestOrganization(t.context.db);
  await run("topup", "--amount", "100");

  await read("update", "--low-balance", "200", "--donations", "off", "--tree-price", "1.25");
  t.like(await read("update", "--org", org), { organization_id: org });
  t.like(await read("update", "--org", "none"), { organization_id: null });

  t.like(await read("show"), {
    balance_cents: 10_000,
    low_balance_cents: 20_000,
    is_balance_low: true,
    tree_price_cents: 125,
    bottle_price_cents: 10,
    tree_planting: true,
    plastic_removal: true,
    donations: false,
  });
  t.regex((await run("show")).stdout, /^balance +\$100\.00$/mu);
  const list = await impactOf(t).json("store", "list");
  const stores = z.array(z.looseObject({ id: z.string() })).parse(list);
  t.true(stores.some((store) => store.id === id));
  t.regex((await impactOf(t)("store", "list")).stdout, new RegExp(id, "u"));
  await impactOf(t).fails(3, "store", "show", "nowhere.example");
  t.is((await run("update")).exitCode, 2);
});

test("an update with one invalid setting changes nothing; a provider without its key is a warning", async (t) => {
  const { db } = t.context;
  const [{ id: taken }, { id, run }] = [await setUp(t), await setUp(t)];
  const before = [await findStore(db, id), await findAccount(db, id)];
  const update = (...options: readonly string[]) =>
    run("update", "--charity-provider", "pledge", "--donations", "off", ...options);

  const refused = await update("--user-id", taken);

  t.is(refused.exitCode, 2);
  t.regex(refused.stderr, /another store has this user id/u);
  t.is((await update("--org", UNKNOWN_ORGANIZATION)).exitCode, 3);
  t.deepEqual([await findStore(db, id), await findAccount(db, id)], before);
  const updated = await update("--user-id", crypto.randomUUID());
  t.is(updated.exitCode, 0);
  t.regex(updated.stderr, /Warning: PLEDGE_API_KEY is not set here/u);
  t.regex(updated.stdout, /^charity provider +pledge$/mu);
  t.like(await findStore(db, id), { donations: false, treePlanting: true });
});

test("an uninstalled store keeps its first date until it is installed again", async (t) => {
  const { domain } = await setUp(t);
  const clock = createMovableClock("2026-05-01T10:00:00.000Z");
  const install = async (state: "on" | "off") => {
    const update = ["store", "update", domain, "--installed", state];
    const run = await impactOf(t, { clock }).json(...update);
    return z.looseObject({ uninstalled_at: z.unknown() }).parse(run).uninstalled_at;
  };

  t.is(await install("off"), "2026-05-01T10:00:00.000Z");
  clock.set("2026-05-02T10:00:00.000Z");
  t.is(await install("off"), "2026-05-01T10:00:00.000Z");
  t.is(await install("on"), null);
});

test("top-ups and adjustments print what happened and the balance, once per reference", async (t) => {
  const { domain, run, read } = await setUp(t);
  const topUp = ["topup", ..."--amount 1020 --reference invoice-1 --note paid".split(" ")] as const;
  const adjust = ["adjust", ..."--amount -5 --reason twice --reference case-7".split(" ")] as const;
  const mistake = ["adjust", "--amount", "-5.00", "--reason", "typing error"] as const;
  const adjusted = `Adjusted the balance of ${domain} by -$5.00`;
  const isKnown = `of ${domain} is already recorded`;
  for (const [args, text] of [
    [topUp, `Topped up ${domain} by $1,020.00 (reference invoice-1); balance $1,020.00`],
    [topUp, `Nothing added: the top-up invoice-1 ${isKnown}; balance $1,020.00`],
    [mistake, `${adjusted}; balance $1,015.00`],
    [adjust, `${adjusted} (reference case-7); balance $1,010.00`],
    [adjust, `Nothing changed: the adjustment case-7 ${isKnown}; balance $1,010.00`],
  ] as const) {
    t.like(await run(...args), { exitCode: 0, stdout: "", stderr: `${text}\n` });
  }
  const repeated = { balance_cents: 101_000, reference: "case-7", replayed: true };
  t.like(await read(...adjust), repeated);
  for (const args of [
    ["adjust", "--amount", "5", "--reason", "x", "--reference", "case-7"],
    ["topup", "--amount", "5", "--reference", "case-7"],
  ] as const) {
    const refused = await run(...args);
    t.is(refused.exitCode, 2);
    t.regex(refused.stderr, /case-7 was already used for an entry of -\$5\.00 \(adjustment\)/u);
  }

  const exported = await impactOf(t)("export", "balance", "--org", domain, "--format", "ndjson");
  const lines = exported.stdout.trimEnd().split("\n");
  const entries = lines.map((line): unknown => JSON.parse(line));
  t.like(entries, [
    { kind: "adjustment", amount_cents: -500, note: "twice" },
    { kind: "adjustment", amount_cents: -500, note: "typing error" },
    { kind: "topup", amount_cents: 102_000, note: "paid" },
  ]);
});

test("a top-up without a reference is recorded once a day and amount", async (t) => {
  const { domain } = await setUp(t);
  const topUp = (day: number, ...args: readonly string[]) => {
    const clock = { now: () => new Date(Date.UTC(2030, 0, day, 23, 59)) };
    return impactOf(t, { clock })("store", "topup", domain, ...args);
  };

  const first = await topUp(1, "--amount", "20");
  const name = "topup-2030-01-01-20.00";
  t.is(first.stderr, `Topped up ${domain} by $20.00 (reference ${name}); balance $20.00\n`);
  const repeated = await topUp(1, "--amount", "20.00");
  const known = `Nothing added: the top-up ${name} of ${domain} is already recorded; balance $20.00`;
  const stderr = `${known}\nTo add another payment of this amount today, pass --reference.\n`;
  t.like(repeated, { exitCode: 0, stderr });
  const second = await topUp(1, "--amount", "20", "--reference", "second", "--json");
  t.like(readJson(second), { balance_cents: 4000, reference: "second", replayed: false });
  t.like(readJson(await topUp(1, "--amount", "20.01", "--json")), { balance_cents: 6001 });
  t.like(readJson(await topUp(2, "--amount", "20", "--json")), { balance_cents: 8001 });
});

test("malformed amounts, references, notes and reasons are rejected, and a balance is never overdrawn", async (t) => {
  const { run, read } = await setUp(t);
  await run("topup", "--amount", "5", "--reference", "one");
  const overdraft = ["adjust", "--amount", "-5.01", "--reason", "test"] as const;

  for (const [message, ...args] of [
    [/must be positive\. .* use impact store adjust\./u, "topup", "--amount", "-0.50"],
    [/1 to 200 characters/u, "topup", "--amount", "5", "--reference", ""],
    [/1 to 200 characters/u, "topup", "--amount", "5", "--reference", "r".repeat(201)],
    [/at most 10000 characters/u, "topup", "--amount", "5", "--note", "n".repeat(10_001)],
    [/--reason/u, "adjust", "--amount", "-1", "--reason", " "],
    [/not 0/u, "adjust", "--amount", "0", "--reason", "test"],
    [/the balance is \$5\.00 and cannot become -\$0\.01/u, ...overdraft],
  ] as const) {
    const refused = await run(...args);
    t.is(refused.exitCode, 2, refused.stderr);
    t.regex(refused.stderr, message);
  }
  const again = await read("topup", "--amount", "5", "--reference", " one ");
  t.like(again, { replayed: true, balance_cents: 500 });
});

test("a domain in every common spelling has one normal form, and other texts have none", (t) => {
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
