import { z } from "zod";
import { updateAccount } from "../../../db/accounts/accounts.ts";
import { deleteCachedResponses } from "../../../db/planting/cachedResponses.ts";
import { evidenceSummary } from "../../../api/planting/presentEvidenceSummary.ts";
import { testWithDatabase } from "../../support/database.ts";
import { STAGE_MS } from "../../support/planting.ts";
import { createAndPlace, startEvidenceApi } from "./evidenceApi.ts";

const test = testWithDatabase();

test.serial(
  "the summary counts all organizations' live trees and, once trees are planted, stays the same for 30 days",
  async (t) => {
    const { setup, read, serve } = await startEvidenceApi(t);
    const other = await serve();
    await deleteCachedResponses(t.context.db, null);
    await setup.register(3, { mode: "test" });
    await setup.register(7);
    const nothing = await read("/evidence");
    t.is(nothing.headers.get("Cache-Control"), "private, no-cache");
    await createAndPlace(setup);
    await setup.pass(3 * STAGE_MS);
    const before = await read("/evidence");
    await setup.register(100);
    t.is((await read("/evidence")).text, before.text);
    const cached = await other.read("/evidence");
    t.is(cached.text, before.text);
    t.is(cached.headers.get("Cache-Control"), "private, max-age=2592000");
    setup.clock.set("2026-06-15T10:00:00.000Z");
    const after = evidenceSummary.parse(JSON.parse((await other.read("/evidence")).text));
    const earlier = evidenceSummary.parse(JSON.parse(nothing.text));
    t.is(after.summary.total_trees, earlier.summary.total_trees + 100);
    t.is(after.summary.trees_planted, earlier.summary.trees_planted + 7);
    t.true(after.summary.carbon_offset_tons > earlier.summary.carbon_offset_tons);
    t.true(after.summary.area_restored_hectares > earlier.summary.area_restored_hectares);
    t.true(after.regions.some(({ evidence }) => evidence.length > 0));
    t.deepEqual(after.summary.countries, [...new Set(after.regions.map(({ country }) => country))]);
  },
);

test.serial(
  "the dashboard URL is stable, and a missing key has another error than a wrong one",
  async (t) => {
    const { read, url, setup } = await startEvidenceApi(t, { name: "Möbel & Söhne <GmbH>" });
    const first = await read("/dashboard_url");
    const body = z.record(z.string(), z.string()).parse(JSON.parse(first.text));
    t.regex(
      body["dashboard_url"] ?? "",
      /^https:\/\/impact\.example\/dashboard\/mobel-sohne-gmbh-[a-z2-9]{8}$/u,
    );
    t.is(body["org_id"], setup.organization.id);
    await updateAccount(t.context.db, setup.organization.id, { name: "New name" });
    t.is((await read("/dashboard_url", { mode: "test" })).text, first.text);
    const missing = await fetch(`${url}/dashboard_url`);
    t.is(missing.status, 401);
    t.deepEqual(await missing.json(), { error: "missing Authorization header" });
    const wrong = await fetch(`${url}/dashboard_url`, { headers: { Authorization: "wrong" } });
    t.is(wrong.status, 403);
    t.deepEqual(await wrong.json(), { error: "invalid API key" });
    t.is((await fetch(`${url}/evidence`)).status, 403);
  },
);
