import { readFileSync } from "node:fs";
import type { DatabasePool } from "slonik";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import type { Planting } from "../../modules/planting/createPlanting.ts";
import { createOrganization } from "../../modules/accounts/createOrganization.ts";
import type { FirstKeys } from "../../modules/accounts/issueKey.ts";
import { recordAction } from "../../modules/accounts/recordAction.ts";
import { updateOrganization } from "../../modules/accounts/updateOrganization.ts";
import { subscribeToDonations } from "../../modules/charities/subscribeToDonations.ts";
import { createStore } from "../../modules/stores/manageStores.ts";
import { createOrganizationHistory } from "./createOrganizationHistory.ts";
import { createPlantingHistory } from "./createPlantingHistory.ts";
import { createStoreHistory } from "./createStoreHistory.ts";
import type { DemoData } from "./demoData.ts";
import { createHistoryClock } from "./historyContext.ts";
import { certifiedOrderOf, DEMO_STORE, demoStartOf, planDemo } from "./planDemo.ts";
import type { ProfileChanges } from "../../modules/accounts/profile.rules.ts";
import { readLogo } from "../../modules/accounts/readLogo.ts";
import type { Config } from "../../runtime/config/config.ts";
import { openPool } from "../../db/pools/pool.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createDemoPlanting } from "./createDemoPlanting.ts";

/** What the public pages of the demo organization say about it. */
const DEMO_PROFILE: ProfileChanges = {
  displayName: "North Sea Outfitters",
  color: "#0b5d8a",
  homeUrl: "https://northsea.example/",
  story:
    "We make clothes for bad weather, in two small factories on the coast.\n\nEach jacket plants ten trees and rescues four bottles. This page shows what has been registered, and what has been verified since.",
  logo: readLogo(readFileSync(new URL("logo.png", import.meta.url))),
};

/** The demo data, and their keys, which are stored nowhere. */
export type FilledDemo = {
  readonly data: DemoData;
  readonly organizationKeys: FirstKeys;
  readonly storeKeys: FirstKeys;
};

/**
 * Fills a new database with an organization, its store and a year of history. It calls the services of the API and the
 * worker with clocks that move through the year. Nothing else may use the database meanwhile.
 */
export const fillDemo = async ({
  db,
  planting,
  now,
}: {
  readonly db: DatabasePool;
  readonly planting: Planting;
  readonly now: Date;
}): Promise<FilledDemo> => {
  // First, so that an interrupted demo is recognized.
  await recordAction(db, SERVICE, now, { action: "demo.begin" });
  const start = demoStartOf(now);
  const context = {
    db,
    clock: createHistoryClock(start),
    actor: SERVICE,
    // Never Stripe, whatever is configured.
    billing: createBilling({ db, stripe: null }),
  };
  const organization = await createOrganization(context, {
    name: "Demo: North Sea Outfitters",
    fractionalCounting: false,
    billingDay: 1,
    stripeCustomerId: null,
    stripeSubscriptionId: null,
  });
  await updateOrganization(context, organization.id, {}, { profile: DEMO_PROFILE });
  await subscribeToDonations(context, { accountId: organization.id, mode: "live" });
  const store = await createStore(context, {
    ...DEMO_STORE,
    organizationId: organization.id,
    userId: null,
  });

  // Each has a clock of its own, so that they can write at the same time.
  const ofOrganization = createOrganizationHistory(
    { ...context, clock: createHistoryClock(start) },
    organization.id,
  );
  const ofStore = createStoreHistory({ db, clock: createHistoryClock(start) }, store.id);
  const ofPlanting = createPlantingHistory({ db, planting, clock: createHistoryClock(start) });
  const periods = planDemo(now);
  for (const { organization: steps, store: storeSteps, orderedAt } of periods) {
    await Promise.all([
      ofOrganization.write(steps),
      ofStore.write(storeSteps),
      ofPlanting.advance(orderedAt ?? now),
    ]);
    if (orderedAt !== null) {
      await ofPlanting.order(orderedAt);
    }
  }

  const { records } = ofOrganization;
  const data: DemoData = {
    organizationId: organization.id,
    storeId: store.id,
    storeOrder: certifiedOrderOf(periods),
    records,
  };
  // Last, so that a database with this entry has everything.
  await recordAction(db, SERVICE, now, {
    action: "demo.fill",
    accountId: organization.id,
    details: data,
  });
  return { data, organizationKeys: organization, storeKeys: store };
};

const CONNECTIONS = 4;

/** Fills a migrated database that has no accounts. */
export const fillNewDemo = async (
  { PLANTING_PARTNER_NAME, PLANTING_TIMELINE }: Config,
  databaseUrl: string,
): Promise<FilledDemo> => {
  const db = await openPool(databaseUrl, CONNECTIONS);
  try {
    const planting = createDemoPlanting({
      partnerName: PLANTING_PARTNER_NAME ?? null,
      timeline: PLANTING_TIMELINE,
    });
    return await fillDemo({ db, planting, now: systemClock.now() });
  } finally {
    await db.end();
  }
};
