import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { readJson, runImpact } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import { startDonationApi } from "./donations/donationSetup.ts";

const test = testWithDatabase();

test("the command line shows an organization's donations, subscription and provider", async (t) => {
  const { call, live, accountId } = await startDonationApi(t);
  const env = { DATABASE_URL: t.context.databaseUrl };
  const run = (...args: readonly string[]) => runImpact(args, { env });
  t.regex((await run("org", "show", accountId)).stdout, /live +0 +\$0\.00 +none/u);

  await call("POST", "/charities/subscribe", { key: live });
  const { body } = await call("POST", "/charities/donate", {
    key: live,
    body: { amount_cents: 123_405, ein: "530196605", metadata: { a: 1 } },
  });
  const id = String(body["donation_id"]);

  const shown = await run("org", "show", accountId);
  t.regex(shown.stdout, /live +1 +\$1,234\.05 +active since \S+ \S+ \(ledger\)/u);
  t.regex(
    (await run("donation", "list", "--org", accountId)).stdout,
    /\$1,234\.05 +American Red Cross +53-0196605/u,
  );
  t.deepEqual(
    readJson(await run("donation", "list", "--org", accountId, "--mode", "test", "--json")),
    [],
  );

  await call("POST", "/charities/donate", {
    key: live,
    body: { amount_cents: 100, ein: "530196605" },
  });
  const first = await run("donation", "list", "--org", accountId, "--limit", "1");
  t.regex(first.stderr, /More donations exist; raise --limit to list more than 1\./u);
  const both = await run("donation", "list", "--org", accountId, "--limit", "2");
  t.notRegex(both.stderr, /More donations exist/u);

  const refund = { reason: "by mistake", idempotency_key: "r-1", metadata: { ticket: 7 } };
  await call("POST", "/refund/donations", { key: live, body: { id, ...refund } });
  const details = z.looseObject({}).parse(readJson(await run("donation", "show", id, "--json")));
  t.like(details, {
    id,
    account_id: accountId,
    mode: "live",
    amount_cents: 123_405,
    refunded: true,
    refund_reason: "by mistake",
    refund_idempotency_key: "r-1",
    refund_metadata: { ticket: 7 },
  });
  t.regex((await run("donation", "show", id)).stdout, /refund reason +by mistake/u);
  t.regex((await run("donation", "show", id)).stdout, /refund metadata +\{"ticket":7\}/u);
  t.is((await run("donation", "show", crypto.randomUUID())).exitCode, 3);
  t.is((await run("donation", "list", "--org", crypto.randomUUID())).exitCode, 3);

  const updated = await run("org", "update", accountId, "--charity-provider", "everyorg");
  t.regex(updated.stdout, /charity provider +everyorg/u);
  t.is((await run("org", "update", accountId, "--charity-provider", "other")).exitCode, 2);
  t.is((await call("GET", "/charities/search?name=red%20cross", { key: live })).status, 500);
});

test("the search in the documentation finds a charity of the initial catalogue", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const { stdout } = await runImpact(["charity", "search", "red crsos"], { env });
  t.regex(stdout, /American Red Cross/u);
});

test("an operator's search follows the rule of the API for short names, other scripts and no letters", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const search = async (name: string): Promise<Record<string, unknown>> => {
    const { stdout, exitCode } = await runImpact(["charity", "search", name, "--json"], { env });
    t.is(exitCode, 0, name);
    return z.record(z.string(), z.unknown()).parse(JSON.parse(stdout));
  };

  const found = await search("of");
  t.true(Number(found["total_items"]) > 0);
  for (const name of ["赤十字", "!?", "q", ""]) {
    t.deepEqual(await search(name), { total_items: 0, charities: [] }, name);
  }
  const { stderr } = await runImpact(["charity", "search", "赤"], { env });
  t.is(stderr, "No charities found.\n");
});

test("imported websites and icons are in search results, and malformed lines are skipped and reported", async (t) => {
  const { call, live } = await startDonationApi(t);
  const env = { DATABASE_URL: t.context.databaseUrl };
  const path = join(await mkdtemp(join(tmpdir(), "links-")), "links.ndjson");
  await writeFile(
    path,
    [
      '{"ein": "53-0196605", "icon_url": "https://icons.example/red.png"}',
      '{"ein": "999999999", "website": "https://unknown.example"}',
      '{"ein": "53-0196605", "icon_url": "javascript:alert(1)"}',
      "nonsense",
      "",
    ].join("\n"),
  );
  const run = await runImpact(["charity", "links", path, "--json"], { env });
  t.is(run.exitCode, 1);
  t.deepEqual(JSON.parse(run.stdout), { updated: 1, unknown: 1, bad: 2 });
  t.regex(run.stderr, /Line 3 skipped: icon_url: must be an http/u);
  t.regex(run.stderr, /Line 4 skipped: is not valid JSON/u);

  const { body } = await call("GET", "/charities/search?ein=530196605", { key: live });
  t.like(body, {
    charities: [{ website: "https://www.redcross.org", icon_url: "https://icons.example/red.png" }],
  });
});
