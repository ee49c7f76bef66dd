import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import type { PlantingFact } from "../../../domain/planting/fact.ts";
import type { PlantingOrder } from "../../../domain/planting/order.ts";
import {
  simulateAllocated,
  simulatePlanted,
  simulateVerified,
} from "../../../providers/planting/simulated/simulatedFacts.ts";
import { recordPlantingFacts } from "../../../services/planting/orders/recordPlantingFacts.ts";
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
