import { readFileSync } from "node:fs";
import { sql } from "../../db/sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { readLogo } from "../../modules/accounts/readLogo.ts";
import { updateOrganization } from "../../modules/accounts/manageOrganizations.ts";
import type { ProfileChanges } from "../../modules/accounts/profile.rules.ts";
import { getDashboardSlug } from "../../modules/dashboard/getDashboardSlug.ts";
import type { PlantingFactOf } from "../../modules/planting/fact.rules.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { FACTS } from "../planting/evidence/evidenceFacts.ts";
import { setUpPlanting } from "../planting/setUpPlanting.ts";
import type { PlantingOptions } from "../planting/setUpPlanting.ts";
import type { DatabaseTest } from "../support/database.ts";

/** A picture that an organization may have as its logo. */
export const LOGO = readLogo(
  readFileSync(new URL("../../embedded/demo/logo.png", import.meta.url)),
);

/** That trees were verified by an organization that planted none of them. */
export const verifiedFact = (occurredAt: string): PlantingFactOf<"planted_and_verified"> => ({
  ...FACTS.planted_and_verified,
  occurred_at: occurredAt,
  planting_site: {
    ...FACTS.planted_and_verified.planting_site,
    name: "Gazi Bay",
    organization_name: "Gazi Growers",
  },
  verifier: "Green Audit",
  image_url: "https://audit.example/7.pdf",
  photos: ["https://photos.example/7.jpg"],
});

/** Returns the text of a page with single spaces. */
export const readPage = async (url: string): Promise<string> =>
  (await (await fetch(url)).text()).replaceAll(/\s+/gu, " ");

export type DashboardScene = Awaited<ReturnType<typeof openDashboard>>;

export const openDashboard = async (t: DatabaseTest, options: PlantingOptions = {}) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db, options);
  const { clock, deps, organization, register, plant } = setup;
  /** Serves the interface by another process, whose caches are empty. */
  const serve = () => startStandaloneApi(t, { db, clock, planting: deps.planting });
  const { url } = await serve();
  const path = `/dashboard/${await getDashboardSlug(deps, organization.id)}`;
  return {
    ...setup,
    url,
    page: url + path,
    serveAgain: async (): Promise<string> => (await serve()).url + path,
    setProfile: (profile: ProfileChanges) =>
      updateOrganization({ db, clock, actor: SERVICE }, organization.id, { profile }),
    serve,
    /** Fills a year: trees and bottles each month, donations, and orders at several sites, some not yet planted. */
    fillYear: async (): Promise<void> => {
      for (let month = 0; month < 12; month += 1) {
        clock.set(new Date(Date.UTC(2025, 5 + month, 3, 12)).toISOString());
        await register(900 + ((month * 7919) % 1700));
        await register(350 + ((month * 4057) % 900), { kind: "bottle" });
        await register(5000, { mode: "test" });
        await setup.createOrders();
      }
      await plant();
      await register(1234);
      await db.query(sql.typeAlias("void")`
        INSERT INTO donor (account_id, mode, count, amount_cents) VALUES (${organization.id}, 'live', 2, 129999)
      `);
    },
  };
};
