import { openPool } from "../../db/pools/pool.ts";
import { systemClock } from "../../runtime/clock.ts";
import {
  getCertificateToken,
  getOrderCertificateToken,
} from "../../modules/dashboard/manageCertificates.ts";
import { getDashboardSlug } from "../../modules/dashboard/getDashboardSlug.ts";
import type { DemoData } from "./demoData.ts";
import { DEMO_STORE } from "./planDemo.ts";

/** Returns lines that say where the demo data can be seen. */
export const describeDemo = async (
  databaseUrl: string,
  { organizationId, storeId, storeOrder, records }: DemoData,
  publicUrl: string,
): Promise<readonly string[]> => {
  const db = await openPool(databaseUrl, 1);
  const context = { db, clock: systemClock };
  try {
    const slug = await getDashboardSlug(context, organizationId);
    const live = { mode: "live" } as const;
    const tokens: (readonly [string, string])[] = [];
    for (const { label, id } of records) {
      const owner = { ...live, accountId: organizationId };
      tokens.push([label, await getCertificateToken(context, owner, id, null)]);
    }
    const store = { ...live, accountId: storeId };
    tokens.push(["order", await getOrderCertificateToken(context, store, storeOrder)]);
    return [
      `organization    ${organizationId}`,
      `store           ${DEMO_STORE.domain} (${storeId})`,
      `public page     ${publicUrl}/dashboard/${slug}`,
      "certificates",
      ...tokens.map(([label, token]) => `  ${label.padEnd(14)}${publicUrl}/certificate/${token}`),
    ];
  } finally {
    await db.end();
  }
};
