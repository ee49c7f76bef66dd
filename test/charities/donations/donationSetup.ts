import type { DatabasePool } from "slonik";
import { z } from "zod";
import { safeInteger, sql } from "../../../db/sql.ts";
import { MAXIMUM_CENTS } from "../../../modules/records/money.rules.ts";
import { systemClock } from "../../../runtime/clock.ts";
import type { CharityConfig } from "../../../modules/charities/createCharities.ts";
import type { StandaloneApiOptions } from "../../api/startStandaloneApi.ts";
import { startApiOf } from "../../api/startStandaloneApi.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { unreachableTemporal } from "../../support/temporalOnDemand.ts";
import type { ProviderDouble } from "../startProviderDouble.ts";
import { createTestOrganization } from "../../support/factories.ts";

/** Settings with all remote providers at one double. */
export const configOf = ({ url }: ProviderDouble): CharityConfig => ({
  EVERYORG_API_KEY: "everyorg-key",
  CHANGE_PUBLIC_KEY: "change-public",
  CHANGE_SECRET_KEY: "change-secret",
  PLEDGE_API_KEY: "pledge-key",
  CHARITY_API_BASE: url,
});

const ledgerRow = z.strictObject({
  donations: safeInteger,
  count: safeInteger,
  cents: safeInteger,
});

/** An account's donations, counted from the records and by the totals. */
export const readDonationLedger = (db: DatabasePool, accountId: string) =>
  db.one(sql.type(ledgerRow)`
    SELECT
      (SELECT count(*) FROM donation WHERE account_id = ${accountId}) AS donations,
      coalesce(sum(count), 0)::bigint AS count,
      coalesce(sum(amount_cents), 0)::bigint AS cents
    FROM donor
    WHERE account_id = ${accountId}
  `);

/** Raises the total of an account's test donations so far that the largest donation exceeds it. Returns the total. */
export const fillDonationTotal = async (db: DatabasePool, accountId: string): Promise<number> => {
  const cents = Number.MAX_SAFE_INTEGER - MAXIMUM_CENTS + 1;
  await db.query(sql.typeAlias("void")`
    INSERT INTO donor (account_id, mode, amount_cents) VALUES (${accountId}, 'test', ${cents})
    ON CONFLICT (account_id, mode) DO UPDATE SET amount_cents = excluded.amount_cents
  `);
  return cents;
};

export const NOTHING_RECORDED = { donations: 0, count: 0, cents: 0 };

/** An organization and an API whose Temporal cannot be reached, unless `validateCharity` is given. */
export const startDonationApi = async (
  t: DatabaseTest,
  options: Partial<StandaloneApiOptions> = {},
) => {
  const { call, id, apiKeyProd, apiKeyTest } = await startApiOf(t, {
    organization: { clock: options.clock ?? systemClock },
    openTemporal: unreachableTemporal,
    ...options,
  });
  return {
    call,
    accountId: id,
    live: apiKeyProd,
    test: apiKeyTest,
    /** Donates a dollar to a charity of the catalogue, unless the body says otherwise, with the test key by default. */
    donate: (body: object = {}, key = apiKeyTest) =>
      call("POST", "/charities/donate", { key, body: { amount_cents: 100, ein: EIN, ...body } }),
    refund: (body: object, key = apiKeyTest) => call("POST", "/refund/donations", { key, body }),
    ledger: () => readDonationLedger(t.context.db, id),
  };
};

export const RED_CROSS = {
  ein: "53-0196605",
  nonprofit_id: "irs_530196605",
  name: "American Red Cross",
};
export const EIN = RED_CROSS.ein;

/** Makes the double find a charity of Every.org by its slug and by its EIN. */
export const addEveryOrgCharity = ({ responses }: ProviderDouble, slug: string, ein: string) => {
  const nonprofit = { primarySlug: slug, name: `The ${slug}`, ein, isDisbursable: true };
  responses.set(`/everyorg/nonprofit/${slug}`, { data: { nonprofit } });
  responses.set(`/everyorg/nonprofit/${ein}`, { data: { nonprofit } });
};

/** Inserts the totals of an account whose donations a test has inserted without them. */
export const insertDonationTotals = async (db: DatabasePool, accountId: string): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO donor (account_id, mode, count, amount_cents)
    SELECT account_id, mode, count(*), sum(amount_cents)
    FROM donation
    WHERE account_id = ${accountId} AND NOT refunded
    GROUP BY account_id, mode
  `);
};

/** Stores a donation of $25 by a new organization and returns its id. */
export const createDonation = async (db: DatabasePool): Promise<string> => {
  const { id: accountId } = await createTestOrganization(db);
  const id = crypto.randomUUID();
  await db.query(sql.typeAlias("void")`
    INSERT INTO donation (id, account_id, mode, amount_cents, nonprofit_id, charity_provider, charity_name, created_at)
    VALUES (${id}, ${accountId}, 'live', 2500, 'n1', 'catalogue', 'Sea', now())
  `);
  await insertDonationTotals(db, accountId);
  return id;
};
