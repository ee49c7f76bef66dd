import { readFileSync } from "node:fs";
import type { DatabasePool } from "slonik";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import {
  createOrganization,
  updateOrganization,
} from "../../modules/accounts/manageOrganizations.ts";
import { readLogo } from "../../modules/accounts/readLogo.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { createCharities } from "../../modules/charities/createCharities.ts";
import { donate } from "../../modules/charities/donate.ts";
import { refundDonations } from "../../modules/charities/refundDonations.ts";
import { subscribeToDonations } from "../../modules/charities/subscribeToDonations.ts";
import { getDashboardSlug } from "../../modules/dashboard/getDashboardSlug.ts";
import {
  getCertificateToken,
  getOrderCertificateToken,
} from "../../modules/dashboard/manageCertificates.ts";
import { createPlanting } from "../../modules/planting/createPlanting.ts";
import { createPlantingOrders } from "../../modules/planting/createPlantingOrders.ts";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import { pollPlantingOrder } from "../../modules/planting/pollPlantingOrder.ts";
import { chooseBySeed } from "../../modules/planting/seededChoice.rules.ts";
import { resultOfOne } from "../../modules/records/batches.rules.ts";
import { REGISTER_OPERATIONS } from "../../modules/records/idempotencyKeys.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { refundRegistration } from "../../modules/registrations/refundRegistration.ts";
import { changeBalance } from "../../modules/stores/changeBalance.ts";
import { createStoreWriter } from "../../modules/stores/createStoreWriter.ts";
import { donateFromStore } from "../../modules/stores/donateFromStore.ts";
import { createStore } from "../../modules/stores/manageStores.ts";
import type { StoreOperation } from "../../modules/stores/stores.rules.ts";
import { DAY_MS, HOUR_MS } from "../../runtime/durations.rules.ts";
import { newId } from "../../runtime/newId.ts";
import { DEMO_STEP_SECONDS } from "./demoSettings.ts";

const NEVER = new AbortController().signal;

const DAYS = 365;
const SHOP = { name: "North Sea Outfitters", color: "#0b5d8a", domain: "shop.northsea.example" };
const STORY =
  "We make clothes for bad weather, in two small factories on the coast.\n\nEach jacket plants ten trees and rescues four bottles. This page shows what has been registered, and what has been verified since.";
/** EINs of the starter catalogue: The Nature Conservancy, Oceana, Ocean Conservancy, World Central Kitchen. */
const CHARITIES = ["530242652", "510401308", "237245152", "273521132"];
const ATTRIBUTIONS = ["checkout", "checkout", "checkout", "newsletter", "loyalty", "staff"];
const CUSTOMERS = ["Ida Holm", "Lars Berg", "Mette Lund", "Jonas Dahl", "Freja Krogh"];

const { pick, between } = chooseBySeed("demo");

/** Returns what the services need. Nothing is sent to Stripe or to a charity provider, whatever is configured. */
const createContext = (db: DatabasePool, clock: { readonly now: () => Date }) => ({
  db,
  clock,
  actor: SERVICE,
  billing: createBilling({ db, stripe: null }),
  planting: createPlanting({
    PLANTING_PARTNER: "simulated",
    PLANTING_TIMELINE: "allocations",
    SIMULATED_PLANTING_SECONDS: DEMO_STEP_SECONDS,
    TREEMAPPER_API_BASE: "",
  }),
  charities: createCharities({ db, clock, config: {} }),
  validateCharity: () =>
    Promise.reject(new Error("The charities of the demo are in the built-in catalogue.")),
  storeWriter: createStoreWriter({ db, clock }),
});

type DemoContext = ReturnType<typeof createContext>;

const createAccounts = async (context: DemoContext) => {
  const organization = await createOrganization(context, { name: `Demo: ${SHOP.name}` });
  const profile = {
    displayName: SHOP.name,
    color: SHOP.color,
    homeUrl: "https://northsea.example/",
    story: STORY,
    logo: readLogo(readFileSync(new URL("logo.png", import.meta.url))),
  };
  await updateOrganization(context, organization.id, { profile });
  await subscribeToDonations(context, { accountId: organization.id, mode: "live" });
  const store = await createStore(context, {
    domain: SHOP.domain,
    treePriceCents: 45,
    bottlePriceCents: 12,
    lowBalanceCents: 2000,
    organizationId: organization.id,
  });
  return { organization, store };
};

const createOrganizationWrites = (context: DemoContext, accountId: string) => {
  const owner = { accountId, mode: "live" } as const;
  const writer = createRegistrationWriter(context);
  let orders = 1000;
  const nextOrder = (name: string) => {
    orders += 1;
    return {
      idempotencyKey: `${name}-${orders}`,
      attribution: pick(ATTRIBUTIONS),
      metadata: { order: `NS-${orders}` },
    };
  };
  return {
    register: async (kind: Kind, count: number): Promise<string> => {
      const order = nextOrder("order");
      const given = { kind, count: Math.max(1, Math.round(count)), fractionalCount: 0 };
      const entry = { ...owner, ...given, ...order, isLimited: false };
      return (await writer.register(entry)).registration.id;
    },
    refund: (id: string, count: number | null) =>
      refundRegistration(
        context,
        { ...owner, kind: "tree" },
        { id, count, reason: "order returned", idempotencyKey: null },
      ),
    giveDonation: async (): Promise<string> => {
      const charity = { ein: pick(CHARITIES), nonprofitId: null };
      const amountCents = pick([500, 1000, 1500, 2500, 5000, 12_000]);
      const given = { charity, amountCents, charityName: null, ...nextOrder("donation") };
      return resultOfOne(await donate(context, owner, [given], true)).donation?.id ?? "";
    },
    refundDonation: (id: string) =>
      refundDonations(
        context,
        owner,
        [{ id, reason: "given twice", idempotencyKey: null, metadata: {} }],
        true,
      ),
  };
};

const createStoreWrites = (context: DemoContext, accountId: string) => {
  const writeOf = (operation: StoreOperation) =>
    ({ accountId, mode: "live", operation, idempotency: null, responseBody: "" }) as const;
  let orders = 2000;
  const nextOrder = () => {
    orders += 1;
    const customerName = pick(CUSTOMERS);
    const customerEmail = `${customerName.toLowerCase().replace(" ", ".")}@example.com`;
    return { customerName, customerEmail, customerId: null, orderId: `#${orders}`, notes: null };
  };
  return {
    topUp: (reference: string) =>
      changeBalance(context, {
        kind: "topup",
        storeId: accountId,
        amountCents: 10_000,
        reference,
        note: "",
      }),
    sell: async (trees: number, bottles: number): Promise<string> => {
      const order = nextOrder();
      for (const [kind, count] of [["tree", trees] as const, ["bottle", bottles] as const]) {
        const given = { recordId: newId(), kind, count, isLimited: false };
        await (count > 0 &&
          context.storeWriter.write({ ...writeOf(REGISTER_OPERATIONS[kind]), ...order, ...given }));
      }
      return order.orderId;
    },
    giveDonation: () =>
      donateFromStore(context, writeOf("donate"), {
        ...nextOrder(),
        charityId: pick(CHARITIES),
        amountCents: pick([100, 200, 500, 1000]),
      }),
    refund: (quantity: number) =>
      context.storeWriter.write({
        ...writeOf("refund"),
        recordId: null,
        refunded: "tree",
        quantity,
        filter: {},
        reason: "order returned",
      }),
  };
};

const plant = async (context: DemoContext, finished: Set<number>): Promise<void> => {
  await createPlantingOrders(context, NEVER);
  for (const { id } of await listPlantingOrders(context.db, { limit: 1000 })) {
    if (!finished.has(id) && (await pollPlantingOrder(context, id, NEVER)).isFinished) {
      finished.add(id);
    }
  }
};

/**
 * Fills a new database with an organization, its store and a year of history. It calls the services of the API and the
 * worker with a clock that moves through the year. Nothing else may use the database meanwhile.
 */
export const fillDemo = async (db: DatabasePool, now: Date) => {
  const firstMidnightMs = Math.floor(now.getTime() / DAY_MS - DAYS) * DAY_MS;
  let time = new Date(firstMidnightMs);
  const context = createContext(db, { now: () => time });
  const { organization, store } = await createAccounts(context);
  const ours = createOrganizationWrites(context, organization.id);
  const shop = createStoreWrites(context, store.id);
  const finished = new Set<number>();
  const shown: Record<string, string> = {};
  let shownOrder = "";

  for (let day = 0; day <= DAYS; day += 1) {
    /** Does some work at an hour of the day, the later the further down, unless that is in the future. */
    const at = async (hour: number, work: () => Promise<unknown>): Promise<void> => {
      time = new Date(firstMidnightMs + day * DAY_MS + hour * HOUR_MS);
      await (time < now && work());
    };
    // More each month, and less at weekends.
    const activity = (0.6 + (0.9 * day) / DAYS) * (day % 7 < 2 ? 0.6 : 1);
    if (day % 14 === 0) {
      await at(0, () => plant(context, finished));
    }
    if (day % 30 === 0) {
      await at(1, () => shop.topUp(`invoice-${day}`));
    }
    await at(7 + between(0, 9) / 10, () => ours.register("tree", between(4, 40) * activity));
    await at(8 + between(0, 9) / 10, () => shop.sell(between(1, 5), between(-12, 12)));
    if (day % 2 === 0) {
      await at(9, () => ours.register("bottle", between(4, 40) * activity));
    }
    if (day % 3 === 0) {
      await at(10, async () => {
        shown["donation"] = await ours.giveDonation();
      });
    }
    if (day % 10 === 5) {
      await at(11, async () => {
        shownOrder = await shop.sell(between(1, 5), between(2, 12));
      });
      await at(12, shop.giveDonation);
    }
    if (day % 30 === 12) {
      // What a company orders for its own customers.
      await at(13, async () => {
        const id = await ours.register("tree", between(180, 420) * activity);
        shown[day < 100 ? "verified" : "recent"] = id;
      });
    }
    if (day % 20 === 0) {
      await at(14, async () => {
        shown["refunded"] = await ours.register("tree", between(4, 20));
        await ours.refund(shown["refunded"], day === 20 ? 2 : null);
        await ours.refundDonation(await ours.giveDonation());
        await shop.refund(between(1, 3));
      });
    }
  }
  time = now;

  const owner = { accountId: organization.id, mode: "live" } as const;
  /** The paths of its public pages, by what they show. */
  const pages: Record<string, string> = {
    page: `/dashboard/${await getDashboardSlug(context, organization.id)}`,
  };
  for (const [label, id] of Object.entries(shown)) {
    pages[label] = `/certificate/${await getCertificateToken(context, owner, id, null)}`;
  }
  const ofStore = { accountId: store.id, mode: "live" } as const;
  pages["order"] = `/certificate/${await getOrderCertificateToken(context, ofStore, shownOrder)}`;
  return {
    organizationId: organization.id,
    storeId: store.id,
    shop: SHOP,
    pages,
    // The production keys are stored nowhere.
    organizationKeys: organization,
    storeKeys: store,
  };
};
