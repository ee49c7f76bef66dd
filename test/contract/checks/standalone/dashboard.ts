import { z } from "zod";
import { checksOf } from "../../check.ts";
import type { Check } from "../../check.ts";
import type { StandaloneKey } from "../../client.ts";
import { expect } from "../../expectations.ts";

const dashboard = z.looseObject({
  dashboard_url: z.string().regex(/^https?:\/\/\S+$/u),
  org_id: z.string().min(1),
});

const { contract } = checksOf("GET /dashboard_url", (service) => ({
  read: async (key: StandaloneKey = "test") =>
    expect.body(await service.organization(key).get("/dashboard_url"), dashboard),
}));

export const dashboardChecks: readonly Check[] = [
  contract("returns the URL and the organization's id, the same every time", async (t) => {
    expect.equal("second response", await t.read(), await t.read());
  }),
  contract("both keys of an organization return the same", async (t) => {
    expect.equal("production key", await t.read("prod"), await t.read());
  }),
  contract("another organization has another dashboard", async (t) => {
    const own = await t.read();
    const other = await t.read("otherTest");
    expect.equal("same URL", own.dashboard_url === other.dashboard_url, false);
    expect.equal("same id", own.org_id === other.org_id, false);
  }),
  contract("the dashboard is public", async (t) => {
    expect.status(await t.service.load((await t.read()).dashboard_url), 200);
  }),
];
