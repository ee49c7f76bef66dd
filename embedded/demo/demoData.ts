import { resolve } from "node:path";
import { z } from "zod";
import type { Config } from "../../runtime/config/config.ts";
import { listAuditEntries } from "../../modules/accounts/auditEntries.sql.ts";
import { hasAccounts } from "../../modules/accounts/accounts.sql.ts";
import { openPool } from "../../db/pools/pool.ts";
import { StartupError } from "../../runtime/errors.rules.ts";

const demoData = z.strictObject({
  organization_id: z.uuid(),
  store_id: z.uuid(),
  store_order: z.string(),
  records: z.array(z.strictObject({ label: z.string(), id: z.uuid() })),
});

/** A record of the demo organization whose certificate is worth a look. */
export type CertifiedRecord = { readonly label: string; readonly id: string };

/** What the demo has made, as its entry in the audit log names it. */
export type DemoData = {
  readonly organizationId: string;
  readonly storeId: string;
  /** The id of an order of the store. */
  readonly storeOrder: string;
  readonly records: readonly CertifiedRecord[];
};

/** @throws StartupError for settings with which demo data would cost money or plant trees */
export const requireHarmlessSettings = ({ STRIPE_SECRET_KEY, PLANTING_PARTNER }: Config): void => {
  if (STRIPE_SECRET_KEY !== undefined) {
    throw new StartupError(
      "STRIPE_SECRET_KEY is set, and demo data must never be billed; unset it, or start without --demo.",
    );
  }
  if (PLANTING_PARTNER !== "simulated") {
    throw new StartupError(
      `PLANTING_PARTNER is ${PLANTING_PARTNER}, but demo trees are never planted; set it to simulated, or start without --demo.`,
    );
  }
};

const adviceOf = ({ DATABASE_URL, DATA_DIR }: Config): string =>
  DATABASE_URL === undefined
    ? `delete the folder ${resolve(DATA_DIR)} if you need nothing in it, or set DATA_DIR to a new one`
    : "set DATABASE_URL to a new database";

/**
 * Returns the demo data of a database; null if it is new, so that they can be added.
 * @param databaseUrl may be that of a database that was never migrated
 * @throws StartupError if the database belongs to something else
 */
export const findDemoData = async (
  config: Config,
  databaseUrl: string,
): Promise<DemoData | null> => {
  const db = await openPool(databaseUrl, 1);
  try {
    if (!(await hasAccounts(db))) {
      return null;
    }
    const [entry] = await listAuditEntries(
      db,
      {
        accountId: null,
        action: "demo",
        operator: null,
        since: null,
        until: null,
        before: null,
      },
      1,
    );
    if (entry === undefined) {
      throw new StartupError(
        "--demo fills a new database only, and this one has accounts already; set DATA_DIR to a new folder, or start without --demo.",
      );
    }
    if (entry.action === "demo.begin") {
      throw new StartupError(
        `An earlier start with --demo has added data that are incomplete, because that start was interrupted. To start with complete data, ${adviceOf(config)}.`,
      );
    }
    const {
      organization_id: organizationId,
      store_id: storeId,
      store_order: storeOrder,
      records,
    } = demoData.parse(entry.details);
    return { organizationId, storeId, storeOrder, records };
  } finally {
    await db.end();
  }
};
