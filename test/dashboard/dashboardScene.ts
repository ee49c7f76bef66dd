import { readFileSync } from "node:fs";
import type { ExecutionContext } from "ava";
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
import type { PlantingOptions, PlantingSetup } from "../planting/setUpPlanting.ts";
import type { DatabaseContext } from "../support/database.ts";
import { STAGE_MS } from "../support/planting.ts";

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

export type DashboardScene = {
  readonly setup: PlantingSetup;
  /** The API's URL. */
  readonly url: string;
  /** The page's URL. */
  readonly page: string;
};

/** Opens the dashboard of a new organization. */
export const openDashboard = async (
  t: ExecutionContext<DatabaseContext>,
  options: PlantingOptions = {},
): Promise<DashboardScene> => {
  const { db } = t.context;
  const setup = await setUpPlanting(db, options);
  const { url } = await startStandaloneApi(t, {
    db,
    clock: setup.clock,
    planting: setup.deps.planting,
  });
  const slug = await getDashboardSlug(setup.deps, setup.organization.id);
  return { setup, url, page: `${url}/dashboard/${slug}` };
};

/** Sets what an organization's public pages say about it. */
export const setProfile = async (
  t: ExecutionContext<DatabaseContext>,
  { setup }: DashboardScene,
  profile: ProfileChanges,
): Promise<void> => {
  await updateOrganization(
    { db: t.context.db, clock: setup.clock, actor: SERVICE },
    setup.organization.id,
    { profile },
  );
};

/** Serves the dashboard by another process, whose cache is empty. */
export const serveAgain = async (
  t: ExecutionContext<DatabaseContext>,
  { setup, url, page }: DashboardScene,
  publicBaseUrl: string | null = null,
): Promise<string> => {
  const other = await startStandaloneApi(t, {
    db: t.context.db,
    clock: setup.clock,
    planting: setup.deps.planting,
    publicBaseUrl,
  });
  return page.replace(url, other.url);
};

/** Fills a year: trees and bottles each month, donations, and orders at several sites, some not yet planted. */
export const fillYear = async (
  t: ExecutionContext<DatabaseContext>,
  { setup }: DashboardScene,
): Promise<void> => {
  const { clock, register, createOrders, place, pass, organization } = setup;
  for (let month = 0; month < 12; month += 1) {
    clock.set(new Date(Date.UTC(2025, 5 + month, 3, 12)).toISOString());
    await register(900 + ((month * 7919) % 1700));
    await register(350 + ((month * 4057) % 900), { kind: "bottle" });
    await register(5000, { mode: "test" });
    await createOrders();
  }
  await place();
  await pass(3 * STAGE_MS);
  await register(1234);
  await t.context.db.query(sql.typeAlias("void")`
    INSERT INTO donor (account_id, mode, count, amount_cents) VALUES (${organization.id}, 'live', 2, 129999)
  `);
};
