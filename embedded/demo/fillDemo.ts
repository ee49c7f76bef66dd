import { readFileSync } from "node:fs";
import type { DatabasePool } from "slonik";
import { createOrganization } from "../../modules/accounts/createOrganization.ts";
import type { FirstKeys } from "../../modules/accounts/issueKey.ts";
import { readLogo } from "../../modules/accounts/readLogo.ts";
import { updateOrganization } from "../../modules/accounts/updateOrganization.ts";
import { subscribeToDonations } from "../../modules/charities/subscribeToDonations.ts";
import { getDashboardSlug } from "../../modules/dashboard/getDashboardSlug.ts";
import {
  getCertificateToken,
  getOrderCertificateToken,
} from "../../modules/dashboard/manageCertificates.ts";
import { createPlantingOrders } from "../../modules/planting/createPlantingOrders.ts";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import { pollPlantingOrder } from "../../modules/planting/pollPlantingOrder.ts";
import { createStore } from "../../modules/stores/manageStores.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { createContext, DAYS } from "./history.ts";
import type { History } from "./history.ts";
import { planOrganization } from "./planOrganization.ts";
import { planStore } from "./planStore.ts";

const NEVER = new AbortController().signal;

const DOMAIN = "shop.northsea.example";

const NAME = "North Sea Outfitters";
const COLOR = "#0b5d8a";
const STORY =
  "We make clothes for bad weather, in two small factories on the coast.\n\nEach jacket plants ten trees and rescues four bottles. This page shows what has been registered, and what has been verified since.";

/** Plans that all trees are ordered, and every order is polled, every second week. */
const planPlanting = (history: History, midnights: readonly Date[]): void => {
  const context = createContext(history);
  const finished = new Set<number>();
  for (const midnight of midnights.filter((_, day) => day % 14 === 0)) {
    history.plan(midnight, async () => {
      await createPlantingOrders(context, NEVER);
      for (const { id } of await listPlantingOrders(history.db, { limit: 1000 })) {
        if (!finished.has(id) && (await pollPlantingOrder(context, id, NEVER)).isFinished) {
          finished.add(id);
        }
      }
    });
  }
};

/** What the demo has made. Its production keys are stored nowhere. */
export type FilledDemo = {
  readonly organizationId: string;
  readonly storeId: string;
  readonly shop: { readonly name: string; readonly color: string; readonly domain: string };
  /** The paths of its public pages, by what they show. */
  readonly pages: Readonly<Record<string, string>>;
  readonly organizationKeys: FirstKeys;
  readonly storeKeys: FirstKeys;
};

/**
 * Fills a new database with an organization, its store and a year of history. It calls the services of the API and the
 * worker with a clock that moves through the year. Nothing else may use the database meanwhile.
 */
export const fillDemo = async (db: DatabasePool, now: Date): Promise<FilledDemo> => {
  const lastMidnightMs = Math.floor(now.getTime() / DAY_MS) * DAY_MS;
  const midnights = Array.from(
    { length: DAYS + 1 },
    (_, day) => new Date(lastMidnightMs - (DAYS - day) * DAY_MS),
  );
  let [time = now] = midnights;
  const clock = { now: () => time };
  const agenda: { readonly at: Date; readonly work: () => Promise<unknown> }[] = [];
  const history: History = { db, clock, plan: (at, work) => agenda.push({ at, work }) };

  const context = createContext(history);
  const organization = await createOrganization(context, {
    name: "Demo: North Sea Outfitters",
    fractionalCounting: false,
    billingDay: 1,
    stripeCustomerId: null,
    stripeSubscriptionId: null,
  });
  const profile = {
    displayName: NAME,
    color: COLOR,
    homeUrl: "https://northsea.example/",
    story: STORY,
    logo: readLogo(readFileSync(new URL("logo.png", import.meta.url))),
  };
  await updateOrganization(context, organization.id, {}, { profile });
  const owner = { accountId: organization.id, mode: "live" } as const;
  await subscribeToDonations(context, owner);
  const store = await createStore(context, {
    domain: DOMAIN,
    treePriceCents: 45,
    bottlePriceCents: 12,
    lowBalanceCents: 2000,
    organizationId: organization.id,
    userId: null,
  });

  const records = planOrganization(history, organization.id, midnights);
  const storeOrders = planStore(history, store.id, midnights);
  planPlanting(history, midnights);
  agenda.sort((one, other) => one.at.getTime() - other.at.getTime());
  for (const { at, work } of agenda.filter((planned) => planned.at < now)) {
    time = at;
    await work();
  }
  time = now;

  const pages: Record<string, string> = {
    page: `/dashboard/${await getDashboardSlug(context, organization.id)}`,
  };
  for (const [label, id] of records) {
    pages[label] = `/certificate/${await getCertificateToken(context, owner, id, null)}`;
  }
  const ofStore = { accountId: store.id, mode: "live" } as const;
  const order = await getOrderCertificateToken(context, ofStore, storeOrders.at(-1) ?? "");
  pages["order"] = `/certificate/${order}`;
  return {
    organizationId: organization.id,
    storeId: store.id,
    shop: { name: NAME, color: COLOR, domain: DOMAIN },
    pages,
    organizationKeys: organization,
    storeKeys: store,
  };
};
