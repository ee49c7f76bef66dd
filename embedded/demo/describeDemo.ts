import { openPool } from "../../db/pool.ts";
import { systemClock } from "../../domain/clock.ts";
import { getCertificateToken } from "../../services/dashboard/getCertificateToken.ts";
import { getDashboardSlug } from "../../services/dashboard/getDashboardSlug.ts";
import type { DemoData } from "./demoData.ts";
import { DEMO_STORE } from "./planDemo.ts";

/** Returns lines that say where the demo data can be seen. */
export const describeDemo = async (
  databaseUrl: string,
  { organizationId, storeId, records }: DemoData,
  publicUrl: string,
): Promise<readonly string[]> => {
  const db = await openPool(databaseUrl, 1);
  const deps = { db, clock: systemClock };
  try {
    const slug = await getDashboardSlug(deps, organizationId);
    const certificates: string[] = [];
    for (const { label, id } of records) {
      const owner = { accountId: organizationId, mode: "live" } as const;
      const token = await getCertificateToken(deps, owner, id, null);
      certificates.push(`${label.padEnd(14)}  ${publicUrl}/certificate/${token}`);
    }
    return [
      `organization    ${organizationId}`,
      `store           ${DEMO_STORE.domain} (${storeId})`,
      `public page     ${publicUrl}/dashboard/${slug}`,
      "certificates",
      ...certificates.map((line) => `  ${line}`),
    ];
  } finally {
    await db.end();
  }
};
