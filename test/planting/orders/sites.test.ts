import type { ExecutionContext } from "ava";
import { z } from "zod";
import { listFacts } from "../../../db/planting/facts.ts";
import { sql } from "../../../db/sql.ts";
import type { PlantingFact } from "../../../domain/planting/fact.ts";
import type { PlantingOrder } from "../../../domain/planting/order.ts";
import {
  simulateAllocated,
  simulatePlanted,
  simulateVerified,
} from "../../../providers/planting/simulated/simulatedFacts.ts";
import { recordPlantingFacts } from "../../../services/planting/orders/recordPlantingFacts.ts";
import {
  reinstatePlantingFact,
  withdrawPlantingFact,
} from "../../../services/planting/orders/withdrawPlantingFact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

/** Places orders with the manual partner, and reports facts of them. */
const placeOrders = async (t: ExecutionContext<DatabaseContext>, count: number) => {
  const setup = await setUpPlanting(t.context.db, { partner: "manual" });
  for (let number = 0; number < count; number += 1) {
    await setup.register(10);
  }
  await setup.createOrders(1);
  await setup.place();
  return {
    setup,
    orders: await setup.orders(),
    report: ({ id }: Pick<PlantingOrder, "id">, ...facts: readonly PlantingFact[]) =>
      recordPlantingFacts(setup.deps, id, facts, "operator"),
  };
};

const AT = new Date("2026-05-01T10:00:00.000Z");

/** Allocates an order's trees to sites, which are named by their references. */
const allocatedTo = (order: PlantingOrder, sites: readonly string[]): PlantingFact => {
  const fact = simulateAllocated(order, AT);
  const [allocation] = fact.allocations;
  if (!allocation) {
    throw new Error("There is an allocation.");
  }
  const { planting_site: site } = allocation;
  return {
    ...fact,
    allocations: sites.map((name) => {
      const reference = `${order.publicId}/${name}`;
      return { ...allocation, reference, planting_site: { ...site, reference: name, name } };
    }),
  };
};

test.serial("photos of a verification belong to the site that was verified", async (t) => {
  const { orders, report } = await placeOrders(t, 1);
  const [order] = orders;
  if (!order) {
    throw new Error("There is an order.");
  }
  const verified = simulateVerified(order, AT);
  const site = { ...verified.planting_site, reference: "south", name: "south" };

  await report(
    order,
    allocatedTo(order, ["north", "south"]),
    { ...simulatePlanted(order, AT), media: [] },
    { ...verified, planting_site: site, photos: ["https://photos.example/south.jpg"] },
  );

  const media = await t.context.db.any(sql.type(
    z.strictObject({ url: z.string(), site: z.string() }),
  )`
    SELECT planting_media.url, planting_site.name AS site
    FROM planting_media
    JOIN planting_site ON planting_site.id = planting_media.site_id
    WHERE planting_media.order_id = ${order.id}
  `);
  t.deepEqual(media, [{ url: "https://photos.example/south.jpg", site: "south" }]);
});

/** Corrects facts of orders that name one site, and reads under which name the site is shown. */
const nameSite = async (t: ExecutionContext<DatabaseContext>, reference: string) => {
  const { setup, orders, report } = await placeOrders(t, 3);
  const deps = {
    ...setup.deps,
    actor: { kind: "operator", name: "ann", reason: null } as const,
    wakeOrder: () => Promise.resolve(),
  };
  const factOf = async ({ id }: PlantingOrder, stage: PlantingFact["stage"]): Promise<number> =>
    (await listFacts(t.context.db, id)).find((fact) => fact.stage === stage)?.id ?? 0;
  return {
    orders,
    report: {
      allocated: (order: PlantingOrder, name: string) => {
        const [allocation] = simulateAllocated(order, AT).allocations;
        if (!allocation) {
          throw new Error("There is an allocation.");
        }
        const site = { ...allocation.planting_site, reference, name };
        return report(order, {
          ...simulateAllocated(order, AT),
          allocations: [{ ...allocation, planting_site: site }],
        });
      },
      verified: (order: PlantingOrder, name: string) => {
        const fact = simulateVerified(order, AT);
        return report(order, {
          ...fact,
          planting_site: { ...fact.planting_site, reference, name },
        });
      },
    },
    withdraw: async (order: PlantingOrder, stage: PlantingFact["stage"]) =>
      withdrawPlantingFact(deps, await factOf(order, stage), {
        reason: "wrong",
        replacement: null,
        isDryRun: false,
      }),
    reinstate: async (order: PlantingOrder, stage: PlantingFact["stage"]) =>
      reinstatePlantingFact(deps, await factOf(order, stage), { isDryRun: false }),
    name: () =>
      t.context.db.oneFirst(sql.type(z.strictObject({ name: z.string() }))`
        SELECT name
        FROM planting_site
        WHERE partner = 'manual' AND reference = ${reference}
      `),
  };
};

test.serial("correcting an older order keeps the later details of its site", async (t) => {
  const { orders, report, withdraw, reinstate, name } = await nameSite(t, "kept");
  const [older, later] = orders;
  if (!older || !later) {
    throw new Error("There are orders.");
  }
  await report.allocated(older, "Old Bay");
  await report.verified(older, "Old Bay");
  await report.allocated(later, "New Bay");

  await withdraw(older, "planted_and_verified");
  t.is(await name(), "New Bay");
  await withdraw(older, "allocated");
  await reinstate(older, "allocated");
  t.is(await name(), "New Bay");
});

test.serial("a withdrawn fact leaves its site with the latest details of another", async (t) => {
  const { orders, report, withdraw, reinstate, name } = await nameSite(t, "restored");
  const [first, second, third] = orders;
  if (!first || !second || !third) {
    throw new Error("There are orders.");
  }
  await report.allocated(first, "First Bay");
  await report.allocated(second, "Second Bay");
  await report.allocated(third, "Second Bay");
  await report.verified(first, "Wrong Bay");

  await withdraw(first, "planted_and_verified");
  t.is(await name(), "Second Bay");
  await withdraw(third, "allocated");
  t.is(await name(), "Second Bay");
  await withdraw(second, "allocated");
  t.is(await name(), "First Bay");
  await reinstate(second, "allocated");
  t.is(await name(), "Second Bay");
  await withdraw(first, "allocated");
  await withdraw(second, "allocated");
  t.is(await name(), "Second Bay", "no fact in effect has other details");
  await report.allocated(third, "Third Bay");
  t.is(await name(), "Third Bay");
});
