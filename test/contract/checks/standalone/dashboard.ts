import { z } from "zod";
import { checksOf } from "../../check.ts";
import type { Check } from "../../check.ts";
import { expectBody, expectEqual, expectStatus } from "../../expectations.ts";

const { contract } = checksOf("GET /dashboard_url");

const dashboard = z.looseObject({
  dashboard_url: z.string().regex(/^https?:\/\/\S+$/u),
  org_id: z.string().min(1),
});

export const dashboardChecks: readonly Check[] = [
  contract("returns the URL and the organization's id, the same every time", async (service) => {
    const first = expectBody(await service.organization().get("/dashboard_url"), dashboard);
    const second = expectBody(await service.organization().get("/dashboard_url"), dashboard);
    expectEqual("second response", second, first);
  }),
  contract("both keys of an organization return the same", async (service) => {
    const test = expectBody(await service.organization().get("/dashboard_url"), dashboard);
    expectEqual(
      "production key",
      expectBody(await service.organization("prod").get("/dashboard_url"), dashboard),
      test,
    );
  }),
  contract("another organization has another dashboard", async (service) => {
    const own = expectBody(await service.organization().get("/dashboard_url"), dashboard);
    const other = expectBody(
      await service.organization("otherTest").get("/dashboard_url"),
      dashboard,
    );
    expectEqual("same URL", own.dashboard_url === other.dashboard_url, false);
    expectEqual("same id", own.org_id === other.org_id, false);
  }),
  contract("the dashboard is public", async (service) => {
    const { dashboard_url: url } = expectBody(
      await service.organization().get("/dashboard_url"),
      dashboard,
    );
    expectStatus(await service.load(url), 200);
  }),
];
