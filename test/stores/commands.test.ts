import { z } from "zod";
import { findAccount } from "../../modules/accounts/accounts.sql.ts";
import { findStore } from "../../modules/stores/stores.sql.ts";
import { createStoreAuthenticator } from "../../modules/stores/createStoreAuthenticator.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { readJson, impactOf, runImpact } from "../cli/runImpact.ts";

const test = testWithDatabase();

const created = z.strictObject({
  id: z.uuid(),
  domain: z.string(),
  api_key_prod: z.string().startsWith("PROD-"),
  api_key_test: z.string().startsWith("TEST-"),
});

const newDomain = (): string => `shop-${crypto.randomUUID()}.example`;

test("store create prints the id, the domain and two working keys, and nothing else", async (t) => {
  const impact = impactOf(t);
  const { id: org } = await createTestOrganization(t.context.db);
  const domain = newDomain();

  const run = await impact(
    "store",
    "create",
    "--domain",
    `https://${domain.toUpperCase()}/`,
    "--org",
    org,
    "--json",
  );

  t.is(run.exitCode, 0);
  const store = created.parse(readJson(run));
  t.is(store.domain, domain);
  t.like(await findStore(t.context.db, store.id), { organizationId: org, balanceCents: 0 });
  const authenticate = createStoreAuthenticator({ db: t.context.db });
  for (const [key, mode] of [
    [store.api_key_prod, "live"],
    [store.api_key_test, "test"],
  ] as const) {
    const result = await authenticate(key, { kind: "domain", name: domain });
    t.like(result, { kind: "known", caller: { accountId: store.id, mode } });
  }
});

test("store create rejects a taken or malformed domain, an unknown organization and a malformed price", async (t) => {
  const impact = impactOf(t);
  const domain = newDomain();
  await impact("store", "create", "--domain", domain);
  const unknown = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

  for (const [args, exitCode] of [
    [["--domain", `HTTPS://${domain}`], 1],
    [["--domain", "no domain"], 2],
    [["--domain", newDomain(), "--org", unknown], 3],
    [["--domain", newDomain(), "--tree-price", "0.001"], 2],
    [[], 2],
  ] as const) {
    const run = await impact("store", "create", ...args);
    t.is(run.exitCode, exitCode, run.stderr);
    t.is(run.stdout, "");
  }
  const taken = await impact("store", "create", "--domain", domain);
  t.is(taken.stderr, "impact: another store has this domain\n");
});

test("the help shows default prices in dollars", async (t) => {
  const { stdout } = await runImpact(["store", "create", "--help"]);
  t.regex(stdout, /--tree-price .*\(default:\s+0\.50\)/u);
  t.regex(stdout, /--bottle-price .*\(default:\s+0\.10\)/u);
});

test("the reference of a top-up is trimmed and must not be empty; notes are limited to 1000 characters", async (t) => {
  const impact = impactOf(t);
  const domain = newDomain();
  await impact("store", "create", "--domain", domain);
  const topUp = (...args: readonly string[]) =>
    impact("store", "topup", domain, "--amount", "5", "--json", ...args);

  for (const reference of ["", "  ", "r".repeat(201)]) {
    t.is((await topUp("--reference", reference)).exitCode, 2);
  }
  t.is((await topUp("--note", "n".repeat(10_001))).exitCode, 2);
  t.like(readJson(await topUp("--reference", "r".repeat(200))), { balance_cents: 500 });
  t.like(readJson(await topUp("--reference", "one")), { replayed: false, balance_cents: 1000 });
  t.like(readJson(await topUp("--reference", " one ")), { replayed: true, balance_cents: 1000 });
});

test("uninstalling a store again keeps the first date", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const domain = newDomain();
  await runImpact(["store", "create", "--domain", domain], { env });
  const clock = createMovableClock("2026-05-01T10:00:00.000Z");
  const uninstall = () => runImpact(["store", "uninstall", domain, "--json"], { env, clock });

  const first = await uninstall();
  clock.set("2026-05-02T10:00:00.000Z");
  const again = await uninstall();

  t.like(readJson(first), { uninstalled_at: "2026-05-01T10:00:00.000Z" });
  t.is(again.stdout, first.stdout);
  t.is(again.exitCode, 0);
  t.regex(again.stderr, /already uninstalled/u);
});

test("every subcommand accepts the id and the domain of a store", async (t) => {
  const impact = impactOf(t);
  const domain = newDomain();
  const { id } = created.parse(
    readJson(await impact("store", "create", "--domain", domain, "--json")),
  );
  const run = async (...args: readonly string[]): Promise<unknown> => {
    const done = await impact("store", ...args, "--json");
    t.is(done.exitCode, 0, done.stderr);
    return readJson(done);
  };

  const payment = ["--amount", "100.50", "--reference", "invoice-1", "--note", "first"];
  t.like(await run("topup", domain, ...payment), { balance_cents: 10_050, replayed: false });
  t.like(await run("topup", id, ...payment), { balance_cents: 10_050, replayed: true });
  t.like(await run("adjust", id, "--amount", "-0.75", "--reason", "typing error"), {
    balance_cents: 9975,
  });
  t.like(await run("adjust", id, "--amount", "0.25", "--reason", "goodwill"), {
    balance_cents: 10_000,
  });
  await run("update", id, "--low-balance", "200", "--donations", "off");
  const { id: org } = await createTestOrganization(t.context.db);
  t.like(await run("update", id, "--org", org), { organization_id: org });
  t.like(await run("update", id, "--org", "none"), { organization_id: null });
  t.like(await run("balance", domain), { balance_cents: 10_000, low_balance: true });
  await run("update", id, "--tree-price", "1.25");
  t.like(await run("show", domain), {
    prices: { tree_cents: 125, bottle_cents: 10 },
    features: { tree_planting: true, plastic_removal: true, donations: false },
  });
  const ledger = z
    .array(
      z.looseObject({
        kind: z.string(),
        amount_cents: z.number(),
        note: z.string(),
        id: z.string(),
      }),
    )
    .parse(await run("ledger", id));
  t.deepEqual(
    ledger.map(({ kind, amount_cents: amount, note }) => [kind, amount, note]),
    [
      ["adjustment", 25, "goodwill"],
      ["adjustment", -75, "typing error"],
      ["topup", 10_050, "first"],
    ],
  );
  const older = await run("ledger", id, "--before", ledger[0]?.id ?? "");
  t.is(z.array(z.unknown()).parse(older).length, 2);
  const stores = z.array(z.looseObject({ id: z.string() })).parse(await run("list"));
  t.true(stores.some((store) => store.id === id));

  for (const args of [["list"], ["show", id], ["balance", id], ["ledger", id]]) {
    const table = await impact("store", ...args);
    t.is(table.exitCode, 0);
    t.not(table.stdout, "");
  }
});

test("an update with one invalid setting changes nothing", async (t) => {
  const { db } = t.context;
  const impact = impactOf(t);
  const create = async () =>
    created.parse(readJson(await impact("store", "create", "--domain", newDomain(), "--json")));
  const [{ id: taken }, { id }] = [await create(), await create()];
  const before = [await findStore(db, id), await findAccount(db, id)];
  const update = (...options: readonly string[]) =>
    impact("store", "update", id, "--charity-provider", "pledge", "--donations", "off", ...options);

  const refused = await update("--user-id", taken);

  t.is(refused.exitCode, 1);
  t.regex(refused.stderr, /another store has this user id/u);
  t.is((await update("--org", "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11")).exitCode, 3);
  t.deepEqual([await findStore(db, id), await findAccount(db, id)], before);
  t.is((await update("--user-id", crypto.randomUUID())).exitCode, 0);
  t.like(await findAccount(db, id), { charityProvider: "pledge" });
  t.like(await findStore(db, id), { donations: false, treePlanting: true });
});

test("a store's charity provider is shown, and a missing key is a warning", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const impact = impactOf(t);
  const domain = newDomain();
  await impact("store", "create", "--domain", domain);
  const select = ["store", "update", domain, "--charity-provider", "pledge"];

  const without = await impact(...select);
  const withKey = await runImpact([...select, "--json"], { env: { ...env, PLEDGE_API_KEY: "k" } });

  t.regex(without.stdout, /^charity provider +pledge$/mu);
  t.regex(without.stderr, /Warning: PLEDGE_API_KEY is not set here/u);
  t.like(readJson(withKey), { charity_provider: "pledge" });
  t.notRegex(withKey.stderr, /Warning/u);
  const other = await impact("store", "update", domain, "--donations", "off");
  t.notRegex(other.stderr, /Warning/u);
  const shown = await impact("store", "show", domain, "--json");
  t.like(readJson(shown), { charity_provider: "pledge" });
});

test("top-ups and adjustments print what happened and the balance", async (t) => {
  const impact = impactOf(t);
  const domain = newDomain();
  await impact("store", "create", "--domain", domain);
  const run = async (...args: readonly string[]): Promise<string> => {
    const done = await impact("store", ...args);
    t.is(done.exitCode, 0, done.stderr);
    return done.stdout;
  };

  const topUp = ["topup", domain, "--amount", "1020", "--reference", "invoice-1"];
  t.is(
    await run(...topUp),
    `Topped up ${domain} by $1,020.00 (reference invoice-1); balance $1,020.00\n`,
  );
  t.is(
    await run(...topUp),
    `Nothing added: the top-up invoice-1 of ${domain} is already recorded; balance $1,020.00\n`,
  );
  t.is(
    await run("adjust", domain, "--amount", "-5.00", "--reason", "typing error"),
    `Adjusted the balance of ${domain} by -$5.00; balance $1,015.00\n`,
  );
  const adjust = ["adjust", domain, "--amount", "-5", "--reason", "twice", "--reference", "case-7"];
  t.is(
    await run(...adjust),
    `Adjusted the balance of ${domain} by -$5.00 (reference case-7); balance $1,010.00\n`,
  );
  t.is(
    await run(...adjust),
    `Nothing changed: the adjustment case-7 of ${domain} is already recorded; balance $1,010.00\n`,
  );
  t.like(readJson(await impact("store", ...adjust, "--json")), {
    balance_cents: 101_000,
    reference: "case-7",
    replayed: true,
  });
  const refuses = async (...args: readonly string[]) => {
    const refused = await impact("store", ...args);
    t.is(refused.exitCode, 1);
    t.regex(
      refused.stderr,
      /the reference case-7 was already used for an entry of -\$5\.00 \(adjustment\)/u,
    );
  };
  await refuses("adjust", domain, "--amount", "5", "--reason", "x", "--reference", "case-7");
  await refuses("topup", domain, "--amount", "5", "--reference", "case-7");
});

test("a top-up without a reference is recorded once a day and amount", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const domain = newDomain();
  await runImpact(["store", "create", "--domain", domain], { env });
  const topUp = (day: number, ...args: readonly string[]) =>
    runImpact(["store", "topup", domain, ...args], {
      env,
      clock: { now: () => new Date(Date.UTC(2030, 0, day, 23, 59)) },
    });

  const first = await topUp(1, "--amount", "20");
  t.is(
    first.stdout,
    `Topped up ${domain} by $20.00 (reference topup-2030-01-01-20.00); balance $20.00\n`,
  );
  const repeated = await topUp(1, "--amount", "20.00");
  t.is(repeated.exitCode, 0);
  t.is(
    repeated.stdout,
    `Nothing added: the top-up topup-2030-01-01-20.00 of ${domain} is already recorded; balance $20.00\n`,
  );
  t.regex(repeated.stderr, /To add another payment of this amount today, pass --reference\./u);
  t.like(readJson(await topUp(1, "--amount", "20", "--reference", "second", "--json")), {
    balance_cents: 4000,
    reference: "second",
    replayed: false,
  });
  t.like(readJson(await topUp(1, "--amount", "20.01", "--json")), { balance_cents: 6001 });
  t.like(readJson(await topUp(2, "--amount", "20", "--json")), { balance_cents: 8001 });
});

test("a negative top-up is rejected with a message that names store adjust", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const domain = newDomain();
  await runImpact(["store", "create", "--domain", domain], { env });
  await runImpact(["store", "topup", domain, "--amount", "5"], { env });

  const negative = await runImpact(["store", "topup", domain, "--amount", "-0.50"], { env });
  t.is(negative.exitCode, 2);
  t.regex(negative.stderr, /A top-up must be positive\. .* use impact store adjust\./u);
  const zero = await runImpact(["store", "topup", domain, "--amount", "0"], { env });
  t.is(zero.exitCode, 2);

  const balance = await runImpact(["store", "balance", domain, "--json"], { env });
  t.like(readJson(balance), { balance_cents: 500 });
});

test("an adjustment needs a reason and an amount other than 0, and cannot overdraw the balance", async (t) => {
  const impact = impactOf(t);
  const domain = newDomain();
  await impact("store", "create", "--domain", domain);
  await impact("store", "topup", domain, "--amount", "5");
  const adjust = (...args: readonly string[]) => impact("store", "adjust", domain, ...args);

  t.is((await adjust("--amount", "-1")).exitCode, 2);
  t.is((await adjust("--amount", "-1", "--reason", " ")).exitCode, 2);
  t.is((await adjust("--amount", "0", "--reason", "test")).exitCode, 2);
  const overdraft = await adjust("--amount", "-5.01", "--reason", "test");
  t.is(overdraft.exitCode, 1);
  t.is(overdraft.stderr, "impact: the balance is $5.00 and cannot become -$0.01\n");
  const ledger = await impact("store", "ledger", domain, "--json");
  t.is(z.array(z.unknown()).parse(readJson(ledger)).length, 1);
});

test("store ledger says how to list older entries, with --json too, if there are older ones", async (t) => {
  const impact = impactOf(t);
  const domain = newDomain();
  await impact("store", "create", "--domain", domain);
  await impact("store", "topup", domain, "--amount", "5");
  await impact("store", "topup", domain, "--amount", "6");
  const ledger = (...args: readonly string[]) => impact("store", "ledger", domain, ...args);

  const newest = await ledger("--limit", "1", "--json");
  t.is(z.array(z.unknown()).parse(readJson(newest)).length, 1);
  t.regex(newest.stderr, /^For older entries, use --before \d+\.\n$/u);
  t.is((await ledger("--limit", "2")).stderr, "");
});

test("an uninstalled store rejects its keys until it is reinstalled", async (t) => {
  const impact = impactOf(t);
  const domain = newDomain();
  const { id } = created.parse(
    readJson(await impact("store", "create", "--domain", domain, "--json")),
  );
  const issued = await impact("key", "issue", "--store", domain, "--mode", "test", "--json");
  const { key } = z.looseObject({ key: z.string().startsWith("TEST-") }).parse(readJson(issued));
  // A new process each time, so that nothing is cached.
  const open = async () => {
    const authenticate = createStoreAuthenticator({ db: t.context.db });
    return (await authenticate(key, { kind: "domain", name: domain })).kind;
  };

  t.is(await open(), "known");
  t.is((await impact("store", "uninstall", domain)).exitCode, 0);
  t.is(await open(), "shop_unknown");
  t.is((await impact("store", "reinstall", id)).exitCode, 0);
  t.is(await open(), "known");
  const unknown = await impact("store", "show", "nowhere.example");
  t.is(unknown.exitCode, 3);
});
